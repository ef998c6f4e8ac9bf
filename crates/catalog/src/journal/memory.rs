//! A journal in memory, for tests and for embedding without a database. It is lost when the process ends.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use model::{Digest, Document, RawJson};
use tokio::sync::watch;

use super::lease::{Lease, Leases};
use super::shared::{follows, wait_for};
use super::{
    Answer, Answering, Append, Appended, Journal, JournalError, Once, Position, Recorded,
    StorageReport, StreamAppend, StreamName, Version,
};
use crate::clock::Clock;

pub struct MemoryJournal {
    kept: Mutex<Kept>,
    head: watch::Sender<Position>,
    clock: Arc<dyn Clock>,
    leases: Leases,
}

#[derive(Default)]
struct Kept {
    events: Vec<Recorded>,
    streams: HashMap<StreamName, Vec<usize>>,
    documents: BTreeMap<Digest, RawJson>,
    answers: BTreeMap<String, Answer>,
    checkpoints: BTreeMap<(Position, u32), Vec<u8>>,
    sealed: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    fn head(&self) -> Position {
        Position(self.events.len() as u64)
    }

    fn version(&self, stream: &StreamName) -> Version {
        Version(self.streams.get(stream).map_or(0, |places| places.len() as u64))
    }

    fn push(&mut self, event: Recorded) {
        self.streams.entry(event.stream.clone()).or_default().push(self.events.len());
        self.events.push(event);
    }

    fn append(&mut self, append: Append, now: Timestamp) -> Result<Appended, JournalError> {
        append.check()?;
        if let Some(once) = &append.once
            && let Some(answer) = self.answers.get(&*once.key)
        {
            if answer.request != once.request {
                return Err(JournalError::KeyReused { key: once.key.to_string() });
            }
            return Ok(Appended::Before(answer.clone()));
        }
        for stream in &append.streams {
            let actual = self.version(&stream.stream);
            if actual != stream.expected {
                let (stream, expected) = (stream.stream.clone(), stream.expected);
                return Err(JournalError::Conflict { stream, expected, actual });
            }
        }
        for document in append.documents {
            self.documents.entry(document.digest).or_insert(document.text);
        }
        for StreamAppend { stream, mut expected, events } in append.streams {
            for event in events {
                expected = expected.next();
                self.push(Recorded {
                    position: Position(self.head().0 + 1),
                    stream: stream.clone(),
                    version: expected,
                    kind: event.kind,
                    time: now,
                    actor: append.context.actor.as_str().into(),
                    correlation_id: append.context.correlation_id.clone(),
                    causation_id: append.context.causation_id.clone(),
                    data: event.data,
                });
            }
        }
        let position = self.head();
        if let Some(Once { key, request, answer }) = append.once {
            self.answers.insert(key.to_string(), Answer { key, request, answer, position });
        }
        Ok(Appended::Stored(position))
    }

    fn restore(
        &mut self,
        events: Vec<Recorded>,
        documents: Vec<Document>,
        answers: Vec<Answer>,
    ) -> Result<(), JournalError> {
        let mut versions = HashMap::new();
        for (event, next) in events.iter().zip(self.head().0 + 1..) {
            let version =
                versions.entry(&event.stream).or_insert_with(|| self.version(&event.stream));
            follows(event, Position(next), version.next())?;
            *version = event.version;
        }
        events.into_iter().for_each(|event| self.push(event));
        self.documents
            .extend(documents.into_iter().map(|document| (document.digest, document.text)));
        self.answers.extend(answers.into_iter().map(|answer| (answer.key.to_string(), answer)));
        Ok(())
    }
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let head = watch::Sender::new(Position(0));
        Self { kept: Mutex::default(), head, clock, leases: Leases::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no one panics while holding the journal")
    }

    fn ready<'a, T: Send + 'a>(result: Result<T, JournalError>) -> Answering<'a, T> {
        Box::pin(std::future::ready(result))
    }
}

impl Journal for MemoryJournal {
    fn append(&self, append: Append) -> Answering<'_, Appended> {
        let now = self.clock.now();
        let mut kept = self.kept();
        let result = kept.append(append, now);
        self.head.send_replace(kept.head());
        Self::ready(result)
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: Version,
        limit: usize,
    ) -> Answering<'_, Vec<Recorded>> {
        let kept = self.kept();
        let places = kept.streams.get(&stream).map_or(&[][..], Vec::as_slice);
        let after = usize::try_from(after.0).unwrap_or(usize::MAX);
        let events = places
            .iter()
            .skip(after)
            .take(limit)
            .map(|place| kept.events[*place].clone())
            .collect();
        Self::ready(Ok(events))
    }

    fn read_after(&self, after: Position, limit: usize) -> Answering<'_, Vec<Recorded>> {
        let after = usize::try_from(after.0).unwrap_or(usize::MAX);
        Self::ready(Ok(self.kept().events.iter().skip(after).take(limit).cloned().collect()))
    }

    fn head(&self) -> Answering<'_, Position> {
        Self::ready(Ok(self.kept().head()))
    }

    fn position_at(&self, time: Timestamp) -> Answering<'_, Position> {
        let kept = self.kept();
        let found = kept.events.iter().rev().find(|event| event.time <= time);
        Self::ready(Ok(found.map_or(Position(0), |event| event.position)))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for(self.head.subscribe(), after))
    }

    fn documents(&self, digests: Vec<Digest>) -> Answering<'_, Vec<Document>> {
        let kept = self.kept();
        let find = |digest| Some(Document { digest, text: kept.documents.get(&digest)?.clone() });
        Self::ready(Ok(digests.into_iter().filter_map(find).collect()))
    }

    fn document_digests(&self, after: Option<Digest>, limit: usize) -> Answering<'_, Vec<Digest>> {
        let kept = self.kept();
        let later =
            kept.documents.keys().filter(|digest| after.is_none_or(|after| after < **digest));
        Self::ready(Ok(later.take(limit).copied().collect()))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> Answering<'_, Option<usize>> {
        let mut kept = self.kept();
        if kept.head() != seen {
            return Self::ready(Ok(None));
        }
        let removed =
            digests.iter().filter(|digest| kept.documents.remove(*digest).is_some()).count();
        Self::ready(Ok(Some(removed)))
    }

    fn answer(&self, key: String) -> Answering<'_, Option<Answer>> {
        Self::ready(Ok(self.kept().answers.get(&key).cloned()))
    }

    fn answers(&self, after: String, limit: usize) -> Answering<'_, Vec<Answer>> {
        let kept = self.kept();
        let later = kept.answers.values().filter(|answer| *after < *answer.key);
        Self::ready(Ok(later.take(limit).cloned().collect()))
    }

    fn restore(
        &self,
        events: Vec<Recorded>,
        documents: Vec<Document>,
        answers: Vec<Answer>,
    ) -> Answering<'_, Position> {
        let mut kept = self.kept();
        let result = kept.restore(events, documents, answers).map(|()| kept.head());
        self.head.send_replace(kept.head());
        Self::ready(result)
    }

    fn checkpoints(&self) -> Answering<'_, Vec<Position>> {
        let kept = self.kept();
        let complete = kept.checkpoints.keys().rev().filter(|(_, piece)| *piece == 0);
        Self::ready(Ok(complete.map(|(at, _)| *at).collect()))
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> Answering<'_, Option<Vec<u8>>> {
        Self::ready(Ok(self.kept().checkpoints.get(&(at, piece)).cloned()))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> Answering<'_, ()> {
        self.kept().checkpoints.insert((at, piece), body);
        Self::ready(Ok(()))
    }

    fn remove_checkpoints_before(&self, at: Position) -> Answering<'_, ()> {
        self.kept().checkpoints.retain(|(known, _), _| at <= *known);
        Self::ready(Ok(()))
    }

    fn sealed(&self, name: String) -> Answering<'_, Option<Vec<u8>>> {
        Self::ready(Ok(self.kept().sealed.get(&name).cloned()))
    }

    fn sealed_names(&self) -> Answering<'_, Vec<String>> {
        Self::ready(Ok(self.kept().sealed.keys().cloned().collect()))
    }

    fn seal(&self, name: String, bytes: Option<Vec<u8>>) -> Answering<'_, ()> {
        let mut kept = self.kept();
        match bytes {
            Some(bytes) => kept.sealed.insert(name, bytes),
            None => kept.sealed.remove(&name),
        };
        Self::ready(Ok(()))
    }

    fn lease(&self, name: String) -> Answering<'_, Option<Lease>> {
        Self::ready(Ok(self.leases.take(name)))
    }

    fn check_storage(&self) -> Answering<'_, StorageReport> {
        Self::ready(Ok(StorageReport::default()))
    }
}
