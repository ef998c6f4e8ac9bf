//! The one writer of this node: collects what has queued up, stores it with one call, and only then answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{Digest, Document};
use serde::Deserialize;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::link::Link;
use super::listen::raise;
use super::read::{number, signed, system_time};
use super::{
    Answer, Append, Appended, JournalError, Position, Recorded, StreamName, Version, schema,
};
use crate::journal::memory::follows;

/// The most callers that wait before others have to queue outside.
const QUEUE: usize = 1024;
/// The most events in one call, so that the first caller does not wait for ever.
const GROUP: usize = 8192;

type Waiting = (Append, oneshot::Sender<Result<Appended, JournalError>>);

/// The handle of the writing task; the task ends when it is dropped.
pub(super) struct Writer {
    desk: Arc<Desk>,
    queue: mpsc::Sender<Waiting>,
}

/// Where appends of this node are stored, one call at a time.
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

    /// Stores at once if nobody else is storing, and otherwise together with the others that wait. A caller that gives
    /// up can only disturb itself: a group is stored by the task.
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
            // A caller that went away does not want the answer.
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

/// Callers that share one call. The database checks a group as a whole, so each stream and each key stands once in it.
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
    /// One result for each append.
    async fn store(&self, appends: &[&Append]) -> Vec<Result<Appended, JournalError>> {
        let results = match call(&self.link, appends).await {
            Ok(results) => results,
            Err(error) => match appends {
                [append] => vec![Err(self.conflict(append).await.unwrap_or(error))],
                several => several.iter().map(|_| Err(error.for_another_caller())).collect(),
            },
        };
        if let Some(last) = results.iter().filter_map(stored).max() {
            raise(&self.head, last);
            self.stored.notify_one();
        }
        results
    }
}

impl Desk {
    /// A stream that is not where an append expected it.
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

/// The columns of a group, named as the parameters of the function.
#[derive(Default)]
struct Columns<'a> {
    s_append: Vec<i64>,
    s_stream: Vec<&'a str>,
    s_expected: Vec<i64>,
    e_append: Vec<i64>,
    e_stream: Vec<&'a str>,
    e_version: Vec<i64>,
    e_type: Vec<&'a str>,
    e_actor: Vec<&'a str>,
    e_correlation: Vec<Option<&'a str>>,
    e_causation: Vec<Option<&'a str>>,
    e_data: Vec<&'a str>,
    d_append: Vec<i64>,
    d_digest: Vec<&'a [u8]>,
    d_body: Vec<&'a str>,
    k_append: Vec<i64>,
    k_key: Vec<&'a str>,
    k_request: Vec<&'a [u8]>,
    k_answer: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(appends: &[&'a Append]) -> Self {
        let mut columns = Self::default();
        for (append, number) in appends.iter().zip(1_i64..) {
            columns.push(number, append, appends.len() == 1);
        }
        columns
    }

    /// An append that is alone need not ask whether a new stream is new: the table would refuse it, and nothing else
    /// would be lost with the call.
    fn push(&mut self, number: i64, append: &'a Append, alone: bool) {
        for stream in &append.streams {
            if !alone || stream.expected != Version::NONE {
                self.s_append.push(number);
                self.s_stream.push(stream.stream.as_str());
                self.s_expected.push(signed(stream.expected.0));
            }
            let mut version = stream.expected;
            for event in &stream.events {
                version = version.next();
                self.e_append.push(number);
                self.e_stream.push(stream.stream.as_str());
                self.e_version.push(signed(version.0));
                self.e_type.push(&event.kind);
                self.e_actor.push(append.context.actor.as_str());
                self.e_correlation.push(append.context.correlation_id.as_deref());
                self.e_causation.push(append.context.causation_id.as_deref());
                self.e_data.push(&event.data);
            }
        }
        for document in &append.documents {
            self.d_append.push(number);
            self.d_digest.push(&document.digest.as_bytes()[..]);
            self.d_body.push(document.text.as_str());
        }
        if let Some(once) = &append.once {
            self.k_append.push(number);
            self.k_key.push(&once.key);
            self.k_request.push(&once.request.as_bytes()[..]);
            self.k_answer.push(&once.answer);
        }
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 18] {
        [
            &self.s_append,
            &self.s_stream,
            &self.s_expected,
            &self.e_append,
            &self.e_stream,
            &self.e_version,
            &self.e_type,
            &self.e_actor,
            &self.e_correlation,
            &self.e_causation,
            &self.e_data,
            &self.d_append,
            &self.d_digest,
            &self.d_body,
            &self.k_append,
            &self.k_key,
            &self.k_request,
            &self.k_answer,
        ]
    }
}

async fn call(
    link: &Link,
    appends: &[&Append],
) -> Result<Vec<Result<Appended, JournalError>>, JournalError> {
    let columns = Columns::of(appends);
    let rows = link.execute(schema::APPEND, &columns.parameters()).await?;
    outcomes(link, appends, rows.first().expect("a function has one result"))
}

/// An append that was not stored because its key was answered before.
#[derive(Deserialize)]
struct Answered {
    append: usize,
    position: Position,
    answer: Box<str>,
    request: Digest,
}

/// An append that was not stored because a stream is elsewhere.
#[derive(Deserialize)]
struct Conflict {
    append: usize,
    stream: StreamName,
    actual: Version,
}

fn outcomes(
    link: &Link,
    appends: &[&Append],
    row: &Row,
) -> Result<Vec<Result<Appended, JournalError>>, JournalError> {
    let mut refused: HashMap<usize, Result<Appended, JournalError>> = HashMap::new();
    for Answered { append, position, answer, request } in listed(link, row, 1)? {
        let once = appends.get(append - 1).and_then(|append| append.once.as_ref());
        let once = once.expect("only an append with a key is answered from before");
        let outcome = match once.request == request {
            true => {
                Ok(Appended::Before(Answer { key: once.key.clone(), request, answer, position }))
            }
            false => Err(JournalError::KeyReused { key: once.key.to_string() }),
        };
        refused.insert(append, outcome);
    }
    for Conflict { append, stream, actual } in listed(link, row, 2)? {
        let streams = appends.get(append - 1).map_or(&[][..], |append| &append.streams);
        let known = streams.iter().find(|known| known.stream == stream);
        let expected = known.map_or(Version::NONE, |known| known.expected);
        refused.insert(append, Err(JournalError::Conflict { stream, expected, actual }));
    }
    let mut head = Position(number(row, 0));
    let outcome = |(append, place): (&&Append, usize)| {
        refused.remove(&place).unwrap_or_else(|| {
            head.0 += append.len() as u64;
            Ok(Appended::Stored(head))
        })
    };
    Ok(appends.iter().zip(1..).map(outcome).collect())
}

fn listed<T: for<'a> Deserialize<'a>>(
    link: &Link,
    row: &Row,
    column: usize,
) -> Result<Vec<T>, JournalError> {
    let Some(text) = row.get::<_, Option<&str>>(column) else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|error| JournalError::Damaged {
        place: link.place(),
        cause: format!("an answer: {error}"),
    })
}

pub(super) async fn restore(
    link: &Link,
    events: Vec<Recorded>,
    documents: Vec<Document>,
    answers: Vec<Answer>,
) -> Result<Position, JournalError> {
    let sql = |error: tokio_postgres::Error| link.failure(&error, true);
    let mut client = link.fresh().await?;
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.batch_execute(schema::LOCK).await.map_err(sql)?;
    let row = transaction.query_one("SELECT coalesce(max(position), 0) FROM toolcrib_events", &[]);
    let mut head = Position(number(&row.await.map_err(sql)?, 0));

    let streams: HashSet<&str> = events.iter().map(|event| event.stream.as_str()).collect();
    let streams: Vec<&str> = streams.into_iter().collect();
    let rows = transaction.query(schema::VERSIONS, &[&streams]).await.map_err(sql)?;
    let mut versions: HashMap<StreamName, Version> =
        rows.iter().map(|row| (StreamName::new(row.get(0)), Version(number(row, 1)))).collect();
    for event in &events {
        head.0 += 1;
        let version = versions.entry(event.stream.clone()).or_default();
        *version = version.next();
        follows(event, head, *version)?;
    }

    let insert = "INSERT INTO toolcrib_events
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[],
                             $6::text[], $7::text[], $8::text[], $9::text[])";
    let position: Vec<_> = events.iter().map(|event| signed(event.position.0)).collect();
    let stream: Vec<_> = events.iter().map(|event| event.stream.as_str()).collect();
    let version: Vec<_> = events.iter().map(|event| signed(event.version.0)).collect();
    let kind: Vec<_> = events.iter().map(|event| &*event.kind).collect();
    let time: Vec<_> = events.iter().map(|event| system_time(event.time)).collect();
    let actor: Vec<_> = events.iter().map(|event| &*event.actor).collect();
    let correlation: Vec<_> = events.iter().map(|event| event.correlation_id.as_deref()).collect();
    let causation: Vec<_> = events.iter().map(|event| event.causation_id.as_deref()).collect();
    let data: Vec<_> = events.iter().map(|event| &*event.data).collect();
    let columns: [&(dyn ToSql + Sync); 9] =
        [&position, &stream, &version, &kind, &time, &actor, &correlation, &causation, &data];
    transaction.execute(insert, &columns).await.map_err(sql)?;

    let digest: Vec<_> = documents.iter().map(|document| &document.digest.as_bytes()[..]).collect();
    let body: Vec<_> = documents.iter().map(|document| document.text.as_str()).collect();
    let insert = "INSERT INTO toolcrib_documents SELECT * FROM unnest($1::bytea[], $2::text[])
        ON CONFLICT DO NOTHING";
    transaction.execute(insert, &[&digest, &body]).await.map_err(sql)?;
    for answer in &answers {
        let insert = "INSERT INTO toolcrib_answers VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (key, request, text) = (&*answer.key, &answer.request.as_bytes()[..], &*answer.answer);
        transaction
            .execute(insert, &[&key, &request, &text, &signed(answer.position.0)])
            .await
            .map_err(sql)?;
    }
    transaction.commit().await.map_err(sql)?;
    Ok(head)
}

pub(super) async fn remove_documents(
    link: &Link,
    digests: Vec<Digest>,
    seen: Position,
) -> Result<Option<usize>, JournalError> {
    let sql = |error: tokio_postgres::Error| link.failure(&error, true);
    let mut client = link.fresh().await?;
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.batch_execute(schema::LOCK).await.map_err(sql)?;
    let row = transaction.query_one("SELECT coalesce(max(position), 0) FROM toolcrib_events", &[]);
    if Position(number(&row.await.map_err(sql)?, 0)) != seen {
        return Ok(None);
    }
    let unwanted: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    let delete = "DELETE FROM toolcrib_documents WHERE digest = ANY ($1)";
    let removed = transaction.execute(delete, &[&unwanted]).await.map_err(sql)?;
    transaction.commit().await.map_err(sql)?;
    Ok(Some(usize::try_from(removed).unwrap_or(usize::MAX)))
}

pub(super) async fn checkpoint(
    link: &Link,
    at: Position,
    piece: u32,
    body: Vec<u8>,
) -> Result<(), JournalError> {
    let sql = "INSERT INTO toolcrib_checkpoints VALUES ($1, $2, $3)
               ON CONFLICT (at, piece) DO UPDATE SET body = excluded.body";
    link.execute(sql, &[&signed(at.0), &i64::from(piece), &body]).await.map(drop)
}

pub(super) async fn remove_checkpoints_before(
    link: &Link,
    at: Position,
) -> Result<(), JournalError> {
    let sql = "DELETE FROM toolcrib_checkpoints WHERE at < $1";
    link.execute(sql, &[&signed(at.0)]).await.map(drop)
}

pub(super) async fn seal(
    link: &Link,
    name: String,
    bytes: Option<Vec<u8>>,
) -> Result<(), JournalError> {
    match bytes {
        Some(bytes) => {
            let sql = "INSERT INTO toolcrib_sealed VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body";
            link.execute(sql, &[&name, &bytes]).await.map(drop)
        }
        None => {
            link.execute("DELETE FROM toolcrib_sealed WHERE name = $1", &[&name]).await.map(drop)
        }
    }
}
