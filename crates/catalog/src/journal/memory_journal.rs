//! A journal in memory, for tests and for embedding without a database. It is lost when the process ends.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use model::{Digest, RawJson, SchemaDocument};
use tokio::sync::watch;

use super::lease::{JournalLease, LocalLeases};
use super::store_common::{check_next_event, wait_for_head};
use super::{
    AppendOutcome, AppendRequest, IdempotencyEntry, IdempotentAnswer, Journal, JournalError,
    JournalFuture, Position, RecordedEvent, StorageReport, StreamAppend, StreamName, StreamVersion,
};
use crate::clock::Clock;

pub struct MemoryJournal {
    store: Mutex<MemoryStore>,
    head: watch::Sender<Position>,
    clock: Arc<dyn Clock>,
    leases: LocalLeases,
}

#[derive(Default)]
struct MemoryStore {
    events: Vec<RecordedEvent>,
    streams: HashMap<StreamName, Vec<usize>>,
    documents: BTreeMap<Digest, RawJson>,
    answers: BTreeMap<String, IdempotentAnswer>,
    checkpoints: BTreeMap<(Position, u32), Vec<u8>>,
    sealed: BTreeMap<String, Vec<u8>>,
}

impl MemoryStore {
    fn head_position(&self) -> Position {
        Position(self.events.len() as u64)
    }

    fn stream_version(&self, stream: &StreamName) -> StreamVersion {
        StreamVersion(self.streams.get(stream).map_or(0, |places| places.len() as u64))
    }

    fn push(&mut self, event: RecordedEvent) {
        self.streams.entry(event.stream.clone()).or_default().push(self.events.len());
        self.events.push(event);
    }

    fn append_events(
        &mut self,
        append: AppendRequest,
        now: Timestamp,
    ) -> Result<AppendOutcome, JournalError> {
        append.validate()?;
        if let Some(once) = &append.idempotency
            && let Some(answer) = self.answers.get(&*once.key)
        {
            if answer.request != once.request {
                return Err(JournalError::KeyReused { key: once.key.to_string() });
            }
            return Ok(AppendOutcome::AlreadyStored(answer.clone()));
        }
        for stream in &append.streams {
            let actual = self.stream_version(&stream.stream);
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
                self.push(RecordedEvent {
                    position: Position(self.head_position().0 + 1),
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
        let position = self.head_position();
        if let Some(IdempotencyEntry { key, request, answer }) = append.idempotency {
            self.answers
                .insert(key.to_string(), IdempotentAnswer { key, request, answer, position });
        }
        Ok(AppendOutcome::Stored(position))
    }

    fn restore_events(
        &mut self,
        events: Vec<RecordedEvent>,
        documents: Vec<SchemaDocument>,
        answers: Vec<IdempotentAnswer>,
    ) -> Result<(), JournalError> {
        let mut versions = HashMap::new();
        for (event, next) in events.iter().zip(self.head_position().0 + 1..) {
            let version =
                versions.entry(&event.stream).or_insert_with(|| self.stream_version(&event.stream));
            check_next_event(event, Position(next), version.next())?;
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
        Self { store: Mutex::default(), head, clock, leases: LocalLeases::default() }
    }

    fn lock_store(&self) -> MutexGuard<'_, MemoryStore> {
        self.store.lock().expect("no one panics while holding the journal")
    }

    fn ready_future<'a, T: Send + 'a>(result: Result<T, JournalError>) -> JournalFuture<'a, T> {
        Box::pin(std::future::ready(result))
    }
}

impl Journal for MemoryJournal {
    fn append(&self, append: AppendRequest) -> JournalFuture<'_, AppendOutcome> {
        let now = self.clock.now();
        let mut kept = self.lock_store();
        let result = kept.append_events(append, now);
        self.head.send_replace(kept.head_position());
        Self::ready_future(result)
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: StreamVersion,
        limit: usize,
    ) -> JournalFuture<'_, Vec<RecordedEvent>> {
        let kept = self.lock_store();
        let places = kept.streams.get(&stream).map_or(&[][..], Vec::as_slice);
        let after = usize::try_from(after.0).unwrap_or(usize::MAX);
        let events = places
            .iter()
            .skip(after)
            .take(limit)
            .map(|place| kept.events[*place].clone())
            .collect();
        Self::ready_future(Ok(events))
    }

    fn read_after(&self, after: Position, limit: usize) -> JournalFuture<'_, Vec<RecordedEvent>> {
        let after = usize::try_from(after.0).unwrap_or(usize::MAX);
        Self::ready_future(Ok(self
            .lock_store()
            .events
            .iter()
            .skip(after)
            .take(limit)
            .cloned()
            .collect()))
    }

    fn head_position(&self) -> JournalFuture<'_, Position> {
        Self::ready_future(Ok(self.lock_store().head_position()))
    }

    fn position_at(&self, time: Timestamp) -> JournalFuture<'_, Position> {
        let kept = self.lock_store();
        let found = kept.events.iter().rev().find(|event| event.time <= time);
        Self::ready_future(Ok(found.map_or(Position(0), |event| event.position)))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for_head(self.head.subscribe(), after))
    }

    fn read_documents(&self, digests: Vec<Digest>) -> JournalFuture<'_, Vec<SchemaDocument>> {
        let kept = self.lock_store();
        let find =
            |digest| Some(SchemaDocument { digest, text: kept.documents.get(&digest)?.clone() });
        Self::ready_future(Ok(digests.into_iter().filter_map(find).collect()))
    }

    fn document_digests(
        &self,
        after: Option<Digest>,
        limit: usize,
    ) -> JournalFuture<'_, Vec<Digest>> {
        let kept = self.lock_store();
        let later =
            kept.documents.keys().filter(|digest| after.is_none_or(|after| after < **digest));
        Self::ready_future(Ok(later.take(limit).copied().collect()))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> JournalFuture<'_, Option<usize>> {
        let mut kept = self.lock_store();
        if kept.head_position() != seen {
            return Self::ready_future(Ok(None));
        }
        let removed =
            digests.iter().filter(|digest| kept.documents.remove(*digest).is_some()).count();
        Self::ready_future(Ok(Some(removed)))
    }

    fn find_answer(&self, key: String) -> JournalFuture<'_, Option<IdempotentAnswer>> {
        Self::ready_future(Ok(self.lock_store().answers.get(&key).cloned()))
    }

    fn list_answers(
        &self,
        after: String,
        limit: usize,
    ) -> JournalFuture<'_, Vec<IdempotentAnswer>> {
        let kept = self.lock_store();
        let later = kept.answers.values().filter(|answer| *after < *answer.key);
        Self::ready_future(Ok(later.take(limit).cloned().collect()))
    }

    fn restore_events(
        &self,
        events: Vec<RecordedEvent>,
        documents: Vec<SchemaDocument>,
        answers: Vec<IdempotentAnswer>,
    ) -> JournalFuture<'_, Position> {
        let mut kept = self.lock_store();
        let result = kept.restore_events(events, documents, answers).map(|()| kept.head_position());
        self.head.send_replace(kept.head_position());
        Self::ready_future(result)
    }

    fn checkpoint_positions(&self) -> JournalFuture<'_, Vec<Position>> {
        let kept = self.lock_store();
        let complete = kept.checkpoints.keys().rev().filter(|(_, piece)| *piece == 0);
        Self::ready_future(Ok(complete.map(|(at, _)| *at).collect()))
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> JournalFuture<'_, Option<Vec<u8>>> {
        Self::ready_future(Ok(self.lock_store().checkpoints.get(&(at, piece)).cloned()))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> JournalFuture<'_, ()> {
        self.lock_store().checkpoints.insert((at, piece), body);
        Self::ready_future(Ok(()))
    }

    fn remove_checkpoints_before(&self, at: Position) -> JournalFuture<'_, ()> {
        self.lock_store().checkpoints.retain(|(known, _), _| at <= *known);
        Self::ready_future(Ok(()))
    }

    fn encrypted_secret(&self, name: String) -> JournalFuture<'_, Option<Vec<u8>>> {
        Self::ready_future(Ok(self.lock_store().sealed.get(&name).cloned()))
    }

    fn encrypted_secret_names(&self) -> JournalFuture<'_, Vec<String>> {
        Self::ready_future(Ok(self.lock_store().sealed.keys().cloned().collect()))
    }

    fn store_encrypted_secret(
        &self,
        name: String,
        bytes: Option<Vec<u8>>,
    ) -> JournalFuture<'_, ()> {
        let mut kept = self.lock_store();
        match bytes {
            Some(bytes) => kept.sealed.insert(name, bytes),
            None => kept.sealed.remove(&name),
        };
        Self::ready_future(Ok(()))
    }

    fn acquire_lease(&self, name: String) -> JournalFuture<'_, Option<JournalLease>> {
        Self::ready_future(Ok(self.leases.acquire_lease(name)))
    }

    fn check_storage(&self) -> JournalFuture<'_, StorageReport> {
        Self::ready_future(Ok(StorageReport::default()))
    }
}
