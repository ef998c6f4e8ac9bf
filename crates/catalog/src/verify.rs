//! Verifies a journal: folds it from the start with extra checks and compares the result with the live snapshot.

use std::collections::{HashMap, HashSet};

use model::{Digest, Document};
use serde::Serialize;

use crate::catalog::Recent;
use crate::event::{Event, NotUnderstood};
use crate::fold::Fold;
use crate::journal::{Journal, JournalError, Position, Recorded, StreamName, Version};
use crate::snapshot::Snapshot;
use crate::tool::ToolEvent;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
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
const PROBLEMS: usize = 100;
const BATCH: usize = 2_000;

/// Reads the journal up to the position of the live snapshot and compares. Reports the number of events read so far to
/// `progress`.
pub async fn verify(
    journal: &dyn Journal,
    live: &Snapshot,
    mut progress: impl FnMut(u64),
) -> Result<Verification, JournalError> {
    let mut inspection = Inspection::default();
    for problem in journal.check_storage().await?.problems {
        inspection.problem(problem);
    }
    let mut fold = Fold::default();
    while fold.position() < live.position() {
        let left = usize::try_from(live.position().0 - fold.position().0).unwrap_or(BATCH);
        let events = journal.read_after(fold.position(), left.min(BATCH)).await?;
        if events.is_empty() {
            let (ends, served) = (fold.position(), live.position());
            inspection.problem(format!("the journal ends at {ends}, but {served} is in service"));
            break;
        }
        for event in &events {
            inspection.look_at(event);
            fold.apply(event);
        }
        progress(fold.position().0);
    }
    inspection.look_at_documents(journal).await?;
    fold.settle(journal, &Recent::default()).await?;
    let (rebuilt, in_service) = (fold.snapshot().digest(), live.digest());
    if rebuilt != in_service {
        let text = format!(
            "what is in service ({in_service}) differs from what the journal says ({rebuilt})"
        );
        inspection.problem(text);
    }
    Ok(inspection.report(rebuilt, in_service))
}

#[derive(Default)]
struct Inspection {
    position: Position,
    events: u64,
    versions: HashMap<StreamName, Version>,
    documents: HashSet<Digest>,
    not_understood: u64,
    problems: Vec<String>,
    further_problems: usize,
}

impl Inspection {
    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS {
            self.problems.push(text);
        } else {
            self.further_problems += 1;
        }
    }

    fn look_at(&mut self, event: &Recorded) {
        self.events += 1;
        let next = self.position.0 + 1;
        match event.position.0.saturating_sub(next) {
            _ if event.position.0 < next => {
                self.problem(format!("event {} stands twice", event.position))
            }
            0 => {}
            1 => self.problem(format!("event {next} is missing")),
            _ => self.problem(format!("events {next} to {} are missing", event.position.0 - 1)),
        }
        self.position = event.position;
        let version = self.versions.entry(event.stream.clone()).or_default();
        let expected = version.next();
        *version = event.version;
        if event.version != expected {
            let (stream, found) = (&event.stream, event.version);
            self.problem(format!(
                "stream `{stream}` goes on with version {found} instead of {expected}"
            ));
        }
        match Event::read(event) {
            Ok(Event::Tool(
                _,
                ToolEvent::Registered { manifest, .. } | ToolEvent::Updated { manifest, .. },
            )) => {
                self.documents.extend(manifest.digests());
            }
            Ok(_) => {}
            Err(NotUnderstood::UnknownType) => self.not_understood += 1,
            Err(NotUnderstood::Data(reason)) => {
                self.not_understood += 1;
                self.problem(format!(
                    "event {} (`{}`) cannot be read: {reason}",
                    event.position, event.kind
                ));
            }
        }
    }

    async fn look_at_documents(&mut self, journal: &dyn Journal) -> Result<(), JournalError> {
        let wanted: Vec<_> = self.documents.iter().copied().collect();
        for some in wanted.chunks(BATCH) {
            let found = journal.documents(some.to_vec()).await?;
            let there: HashSet<_> = found.iter().map(|document| document.digest).collect();
            for digest in some.iter().filter(|digest| !there.contains(digest)) {
                self.problem(format!("document {digest} is missing"));
            }
            for document in found.iter().filter(|document| !Document::is_intact(document)) {
                self.problem(format!(
                    "document {} does not have the text its digest says",
                    document.digest
                ));
            }
        }
        Ok(())
    }

    fn report(mut self, rebuilt: Digest, live: Digest) -> Verification {
        if 0 < self.further_problems {
            self.problems.push(format!("and {} more", self.further_problems));
        }
        Verification {
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
pub enum Collected {
    /// Number of documents removed because no event refers to them.
    Removed(usize),
    /// Nothing was removed: this version cannot interpret this many events, which may refer to any document.
    NotUnderstood(u64),
    /// Nothing was removed: new events kept arriving.
    Busy,
}

/// Removes documents that no event refers to. Do not run it during an import, which stores documents before events.
pub async fn collect_documents(journal: &dyn Journal) -> Result<Collected, JournalError> {
    let mut inspection = Inspection::default();
    for _ in 0..10 {
        loop {
            let events = journal.read_after(inspection.position, BATCH).await?;
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| inspection.look_at(event));
        }
        if 0 < inspection.not_understood {
            return Ok(Collected::NotUnderstood(inspection.not_understood));
        }
        let mut unused = Vec::new();
        let mut after = None;
        loop {
            let digests = journal.document_digests(after, BATCH).await?;
            let Some(last) = digests.last() else { break };
            after = Some(*last);
            unused.extend(digests.iter().filter(|digest| !inspection.documents.contains(digest)));
        }
        // A concurrently appended event may refer to one of them: in that case inspect again.
        if let Some(removed) = journal.remove_documents(unused, inspection.position).await? {
            return Ok(Collected::Removed(removed));
        }
    }
    Ok(Collected::Busy)
}
