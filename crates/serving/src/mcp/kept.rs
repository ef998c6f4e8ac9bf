//! Resumable streams (`Last-Event-ID`): the messages of a call stay buffered for a while, whether or not a client reads
//! them.
//!
//! In the legacy versions, a broken connection does not cancel a call. So a call that sends messages or takes a while
//! continues in the background, within limits. Above these limits, a call ends when its client disconnects.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use toolcrib::{Clock as _, SystemClock};

use super::answer::Sent;
use super::methods::Answer;
use crate::room::{self, Kept};
use crate::work::Work;

/// How long an unread stream is kept, and maximum duration of a call.
const KEPT_FOR: SignedDuration = SignedDuration::from_mins(5);
const AT_MOST: Duration = Duration::from_secs(60 * 60);
/// Maximum number of streams, per client and in all.
const OF_ONE: usize = 16;
const OF_ALL: usize = 2_000;
/// Maximum buffer of one stream, in messages and in bytes; the oldest messages are dropped first.
const MESSAGES: usize = 256;
const BYTES: usize = 256 << 10;

/// The resumable streams of this node.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<String, Arc<Stream>>>>);

/// The buffered messages of one call.
pub(crate) struct Stream {
    id: String,
    principal: Box<str>,
    said: Mutex<Said>,
    more: Notify,
}

struct Said {
    /// Number of messages that were dropped from the front.
    gone: usize,
    kept: VecDeque<Bytes>,
    bytes: usize,
    is_over: bool,
    read: Timestamp,
}

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Stream>>> {
        self.0.lock().expect("no one panics while holding the streams")
    }

    /// Opens a stream; `None` if there are too many.
    pub(crate) fn place(&self, principal: &str) -> Option<Arc<Stream>> {
        let mut all = self.all();
        all.retain(|_, stream| !stream.is_forgotten());
        let own = all.values().filter(|stream| *stream.principal == *principal).count();
        if OF_ONE <= own || OF_ALL <= all.len() {
            return None;
        }
        let said = Said {
            gone: 0,
            kept: VecDeque::new(),
            bytes: 0,
            is_over: false,
            read: SystemClock.now(),
        };
        let (id, said, more) = (toolcrib::random(), Mutex::new(said), Notify::new());
        let stream = Arc::new(Stream { id, principal: principal.into(), said, more });
        all.insert(stream.id.clone(), Arc::clone(&stream));
        Some(stream)
    }

    /// Runs a call in the background, after its first message.
    pub(crate) fn carry(
        &self,
        stream: Arc<Stream>,
        work: &Work,
        first: Option<Sent>,
        mut answer: Answer,
    ) {
        let streams = self.clone();
        work.begin(async move {
            let all = async {
                let mut next = first;
                loop {
                    if let Some(sent) = &next {
                        stream.say(sent.to_bytes());
                        if sent.is_last {
                            return;
                        }
                    }
                    next = answer.next().await;
                    if next.is_none() {
                        return;
                    }
                }
            };
            tokio::time::timeout(AT_MOST, all).await.ok();
            streams.end(&stream);
        });
    }

    /// Marks a stream as finished. The last message may be long, so finished streams share a retention limit.
    fn end(&self, ended: &Stream) {
        ended.said().is_over = true;
        ended.more.notify_waiters();
        let mut all = self.all();
        for id in room::surplus(all.values().map(|stream| stream.kept()).collect()) {
            all.remove(&id);
        }
    }

    /// The stream and position of an event; `None` if the stream is unknown or of another principal.
    pub(crate) fn after(&self, principal: &str, event: &str) -> Option<(Arc<Stream>, usize)> {
        let (id, number) = event.split_once('-')?;
        let stream = self.all().get(id).cloned();
        let stream = stream.filter(|stream| *stream.principal == *principal)?;
        Some((stream, number.parse().ok()?))
    }
}

impl Stream {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("no one panics while holding a stream")
    }

    fn is_forgotten(&self) -> bool {
        let said = self.said();
        said.is_over && KEPT_FOR < SystemClock.now().duration_since(said.read)
    }

    fn kept(&self) -> Kept {
        let said = self.said();
        // The buffer of a running call has its own limit.
        let bytes = if said.is_over { said.bytes } else { 0 };
        let end = said.is_over.then_some(said.read);
        Kept { id: self.id.clone(), principal: self.principal.clone(), bytes, end }
    }

    fn say(&self, message: Bytes) {
        let mut said = self.said();
        said.bytes += message.len();
        said.kept.push_back(message);
        while MESSAGES < said.kept.len() || (BYTES < said.bytes && 1 < said.kept.len()) {
            said.bytes -= said.kept.pop_front().map_or(0, |message| message.len());
            said.gone += 1;
        }
        drop(said);
        self.more.notify_waiters();
    }

    /// The id of the event before the first.
    pub(crate) fn start(&self) -> String {
        format!("{}-0", self.id)
    }

    /// The message at this position, with its event id and the next position; `None` after the last.
    pub(crate) async fn next(&self, after: usize) -> Option<(String, Bytes, usize)> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            {
                let mut said = self.said();
                said.read = SystemClock.now();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The event before the first, of a stream with a long message.
    fn told(streams: &Streams, is_over: bool) -> String {
        let stream = streams.place("ada").unwrap();
        stream.say(Bytes::from(vec![0; room::BYTES_OF_ONE]));
        if is_over {
            streams.end(&stream);
        }
        stream.start()
    }

    #[test]
    fn finished_streams_are_evicted_and_running_ones_stay() {
        let streams = Streams::default();
        let goes_on = told(&streams, false);
        let first = told(&streams, true);
        let is_there = |event: &str| streams.after("ada", event).is_some();
        assert!(is_there(&first));
        let second = told(&streams, true);
        assert_eq!([&goes_on, &first, &second].map(|event| is_there(event)), [true, false, true]);
    }
}
