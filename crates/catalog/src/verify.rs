//! Verify: fold from zero with open eyes, and compare with what is in service.

use std::collections::{HashMap, HashSet};

use model::{Digest, Document};
use serde::Serialize;

use crate::catalog::Recent;
use crate::event::{Event, NotUnderstood};
use crate::fold::Fold;
use crate::journal::{Journal, JournalError, Position, Recorded, StreamName, Version};
use crate::snapshot::Snapshot;
use crate::tool::ToolEvent;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many events were read.
    pub events: u64,
    /// How many streams they belong to.
    pub streams: usize,
    /// How many documents they refer to.
    pub documents: usize,
    /// Events of types this version does not know; kept, not lost.
    pub not_understood: u64,
    /// Of everything folded from zero.
    pub rebuilt: Option<Digest>,
    /// Of what is in service at the same position.
    pub live: Option<Digest>,
    /// One sentence for each thing that is wrong; none means that all is well.
    pub problems: Vec<String>,
}

/// More problems than this are only counted.
const PROBLEMS: usize = 100;
const BATCH: usize = 2_000;

/// Reads the whole journal up to the live snapshot's position and compares. `progress` is told the events read so far.
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

/// What became of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// This many documents that no event refers to were removed.
    Removed(usize),
    /// Nothing was removed: this many events are of types this version does not know and may refer to any of them.
    NotUnderstood(u64),
    /// Nothing was removed: events kept arriving.
    Busy,
}

/// Removes documents that no event refers to. Not while an import is running: it brings documents before events.
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
        // An event appended meanwhile may refer to one of them: look again.
        if let Some(removed) = journal.remove_documents(unused, inspection.position).await? {
            return Ok(Collected::Removed(removed));
        }
    }
    Ok(Collected::Busy)
}
