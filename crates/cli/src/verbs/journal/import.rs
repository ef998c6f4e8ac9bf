//! `toolcrib journal import`: imports an export and prints a summary of the catalog afterwards.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use model::SecretRef;
use serde::Serialize;
use toolcrib::{Catalog, Journal, JournalLocation, Snapshot, SystemClock, TransferError};

use super::open_or_create;
use crate::arguments::VerbOutcome;
use crate::arguments::journal::JournalImportArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::output::count_noun;
use crate::progress::ProgressLine;

/// Maximum bytes of a line; larger than any event or document.
const LINE_LIMIT: u64 = 64 << 20;

pub(crate) async fn import_journal(
    place: &JournalLocation,
    arguments: &JournalImportArgs,
) -> Result<VerbOutcome, CliError> {
    let mut lines = ExportLines::open_file(&arguments.file)?;
    reject_other_files(&mut lines).await?;
    let journal = open_or_create(place).await?;
    let before = journal.head_position().await?.0;
    let events = import_lines(&*journal, &mut lines).await?;
    let catalog = Catalog::open(journal.clone()).await?;
    // Write a checkpoint, so that the first start need not fold all events again.
    catalog.checkpoint_now().await?;
    let missing_secrets = missing_secrets(&*journal, &catalog.snapshot()).await?;
    let report = JournalImportReport::new(events, before, &catalog.snapshot(), missing_secrets);
    // Close the journal, so that one file contains everything when this program ends.
    catalog.close().await;
    drop(journal);
    match arguments.json.json {
        true => output::print_json(&report)?,
        false => output::print_text(&report.to_text())?,
    }
    Ok(VerbOutcome::Success)
}

/// Imports the first line into an in-memory journal: a wrong file must not create a new journal.
async fn reject_other_files(lines: &mut ExportLines) -> Result<(), CliError> {
    let trial = JournalLocation::Memory.open(SystemClock).await?;
    let mut import = toolcrib::JournalImport::new(&*trial).await?;
    let first = lines.peek_first()?;
    import.import_line(first).await.map_err(|error| lines.to_failure(error))
}

async fn import_lines(journal: &dyn Journal, lines: &mut ExportLines) -> Result<u64, CliError> {
    let mut import = toolcrib::JournalImport::new(journal).await?;
    let mut progress = ProgressLine::start();
    while let Some(line) = lines.next()? {
        import.import_line(line).await.map_err(|error| lines.to_failure(error))?;
        progress.update(|| lines.progress_text());
    }
    import.finish().await.map_err(|error| lines.to_failure(error))
}

/// The lines of an export, each within the limit. The first can be read in advance.
struct ExportLines {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    /// The current line.
    line: Vec<u8>,
    is_peeked: bool,
    count: u64,
    bytes: u64,
    total_bytes: Option<u64>,
}

impl ExportLines {
    fn open_file(path: &Path) -> Result<Self, CliError> {
        let cannot_read = |source: io::Error| CliError::Read { path: path.to_owned(), source };
        let (reader, total_bytes): (Box<dyn BufRead + Send>, _) = if path == Path::new("-") {
            (Box::new(BufReader::new(io::stdin())), None)
        } else {
            let file = File::open(path).map_err(cannot_read)?;
            let length =
                file.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
            (Box::new(BufReader::with_capacity(1 << 20, file)), length)
        };
        let path = path.to_owned();
        Ok(Self {
            path,
            reader,
            line: Vec::new(),
            is_peeked: false,
            count: 0,
            bytes: 0,
            total_bytes,
        })
    }

    fn peek_first(&mut self) -> Result<&str, CliError> {
        self.read_line()?;
        self.is_peeked = true;
        match self.line_text()? {
            text if text.trim().is_empty() => {
                Err(self.line_problem("is empty: this is not a journal export".to_owned()))
            }
            text => Ok(text),
        }
    }

    fn next(&mut self) -> Result<Option<&str>, CliError> {
        if !std::mem::take(&mut self.is_peeked) {
            self.read_line()?;
        }
        if self.line.is_empty() { Ok(None) } else { self.line_text().map(Some) }
    }

    /// Reads the next line into `line`; it is empty at the end of the file.
    fn read_line(&mut self) -> Result<(), CliError> {
        self.line.clear();
        let mut limited = self.reader.by_ref().take(LINE_LIMIT);
        let read = limited.read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|source| CliError::Read { path: self.path.clone(), source })? as u64;
        self.count += 1;
        self.bytes += read;
        if read == LINE_LIMIT {
            return Err(self.line_problem(format!(
                "has more than {LINE_LIMIT} bytes: this is not a journal export"
            )));
        }
        Ok(())
    }

    fn line_text(&self) -> Result<&str, CliError> {
        str::from_utf8(&self.line)
            .map_err(|_| self.line_problem("is not text: this is not a journal export".to_owned()))
    }

    fn line_problem(&self, problem: String) -> CliError {
        self.to_failure(TransferError::Line { line: self.count, problem })
    }

    /// Adds the file to an error in a line. A journal error is returned as such: the file is not its cause.
    fn to_failure(&self, error: TransferError) -> CliError {
        let file = match self.path.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => format!("`{}`", self.path.display()),
        };
        match error {
            TransferError::Line { .. } => CliError::Import { file, source: error },
            TransferError::Journal(error) => CliError::Journal(error),
            TransferError::Write(_)
            | TransferError::Unreadable { .. }
            | TransferError::OtherHistory { .. } => CliError::Transfer(error),
        }
    }

    fn progress_text(&self) -> String {
        let percent = self.total_bytes.and_then(|total| (self.bytes * 100).checked_div(total));
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let lines = output::count_noun(count, "line", "lines");
        match percent {
            Some(percent) => format!("imported {lines}, {percent} %"),
            None => format!("imported {lines}"),
        }
    }
}

/// A summary of the catalog after an import.
#[derive(Serialize)]
struct JournalImportReport {
    events: u64,
    new_events: u64,
    sources: usize,
    tools: usize,
    groups: usize,
    policies: usize,
    labels: usize,
    missing_secrets: BTreeSet<Box<str>>,
}

impl JournalImportReport {
    fn new(
        events: u64,
        before: u64,
        catalog: &Snapshot,
        missing_secrets: BTreeSet<Box<str>>,
    ) -> Self {
        Self {
            events,
            new_events: events.saturating_sub(before),
            sources: catalog.sources().len(),
            tools: catalog.tool_count(),
            groups: catalog.groups().len(),
            policies: catalog.policies().len(),
            labels: catalog.labels().len(),
            missing_secrets,
        }
    }

    fn event_summary(&self) -> String {
        let all = count_noun(usize::try_from(self.events).unwrap_or(usize::MAX), "event", "events");
        match self.new_events {
            0 => format!("imported nothing: the journal has the {all} already\n"),
            new if new == self.events => format!("imported {all}\n"),
            new => format!("imported {new} of {all}; the others were there already\n"),
        }
    }

    fn to_text(&self) -> String {
        let mut text = self.event_summary();
        let things = [
            count_noun(self.sources, "source", "sources"),
            count_noun(self.tools, "tool", "tools"),
            count_noun(self.groups, "group", "groups"),
            count_noun(self.policies, "policy", "policies"),
            count_noun(self.labels, "label", "labels"),
        ];
        text += &format!("the catalog now has {}\n", things.join(", "));
        let missing: Vec<_> =
            self.missing_secrets.iter().map(|name| output::escape_for_terminal(name)).collect();
        if !missing.is_empty() {
            let (secrets, them) = match missing.len() {
                1 => ("1 secret is".to_owned(), "it"),
                count => (format!("{count} secrets are"), "them"),
            };
            text += &format!(
                "{secrets} not in this journal: set {them} with `toolcrib secret set NAME`\n  {}\n",
                missing.join("\n  ")
            );
        }
        text
    }
}

/// Sealed secrets that sources refer to and that this journal lacks.
async fn missing_secrets(
    journal: &dyn Journal,
    catalog: &Snapshot,
) -> Result<BTreeSet<Box<str>>, CliError> {
    let mut missing = BTreeSet::new();
    for entry in catalog.sources() {
        for secret in entry.source.profile.secret_refs() {
            if let SecretRef::Sealed(name) = secret {
                missing.insert(name.clone());
            }
        }
    }
    for name in journal.encrypted_secret_names().await? {
        missing.remove(name.as_str());
    }
    Ok(missing)
}
