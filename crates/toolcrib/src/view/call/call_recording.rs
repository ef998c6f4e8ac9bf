//! Records calls in the call log: caller, tool, arguments and result.

use call_log::FinalCallStatus;
use calls::call_recorder::{CallRecording, CallSubject, RecordedOutcome};
use calls::telemetry::CallOutcome;
use calls::upstream_credentials::{OnBehalfOf, forwarded_headers};
use execution::CredentialMask;
use json::json_size::serialized_size;
use model::{CallFailure, CallStatus, Content, ErrorCode, McpPrimitive, SourceId, ToolResult};
use provider::{CallContext, InputError};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::call_result::{
    CallResult, CompletedCall, RawCallResult, error_text_or_default, result_error_code,
};
use super::source_label;
use crate::view::{AgentView, ToolLookupError, ViewedTool};
use crate::viewed_tool::ToolOrigin;

impl AgentView {
    /// Begins the record of a tool call; `None` if nothing is recorded.
    pub(super) fn begin_tool_recording(
        &self,
        tool: &ViewedTool,
        arguments: &Map<String, Value>,
    ) -> Option<CallRecording> {
        self.crib.recorder()?;
        let of_another;
        let id = match tool.origin() {
            ToolOrigin::Catalog(entry) => entry.tool.id.as_str(),
            ToolOrigin::Provider(..) | ToolOrigin::Meta(_) => {
                of_another = tool.reported_id();
                of_another.as_str()
            }
        };
        let (tool_id, source_id) = (Some(id), Some(source_label(tool)));
        self.begin_recording(
            &CallSubject { kind: McpPrimitive::Tool, tool_id, source_id },
            Some(arguments),
        )
    }

    /// Begins a record; `None` if nothing is recorded.
    pub(in crate::view) fn begin_recording(
        &self,
        what: &CallSubject<'_>,
        arguments: Option<&Map<String, Value>>,
    ) -> Option<CallRecording> {
        let recorder = self.crib.recorder()?;
        let arguments = arguments.map(|arguments| (arguments, self.crib.secrets()));
        let now = self.crib.now();
        let recording =
            CallRecording::begin(recorder, now, &self.agent, &self.via, what, arguments);
        Some(recording.with_mask(self.forwarded_header_mask(what.source_id)))
    }

    /// Masks the agent's own request headers that are forwarded to the source: an upstream may echo them.
    fn forwarded_header_mask(&self, source: Option<&str>) -> CredentialMask {
        let id = source.and_then(|source| source.parse().ok());
        let source = id.and_then(|id: SourceId| self.snapshot.source(&id));
        let Some(source) = source.filter(|it| !it.source.profile.forward_headers.is_empty()) else {
            return CredentialMask::default();
        };
        let passed = forwarded_headers(
            &source.source.profile,
            OnBehalfOf::Agent(&self.agent, &self.request_credentials),
        );
        let passed: Vec<_> = passed.into_iter().map(|(_, value)| value.into()).collect();
        CredentialMask::from_secrets(&passed)
    }

    /// Records the call of a tool that this agent does not have, unless the agent is over its call limit.
    pub fn record_missing_tool(&self, missing: &ToolLookupError) {
        self.crib.telemetry().record_missing(McpPrimitive::Tool);
        if self.count_call().is_err() {
            return;
        }
        let what = CallSubject { kind: McpPrimitive::Tool, tool_id: None, source_id: None };
        if let Some(recording) = self.begin_recording(&what, None) {
            let fate = RecordedOutcome::failed(ErrorCode::NotGranted, &missing.to_string());
            recording.finish_now(fate, self.crib.secrets());
        }
    }

    /// Suspends the record of a call that asked its caller. The repeated call completes it; if none comes, it is
    /// recorded as cancelled.
    pub(in crate::view) fn suspend_recording(&self, recording: CallRecording, call: &CallContext) {
        if let Some(recorder) = self.crib.recorder() {
            call.save_suspended_row(recorder.park_recording(&self.agent, recording));
        }
    }

    /// Resumes the record of a call that asked before, so that both rounds share one row.
    pub(in crate::view) fn resume_recording(&self, call: &CallContext) {
        if let (Some(recorder), Some(row)) = (self.crib.recorder(), call.suspended_row()) {
            recorder.discard_parked(&self.agent, row);
        }
    }

    /// Ends a record. In strict mode, a result that could not be recorded is withheld.
    pub(super) async fn finish_recording(
        &self,
        (tool, start): (&ViewedTool, Instant),
        recording: CallRecording,
        called: CallResult,
        call: &CallContext,
    ) -> CallResult {
        let fate = match &called {
            CallResult::InputRequired(_) => {
                self.suspend_recording(recording, call);
                return called;
            }
            CallResult::Completed(done) => call_fate(done),
            CallResult::MissingCapability(ability) => RecordedOutcome::failed(
                ErrorCode::BuiltinError,
                &InputError::Unsupported(*ability).to_string(),
            ),
            CallResult::ProtocolError { message, error_code: as_ours, .. } => {
                RecordedOutcome::failed(*as_ours, message)
            }
        };
        match recording.finish(fate, self.crib.secrets()).await {
            Ok(()) => called,
            // In the default mode, only the log reports a lost record.
            Err(_) if !self.crib.records_strictly() => called,
            Err(_) => {
                let message = "the tool was called, and that could not be recorded: what came of it is held back";
                let by = RawCallResult::Failed(calls::call_failures::internal_failure(message));
                CallResult::Completed(Box::new(CompletedCall {
                    tool_id: tool.reported_id(),
                    start,
                    raw: by,
                }))
            }
        }
    }
}

/// Failure of strict mode: a call that cannot be recorded is not made.
pub(super) fn recording_unavailable() -> CallFailure {
    let message = "calls cannot be recorded just now, and nothing is called without".to_owned();
    CallFailure::new(ErrorCode::InternalError, message, true)
}

/// The outcome for telemetry; it matches the call log.
pub(super) fn telemetry_outcome(called: &CallResult) -> CallOutcome {
    let done = match called {
        CallResult::InputRequired(_) => return CallOutcome::Asked,
        CallResult::MissingCapability(_) => return CallOutcome::Failed(ErrorCode::BuiltinError),
        CallResult::ProtocolError { error_code: as_ours, .. } => {
            return CallOutcome::Failed(*as_ours);
        }
        CallResult::Completed(done) => done,
    };
    let code = match &done.raw {
        RawCallResult::Failed(failure) => Some(failure.code),
        RawCallResult::Upstream(outcome, _) => match (&outcome.error, outcome.status) {
            (Some(failure), _) => Some(failure.code),
            (None, CallStatus::Failed) => Some(ErrorCode::UpstreamError),
            (None, CallStatus::Completed) => None,
        },
        RawCallResult::Local(result) => result_error_code(result),
        RawCallResult::Mcp { result, .. } => {
            let is_error = result.get("isError") == Some(&Value::Bool(true));
            is_error.then_some(ErrorCode::UpstreamError)
        }
    };
    code.map_or(CallOutcome::Completed, CallOutcome::Failed)
}

fn call_fate(done: &CompletedCall) -> RecordedOutcome {
    match &done.raw {
        RawCallResult::Failed(failure) => {
            RecordedOutcome::failed(failure.code, &failure.full_message())
        }
        RawCallResult::Upstream(outcome, _) => {
            let result = outcome.result.as_ref().map_or(0, serialized_size);
            let content =
                if outcome.content.is_empty() { 0 } else { serialized_size(&outcome.content) };
            let fate = match (&outcome.error, outcome.status) {
                (Some(failure), _) => {
                    RecordedOutcome::failed(failure.code, &failure.full_message())
                }
                (None, CallStatus::Completed) => RecordedOutcome::completed(0),
                (None, CallStatus::Failed) => RecordedOutcome {
                    status: FinalCallStatus::Failed,
                    ..RecordedOutcome::completed(0)
                },
            };
            let upstream_status = outcome.upstream_status;
            RecordedOutcome { upstream_status, result_bytes: result + content, ..fate }
        }
        RawCallResult::Local(result) => {
            let fate = match result_error_code(result) {
                Some(code) => RecordedOutcome::failed(code, &result_error_text(result)),
                None => RecordedOutcome::completed(0),
            };
            RecordedOutcome { result_bytes: serialized_size(result), ..fate }
        }
        RawCallResult::Mcp { result, .. } => {
            let content = result.get("content").and_then(Value::as_array);
            let text = || {
                content.and_then(|parts| parts.iter().find_map(|part| part.get("text")?.as_str()))
            };
            let fate = match result.get("isError") {
                Some(Value::Bool(true)) => RecordedOutcome::failed(
                    ErrorCode::UpstreamError,
                    &error_text_or_default(text().map(str::to_owned)),
                ),
                _ => RecordedOutcome::completed(0),
            };
            RecordedOutcome { result_bytes: serialized_size(result), ..fate }
        }
    }
}

fn result_error_text(result: &ToolResult) -> String {
    error_text_or_default(result.content.iter().find_map(|content| match content {
        Content::Text { text } => Some(text.clone()),
        _ => None,
    }))
}
