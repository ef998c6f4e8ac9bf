//! Parses YAML for the positions of its fields, without building values.

use std::cell::Cell;

use saphyr_parser::{Event, Parser};

use super::characters::Characters;
use super::place;
use crate::text::places::{element, member};
use crate::text::{MAX_DEPTH, Place};

/// Reports the path and the start of every field and item, until the document becomes unreadable.
pub(in crate::text) fn visit(text: &str, tell: &mut dyn FnMut(String, Place)) {
    let ahead = Cell::new(0);
    let mut visitor =
        Visitor { events: Parser::new(Characters::new(text, &ahead)), ahead: &ahead, tell };
    while let Some((event, _)) = visitor.next() {
        if visitor.value(&event, "", 0).is_none() {
            return;
        }
    }
}

struct Visitor<'text, 'ahead, 'tell> {
    events: Parser<'text, Characters<'text, 'ahead>>,
    ahead: &'ahead Cell<usize>,
    tell: &'tell mut dyn FnMut(String, Place),
}

impl<'text> Visitor<'text, '_, '_> {
    fn next(&mut self) -> Option<(Event<'text>, Place)> {
        let (event, span) = self.events.next_event()?.ok()?;
        self.ahead.set(0);
        Some((event, place(span.start)))
    }

    fn value(&mut self, event: &Event<'text>, path: &str, depth: usize) -> Option<()> {
        if MAX_DEPTH < depth {
            return None;
        }
        match event {
            Event::SequenceStart(..) => self.list(path, depth + 1),
            Event::MappingStart(..) => self.mapping(path, depth + 1),
            _ => Some(()),
        }
    }

    fn list(&mut self, path: &str, depth: usize) -> Option<()> {
        for number in 0.. {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                break;
            }
            let path = element(path, number);
            (self.tell)(path.clone(), at);
            self.value(&event, &path, depth)?;
        }
        Some(())
    }

    fn mapping(&mut self, path: &str, depth: usize) -> Option<()> {
        loop {
            let (key, at) = self.next()?;
            if key == Event::MappingEnd {
                return Some(());
            }
            let Event::Scalar(name, ..) = key else { return None };
            let path = member(path, &name);
            (self.tell)(path.clone(), at);
            let (event, _) = self.next()?;
            self.value(&event, &path, depth)?;
        }
    }
}
