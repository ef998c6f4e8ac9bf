//! The recording of one call: begun before the call, finished once. A recording that is dropped unfinished counts as
//! cancelled.

use std::sync::Arc;
use std::time::Instant;

use call_log::{CallEndpoint, CallRecord, CallerCredentialKind, FinalCallStatus};
use execution::CredentialMask;
use jiff::Timestamp;
use json::json_size::serialized_size;
use model::{Actor, Agent, ErrorCode, McpPrimitive, TraceContext};
use serde_json::{Map, Value};

use super::{CallRecorder, RecordingFailed, redacted_arguments};
use crate::secrets::SecretStore;

/// The longest subject that is recorded unchanged, in bytes.
const MAX_SUBJECT_BYTES: usize = 200;
/// The longest message that is recorded, in characters.
const MAX_MESSAGE_CHARS: usize = 200;
/// The bytes of a message to redact before it is shortened: a secret may be longer than the text that replaces it.
const REDACTED_PREFIX_BYTES: usize = 2_000;

/// The message of a call whose caller never answered the tool's question.
const UNANSWERED: &str = "the tool asked its caller, who did not come again with an answer";
/// The message of a call that was evicted because too many others wait for their callers.
const CROWDED_OUT: &str = "the tool asked its caller, and so many others did that it is not remembered; an answer is another row";

/// The origin of a call, for the call log and for upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOrigin {
    /// The endpoint that received the call.
    pub door: CallEndpoint,
    /// The kind of credential that the caller presented.
    pub means: CallerCredentialKind,
    /// The id of the request.
    pub correlation_id: Option<Box<str>>,
    /// The trace of the request. It is passed on to upstreams.
    pub trace: Option<TraceContext>,
}

/// The tool, prompt or resource that is called.
pub struct CallSubject<'a> {
    pub kind: McpPrimitive,
    pub tool_id: Option<&'a str>,
    pub source_id: Option<&'a str>,
}

/// The outcome of a call, as it is recorded.
pub struct RecordedOutcome {
    pub status: FinalCallStatus,
    pub code: Option<ErrorCode>,
    pub message: Option<String>,
    pub upstream_status: Option<u16>,
    pub result_bytes: u64,
}

impl RecordedOutcome {
    pub fn completed(result_bytes: u64) -> Self {
        let status = FinalCallStatus::Completed;
        Self { status, code: None, message: None, upstream_status: None, result_bytes }
    }

    pub fn failed(code: ErrorCode, message: &str) -> Self {
        // A validation message may quote the arguments.
        let message = match code {
            ErrorCode::ValidationError => "the arguments do not fit the schema",
            _ => message,
        };
        let (status, message) = (FinalCallStatus::Failed, Some(message.to_owned()));
        Self { status, code: Some(code), message, upstream_status: None, result_bytes: 0 }
    }
}

/// A call while it is recorded.
pub struct CallRecording {
    recorder: Arc<CallRecorder>,
    start: Instant,
    /// `None` once it is in the queue.
    row: Option<Box<CallRecord>>,
    /// Secrets that an upstream may repeat in a message.
    mask: CredentialMask,
    /// Whether it has asked its caller a question.
    is_asking: bool,
}

impl CallRecording {
    pub fn begin(
        recorder: &Arc<CallRecorder>,
        time: Timestamp,
        agent: &Agent,
        via: &CallOrigin,
        what: &CallSubject<'_>,
        arguments: Option<(&Map<String, Value>, Option<&SecretStore>)>,
    ) -> Self {
        let of_token = |said: Option<&str>| {
            said.filter(|_| via.means == CallerCredentialKind::Token).map(bounded_line)
        };
        let kept = arguments.filter(|_| recorder.options.arguments);
        let row = CallRecord {
            time,
            node: Arc::clone(&recorder.node),
            subject: bounded_subject(&agent.subject),
            issuer: of_token(agent.issuer()),
            client: of_token(agent.client()),
            means: via.means,
            door: via.door,
            kind: what.kind,
            tool_id: what.tool_id.map(Into::into),
            source_id: what.source_id.map(Into::into),
            status: FinalCallStatus::Cancelled,
            code: None,
            error: None,
            upstream_status: None,
            duration_us: 0,
            argument_bytes: arguments.map_or(0, |(arguments, _)| serialized_size(arguments)),
            result_bytes: 0,
            correlation_id: via.correlation_id.clone(),
            trace_id: via.trace.as_ref().map(|trace| trace.trace_id().into()),
            arguments: kept.map(|(arguments, secrets)| {
                redacted_arguments::redact_arguments(arguments, secrets)
            }),
        };
        let (recorder, row) = (Arc::clone(recorder), Some(Box::new(row)));
        Self {
            recorder,
            start: Instant::now(),
            row,
            mask: CredentialMask::default(),
            is_asking: false,
        }
    }

    /// Masks these secrets in an upstream's failure message.
    pub fn with_mask(mut self, mask: CredentialMask) -> Self {
        self.mask = mask;
        self
    }

    /// Marks that the call waits for its caller; it ends as cancelled if the caller does not answer.
    pub(crate) fn awaiting_caller(mut self) -> Self {
        self.is_asking = true;
        self
    }

    /// Finishes the recording of a call.
    pub async fn finish(
        mut self,
        fate: RecordedOutcome,
        secrets: Option<&SecretStore>,
    ) -> Result<(), RecordingFailed> {
        match self.take_row(fate, secrets) {
            Some(row) => self.recorder.record_row(row).await,
            None => Ok(()),
        }
    }

    /// Finishes the recording from a context that cannot wait.
    pub fn finish_now(mut self, fate: RecordedOutcome, secrets: Option<&SecretStore>) {
        if let Some(row) = self.take_row(fate, secrets) {
            self.recorder.record_row_now(row);
        }
    }

    /// Finishes as cancelled because other waiting calls evict it. A later answer cannot be linked to this call.
    pub(crate) fn finish_evicted(self) {
        let message = Some(CROWDED_OUT.to_owned());
        let fate = RecordedOutcome {
            status: FinalCallStatus::Cancelled,
            message,
            ..RecordedOutcome::completed(0)
        };
        self.finish_now(fate, None);
    }

    /// Discards the recording: the call is made again, and recorded then.
    pub fn discard(mut self) {
        self.row = None;
    }

    fn take_row(
        &mut self,
        fate: RecordedOutcome,
        secrets: Option<&SecretStore>,
    ) -> Option<Box<CallRecord>> {
        let mut row = self.row.take()?;
        row.status = fate.status;
        row.code = fate.code;
        row.error = fate.message.map(|mut message| {
            self.mask.mask_text(&mut message);
            match secrets {
                Some(secrets) => {
                    bounded_line(&secrets.redact_beginning(&message, REDACTED_PREFIX_BYTES))
                }
                None => bounded_line(&message),
            }
        });
        row.upstream_status = fate.upstream_status;
        row.result_bytes = fate.result_bytes;
        row.duration_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Some(row)
    }
}

impl Drop for CallRecording {
    /// The caller is gone, or the called code has panicked.
    fn drop(&mut self) {
        let fate = match std::thread::panicking() {
            true => RecordedOutcome::failed(ErrorCode::InternalError, "the tool panicked"),
            false => {
                let message = self.is_asking.then(|| UNANSWERED.to_owned());
                RecordedOutcome {
                    status: FinalCallStatus::Cancelled,
                    message,
                    ..RecordedOutcome::completed(0)
                }
            }
        };
        if let Some(row) = self.take_row(fate, None) {
            self.recorder.record_row_now(row);
        }
    }
}

/// Shortens a subject; different subjects stay different, however long they are.
fn bounded_subject(subject: &Arc<str>) -> Arc<str> {
    match subject.len() <= MAX_SUBJECT_BYTES && !subject.contains(char::is_control) {
        true => Arc::clone(subject),
        false => Actor::new(subject).as_str().into(),
    }
}

/// The first line, shortened. PostgreSQL cannot store NUL.
fn bounded_line(text: &str) -> Box<str> {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MAX_MESSAGE_CHARS).filter(|c| *c != '\0').collect::<String>().into()
}
