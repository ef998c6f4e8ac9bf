//! Records calls in the call log: caller, tool, arguments and result.

use catalog::record::CallEnd;
use execution::Mask;
use model::{CallStatus, Content, ErrorCode, Failure, Primitive, SourceId, ToolResult};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::done::{Called, Done, DoneBy, code_of, said};
use super::source_of;
use crate::call::{CallContext, NoAnswer};
use crate::credentials::{Whose, forwarded};
use crate::record::{Fate, Recording, Subject};
use crate::telemetry::CallOutcome;
use crate::view::tool::Origin;
use crate::view::{AgentView, NotFound, ViewedTool};
use model::json_size::size;

impl AgentView {
    /// Begins the record of a tool call; `None` if nothing is recorded.
    pub(super) fn recording(
        &self,
        tool: &ViewedTool,
        arguments: &Map<String, Value>,
    ) -> Option<Recording> {
        self.crib.recorder()?;
        let of_another;
        let id = match tool.origin() {
            Origin::Catalog(entry) => entry.tool.id.as_str(),
            Origin::Provider(..) | Origin::Meta(_) => {
                of_another = tool.known_as();
                of_another.as_str()
            }
        };
        let (tool_id, source_id) = (Some(id), Some(source_of(tool)));
        self.begin(&Subject { kind: Primitive::Tool, tool_id, source_id }, Some(arguments))
    }

    /// Begins a record; `None` if nothing is recorded.
    pub(in crate::view) fn begin(
        &self,
        what: &Subject<'_>,
        arguments: Option<&Map<String, Value>>,
    ) -> Option<Recording> {
        let recorder = self.crib.recorder()?;
        let arguments = arguments.map(|arguments| (arguments, self.crib.secrets()));
        let now = self.crib.now();
        let recording = Recording::begin(recorder, now, &self.agent, &self.via, what, arguments);
        Some(recording.hiding(self.mask_of_forwarded(what.source_id)))
    }

    /// Masks the agent's own request headers that are forwarded to the source: an upstream may echo them.
    fn mask_of_forwarded(&self, source: Option<&str>) -> Mask {
        let id = source.and_then(|source| source.parse().ok());
        let source = id.and_then(|id: SourceId| self.snapshot.source(&id));
        let Some(source) = source.filter(|it| !it.source.profile.forward_headers.is_empty()) else {
            return Mask::default();
        };
        let passed = forwarded(&source.source.profile, Whose::Agent(&self.agent, &self.came_with));
        let passed: Vec<_> = passed.into_iter().map(|(_, value)| value.into()).collect();
        Mask::of(&passed)
    }

    /// Records the call of a tool that this agent does not have, unless the agent is over its call limit.
    pub fn record_missing(&self, missing: &NotFound) {
        self.crib.telemetry().missing(Primitive::Tool);
        if self.counted().is_err() {
            return;
        }
        let what = Subject { kind: Primitive::Tool, tool_id: None, source_id: None };
        if let Some(recording) = self.begin(&what, None) {
            let fate = Fate::failed(ErrorCode::NotGranted, &missing.to_string());
            recording.end_now(fate, self.crib.secrets());
        }
    }

    /// Suspends the record of a call that asked its caller. The repeated call completes it; if none comes, it is
    /// recorded as cancelled.
    pub(in crate::view) fn asked(&self, recording: Recording, call: &CallContext) {
        if let Some(recorder) = self.crib.recorder() {
            call.remember_row(recorder.asked(&self.agent, recording));
        }
    }

    /// Resumes the record of a call that asked before, so that both rounds share one row.
    pub(in crate::view) fn made_again(&self, call: &CallContext) {
        if let (Some(recorder), Some(row)) = (self.crib.recorder(), call.remembered_row()) {
            recorder.answered(&self.agent, row);
        }
    }

    /// Ends a record. In strict mode, a result that could not be recorded is withheld.
    pub(super) async fn ended(
        &self,
        (tool, start): (&ViewedTool, Instant),
        recording: Recording,
        called: Called,
        call: &CallContext,
    ) -> Called {
        let fate = match &called {
            Called::Asks(_) => {
                self.asked(recording, call);
                return called;
            }
            Called::Done(done) => fate(done),
            Called::Unable(ability) => {
                Fate::failed(ErrorCode::BuiltinError, &NoAnswer::Unable(*ability).to_string())
            }
            Called::Error { message, as_ours, .. } => Fate::failed(*as_ours, message),
        };
        match recording.end(fate, self.crib.secrets()).await {
            Ok(()) => called,
            // In the default mode, only the log reports a lost record.
            Err(_) if !self.crib.records_strictly() => called,
            Err(_) => {
                let message = "the tool was called, and that could not be recorded: what came of it is held back";
                let by = DoneBy::Nobody(super::refused(message));
                Called::Done(Box::new(Done { tool_id: tool.known_as(), start, by }))
            }
        }
    }
}

/// Failure of strict mode: a call that cannot be recorded is not made.
pub(super) fn unrecordable() -> Failure {
    let message = "calls cannot be recorded just now, and nothing is called without".to_owned();
    Failure::new(ErrorCode::InternalError, message, true)
}

/// The outcome for telemetry; it matches the call log.
pub(super) fn outcome(called: &Called) -> CallOutcome {
    let done = match called {
        Called::Asks(_) => return CallOutcome::Asked,
        Called::Unable(_) => return CallOutcome::Failed(ErrorCode::BuiltinError),
        Called::Error { as_ours, .. } => return CallOutcome::Failed(*as_ours),
        Called::Done(done) => done,
    };
    let code = match &done.by {
        DoneBy::Nobody(failure) => Some(failure.code),
        DoneBy::Upstream(outcome, _) => match (&outcome.error, outcome.status) {
            (Some(failure), _) => Some(failure.code),
            (None, CallStatus::Failed) => Some(ErrorCode::UpstreamError),
            (None, CallStatus::Completed) => None,
        },
        DoneBy::Here(result) => code_of(result),
        DoneBy::Mcp { result, .. } => {
            let is_error = result.get("isError") == Some(&Value::Bool(true));
            is_error.then_some(ErrorCode::UpstreamError)
        }
    };
    code.map_or(CallOutcome::Completed, CallOutcome::Failed)
}

fn fate(done: &Done) -> Fate {
    match &done.by {
        DoneBy::Nobody(failure) => Fate::failed(failure.code, &failure.in_full()),
        DoneBy::Upstream(outcome, _) => {
            let result = outcome.result.as_ref().map_or(0, size);
            let content = if outcome.content.is_empty() { 0 } else { size(&outcome.content) };
            let fate = match (&outcome.error, outcome.status) {
                (Some(failure), _) => Fate::failed(failure.code, &failure.in_full()),
                (None, CallStatus::Completed) => Fate::completed(0),
                (None, CallStatus::Failed) => {
                    Fate { status: CallEnd::Failed, ..Fate::completed(0) }
                }
            };
            let upstream_status = outcome.upstream_status;
            Fate { upstream_status, result_bytes: result + content, ..fate }
        }
        DoneBy::Here(result) => {
            let fate = match code_of(result) {
                Some(code) => Fate::failed(code, &text_of(result)),
                None => Fate::completed(0),
            };
            Fate { result_bytes: size(result), ..fate }
        }
        DoneBy::Mcp { result, .. } => {
            let content = result.get("content").and_then(Value::as_array);
            let text = || {
                content.and_then(|parts| parts.iter().find_map(|part| part.get("text")?.as_str()))
            };
            let fate = match result.get("isError") {
                Some(Value::Bool(true)) => {
                    Fate::failed(ErrorCode::UpstreamError, &said(text().map(str::to_owned)))
                }
                _ => Fate::completed(0),
            };
            Fate { result_bytes: size(result), ..fate }
        }
    }
}

fn text_of(result: &ToolResult) -> String {
    said(result.content.iter().find_map(|content| match content {
        Content::Text { text } => Some(text.clone()),
        _ => None,
    }))
}
