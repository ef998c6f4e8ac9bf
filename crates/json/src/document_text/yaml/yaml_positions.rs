//! Parses YAML for the positions of its fields, without building values.

use std::cell::Cell;

use saphyr_parser::{Event, Parser};

use super::position_of;
use super::yaml_characters::YamlCharacters;
use crate::document_text::field_positions::{field_path, item_path};
use crate::document_text::{MAX_DEPTH, TextPosition};

/// Reports the path and the start of every field and item, until the document becomes unreadable.
pub(in crate::document_text) fn visit_positions(
    text: &str,
    tell: &mut dyn FnMut(String, TextPosition),
) {
    let ahead = Cell::new(0);
    let mut visitor = PositionVisitor {
        events: Parser::new(YamlCharacters::new(text, &ahead)),
        ahead: &ahead,
        report: tell,
    };
    while let Some((event, _)) = visitor.next_event() {
        if visitor.visit_value(&event, "", 0).is_none() {
            return;
        }
    }
}

struct PositionVisitor<'text, 'ahead, 'tell> {
    events: Parser<'text, YamlCharacters<'text, 'ahead>>,
    ahead: &'ahead Cell<usize>,
    report: &'tell mut dyn FnMut(String, TextPosition),
}

impl<'text> PositionVisitor<'text, '_, '_> {
    fn next_event(&mut self) -> Option<(Event<'text>, TextPosition)> {
        let (event, span) = self.events.next_event()?.ok()?;
        self.ahead.set(0);
        Some((event, position_of(span.start)))
    }

    fn visit_value(&mut self, event: &Event<'text>, path: &str, depth: usize) -> Option<()> {
        if MAX_DEPTH < depth {
            return None;
        }
        match event {
            Event::SequenceStart(..) => self.visit_list(path, depth + 1),
            Event::MappingStart(..) => self.visit_mapping(path, depth + 1),
            _ => Some(()),
        }
    }

    fn visit_list(&mut self, path: &str, depth: usize) -> Option<()> {
        for number in 0.. {
            let (event, at) = self.next_event()?;
            if event == Event::SequenceEnd {
                break;
            }
            let path = item_path(path, number);
            (self.report)(path.clone(), at);
            self.visit_value(&event, &path, depth)?;
        }
        Some(())
    }

    fn visit_mapping(&mut self, path: &str, depth: usize) -> Option<()> {
        loop {
            let (key, at) = self.next_event()?;
            if key == Event::MappingEnd {
                return Some(());
            }
            let Event::Scalar(name, ..) = key else { return None };
            let path = field_path(path, &name);
            (self.report)(path.clone(), at);
            let (event, _) = self.next_event()?;
            self.visit_value(&event, &path, depth)?;
        }
    }
}
