//! Jobs that continue at the upstream after the request was answered (requirement E2): how to poll their status, how
//! often, and what the responses mean.
//!
//! A job is pure: its driver waits, sends the requests and passes in the responses. No upstream can cause endless
//! polling, and all later requests go to the origin of the first one.

mod response_path;
mod status_redirect;

use std::time::{Duration, Instant};

use model::{CallFailure, CallStatus, ErrorCode, Outcome, StatusPolling, ToolId};
use serde_json::{Map, Value};
use upstream::LargeBodyLease;
use upstream::http::Method;
use upstream::http::header::{HeaderMap, LOCATION};
use url::Url;

use self::response_path::ResponsePath;
use self::status_redirect::StatusRedirect;
use crate::response::{masked_json_excerpt, plain_text};
use crate::template::{FollowUpAddress, PreviousResponse};
use crate::{Credentials, RenderedRequest, RetrySafety, TemplateError};

/// The maximum duration of a job, from its first request on.
pub const JOB_DEADLINE: Duration = Duration::from_secs(60 * 60);
/// The maximum duration of a cancel request.
pub const CANCEL_DEADLINE: Duration = Duration::from_secs(10);

/// The longest wait that an upstream can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);
/// The maximum number of consecutive failed polls.
const MAX_FAILED_POLLS: u32 = 5;
/// The maximum length of a reported status, in characters.
const STATUS_CHARS: usize = 80;

/// How to poll the jobs of one tool.
pub(crate) struct JobPolling {
    status: FollowUpAddress,
    /// The path of the status in a response. Without it, the job continues as long as the response is 202.
    status_path: Option<ResponsePath>,
    completed: Vec<Box<str>>,
    failed: Vec<Box<str>>,
    result_path: Option<ResponsePath>,
    first_wait: Duration,
    longest_wait: Duration,
    attempts: u32,
    cancel: Option<(Box<str>, FollowUpAddress)>,
    /// Whether repeating the first request does no harm.
    is_repeatable: bool,
}

/// The reply to a request: the first one of a call, or a poll of its job.
pub struct UpstreamReply {
    /// The outcome, as of any call.
    pub outcome: Outcome,
    pub(crate) url: Option<Url>,
    pub(crate) headers: HeaderMap,
    pub(crate) retry_after: Option<Duration>,
    /// Whether the request may be sent again.
    pub retry_safety: RetrySafety,
    /// Whether the upstream rejected the token, without executing the request.
    pub token_rejected: bool,
    /// Secrets that must not appear in a failure.
    pub(crate) hidden: Credentials,
    /// The permit for a long response of the upstream; hold it as long as the long outcome is in memory.
    pub large: Option<LargeBodyLease>,
}

impl UpstreamReply {
    /// The reply for a request that was not sent.
    pub fn unsent(tool_id: ToolId, failure: CallFailure) -> Self {
        let retry_after = failure.retry_after.map(Duration::from_secs);
        let outcome = Outcome {
            tool_id,
            status: CallStatus::Failed,
            result: None,
            content: Vec::new(),
            error: Some(failure),
            execution_time_ms: 0,
            upstream_status: None,
        };
        Self {
            outcome,
            url: None,
            headers: HeaderMap::new(),
            retry_after,
            retry_safety: RetrySafety::Useless,
            token_rejected: false,
            hidden: Credentials::new(),
            large: None,
        }
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }
}

/// The result of the first response.
pub enum JobStart<'a> {
    /// The call is finished.
    Finished(Box<Outcome>, Option<LargeBodyLease>),
    /// The job continues.
    Running(Box<PolledJob<'a>>),
}

/// The result of a poll.
pub enum PollResult {
    /// The job is finished.
    Finished(Box<Outcome>, Option<LargeBodyLease>),
    /// The status cannot be determined; polling stops.
    Abandoned(Box<Outcome>),
    /// The job continues, with the status that the upstream reports.
    Running(String),
    /// The upstream redirects; the next request continues this poll.
    Redirected,
}

/// A job that continues at the upstream.
pub struct PolledJob<'a> {
    follow: &'a JobPolling,
    state: PolledJobState,
    status: Url,
    /// The target of the next request of this poll, after a redirect.
    redirect: Option<StatusRedirect>,
    cancel: Option<RenderedRequest>,
    wait: Duration,
    retry_after: Option<Duration>,
    polls: u32,
    failed_polls: u32,
}

/// The known facts about a job.
struct PolledJobState {
    tool_id: ToolId,
    start: Instant,
    /// The latest status; empty if there was none.
    status: String,
    upstream_status: Option<u16>,
}

impl JobPolling {
    pub(crate) fn compile(method: &str, polling: &StatusPolling) -> Result<Self, TemplateError> {
        let cancel = polling.cancel.as_ref().map(|cancel| {
            let address = FollowUpAddress::compile(&cancel.url_template)?;
            match model::header_names::is_header_name(&cancel.method) {
                true => Ok((cancel.method.clone(), address)),
                false => {
                    Err(TemplateError::Method { method: cancel.method.escape_debug().collect() })
                }
            }
        });
        let (shortest, longest) = StatusPolling::WAIT_RANGE_MS;
        let (fewest, most) = StatusPolling::ATTEMPTS_RANGE;
        let first = polling.interval_ms.clamp(shortest, longest);
        let longest = polling.max_interval_ms.clamp(first, longest);
        let method = Method::from_bytes(method.as_bytes());
        Ok(Self {
            status: FollowUpAddress::compile(&polling.status_url_template)?,
            status_path: polling.status_path.as_deref().map(ResponsePath::parse),
            completed: polling.completed.clone(),
            failed: polling.failed.clone(),
            result_path: polling.result_path.as_deref().map(ResponsePath::parse),
            first_wait: Duration::from_millis(first.into()),
            longest_wait: Duration::from_millis(longest.into()),
            attempts: polling.attempts.clamp(fewest, most),
            cancel: cancel.transpose()?,
            is_repeatable: method.is_ok_and(|method| method.is_idempotent()),
        })
    }

    /// Handles the response to the first request. The job may be finished already.
    pub(crate) fn start_job(
        &self,
        start: Instant,
        arguments: &Map<String, Value>,
        reply: UpstreamReply,
    ) -> JobStart<'_> {
        if reply.outcome.status == CallStatus::Failed && !self.is_redirect_to_status(&reply) {
            return JobStart::Finished(Box::new(reply.outcome), reply.large);
        }
        let answer = reply.outcome.result.as_ref().unwrap_or(&Value::Null);
        let before = PreviousResponse { answer, headers: &reply.headers };
        let from = reply.url.as_ref();
        let address = |of: &FollowUpAddress| match from {
            Some(from) => of.render(arguments, before, from),
            None => Err(TemplateError::Address { rule: "of the first request is not known" }),
        };
        let known = PolledJobState {
            tool_id: reply.outcome.tool_id.clone(),
            start,
            status: self.status_in(answer),
            upstream_status: reply.outcome.upstream_status,
        };
        if let Some(end) = self.final_outcome(&known, &reply.outcome, &reply.hidden) {
            return JobStart::Finished(Box::new(end), reply.large);
        }
        let status = match address(&self.status) {
            Ok(status) => status,
            // A fast API may return the result at once, with nothing to poll.
            Err(TemplateError::MissingInResponse { .. })
                if known.status.is_empty() && known.upstream_status != Some(202) =>
            {
                return JobStart::Finished(Box::new(reply.outcome), reply.large);
            }
            Err(error) => {
                let message =
                    format!("the work was begun, and nobody can ask how it goes: {error}");
                let failed = known.failed_outcome(ErrorCode::PollFailed, message, false);
                return JobStart::Finished(Box::new(failed), None);
            }
        };
        // A job that cannot be cancelled is still polled.
        let cancel = self.cancel.as_ref().and_then(|(method, of)| {
            let url = address(of).ok()?;
            Some(RenderedRequest {
                method: method.to_string(),
                url,
                headers: Vec::new(),
                body: None,
            })
        });
        JobStart::Running(Box::new(PolledJob {
            follow: self,
            state: known,
            status,
            redirect: None,
            cancel,
            wait: self.first_wait,
            retry_after: reply.retry_after.map(|wait| wait.min(MAX_RETRY_AFTER)),
            polls: 0,
            failed_polls: 0,
        }))
    }

    /// Whether the first response is only a redirect to the status.
    fn is_redirect_to_status(&self, reply: &UpstreamReply) -> bool {
        let is_see_other = reply.outcome.upstream_status == Some(303);
        is_see_other && reply.location().is_some() && self.status.is_location()
    }

    /// The status in a response; empty if there is none.
    fn status_in(&self, answer: &Value) -> String {
        match self.status_path.as_ref().and_then(|path| path.find_value(answer)) {
            Some(Value::String(text)) => plain_text(text).chars().take(STATUS_CHARS).collect(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(word)) => word.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
        }
    }

    /// The final outcome, if the status says that the job has ended.
    fn final_outcome(
        &self,
        known: &PolledJobState,
        last: &Outcome,
        hidden: &Credentials,
    ) -> Option<Outcome> {
        let is_among = |words: &[Box<str>]| words.iter().any(|word| **word == *known.status);
        if known.status.is_empty() {
            return None;
        }
        if is_among(&self.failed) {
            let said = masked_json_excerpt(last.result.as_ref().unwrap_or(&Value::Null), hidden);
            let message = format!("the upstream says that the work failed: {said}");
            return Some(known.failed_outcome(ErrorCode::PollFailed, message, false));
        }
        is_among(&self.completed).then(|| self.completed_outcome(known, last))
    }

    /// The outcome of a completed job, from its last response.
    fn completed_outcome(&self, known: &PolledJobState, last: &Outcome) -> Outcome {
        let result = match &self.result_path {
            None => last.result.clone(),
            Some(path) => {
                let Some(result) = last.result.as_ref().and_then(|answer| path.find_value(answer))
                else {
                    let message =
                        format!("the work is done, and its answer has no result at `{path}`");
                    return known.failed_outcome(ErrorCode::PollFailed, message, false);
                };
                Some(result.clone())
            }
        };
        let content = last.content.clone();
        Outcome {
            status: CallStatus::Completed,
            result,
            content,
            error: None,
            ..known.empty_outcome()
        }
    }
}

impl PolledJob<'_> {
    /// The wait before the next poll; `None` if the maximum number of polls is reached.
    pub fn next_wait(&mut self) -> Option<Duration> {
        if self.redirect.is_some() {
            return Some(self.retry_after.take().unwrap_or_default());
        }
        if self.follow.attempts <= self.polls {
            return None;
        }
        self.polls += 1;
        let wait = self.wait.max(self.retry_after.take().unwrap_or_default());
        self.wait = (self.wait * 3 / 2).min(self.follow.longest_wait);
        Some(wait)
    }

    /// The number of polls so far.
    pub fn poll_count(&self) -> u32 {
        self.polls
    }

    /// The request for the status.
    pub fn status_request(&self) -> RenderedRequest {
        let accept = ("Accept".to_owned(), "application/json".to_owned());
        let url = self.redirect.as_ref().map_or(&self.status, |elsewhere| &elsewhere.url);
        let (method, url) = ("GET".to_owned(), url.clone());
        RenderedRequest { method, url, headers: vec![accept], body: None }
    }

    /// The request that cancels the job, if it can be cancelled.
    pub fn cancel_request(&self) -> Option<RenderedRequest> {
        self.cancel.clone()
    }

    /// Handles the reply to a poll.
    pub fn handle_reply(&mut self, reply: UpstreamReply) -> PollResult {
        self.state.upstream_status = reply.outcome.upstream_status.or(self.state.upstream_status);
        self.retry_after = reply.retry_after.map(|wait| wait.min(MAX_RETRY_AFTER));
        let was_sent_on = self.redirect.take();
        self.redirect = StatusRedirect::from_reply(&reply, was_sent_on.as_ref());
        if self.redirect.is_some() {
            return PollResult::Redirected;
        }
        let last = reply.outcome;
        if let Some(failure) = last.error {
            return self.handle_failed_poll(failure, last.upstream_status);
        }
        self.failed_polls = 0;
        self.state.status = self.follow.status_in(last.result.as_ref().unwrap_or(&Value::Null));
        let is_past =
            self.follow.status_path.is_none() || was_sent_on.is_some_and(|it| it.is_result);
        let is_result =
            is_past && self.state.status.is_empty() && last.upstream_status != Some(202);
        let end = match is_result {
            true => Some(self.follow.completed_outcome(&self.state, &last)),
            false => self.follow.final_outcome(&self.state, &last, &reply.hidden),
        };
        match end {
            Some(end) => PollResult::Finished(Box::new(end), reply.large),
            None => PollResult::Running(self.state.status.clone()),
        }
    }

    /// Handles a failed poll: a single failure says nothing about the job; repeated ones end the polling.
    fn handle_failed_poll(&mut self, failure: CallFailure, status: Option<u16>) -> PollResult {
        let is_passing = match (failure.code, status) {
            // Our own limits prevented the request.
            (ErrorCode::RateLimited | ErrorCode::CircuitOpen, _) => {
                return PollResult::Running(failure.message);
            }
            (
                ErrorCode::UpstreamTimeout
                | ErrorCode::UpstreamConnectionError
                | ErrorCode::TokenExchangeFailed
                | ErrorCode::ClientCredentialsFailed,
                _,
            ) => failure.retryable,
            // A new job may not be known to all nodes of the upstream yet.
            (_, Some(404 | 408 | 425 | 429 | 500..)) => true,
            _ => false,
        };
        self.failed_polls += 1;
        if is_passing && self.failed_polls < MAX_FAILED_POLLS {
            return PollResult::Running(failure.message);
        }
        let message = format!("nobody can say how the work goes: {}", failure.message);
        let can_repeat = is_passing && self.follow.is_repeatable;
        PollResult::Abandoned(Box::new(self.state.failed_outcome(
            ErrorCode::PollFailed,
            message,
            can_repeat,
        )))
    }

    /// The outcome if the agent lost access to the tool.
    pub fn revoked_outcome(&self) -> Outcome {
        let message = "the tool was taken away while it worked: what came of it is not looked at";
        self.state.failed_outcome(ErrorCode::NotGranted, message.to_owned(), false)
    }

    /// The outcome if the source now has another address or other credentials.
    pub fn source_changed_outcome(&self) -> Outcome {
        let message = "the source was changed while it worked: what came of it is not looked at";
        let is_repeatable = self.follow.is_repeatable;
        self.state.failed_outcome(ErrorCode::PollFailed, message.to_owned(), is_repeatable)
    }

    /// The outcome if the job took too long or too many polls.
    pub fn timeout_outcome(&self) -> Outcome {
        let said = match (&self.follow.status_path, &self.state.status) {
            (None, _) => "it is still answered with 202".to_owned(),
            (Some(path), word) if word.is_empty() => format!("there is no status at `{path}`"),
            (Some(_), word) => format!("its status is `{word}`"),
        };
        let message = format!("the work did not end in time after {} looks: {said}", self.polls);
        self.state.failed_outcome(ErrorCode::PollTimeout, message, self.follow.is_repeatable)
    }
}

impl PolledJobState {
    fn failed_outcome(&self, code: ErrorCode, message: String, retryable: bool) -> Outcome {
        Outcome { error: Some(CallFailure::new(code, message, retryable)), ..self.empty_outcome() }
    }

    fn empty_outcome(&self) -> Outcome {
        Outcome {
            tool_id: self.tool_id.clone(),
            status: CallStatus::Failed,
            result: None,
            content: Vec::new(),
            error: None,
            execution_time_ms: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
            upstream_status: self.upstream_status,
        }
    }
}

#[cfg(test)]
mod tests;
