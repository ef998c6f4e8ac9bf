//! `toolcrib journal tail`: prints the last events, and with `--follow` also new ones.

use std::collections::VecDeque;

use toolcrib::{Journal, JournalLocation, Position, RecordedEvent, StreamName, StreamVersion};

use super::open_to_read;
use crate::arguments::VerbOutcome;
use crate::arguments::journal::JournalTailArgs;
use crate::cli_error::CliError;
use crate::output;

const READ_BATCH: usize = 1_000;

pub(crate) async fn tail_journal(
    place: &JournalLocation,
    arguments: &JournalTailArgs,
) -> Result<VerbOutcome, CliError> {
    let journal = open_to_read(place).await?;
    let stream = arguments.stream.as_deref().map(StreamName::new);
    let head = journal.head_position().await?;
    let events = match &stream {
        Some(stream) => last_stream_events(&*journal, stream, head, arguments).await?,
        None => last_events(&*journal, head, arguments).await?,
    };
    let mut printer = EventPrinter { json: arguments.json, columns: EventColumns::default() };
    printer.print_events(&events)?;
    if arguments.follow {
        return follow_events(&*journal, stream.as_ref(), head, &mut printer).await;
    }
    if head == Position(0) {
        output::print_note("the journal is empty");
    }
    Ok(VerbOutcome::Success)
}

async fn last_events(
    journal: &dyn Journal,
    head: Position,
    arguments: &JournalTailArgs,
) -> Result<Vec<RecordedEvent>, CliError> {
    let mut events = Vec::new();
    let mut after = Position(head.0.saturating_sub(u64::from(arguments.lines)));
    while after < head {
        let some = journal.read_after(after, READ_BATCH).await?;
        let Some(newest) = some.last() else { break };
        after = newest.position;
        events.extend(some.into_iter().filter(|event| event.position <= head));
    }
    Ok(events)
}

/// The last events of a stream. A stream can only be read forwards; it is short compared with the journal.
async fn last_stream_events(
    journal: &dyn Journal,
    stream: &StreamName,
    head: Position,
    arguments: &JournalTailArgs,
) -> Result<Vec<RecordedEvent>, CliError> {
    let mut events = VecDeque::new();
    let mut after = StreamVersion::NONE;
    loop {
        let some = journal.read_stream(stream.clone(), after, READ_BATCH).await?;
        let Some(newest) = some.last() else { break };
        after = newest.version;
        events.extend(some.into_iter().filter(|event| event.position <= head));
        events.drain(..events.len().saturating_sub(arguments.lines as usize));
    }
    if after == StreamVersion::NONE && !arguments.follow {
        return Err(CliError::NoSuchStream { name: stream.to_string() });
    }
    Ok(events.into())
}

async fn follow_events(
    journal: &dyn Journal,
    stream: Option<&StreamName>,
    mut after: Position,
    printer: &mut EventPrinter,
) -> Result<VerbOutcome, CliError> {
    loop {
        let mut events = journal.read_after(after, READ_BATCH).await?;
        let Some(newest) = events.last() else {
            journal.wait_after(after).await;
            continue;
        };
        after = newest.position;
        events.retain(|event| stream.is_none_or(|stream| event.stream == *stream));
        printer.print_events(&events)?;
    }
}

struct EventPrinter {
    json: bool,
    columns: EventColumns,
}

impl EventPrinter {
    fn print_events(&mut self, events: &[RecordedEvent]) -> Result<(), CliError> {
        if events.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        if self.json {
            for event in events {
                let position = event.position.0;
                let json = serde_json::to_string(event)
                    .map_err(|source| CliError::NotJson { position, source })?;
                text += &execution::escape_json(&json);
                text.push('\n');
            }
            return output::print_text(&text);
        }
        let mut rows: Vec<_> = events.iter().map(event_cells).collect();
        if self.columns == EventColumns::default() {
            rows.insert(
                0,
                ["POSITION", "TIME", "STREAM", "VERSION", "TYPE", "ACTOR"].map(str::to_owned),
            );
        }
        self.columns.widen(&rows);
        for row in &rows {
            text += &self.columns.format_line(row);
        }
        output::print_text(&text)
    }
}

fn event_cells(event: &RecordedEvent) -> [String; 6] {
    [
        event.position.to_string(),
        format!("{:.3}", event.time),
        output::escape_for_terminal(event.stream.as_str()).into_owned(),
        event.version.to_string(),
        output::escape_for_terminal(&event.kind).into_owned(),
        output::escape_for_terminal(&event.actor).into_owned(),
    ]
}

/// The column widths; they grow when `--follow` prints something wider.
#[derive(Default, PartialEq, Eq)]
struct EventColumns([usize; 6]);

impl EventColumns {
    fn widen(&mut self, rows: &[[String; 6]]) {
        for row in rows {
            for (width, cell) in self.0.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }

    fn format_line(&self, row: &[String; 6]) -> String {
        let [position, time, stream, version, kind, actor] = row;
        let [p, t, s, v, k, _] = self.0;
        format!("{position:>p$}  {time:t$}  {stream:s$}  {version:>v$}  {kind:k$}  {actor}\n")
    }
}
