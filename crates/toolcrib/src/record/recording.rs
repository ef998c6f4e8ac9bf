//! The recording of one call: begun before the call, finished once. A recording that is dropped unfinished counts as
//! cancelled.

use std::sync::Arc;
use std::time::Instant;

use catalog::record::{CallDoor, CallEnd, CallRecord, ShownBy};
use execution::Mask;
use jiff::Timestamp;
use model::{Actor, Agent, ErrorCode, Primitive, TraceContext};
use serde_json::{Map, Value};

use super::{NotRecorded, Recorder, redact};
use crate::secrets::Secrets;
use model::json_size::size;

/// The longest subject that is recorded unchanged, in bytes.
const SUBJECT: usize = 200;
/// The longest message that is recorded, in characters.
const MESSAGE: usize = 200;
/// The bytes of a message to redact before it is shortened: a secret may be longer than the text that replaces it.
const BEGINNING: usize = 2_000;

/// The message of a call whose caller never answered the tool's question.
const UNANSWERED: &str = "the tool asked its caller, who did not come again with an answer";
/// The message of a call that was evicted because too many others wait for their callers.
const CROWDED_OUT: &str = "the tool asked its caller, and so many others did that it is not remembered; an answer is another row";

/// The origin of a call, for the call log and for upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The endpoint that received the call.
    pub door: CallDoor,
    /// The kind of credential that the caller presented.
    pub means: ShownBy,
    /// The id of the request.
    pub correlation_id: Option<Box<str>>,
    /// The trace of the request. It is passed on to upstreams.
    pub trace: Option<TraceContext>,
}

/// The tool, prompt or resource that is called.
pub(crate) struct Subject<'a> {
    pub(crate) kind: Primitive,
    pub(crate) tool_id: Option<&'a str>,
    pub(crate) source_id: Option<&'a str>,
}

/// The outcome of a call, as it is recorded.
pub(crate) struct Fate {
    pub(crate) status: CallEnd,
    pub(crate) code: Option<ErrorCode>,
    pub(crate) message: Option<String>,
    pub(crate) upstream_status: Option<u16>,
    pub(crate) result_bytes: u64,
}

impl Fate {
    pub(crate) fn completed(result_bytes: u64) -> Self {
        let status = CallEnd::Completed;
        Self { status, code: None, message: None, upstream_status: None, result_bytes }
    }

    pub(crate) fn failed(code: ErrorCode, message: &str) -> Self {
        // A validation message may quote the arguments.
        let message = match code {
            ErrorCode::ValidationError => "the arguments do not fit the schema",
            _ => message,
        };
        let (status, message) = (CallEnd::Failed, Some(message.to_owned()));
        Self { status, code: Some(code), message, upstream_status: None, result_bytes: 0 }
    }
}

/// A call while it is recorded.
pub(crate) struct Recording {
    recorder: Arc<Recorder>,
    start: Instant,
    /// `None` once it is in the queue.
    row: Option<Box<CallRecord>>,
    /// Secrets that an upstream may repeat in a message.
    mask: Mask,
    /// Whether it has asked its caller a question.
    is_asking: bool,
}

impl Recording {
    pub(crate) fn begin(
        recorder: &Arc<Recorder>,
        time: Timestamp,
        agent: &Agent,
        via: &Via,
        what: &Subject<'_>,
        arguments: Option<(&Map<String, Value>, Option<&Secrets>)>,
    ) -> Self {
        let of_token = |said: Option<&str>| said.filter(|_| via.means == ShownBy::Token).map(short);
        let kept = arguments.filter(|_| recorder.options.arguments);
        let row = CallRecord {
            time,
            node: Arc::clone(&recorder.node),
            subject: subject(&agent.subject),
            issuer: of_token(agent.issuer()),
            client: of_token(agent.client()),
            means: via.means,
            door: via.door,
            kind: what.kind,
            tool_id: what.tool_id.map(Into::into),
            source_id: what.source_id.map(Into::into),
            status: CallEnd::Cancelled,
            code: None,
            error: None,
            upstream_status: None,
            duration_us: 0,
            argument_bytes: arguments.map_or(0, |(arguments, _)| size(arguments)),
            result_bytes: 0,
            correlation_id: via.correlation_id.clone(),
            trace_id: via.trace.as_ref().map(|trace| trace.trace_id().into()),
            arguments: kept.map(|(arguments, secrets)| redact::arguments(arguments, secrets)),
        };
        let (recorder, row) = (Arc::clone(recorder), Some(Box::new(row)));
        Self { recorder, start: Instant::now(), row, mask: Mask::default(), is_asking: false }
    }

    /// Masks these secrets in an upstream's failure message.
    pub(crate) fn hiding(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
    }

    /// Marks that the call waits for its caller; it ends as cancelled if the caller does not answer.
    pub(crate) fn asking(mut self) -> Self {
        self.is_asking = true;
        self
    }

    /// Finishes the recording of a call.
    pub(crate) async fn end(
        mut self,
        fate: Fate,
        secrets: Option<&Secrets>,
    ) -> Result<(), NotRecorded> {
        match self.done(fate, secrets) {
            Some(row) => self.recorder.take(row).await,
            None => Ok(()),
        }
    }

    /// Finishes the recording from a context that cannot wait.
    pub(crate) fn end_now(mut self, fate: Fate, secrets: Option<&Secrets>) {
        if let Some(row) = self.done(fate, secrets) {
            self.recorder.take_now(row);
        }
    }

    /// Finishes as cancelled because other waiting calls evict it. A later answer cannot be linked to this call.
    pub(crate) fn crowd_out(self) {
        let message = Some(CROWDED_OUT.to_owned());
        let fate = Fate { status: CallEnd::Cancelled, message, ..Fate::completed(0) };
        self.end_now(fate, None);
    }

    /// Discards the recording: the call is made again, and recorded then.
    pub(crate) fn forget(mut self) {
        self.row = None;
    }

    fn done(&mut self, fate: Fate, secrets: Option<&Secrets>) -> Option<Box<CallRecord>> {
        let mut row = self.row.take()?;
        row.status = fate.status;
        row.code = fate.code;
        row.error = fate.message.map(|mut message| {
            self.mask.text(&mut message);
            match secrets {
                Some(secrets) => short(&secrets.redact_beginning(&message, BEGINNING)),
                None => short(&message),
            }
        });
        row.upstream_status = fate.upstream_status;
        row.result_bytes = fate.result_bytes;
        row.duration_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Some(row)
    }
}

impl Drop for Recording {
    /// The caller is gone, or the called code has panicked.
    fn drop(&mut self) {
        let fate = match std::thread::panicking() {
            true => Fate::failed(ErrorCode::InternalError, "the tool panicked"),
            false => {
                let message = self.is_asking.then(|| UNANSWERED.to_owned());
                Fate { status: CallEnd::Cancelled, message, ..Fate::completed(0) }
            }
        };
        if let Some(row) = self.done(fate, None) {
            self.recorder.take_now(row);
        }
    }
}

/// Shortens a subject; different subjects stay different, however long they are.
fn subject(subject: &Arc<str>) -> Arc<str> {
    match subject.len() <= SUBJECT && !subject.contains(char::is_control) {
        true => Arc::clone(subject),
        false => Actor::new(subject).as_str().into(),
    }
}

/// The first line, shortened. PostgreSQL cannot store NUL.
fn short(text: &str) -> Box<str> {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MESSAGE).filter(|c| *c != '\0').collect::<String>().into()
}
