//! The one writer of this node: stores all queued appends with one call, and answers after the commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio_postgres::Row;

use super::append::call;
use super::link::Link;
use super::listen::raise;
use super::read::number;
use super::{Append, Appended, JournalError, Position, StreamName, Version, schema};

/// Appends in the queue before further callers have to wait for a slot.
const QUEUE: usize = 1024;
/// Upper bound for events in one call, so that the first caller does not wait too long.
const GROUP: usize = 8192;

type Waiting = (Append, oneshot::Sender<Result<Appended, JournalError>>);

/// The handle of the writer task, which ends when the handle is dropped.
pub(super) struct Writer {
    desk: Arc<Desk>,
    queue: mpsc::Sender<Waiting>,
}

/// Stores the appends of this node, one call at a time.
struct Desk {
    link: Arc<Link>,
    head: watch::Sender<Position>,
    stored: Arc<Notify>,
    turn: Mutex<()>,
}

impl Writer {
    pub(super) fn start(
        link: Arc<Link>,
        head: watch::Sender<Position>,
        stored: Arc<Notify>,
    ) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE);
        let desk = Arc::new(Desk { link, head, stored, turn: Mutex::default() });
        tokio::spawn(work(Arc::clone(&desk), queue));
        Self { desk, queue: sender }
    }

    /// Stores at once if no other append is in progress, otherwise in a group with other waiting appends. A caller that
    /// is cancelled affects only its own append, because the task stores the groups.
    pub(super) async fn append(&self, append: Append) -> Result<Appended, JournalError> {
        if let Ok(_turn) = self.desk.turn.try_lock() {
            return self.desk.store(&[&append]).await.remove(0);
        }
        let gone = || JournalError::Stopped {
            place: self.desk.link.place(),
            cause: "its writer is gone".to_owned(),
        };
        let (sender, answer) = oneshot::channel();
        self.queue.send((append, sender)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn work(desk: Arc<Desk>, mut queue: mpsc::Receiver<Waiting>) {
    let mut left_over = None;
    loop {
        let first = match left_over.take() {
            Some(waiting) => waiting,
            None => match queue.recv().await {
                Some(waiting) => waiting,
                None => return,
            },
        };
        let _turn = desk.turn.lock().await;
        let mut group = Group::default();
        group.push(first);
        while group.events < GROUP
            && let Ok(waiting) = queue.try_recv()
        {
            if !group.fits(&waiting.0) {
                left_over = Some(waiting);
                break;
            }
            group.push(waiting);
        }
        let results = desk.store(&group.appends()).await;
        for ((_, sender), result) in group.waiting.into_iter().zip(results) {
            // A caller that went away no longer needs the result.
            drop(sender.send(result));
        }
    }
}

fn stored(result: &Result<Appended, JournalError>) -> Option<Position> {
    match result {
        Ok(Appended::Stored(position)) => Some(*position),
        Ok(Appended::Before(_)) | Err(_) => None,
    }
}

/// Appends that share one call. The database checks the group as a whole, so each stream and key occurs in it only
/// once.
#[derive(Default)]
struct Group {
    waiting: Vec<Waiting>,
    streams: HashSet<StreamName>,
    keys: HashSet<Box<str>>,
    events: usize,
}

impl Group {
    fn fits(&self, append: &Append) -> bool {
        let new_key = append.once.as_ref().is_none_or(|once| !self.keys.contains(&once.key));
        new_key && !append.streams.iter().any(|stream| self.streams.contains(&stream.stream))
    }

    fn push(&mut self, waiting: Waiting) {
        self.streams.extend(waiting.0.streams.iter().map(|stream| stream.stream.clone()));
        self.keys.extend(waiting.0.once.iter().map(|once| once.key.clone()));
        self.events += waiting.0.len();
        self.waiting.push(waiting);
    }

    fn appends(&self) -> Vec<&Append> {
        self.waiting.iter().map(|(append, _)| append).collect()
    }
}

impl Desk {
    /// Stores appends and returns one result for each.
    async fn store(&self, appends: &[&Append]) -> Vec<Result<Appended, JournalError>> {
        let results = match (call(&self.link, appends).await, appends) {
            (Ok(results), _) => results,
            // The server rejected the append: because of a version conflict, or because it can never be stored.
            (Err(error @ JournalError::Refused { .. }), [append]) => {
                vec![Err(self.conflict(append).await.unwrap_or(error))]
            }
            // One of several appends cannot be stored: store each separately.
            (Err(JournalError::Refused { .. }), several) => {
                let mut results = Vec::with_capacity(several.len());
                for append in several {
                    results.extend(Box::pin(self.store(&[append])).await);
                }
                results
            }
            (Err(error), several) => several.iter().map(|_| Err(error.clone())).collect(),
        };
        if let Some(last) = results.iter().filter_map(stored).max() {
            raise(&self.head, last);
            self.stored.notify_one();
        }
        results
    }

    /// The first version conflict of an append, if there is one.
    async fn conflict(&self, append: &Append) -> Option<JournalError> {
        let streams: Vec<_> = append.streams.iter().map(|stream| stream.stream.as_str()).collect();
        let rows = self.link.query(schema::VERSIONS, &[&streams]).await.ok()?;
        let version = |row: &Row| (StreamName::new(row.get(0)), Version(number(row, 1)));
        let versions: HashMap<_, _> = rows.iter().map(version).collect();
        append.streams.iter().find_map(|known| {
            let (stream, expected) = (known.stream.clone(), known.expected);
            let actual = versions.get(&stream).copied().unwrap_or_default();
            (actual != expected).then_some(JournalError::Conflict { stream, expected, actual })
        })
    }
}
