//! Verifies a journal: folds it from the start with extra checks and compares the result with the live snapshot.

use std::collections::{HashMap, HashSet};

use model::{Digest, SchemaDocument};
use serde::Serialize;

use crate::catalog::RecentDocuments;
use crate::event::{Event, UnreadableEvent};
use crate::journal::{Journal, JournalError, Position, RecordedEvent, StreamName, StreamVersion};
use crate::snapshot::Snapshot;
use crate::snapshot_fold::SnapshotFold;
use crate::tool::ToolEvent;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalVerification {
    /// Number of events read.
    pub events: u64,
    /// Number of streams that they belong to.
    pub streams: usize,
    /// Number of documents that they refer to.
    pub documents: usize,
    /// Number of events that this version cannot interpret; they stay in the journal.
    pub not_understood: u64,
    /// Digest of the snapshot folded from the start.
    pub rebuilt: Option<Digest>,
    /// Digest of the live snapshot at the same position.
    pub live: Option<Digest>,
    /// One sentence for each problem; empty if everything is in order.
    pub problems: Vec<String>,
}

/// Problems beyond this number are only counted.
const PROBLEM_LIMIT: usize = 100;
const READ_BATCH: usize = 2_000;

/// Reads the journal up to the position of the live snapshot and compares. Reports the number of events read so far to
/// `progress`.
pub async fn verify_journal(
    journal: &dyn Journal,
    live: &Snapshot,
    mut progress: impl FnMut(u64),
) -> Result<JournalVerification, JournalError> {
    let mut inspection = JournalInspection::default();
    for problem in journal.check_storage().await?.problems {
        inspection.add_problem(problem);
    }
    let mut fold = SnapshotFold::default();
    while fold.position() < live.position() {
        let left = usize::try_from(live.position().0 - fold.position().0).unwrap_or(READ_BATCH);
        let events = journal.read_after(fold.position(), left.min(READ_BATCH)).await?;
        if events.is_empty() {
            let (ends, served) = (fold.position(), live.position());
            inspection
                .add_problem(format!("the journal ends at {ends}, but {served} is in service"));
            break;
        }
        for event in &events {
            inspection.inspect_event(event);
            fold.apply_event(event);
        }
        progress(fold.position().0);
    }
    inspection.inspect_documents(journal).await?;
    fold.derive_state(journal, &RecentDocuments::default()).await?;
    let (rebuilt, in_service) = (fold.snapshot().digest(), live.digest());
    if rebuilt != in_service {
        let text = format!(
            "what is in service ({in_service}) differs from what the journal says ({rebuilt})"
        );
        inspection.add_problem(text);
    }
    Ok(inspection.into_verification(rebuilt, in_service))
}

#[derive(Default)]
struct JournalInspection {
    position: Position,
    events: u64,
    versions: HashMap<StreamName, StreamVersion>,
    documents: HashSet<Digest>,
    not_understood: u64,
    problems: Vec<String>,
    further_problems: usize,
}

impl JournalInspection {
    fn add_problem(&mut self, text: String) {
        if self.problems.len() < PROBLEM_LIMIT {
            self.problems.push(text);
        } else {
            self.further_problems += 1;
        }
    }

    fn inspect_event(&mut self, event: &RecordedEvent) {
        self.events += 1;
        let next = self.position.0 + 1;
        match event.position.0.saturating_sub(next) {
            _ if event.position.0 < next => {
                self.add_problem(format!("event {} stands twice", event.position))
            }
            0 => {}
            1 => self.add_problem(format!("event {next} is missing")),
            _ => self.add_problem(format!("events {next} to {} are missing", event.position.0 - 1)),
        }
        self.position = event.position;
        let version = self.versions.entry(event.stream.clone()).or_default();
        let expected = version.next();
        *version = event.version;
        if event.version != expected {
            let (stream, found) = (&event.stream, event.version);
            self.add_problem(format!(
                "stream `{stream}` goes on with version {found} instead of {expected}"
            ));
        }
        match Event::from_recorded(event) {
            Ok(Event::Tool(
                _,
                ToolEvent::Registered { manifest, .. } | ToolEvent::Updated { manifest, .. },
            )) => {
                self.documents.extend(manifest.document_digests());
            }
            Ok(_) => {}
            Err(UnreadableEvent::UnknownType) => self.not_understood += 1,
            Err(UnreadableEvent::Data(reason)) => {
                self.not_understood += 1;
                self.add_problem(format!(
                    "event {} (`{}`) cannot be read: {reason}",
                    event.position, event.kind
                ));
            }
        }
    }

    async fn inspect_documents(&mut self, journal: &dyn Journal) -> Result<(), JournalError> {
        let wanted: Vec<_> = self.documents.iter().copied().collect();
        for some in wanted.chunks(READ_BATCH) {
            let found = journal.read_documents(some.to_vec()).await?;
            let there: HashSet<_> = found.iter().map(|document| document.digest).collect();
            for digest in some.iter().filter(|digest| !there.contains(digest)) {
                self.add_problem(format!("document {digest} is missing"));
            }
            for document in found.iter().filter(|document| !SchemaDocument::is_intact(document)) {
                self.add_problem(format!(
                    "document {} does not have the text its digest says",
                    document.digest
                ));
            }
        }
        Ok(())
    }

    fn into_verification(mut self, rebuilt: Digest, live: Digest) -> JournalVerification {
        if 0 < self.further_problems {
            self.problems.push(format!("and {} more", self.further_problems));
        }
        JournalVerification {
            events: self.events,
            streams: self.versions.len(),
            documents: self.documents.len(),
            not_understood: self.not_understood,
            rebuilt: Some(rebuilt),
            live: Some(live),
            problems: self.problems,
        }
    }
}

/// The outcome of removing unused documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentCleanup {
    /// Number of documents removed because no event refers to them.
    Removed(usize),
    /// Nothing was removed: this version cannot interpret this many events, which may refer to any document.
    NotUnderstood(u64),
    /// Nothing was removed: new events kept arriving.
    Busy,
}

/// Removes documents that no event refers to. Do not run it during an import, which stores documents before events.
pub async fn remove_unused_documents(
    journal: &dyn Journal,
) -> Result<DocumentCleanup, JournalError> {
    let mut inspection = JournalInspection::default();
    for _ in 0..10 {
        loop {
            let events = journal.read_after(inspection.position, READ_BATCH).await?;
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| inspection.inspect_event(event));
        }
        if 0 < inspection.not_understood {
            return Ok(DocumentCleanup::NotUnderstood(inspection.not_understood));
        }
        let mut unused = Vec::new();
        let mut after = None;
        loop {
            let digests = journal.document_digests(after, READ_BATCH).await?;
            let Some(last) = digests.last() else { break };
            after = Some(*last);
            unused.extend(digests.iter().filter(|digest| !inspection.documents.contains(digest)));
        }
        // A concurrently appended event may refer to one of them: in that case inspect again.
        if let Some(removed) = journal.remove_documents(unused, inspection.position).await? {
            return Ok(DocumentCleanup::Removed(removed));
        }
    }
    Ok(DocumentCleanup::Busy)
}
