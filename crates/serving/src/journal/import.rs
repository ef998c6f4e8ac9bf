//! `toolcrib journal import`: imports an export and prints a summary of the catalog afterwards.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use model::SecretRef;
use serde::Serialize;
use toolcrib::{Catalog, Journal, JournalPlace, Snapshot, SystemClock, TransferError};

use super::open_or_make;
use crate::cli::Ended;
use crate::cli::journal::Import;
use crate::failure::Failure;
use crate::out::{self, counted};
use crate::progress::Progress;

/// Maximum bytes of a line; larger than any event or document.
const LINE_LIMIT: u64 = 64 << 20;

pub(crate) async fn import(place: &JournalPlace, arguments: &Import) -> Result<Ended, Failure> {
    let mut lines = Lines::open(&arguments.file)?;
    refuse_what_is_no_export(&mut lines).await?;
    let journal = open_or_make(place).await?;
    let before = journal.head().await?.0;
    let events = take_in(&*journal, &mut lines).await?;
    let catalog = Catalog::open(journal.clone()).await?;
    // Write a checkpoint, so that the first start need not fold all events again.
    catalog.checkpoint().await?;
    let missing_secrets = missing_secrets(&*journal, &catalog.snapshot()).await?;
    let report = Report::new(events, before, &catalog.snapshot(), missing_secrets);
    // Close the journal, so that one file contains everything when this program ends.
    catalog.close().await;
    drop(journal);
    match arguments.json.json {
        true => out::print_json(&report)?,
        false => out::print(&report.text())?,
    }
    Ok(Ended::Fine)
}

/// Imports the first line into an in-memory journal: a wrong file must not create a new journal.
async fn refuse_what_is_no_export(lines: &mut Lines) -> Result<(), Failure> {
    let trial = JournalPlace::Memory.open(SystemClock).await?;
    let mut import = toolcrib::Import::into(&*trial).await?;
    let first = lines.first()?;
    import.line(first).await.map_err(|error| lines.wrong(error))
}

async fn take_in(journal: &dyn Journal, lines: &mut Lines) -> Result<u64, Failure> {
    let mut import = toolcrib::Import::into(journal).await?;
    let mut progress = Progress::start();
    while let Some(line) = lines.next()? {
        import.line(line).await.map_err(|error| lines.wrong(error))?;
        progress.show(|| lines.progress());
    }
    import.finish().await.map_err(|error| lines.wrong(error))
}

/// The lines of an export, each within the limit. The first can be read in advance.
struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    /// The current line.
    line: Vec<u8>,
    looked_ahead: bool,
    count: u64,
    bytes: u64,
    total_bytes: Option<u64>,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Failure> {
        let cannot_read = |source: io::Error| Failure::Read { path: path.to_owned(), source };
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
            looked_ahead: false,
            count: 0,
            bytes: 0,
            total_bytes,
        })
    }

    fn first(&mut self) -> Result<&str, Failure> {
        self.read()?;
        self.looked_ahead = true;
        match self.text()? {
            text if text.trim().is_empty() => {
                Err(self.problem("is empty: this is not a journal export".to_owned()))
            }
            text => Ok(text),
        }
    }

    fn next(&mut self) -> Result<Option<&str>, Failure> {
        if !std::mem::take(&mut self.looked_ahead) {
            self.read()?;
        }
        if self.line.is_empty() { Ok(None) } else { self.text().map(Some) }
    }

    /// Reads the next line into `line`; it is empty at the end of the file.
    fn read(&mut self) -> Result<(), Failure> {
        self.line.clear();
        let mut limited = self.reader.by_ref().take(LINE_LIMIT);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| Failure::Read { path: self.path.clone(), source })? as u64;
        self.count += 1;
        self.bytes += read;
        if read == LINE_LIMIT {
            return Err(self.problem(format!(
                "has more than {LINE_LIMIT} bytes: this is not a journal export"
            )));
        }
        Ok(())
    }

    fn text(&self) -> Result<&str, Failure> {
        str::from_utf8(&self.line)
            .map_err(|_| self.problem("is not text: this is not a journal export".to_owned()))
    }

    fn problem(&self, problem: String) -> Failure {
        self.wrong(TransferError::Line { line: self.count, problem })
    }

    /// Adds the file to an error in a line. A journal error is returned as such: the file is not its cause.
    fn wrong(&self, error: TransferError) -> Failure {
        let file = match self.path.to_str() {
            Some("-") => "standard input".to_owned(),
            _ => format!("`{}`", self.path.display()),
        };
        match error {
            TransferError::Line { .. } => Failure::Import { file, source: error },
            TransferError::Journal(error) => Failure::Journal(error),
            TransferError::Write(_)
            | TransferError::Unreadable { .. }
            | TransferError::OtherHistory { .. } => Failure::Transfer(error),
        }
    }

    fn progress(&self) -> String {
        let percent = self.total_bytes.and_then(|total| (self.bytes * 100).checked_div(total));
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let lines = out::counted(count, "line", "lines");
        match percent {
            Some(percent) => format!("imported {lines}, {percent} %"),
            None => format!("imported {lines}"),
        }
    }
}

/// A summary of the catalog after an import.
#[derive(Serialize)]
struct Report {
    events: u64,
    new_events: u64,
    sources: usize,
    tools: usize,
    groups: usize,
    policies: usize,
    labels: usize,
    missing_secrets: BTreeSet<Box<str>>,
}

impl Report {
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

    fn what_came(&self) -> String {
        let all = counted(usize::try_from(self.events).unwrap_or(usize::MAX), "event", "events");
        match self.new_events {
            0 => format!("imported nothing: the journal has the {all} already\n"),
            new if new == self.events => format!("imported {all}\n"),
            new => format!("imported {new} of {all}; the others were there already\n"),
        }
    }

    fn text(&self) -> String {
        let mut text = self.what_came();
        let things = [
            counted(self.sources, "source", "sources"),
            counted(self.tools, "tool", "tools"),
            counted(self.groups, "group", "groups"),
            counted(self.policies, "policy", "policies"),
            counted(self.labels, "label", "labels"),
        ];
        text += &format!("the catalog now has {}\n", things.join(", "));
        let missing: Vec<_> = self.missing_secrets.iter().map(|name| out::plain(name)).collect();
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
) -> Result<BTreeSet<Box<str>>, Failure> {
    let mut missing = BTreeSet::new();
    for entry in catalog.sources() {
        for secret in entry.source.profile.secrets() {
            if let SecretRef::Sealed(name) = secret {
                missing.insert(name.clone());
            }
        }
    }
    for name in journal.sealed_names().await? {
        missing.remove(name.as_str());
    }
    Ok(missing)
}
