//! The one writer of this node: stores all queued appends with one call, and answers after the commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio_postgres::Row;

use super::append_call::store_appends;
use super::notifications::advance_head;
use super::postgres_connection::PostgresConnection;
use super::postgres_queries::u64_from_row;
use super::{
    AppendOutcome, AppendRequest, JournalError, Position, StreamName, StreamVersion,
    postgres_schema,
};

/// Appends in the queue before further callers have to wait for a slot.
const QUEUE_LIMIT: usize = 1024;
/// Upper bound for events in one call, so that the first caller does not wait too long.
const GROUP_EVENT_LIMIT: usize = 8192;

type QueuedAppend = (AppendRequest, oneshot::Sender<Result<AppendOutcome, JournalError>>);

/// The handle of the writer task, which ends when the handle is dropped.
pub(super) struct PostgresWriter {
    appender: Arc<PostgresAppender>,
    queue: mpsc::Sender<QueuedAppend>,
}

/// Stores the appends of this node, one call at a time.
struct PostgresAppender {
    connection: Arc<PostgresConnection>,
    head: watch::Sender<Position>,
    stored_notify: Arc<Notify>,
    append_lock: Mutex<()>,
}

impl PostgresWriter {
    pub(super) fn spawn_task(
        link: Arc<PostgresConnection>,
        head: watch::Sender<Position>,
        stored: Arc<Notify>,
    ) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE_LIMIT);
        let desk = Arc::new(PostgresAppender {
            connection: link,
            head,
            stored_notify: stored,
            append_lock: Mutex::default(),
        });
        tokio::spawn(run_writer(Arc::clone(&desk), queue));
        Self { appender: desk, queue: sender }
    }

    /// Stores at once if no other append is in progress, otherwise in a group with other waiting appends. A caller that
    /// is cancelled affects only its own append, because the task stores the groups.
    pub(super) async fn append(
        &self,
        append: AppendRequest,
    ) -> Result<AppendOutcome, JournalError> {
        if let Ok(_turn) = self.appender.append_lock.try_lock() {
            return self.appender.store_group(&[&append]).await.remove(0);
        }
        let gone = || JournalError::Stopped {
            place: self.appender.connection.display_url(),
            cause: "its writer is gone".to_owned(),
        };
        let (sender, answer) = oneshot::channel();
        self.queue.send((append, sender)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn run_writer(desk: Arc<PostgresAppender>, mut queue: mpsc::Receiver<QueuedAppend>) {
    let mut left_over = None;
    loop {
        let first = match left_over.take() {
            Some(waiting) => waiting,
            None => match queue.recv().await {
                Some(waiting) => waiting,
                None => return,
            },
        };
        let _turn = desk.append_lock.lock().await;
        let mut group = AppendGroup::default();
        group.push_append(first);
        while group.events < GROUP_EVENT_LIMIT
            && let Ok(waiting) = queue.try_recv()
        {
            if !group.can_include(&waiting.0) {
                left_over = Some(waiting);
                break;
            }
            group.push_append(waiting);
        }
        let results = desk.store_group(&group.append_requests()).await;
        for ((_, sender), result) in group.waiting.into_iter().zip(results) {
            // A caller that went away no longer needs the result.
            drop(sender.send(result));
        }
    }
}

fn stored_position(result: &Result<AppendOutcome, JournalError>) -> Option<Position> {
    match result {
        Ok(AppendOutcome::Stored(position)) => Some(*position),
        Ok(AppendOutcome::AlreadyStored(_)) | Err(_) => None,
    }
}

/// Appends that share one call. The database checks the group as a whole, so each stream and key occurs in it only
/// once.
#[derive(Default)]
struct AppendGroup {
    waiting: Vec<QueuedAppend>,
    streams: HashSet<StreamName>,
    keys: HashSet<Box<str>>,
    events: usize,
}

impl AppendGroup {
    fn can_include(&self, append: &AppendRequest) -> bool {
        let new_key = append.idempotency.as_ref().is_none_or(|once| !self.keys.contains(&once.key));
        new_key && !append.streams.iter().any(|stream| self.streams.contains(&stream.stream))
    }

    fn push_append(&mut self, waiting: QueuedAppend) {
        self.streams.extend(waiting.0.streams.iter().map(|stream| stream.stream.clone()));
        self.keys.extend(waiting.0.idempotency.iter().map(|once| once.key.clone()));
        self.events += waiting.0.len();
        self.waiting.push(waiting);
    }

    fn append_requests(&self) -> Vec<&AppendRequest> {
        self.waiting.iter().map(|(append, _)| append).collect()
    }
}

impl PostgresAppender {
    /// Stores appends and returns one result for each.
    async fn store_group(
        &self,
        appends: &[&AppendRequest],
    ) -> Vec<Result<AppendOutcome, JournalError>> {
        let results = match (store_appends(&self.connection, appends).await, appends) {
            (Ok(results), _) => results,
            // The server rejected the append: because of a version conflict, or because it can never be stored.
            (Err(error @ JournalError::Refused { .. }), [append]) => {
                vec![Err(self.find_conflict(append).await.unwrap_or(error))]
            }
            // One of several appends cannot be stored: store each separately.
            (Err(JournalError::Refused { .. }), several) => {
                let mut results = Vec::with_capacity(several.len());
                for append in several {
                    results.extend(Box::pin(self.store_group(&[append])).await);
                }
                results
            }
            (Err(error), several) => several.iter().map(|_| Err(error.clone())).collect(),
        };
        if let Some(last) = results.iter().filter_map(stored_position).max() {
            advance_head(&self.head, last);
            self.stored_notify.notify_one();
        }
        results
    }

    /// The first version conflict of an append, if there is one.
    async fn find_conflict(&self, append: &AppendRequest) -> Option<JournalError> {
        let streams: Vec<_> = append.streams.iter().map(|stream| stream.stream.as_str()).collect();
        let rows = self.connection.query(postgres_schema::VERSIONS_SQL, &[&streams]).await.ok()?;
        let version =
            |row: &Row| (StreamName::new(row.get(0)), StreamVersion(u64_from_row(row, 1)));
        let versions: HashMap<_, _> = rows.iter().map(version).collect();
        append.streams.iter().find_map(|known| {
            let (stream, expected) = (known.stream.clone(), known.expected);
            let actual = versions.get(&stream).copied().unwrap_or_default();
            (actual != expected).then_some(JournalError::Conflict { stream, expected, actual })
        })
    }
}
