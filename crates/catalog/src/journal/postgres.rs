//! A journal in PostgreSQL, for any number of nodes.
//!
//! Appends of all nodes take one advisory lock that is held until commit. So positions become visible in order, and no
//! reader can skip an append that commits late. Each node batches its callers into one statement, so one lock serves
//! many appends. `LISTEN` is only a hint that there are new events; a timer covers lost notifications.

mod append;
mod lease;
mod link;
mod listen;
mod read;
mod schema;
mod write;
mod writer;

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Digest, Document};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::lease::{Lease, Leases};
use super::shared::wait_for;
use super::{
    Answer, Answering, Append, Appended, Journal, JournalError, Position, Recorded, StorageReport,
    StreamName, Version,
};
pub(super) use lease::Lock;
pub use link::PostgresUrl;
pub(crate) use link::{Link, SILENCE};
use writer::Writer;

/// A journal in PostgreSQL.
pub struct PostgresJournal {
    link: Arc<Link>,
    writer: Writer,
    head: watch::Receiver<Position>,
    /// A separate connection, because leases live as long as their connection.
    lease_link: Arc<Link>,
    leases: Leases,
    /// Aborted when the journal is dropped.
    _messengers: JoinSet<()>,
}

impl PostgresJournal {
    /// Connects, and creates the tables if they do not exist.
    pub async fn connect(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(Link::new(url)?);
        schema::migrate(&link).await.map_err(at_start)?;
        Self::over(link).await
    }

    /// Connects to an existing journal without changing it.
    pub async fn connect_to_read(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(Link::new(url)?);
        schema::check(&link).await.map_err(at_start)?;
        Self::over(link).await
    }

    async fn over(link: Arc<Link>) -> Result<Self, JournalError> {
        let (sender, head) = watch::channel(read::head(&link).await?);
        let stored = Arc::new(Notify::new());
        let writer = Writer::start(Arc::new(link.another()), sender.clone(), Arc::clone(&stored));
        let mut messengers = JoinSet::new();
        messengers.spawn(listen::listen(Arc::clone(&link), sender));
        messengers.spawn(listen::tell(Arc::clone(&link), stored));
        let (lease_link, leases) = (Arc::new(link.another()), Leases::default());
        Ok(Self { link, writer, head, lease_link, leases, _messengers: messengers })
    }
}

/// At startup nothing reconnects, so an unreachable server is a failure to open.
fn at_start(error: JournalError) -> JournalError {
    match error {
        JournalError::Unavailable { place, cause, .. } => JournalError::CannotOpen { place, cause },
        other => other,
    }
}

impl Journal for PostgresJournal {
    fn append(&self, append: Append) -> Answering<'_, Appended> {
        Box::pin(async move {
            append.check()?;
            self.writer.append(append).await
        })
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: Version,
        limit: usize,
    ) -> Answering<'_, Vec<Recorded>> {
        Box::pin(read::stream(&self.link, stream, after, limit))
    }

    fn read_after(&self, after: Position, limit: usize) -> Answering<'_, Vec<Recorded>> {
        Box::pin(read::after(&self.link, after, limit))
    }

    fn head(&self) -> Answering<'_, Position> {
        Box::pin(read::head(&self.link))
    }

    fn position_at(&self, time: Timestamp) -> Answering<'_, Position> {
        Box::pin(read::position_at(&self.link, time))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for(self.head.clone(), after))
    }

    fn documents(&self, digests: Vec<Digest>) -> Answering<'_, Vec<Document>> {
        Box::pin(read::documents(&self.link, digests))
    }

    fn document_digests(&self, after: Option<Digest>, limit: usize) -> Answering<'_, Vec<Digest>> {
        Box::pin(read::document_digests(&self.link, after, limit))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> Answering<'_, Option<usize>> {
        Box::pin(write::remove_documents(&self.link, digests, seen))
    }

    fn answer(&self, key: String) -> Answering<'_, Option<Answer>> {
        Box::pin(read::answer(&self.link, key))
    }

    fn answers(&self, after: String, limit: usize) -> Answering<'_, Vec<Answer>> {
        Box::pin(read::answers(&self.link, after, limit))
    }

    fn restore(
        &self,
        events: Vec<Recorded>,
        documents: Vec<Document>,
        answers: Vec<Answer>,
    ) -> Answering<'_, Position> {
        Box::pin(write::restore(&self.link, events, documents, answers))
    }

    fn checkpoints(&self) -> Answering<'_, Vec<Position>> {
        Box::pin(read::checkpoints(&self.link))
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> Answering<'_, Option<Vec<u8>>> {
        Box::pin(read::checkpoint(&self.link, at, piece))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> Answering<'_, ()> {
        Box::pin(write::checkpoint(&self.link, at, piece, body))
    }

    fn remove_checkpoints_before(&self, at: Position) -> Answering<'_, ()> {
        Box::pin(write::remove_checkpoints_before(&self.link, at))
    }

    fn sealed(&self, name: String) -> Answering<'_, Option<Vec<u8>>> {
        Box::pin(read::sealed(&self.link, name))
    }

    fn sealed_names(&self) -> Answering<'_, Vec<String>> {
        Box::pin(read::sealed_names(&self.link))
    }

    fn seal(&self, name: String, bytes: Option<Vec<u8>>) -> Answering<'_, ()> {
        Box::pin(write::seal(&self.link, name, bytes))
    }

    fn lease(&self, name: String) -> Answering<'_, Option<Lease>> {
        Box::pin(async move {
            let lock = lease::take(Arc::clone(&self.lease_link), &self.leases, name).await?;
            Ok(lock.map(Lease::from))
        })
    }

    fn check_storage(&self) -> Answering<'_, StorageReport> {
        Box::pin(read::check_storage(&self.link))
    }
}
