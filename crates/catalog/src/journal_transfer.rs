//! Export and import: a journal as JSON Lines, from any store into any other, without loss.
//!
//! The first line is a header; then come documents, events in order and answers to idempotent commands. The last line
//! has the number and digest of the events, which reveals a truncated file. Encrypted secrets are not exported.

use model::{Digest, RawJson, SchemaDocument};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::journal::{
    EVENT_LIMIT, IdempotentAnswer, Journal, JournalError, Position, RecordedEvent,
};

/// One line of an export.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExportLine {
    Journal(ExportHeader),
    Document { digest: Digest, text: RawJson },
    Answer(IdempotentAnswer),
    Event(RecordedEvent),
    End(ExportTrailer),
}

#[derive(Serialize, Deserialize)]
struct ExportHeader {
    format: u32,
    events: u64,
}

#[derive(Serialize, Deserialize)]
struct ExportTrailer {
    events: u64,
    digest: Digest,
}

const EXPORT_FORMAT: u32 = 1;
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 16 << 20;
/// Accepted event times: seconds of the years 1970 to 9998.
const EARLIEST: i64 = 0;
const LATEST: i64 = 253_370_764_800;

/// Why an export or import failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A line of the file is invalid.
    #[error("line {line} {problem}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// The problem and its remedy.
        problem: String,
    },
    /// A damaged part of the journal cannot be exported.
    #[error("{what} cannot be exported ({cause}): `toolcrib journal verify` lists what is damaged")]
    Unreadable {
        /// The event or document.
        what: String,
        cause: String,
    },
    /// The journal already contains another history.
    #[error(
        "event {position} is in the journal already and is another one: import into an empty journal"
    )]
    OtherHistory {
        /// First position at which the histories differ.
        position: Position,
    },
    /// The export could not be written.
    #[error("the export cannot be written")]
    Write(#[from] std::io::Error),
}

/// Writes a journal line by line and returns the number of events.
pub async fn export_journal(
    journal: &dyn Journal,
    mut write: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<u64, TransferError> {
    // Events that arrive during the export are not part of it; their documents do no harm.
    let head = journal.head_position().await?;
    write(&encode_line(&ExportLine::Journal(ExportHeader {
        format: EXPORT_FORMAT,
        events: head.0,
    }))?)?;
    let mut after = None;
    loop {
        let digests = journal.document_digests(after, BATCH).await?;
        let Some(last) = digests.last() else { break };
        after = Some(*last);
        // Stores return documents in any order; sorting makes two exports of one journal identical.
        let mut documents = journal.read_documents(digests).await?;
        documents.sort_by_key(|document| document.digest);
        for SchemaDocument { digest, text: body } in documents {
            write(&encode_line(&ExportLine::Document { digest, text: body })?)?;
        }
    }
    let mut position = Position(0);
    let mut digest = Sha256::new();
    let mut count = 0;
    while position < head {
        let events = journal.read_after(position, BATCH).await?;
        if events.is_empty() {
            break;
        }
        for event in events.into_iter().filter(|event| event.position <= head) {
            position = event.position;
            count += 1;
            let line = encode_line(&ExportLine::Event(event))?;
            digest.update(&line);
            write(&line)?;
        }
    }
    let mut key = String::new();
    loop {
        let answers = journal.list_answers(key.clone(), BATCH).await?;
        let Some(last) = answers.last() else { break };
        key = last.key.to_string();
        for answer in answers.into_iter().filter(|answer| answer.position <= head) {
            write(&encode_line(&ExportLine::Answer(answer))?)?;
        }
    }
    let digest = Digest::from_bytes(&digest.finalize()).expect("SHA-256 has 32 bytes");
    write(&encode_line(&ExportLine::End(ExportTrailer { events: count, digest }))?)?;
    Ok(count)
}

fn encode_line(line: &ExportLine) -> Result<String, TransferError> {
    let mut text = serde_json::to_string(line).map_err(|error| TransferError::Unreadable {
        what: match line {
            ExportLine::Event(event) => format!("event {}", event.position),
            ExportLine::Document { digest, .. } => format!("document {digest}"),
            ExportLine::Journal(_) | ExportLine::Answer(_) | ExportLine::End(_) => {
                "an answer".to_owned()
            }
        },
        cause: error.to_string(),
    })?;
    text.push('\n');
    Ok(text)
}

/// Imports an export in batches. After an interruption, feed it the same lines again: it continues where it stopped.
pub struct JournalImport<'a> {
    journal: &'a dyn Journal,
    line: u64,
    stage: ImportStage,
    /// Head of the journal before the import.
    head: Position,
    /// Events that the journal should already contain.
    known: Vec<RecordedEvent>,
    events: Vec<RecordedEvent>,
    documents: Vec<SchemaDocument>,
    answers: Vec<IdempotentAnswer>,
    digest: Sha256,
    seen: u64,
    /// Size of the buffered lines, in bytes.
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum ImportStage {
    BeforeHeader,
    Started,
    Ended,
}

impl<'a> JournalImport<'a> {
    /// Imports into a journal that is empty or contains the beginning of the same history.
    pub async fn new(journal: &'a dyn Journal) -> Result<Self, TransferError> {
        Ok(Self {
            journal,
            line: 0,
            stage: ImportStage::BeforeHeader,
            head: journal.head_position().await?,
            known: Vec::new(),
            events: Vec::new(),
            documents: Vec::new(),
            answers: Vec::new(),
            digest: Sha256::new(),
            seen: 0,
            bytes: 0,
        })
    }

    /// Imports one line.
    pub async fn import_line(&mut self, line: &str) -> Result<(), TransferError> {
        self.line += 1;
        if line.trim().is_empty() {
            return Ok(());
        }
        let parsed = serde_json::from_str(line).map_err(|error| {
            self.line_error(format!("is not a line of a journal export: {error}"))
        })?;
        match (self.stage, parsed) {
            (ImportStage::BeforeHeader, ExportLine::Journal(start))
                if start.format == EXPORT_FORMAT =>
            {
                if start.events < self.head.0 {
                    let (events, head) = (start.events, self.head);
                    let problem = format!(
                        "says {events} events, and the journal holds {head} already: nothing was changed"
                    );
                    return Err(self.line_error(problem));
                }
                self.stage = ImportStage::Started;
            }
            (ImportStage::BeforeHeader, ExportLine::Journal(start)) => {
                let format = start.format;
                let problem = format!(
                    "says format {format}, this toolcrib knows {EXPORT_FORMAT}: use a newer one"
                );
                return Err(self.line_error(problem));
            }
            (ImportStage::BeforeHeader, _) => {
                return Err(self.line_error("is not the first line of a journal export".to_owned()));
            }
            (ImportStage::Ended, _) => {
                return Err(self.line_error("comes after the end of the export".to_owned()));
            }
            (ImportStage::Started, ExportLine::Journal(_)) => {
                return Err(self.line_error("starts a second export".to_owned()));
            }
            (ImportStage::Started, ExportLine::Document { digest, text }) => {
                let document = SchemaDocument { digest, text };
                if !document.is_intact() {
                    return Err(self.line_error(format!("holds another document than {digest}")));
                }
                self.documents.push(document);
            }
            (ImportStage::Started, ExportLine::Answer(answer)) => self.answers.push(answer),
            (ImportStage::Started, ExportLine::Event(event)) => {
                self.digest.update(line.trim_end());
                self.digest.update("\n");
                self.seen += 1;
                self.check_event(&event)?;
                let side =
                    if event.position <= self.head { &mut self.known } else { &mut self.events };
                side.push(event);
            }
            (ImportStage::Started, ExportLine::End(end)) => self.accept_trailer(&end).await?,
        }
        self.bytes += line.len();
        if BATCH_BYTES <= self.bytes
            || BATCH
                <= self.known.len() + self.events.len() + self.documents.len() + self.answers.len()
        {
            self.store_buffered().await?;
        }
        Ok(())
    }

    /// Rejects an event that some store could not return unchanged.
    fn check_event(&self, event: &RecordedEvent) -> Result<(), TransferError> {
        if event.position.0 != self.seen {
            let (given, next) = (event.position, self.seen);
            return Err(
                self.line_error(format!("holds event {given} where event {next} comes next"))
            );
        }
        if EVENT_LIMIT < event.data.len() {
            let bytes = event.data.len();
            return Err(self.line_error(format!(
                "holds an event of {bytes} bytes, over the limit of {EVENT_LIMIT}"
            )));
        }
        let whole = event.time.subsec_nanosecond() % 1000 == 0;
        if !whole || !(EARLIEST..LATEST).contains(&event.time.as_second()) {
            let problem = format!(
                "has the time {}: times are whole microseconds of the years 1970 to 9998",
                event.time
            );
            return Err(self.line_error(problem));
        }
        let texts = [event.stream.as_str(), &event.kind, &event.actor];
        let ids =
            [&event.correlation_id, &event.causation_id].into_iter().flatten().map(|id| &**id);
        if texts.into_iter().chain(ids).any(|text| text.contains('\0')) {
            return Err(self
                .line_error("holds a NUL character in a name: no database keeps that".to_owned()));
        }
        Ok(())
    }

    async fn accept_trailer(&mut self, end: &ExportTrailer) -> Result<(), TransferError> {
        let digest = std::mem::take(&mut self.digest).finalize();
        let problem = if end.events != self.seen {
            format!("says {} events, but {} came", end.events, self.seen)
        } else if digest[..] != end.digest.as_bytes()[..] {
            "says another digest: something was changed on the way".to_owned()
        } else {
            String::new()
        };
        if !problem.is_empty() {
            // Earlier batches are already stored, and cannot be distinguished from valid ones.
            let advice = "get the export again, and import it into an empty journal";
            return Err(self.line_error(format!("{problem}: {advice}")));
        }
        self.stage = ImportStage::Ended;
        self.store_buffered().await
    }

    async fn store_buffered(&mut self) -> Result<(), TransferError> {
        self.bytes = 0;
        self.compare_history().await?;
        // Documents are stored before the events that need them, and answers after the events that they refer to.
        let (documents, answers) =
            (std::mem::take(&mut self.documents), std::mem::take(&mut self.answers));
        let events = std::mem::take(&mut self.events);
        self.journal.restore_events(events, documents, answers).await?;
        Ok(())
    }

    /// Compares events that the journal already contains with those of the file.
    async fn compare_history(&mut self) -> Result<(), TransferError> {
        let known = std::mem::take(&mut self.known);
        let Some(first) = known.first() else { return Ok(()) };
        let before = Position(first.position.0.saturating_sub(1));
        let there = self.journal.read_after(before, known.len()).await?;
        match known.iter().zip(&there).find(|(given, there)| given != there) {
            None => Ok(()),
            Some((given, _)) => Err(TransferError::OtherHistory { position: given.position }),
        }
    }

    /// Completes the import after the last line and returns the number of events.
    pub async fn finish(mut self) -> Result<u64, TransferError> {
        self.store_buffered().await?;
        if self.stage != ImportStage::Ended {
            self.line += 1;
            let problem = "is missing: the file is cut off. What came is stored; import the whole file to go on";
            return Err(self.line_error(problem.to_owned()));
        }
        Ok(self.seen)
    }

    fn line_error(&self, problem: String) -> TransferError {
        TransferError::Line { line: self.line, problem }
    }
}
