//! Streams that can be taken up again (`Last-Event-ID`): what a call said is kept for a while, whoever listens.
//!
//! Only a call that speaks before it ends has such a stream. In the older versions a connection that breaks does not
//! mean that nobody wants the answer, so the call goes on by itself.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use moka::sync::Cache;
use tokio::sync::Notify;

use super::answer::Sent;
use super::asked::random;
use super::methods::Answer;

/// How long a stream is kept that nobody reads, and how many are.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);
const KEPT: u64 = 10_000;
/// How much one holds, in messages and in bytes; the oldest go first.
const MESSAGES: usize = 256;
const BYTES: usize = 1 << 20;

/// The streams of this node.
pub(crate) struct Streams(Cache<String, Arc<Stream>>);

/// What a call said so far.
pub(crate) struct Stream {
    id: String,
    principal: Box<str>,
    said: Mutex<Said>,
    more: Notify,
}

#[derive(Default)]
struct Said {
    /// How many came before those that are kept.
    gone: usize,
    kept: Vec<Bytes>,
    bytes: usize,
    is_over: bool,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(KEPT).time_to_idle(KEPT_FOR).build())
    }

    /// Lets a call go on by itself, beginning with what it has said already.
    pub(crate) fn begin(
        &self,
        principal: &str,
        first: Option<Sent>,
        mut answer: Answer,
    ) -> Arc<Stream> {
        let (id, said, more) = (random(), Mutex::default(), Notify::new());
        let stream = Arc::new(Stream { id, principal: principal.into(), said, more });
        self.0.insert(stream.id.clone(), Arc::clone(&stream));
        let work = Arc::clone(&stream);
        tokio::spawn(async move {
            let mut next = first;
            loop {
                if let Some(sent) = &next {
                    work.say(sent.to_bytes());
                    if sent.is_last {
                        break;
                    }
                }
                next = answer.next().await;
                if next.is_none() {
                    break;
                }
            }
            work.end();
        });
        stream
    }

    /// The stream an event is of, and what comes after that event; none if it is not there or somebody else's.
    pub(crate) fn after(&self, principal: &str, event: &str) -> Option<(Arc<Stream>, usize)> {
        let (id, number) = event.split_once('-')?;
        let stream = self.0.get(id).filter(|stream| *stream.principal == *principal)?;
        Some((stream, number.parse().ok()?))
    }
}

impl Stream {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("no one panics while holding a stream")
    }

    fn say(&self, message: Bytes) {
        let mut said = self.said();
        said.bytes += message.len();
        said.kept.push(message);
        while MESSAGES < said.kept.len() || (BYTES < said.bytes && 1 < said.kept.len()) {
            said.bytes -= said.kept.remove(0).len();
            said.gone += 1;
        }
        drop(said);
        self.more.notify_waiters();
    }

    fn end(&self) {
        self.said().is_over = true;
        self.more.notify_waiters();
    }

    /// The id of the event before the first.
    pub(crate) fn start(&self) -> String {
        format!("{}-0", self.id)
    }

    /// The message after so many, with the id of its event and how many there are then; none after the last.
    pub(crate) async fn next(&self, after: usize) -> Option<(String, Bytes, usize)> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            {
                let said = self.said();
                let at = after.max(said.gone);
                if let Some(message) = said.kept.get(at - said.gone) {
                    let number = at + 1;
                    return Some((format!("{}-{number}", self.id), message.clone(), number));
                }
                if said.is_over {
                    return None;
                }
            }
            more.await;
        }
    }
}
