//! `toolcrib journal tail`: prints the last events, and with `--follow` also new ones.

use std::collections::VecDeque;

use toolcrib::{Journal, JournalPlace, Position, Recorded, StreamName, Version};

use super::open_to_read;
use crate::cli::Ended;
use crate::cli::journal::Tail;
use crate::failure::Failure;
use crate::out;

const BATCH: usize = 1_000;

pub(crate) async fn tail(place: &JournalPlace, arguments: &Tail) -> Result<Ended, Failure> {
    let journal = open_to_read(place).await?;
    let stream = arguments.stream.as_deref().map(StreamName::new);
    let head = journal.head().await?;
    let events = match &stream {
        Some(stream) => last_of_stream(&*journal, stream, head, arguments).await?,
        None => last(&*journal, head, arguments).await?,
    };
    let mut printer = Printer { json: arguments.json, columns: Columns::default() };
    printer.print(&events)?;
    if arguments.follow {
        return follow(&*journal, stream.as_ref(), head, &mut printer).await;
    }
    if head == Position(0) {
        out::note("the journal is empty");
    }
    Ok(Ended::Fine)
}

async fn last(
    journal: &dyn Journal,
    head: Position,
    arguments: &Tail,
) -> Result<Vec<Recorded>, Failure> {
    let mut events = Vec::new();
    let mut after = Position(head.0.saturating_sub(u64::from(arguments.lines)));
    while after < head {
        let some = journal.read_after(after, BATCH).await?;
        let Some(newest) = some.last() else { break };
        after = newest.position;
        events.extend(some.into_iter().filter(|event| event.position <= head));
    }
    Ok(events)
}

/// The last events of a stream. A stream can only be read forwards; it is short compared with the journal.
async fn last_of_stream(
    journal: &dyn Journal,
    stream: &StreamName,
    head: Position,
    arguments: &Tail,
) -> Result<Vec<Recorded>, Failure> {
    let mut events = VecDeque::new();
    let mut after = Version::NONE;
    loop {
        let some = journal.read_stream(stream.clone(), after, BATCH).await?;
        let Some(newest) = some.last() else { break };
        after = newest.version;
        events.extend(some.into_iter().filter(|event| event.position <= head));
        events.drain(..events.len().saturating_sub(arguments.lines as usize));
    }
    if after == Version::NONE && !arguments.follow {
        return Err(Failure::NoSuchStream { name: stream.to_string() });
    }
    Ok(events.into())
}

async fn follow(
    journal: &dyn Journal,
    stream: Option<&StreamName>,
    mut after: Position,
    printer: &mut Printer,
) -> Result<Ended, Failure> {
    loop {
        let mut events = journal.read_after(after, BATCH).await?;
        let Some(newest) = events.last() else {
            journal.wait_after(after).await;
            continue;
        };
        after = newest.position;
        events.retain(|event| stream.is_none_or(|stream| event.stream == *stream));
        printer.print(&events)?;
    }
}

struct Printer {
    json: bool,
    columns: Columns,
}

impl Printer {
    fn print(&mut self, events: &[Recorded]) -> Result<(), Failure> {
        if events.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        if self.json {
            for event in events {
                let position = event.position.0;
                let json = serde_json::to_string(event)
                    .map_err(|source| Failure::NotJson { position, source })?;
                text += &execution::plain_json(&json);
                text.push('\n');
            }
            return out::print(&text);
        }
        let mut rows: Vec<_> = events.iter().map(cells).collect();
        if self.columns == Columns::default() {
            rows.insert(
                0,
                ["POSITION", "TIME", "STREAM", "VERSION", "TYPE", "ACTOR"].map(str::to_owned),
            );
        }
        self.columns.widen(&rows);
        for row in &rows {
            text += &self.columns.line(row);
        }
        out::print(&text)
    }
}

fn cells(event: &Recorded) -> [String; 6] {
    [
        event.position.to_string(),
        format!("{:.3}", event.time),
        out::plain(event.stream.as_str()).into_owned(),
        event.version.to_string(),
        out::plain(&event.kind).into_owned(),
        out::plain(&event.actor).into_owned(),
    ]
}

/// The column widths; they grow when `--follow` prints something wider.
#[derive(Default, PartialEq, Eq)]
struct Columns([usize; 6]);

impl Columns {
    fn widen(&mut self, rows: &[[String; 6]]) {
        for row in rows {
            for (width, cell) in self.0.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }

    fn line(&self, row: &[String; 6]) -> String {
        let [position, time, stream, version, kind, actor] = row;
        let [p, t, s, v, k, _] = self.0;
        format!("{position:>p$}  {time:t$}  {stream:s$}  {version:>v$}  {kind:k$}  {actor}\n")
    }
}
