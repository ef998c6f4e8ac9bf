//! A journal in PostgreSQL, for any number of nodes.
//!
//! Appends of all nodes take one advisory lock that is held until commit. So positions become visible in order, and no
//! reader can skip an append that commits late. Each node batches its callers into one statement, so one lock serves
//! many appends. `LISTEN` is only a hint that there are new events; a timer covers lost notifications.

mod advisory_lock;
mod append_call;
mod direct_writes;
mod group_writer;
mod notifications;
mod postgres_connection;
mod postgres_queries;
mod postgres_schema;

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Digest, SchemaDocument};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::lease::{JournalLease, LocalLeases};
use super::store_common::wait_for_head;
use super::{
    AppendOutcome, AppendRequest, IdempotentAnswer, Journal, JournalError, JournalFuture, Position,
    RecordedEvent, StorageReport, StreamName, StreamVersion,
};
pub(super) use advisory_lock::AdvisoryLock;
use group_writer::PostgresWriter;
pub use postgres_connection::PostgresUrl;
pub use postgres_connection::{PostgresConnection, SERVER_TIMEOUT};

/// A journal in PostgreSQL.
pub struct PostgresJournal {
    connection: Arc<PostgresConnection>,
    writer: PostgresWriter,
    head: watch::Receiver<Position>,
    /// A separate connection, because leases live as long as their connection.
    lease_connection: Arc<PostgresConnection>,
    leases: LocalLeases,
    /// Aborted when the journal is dropped.
    _background_tasks: JoinSet<()>,
}

impl PostgresJournal {
    /// Connects, and creates the tables if they do not exist.
    pub async fn connect(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(PostgresConnection::new(url)?);
        postgres_schema::run_migrations(&link).await.map_err(as_startup_error)?;
        Self::start(link).await
    }

    /// Connects to an existing journal without changing it.
    pub async fn connect_to_read(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(PostgresConnection::new(url)?);
        postgres_schema::check_format(&link).await.map_err(as_startup_error)?;
        Self::start(link).await
    }

    async fn start(link: Arc<PostgresConnection>) -> Result<Self, JournalError> {
        let (sender, head) = watch::channel(postgres_queries::read_head(&link).await?);
        let stored = Arc::new(Notify::new());
        let writer = PostgresWriter::spawn_task(
            Arc::new(link.separate_connection()),
            sender.clone(),
            Arc::clone(&stored),
        );
        let mut messengers = JoinSet::new();
        messengers.spawn(notifications::follow_head(Arc::clone(&link), sender));
        messengers.spawn(notifications::send_notifications(Arc::clone(&link), stored));
        let (lease_link, leases) = (Arc::new(link.separate_connection()), LocalLeases::default());
        Ok(Self {
            connection: link,
            writer,
            head,
            lease_connection: lease_link,
            leases,
            _background_tasks: messengers,
        })
    }
}

/// At startup nothing reconnects, so an unreachable server is a failure to open.
fn as_startup_error(error: JournalError) -> JournalError {
    match error {
        JournalError::Unavailable { place, cause, .. } => JournalError::CannotOpen { place, cause },
        other => other,
    }
}

impl Journal for PostgresJournal {
    fn append(&self, append: AppendRequest) -> JournalFuture<'_, AppendOutcome> {
        Box::pin(async move {
            append.validate()?;
            self.writer.append(append).await
        })
    }

    fn read_stream(
        &self,
        stream: StreamName,
        after: StreamVersion,
        limit: usize,
    ) -> JournalFuture<'_, Vec<RecordedEvent>> {
        Box::pin(postgres_queries::read_stream(&self.connection, stream, after, limit))
    }

    fn read_after(&self, after: Position, limit: usize) -> JournalFuture<'_, Vec<RecordedEvent>> {
        Box::pin(postgres_queries::read_after(&self.connection, after, limit))
    }

    fn head_position(&self) -> JournalFuture<'_, Position> {
        Box::pin(postgres_queries::read_head(&self.connection))
    }

    fn position_at(&self, time: Timestamp) -> JournalFuture<'_, Position> {
        Box::pin(postgres_queries::position_at(&self.connection, time))
    }

    fn wait_after(&self, after: Position) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(wait_for_head(self.head.clone(), after))
    }

    fn read_documents(&self, digests: Vec<Digest>) -> JournalFuture<'_, Vec<SchemaDocument>> {
        Box::pin(postgres_queries::read_documents(&self.connection, digests))
    }

    fn document_digests(
        &self,
        after: Option<Digest>,
        limit: usize,
    ) -> JournalFuture<'_, Vec<Digest>> {
        Box::pin(postgres_queries::document_digests(&self.connection, after, limit))
    }

    fn remove_documents(
        &self,
        digests: Vec<Digest>,
        seen: Position,
    ) -> JournalFuture<'_, Option<usize>> {
        Box::pin(direct_writes::remove_documents(&self.connection, digests, seen))
    }

    fn find_answer(&self, key: String) -> JournalFuture<'_, Option<IdempotentAnswer>> {
        Box::pin(postgres_queries::find_answer(&self.connection, key))
    }

    fn list_answers(
        &self,
        after: String,
        limit: usize,
    ) -> JournalFuture<'_, Vec<IdempotentAnswer>> {
        Box::pin(postgres_queries::list_answers(&self.connection, after, limit))
    }

    fn restore_events(
        &self,
        events: Vec<RecordedEvent>,
        documents: Vec<SchemaDocument>,
        answers: Vec<IdempotentAnswer>,
    ) -> JournalFuture<'_, Position> {
        Box::pin(direct_writes::restore_events(&self.connection, events, documents, answers))
    }

    fn checkpoint_positions(&self) -> JournalFuture<'_, Vec<Position>> {
        Box::pin(postgres_queries::checkpoint_positions(&self.connection))
    }

    fn read_checkpoint(&self, at: Position, piece: u32) -> JournalFuture<'_, Option<Vec<u8>>> {
        Box::pin(postgres_queries::read_checkpoint(&self.connection, at, piece))
    }

    fn write_checkpoint(&self, at: Position, piece: u32, body: Vec<u8>) -> JournalFuture<'_, ()> {
        Box::pin(direct_writes::write_checkpoint(&self.connection, at, piece, body))
    }

    fn remove_checkpoints_before(&self, at: Position) -> JournalFuture<'_, ()> {
        Box::pin(direct_writes::remove_checkpoints_before(&self.connection, at))
    }

    fn encrypted_secret(&self, name: String) -> JournalFuture<'_, Option<Vec<u8>>> {
        Box::pin(postgres_queries::encrypted_secret(&self.connection, name))
    }

    fn encrypted_secret_names(&self) -> JournalFuture<'_, Vec<String>> {
        Box::pin(postgres_queries::encrypted_secret_names(&self.connection))
    }

    fn store_encrypted_secret(
        &self,
        name: String,
        bytes: Option<Vec<u8>>,
    ) -> JournalFuture<'_, ()> {
        Box::pin(direct_writes::store_encrypted_secret(&self.connection, name, bytes))
    }

    fn acquire_lease(&self, name: String) -> JournalFuture<'_, Option<JournalLease>> {
        Box::pin(async move {
            let lock =
                advisory_lock::acquire_lock(Arc::clone(&self.lease_connection), &self.leases, name)
                    .await?;
            Ok(lock.map(JournalLease::from))
        })
    }

    fn check_storage(&self) -> JournalFuture<'_, StorageReport> {
        Box::pin(postgres_queries::check_storage(&self.connection))
    }
}
