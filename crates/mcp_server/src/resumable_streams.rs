//! Resumable streams (`Last-Event-ID`): the messages of a call stay buffered for a while, whether or not a client reads
//! them.
//!
//! In the legacy versions, a broken connection does not cancel a call. So a call that sends messages or takes a while
//! continues in the background, within limits. Above these limits, a call ends when its client disconnects.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use endpoint::background_tasks::BackgroundTasks;
use endpoint::retention;
use endpoint::retention::RetainedEntry;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use toolcrib::{Clock as _, SystemClock};

use super::outgoing_message::OutgoingMessage;
use super::shared_methods::McpReply;

/// How long an unread stream is kept, and maximum duration of a call.
const STREAM_RETENTION: SignedDuration = SignedDuration::from_mins(5);
const MAX_CALL_TIME: Duration = Duration::from_secs(60 * 60);
/// Maximum number of streams, per client and in all.
const MAX_STREAMS_PER_CLIENT: usize = 16;
const MAX_STREAMS: usize = 2_000;
/// Maximum buffer of one stream, in messages and in bytes; the oldest messages are dropped first.
const MAX_BUFFERED_MESSAGES: usize = 256;
const MAX_BUFFERED_BYTES: usize = 256 << 10;

/// The resumable streams of this node.
#[derive(Clone, Default)]
pub(crate) struct ResumableStreams(Arc<Mutex<HashMap<String, Arc<ResumableStream>>>>);

/// The buffered messages of one call.
pub(crate) struct ResumableStream {
    id: String,
    principal: Box<str>,
    said: Mutex<MessageBuffer>,
    more: Notify,
}

struct MessageBuffer {
    /// Number of messages that were dropped from the front.
    dropped_count: usize,
    kept: VecDeque<Bytes>,
    bytes: usize,
    is_finished: bool,
    last_read: Timestamp,
}

impl ResumableStreams {
    fn lock_streams(&self) -> MutexGuard<'_, HashMap<String, Arc<ResumableStream>>> {
        self.0.lock().expect("no one panics while holding the streams")
    }

    /// Opens a stream; `None` if there are too many.
    pub(crate) fn open_stream(&self, principal: &str) -> Option<Arc<ResumableStream>> {
        let mut all = self.lock_streams();
        all.retain(|_, stream| !stream.is_expired());
        let own = all.values().filter(|stream| *stream.principal == *principal).count();
        if MAX_STREAMS_PER_CLIENT <= own || MAX_STREAMS <= all.len() {
            return None;
        }
        let said = MessageBuffer {
            dropped_count: 0,
            kept: VecDeque::new(),
            bytes: 0,
            is_finished: false,
            last_read: SystemClock.now(),
        };
        let (id, said, more) = (toolcrib::random_id(), Mutex::new(said), Notify::new());
        let stream = Arc::new(ResumableStream { id, principal: principal.into(), said, more });
        all.insert(stream.id.clone(), Arc::clone(&stream));
        Some(stream)
    }

    /// Runs a call in the background, after its first message.
    pub(crate) fn run_in_background(
        &self,
        stream: Arc<ResumableStream>,
        work: &BackgroundTasks,
        first: Option<OutgoingMessage>,
        mut answer: McpReply,
    ) {
        let streams = self.clone();
        work.spawn_task(async move {
            let all = async {
                let mut next = first;
                loop {
                    if let Some(sent) = &next {
                        stream.push_message(sent.to_bytes());
                        if sent.is_last {
                            return;
                        }
                    }
                    next = answer.next_message().await;
                    if next.is_none() {
                        return;
                    }
                }
            };
            tokio::time::timeout(MAX_CALL_TIME, all).await.ok();
            streams.finish_stream(&stream);
        });
    }

    /// Marks a stream as finished. The last message may be long, so finished streams share a retention limit.
    fn finish_stream(&self, ended: &ResumableStream) {
        ended.lock_buffer().is_finished = true;
        ended.more.notify_waiters();
        let mut all = self.lock_streams();
        for id in retention::select_evictions(
            all.values().map(|stream| stream.retention_entry()).collect(),
        ) {
            all.remove(&id);
        }
    }

    /// The stream and position of an event; `None` if the stream is unknown or of another principal.
    pub(crate) fn find_event(
        &self,
        principal: &str,
        event: &str,
    ) -> Option<(Arc<ResumableStream>, usize)> {
        let (id, number) = event.split_once('-')?;
        let stream = self.lock_streams().get(id).cloned();
        let stream = stream.filter(|stream| *stream.principal == *principal)?;
        Some((stream, number.parse().ok()?))
    }
}

impl ResumableStream {
    fn lock_buffer(&self) -> MutexGuard<'_, MessageBuffer> {
        self.said.lock().expect("no one panics while holding a stream")
    }

    fn is_expired(&self) -> bool {
        let said = self.lock_buffer();
        said.is_finished && STREAM_RETENTION < SystemClock.now().duration_since(said.last_read)
    }

    fn retention_entry(&self) -> RetainedEntry {
        let said = self.lock_buffer();
        // The buffer of a running call has its own limit.
        let bytes = if said.is_finished { said.bytes } else { 0 };
        let end = said.is_finished.then_some(said.last_read);
        RetainedEntry { id: self.id.clone(), principal: self.principal.clone(), bytes, end }
    }

    fn push_message(&self, message: Bytes) {
        let mut said = self.lock_buffer();
        said.bytes += message.len();
        said.kept.push_back(message);
        while MAX_BUFFERED_MESSAGES < said.kept.len()
            || (MAX_BUFFERED_BYTES < said.bytes && 1 < said.kept.len())
        {
            said.bytes -= said.kept.pop_front().map_or(0, |message| message.len());
            said.dropped_count += 1;
        }
        drop(said);
        self.more.notify_waiters();
    }

    /// The id of the event before the first.
    pub(crate) fn start_event_id(&self) -> String {
        format!("{}-0", self.id)
    }

    /// The message at this position, with its event id and the next position; `None` after the last.
    pub(crate) async fn next_message(&self, after: usize) -> Option<(String, Bytes, usize)> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            {
                let mut said = self.lock_buffer();
                said.last_read = SystemClock.now();
                let at = after.max(said.dropped_count);
                if let Some(message) = said.kept.get(at - said.dropped_count) {
                    let number = at + 1;
                    return Some((format!("{}-{number}", self.id), message.clone(), number));
                }
                if said.is_finished {
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
    fn told(streams: &ResumableStreams, is_over: bool) -> String {
        let stream = streams.open_stream("ada").unwrap();
        stream.push_message(Bytes::from(vec![0; retention::MAX_BYTES_PER_CALLER]));
        if is_over {
            streams.finish_stream(&stream);
        }
        stream.start_event_id()
    }

    #[test]
    fn finished_streams_are_evicted_and_running_ones_stay() {
        let streams = ResumableStreams::default();
        let goes_on = told(&streams, false);
        let first = told(&streams, true);
        let is_there = |event: &str| streams.find_event("ada", event).is_some();
        assert!(is_there(&first));
        let second = told(&streams, true);
        assert_eq!([&goes_on, &first, &second].map(|event| is_there(event)), [true, false, true]);
    }
}
