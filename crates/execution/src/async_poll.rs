//! Jobs that continue at the upstream after the request was answered (requirement E2): how to poll their status, how
//! often, and what the responses mean.
//!
//! A job is pure: its driver waits, sends the requests and passes in the responses. No upstream can cause endless
//! polling, and all later requests go to the origin of the first one.

mod elsewhere;
mod path;

use std::time::{Duration, Instant};

use model::{CallStatus, ErrorCode, Failure, Outcome, Polling, ToolId};
use serde_json::{Map, Value};
use upstream::Large;
use upstream::http::Method;
use upstream::http::header::{HeaderMap, LOCATION};
use url::Url;

use self::elsewhere::Elsewhere;
use self::path::Path;
use crate::answer::{beginning_of, plain_text};
use crate::template::{Before, NextAddress};
use crate::{Again, Credentials, Request, TemplateError};

/// The maximum duration of a job, from its first request on.
pub const JOB_DEADLINE: Duration = Duration::from_secs(60 * 60);
/// The maximum duration of a cancel request.
pub const CANCEL_DEADLINE: Duration = Duration::from_secs(10);

/// The longest wait that an upstream can request.
const RETRY_AFTER: Duration = Duration::from_secs(5 * 60);
/// The maximum number of consecutive failed polls.
const FAILED_LOOKS: u32 = 5;
/// The maximum length of a reported status, in characters.
const WORD: usize = 80;

/// How to poll the jobs of one tool.
pub(crate) struct Follow {
    status: NextAddress,
    /// The path of the status in a response. Without it, the job continues as long as the response is 202.
    status_path: Option<Path>,
    completed: Vec<Box<str>>,
    failed: Vec<Box<str>>,
    result_path: Option<Path>,
    first_wait: Duration,
    longest_wait: Duration,
    attempts: u32,
    cancel: Option<(Box<str>, NextAddress)>,
    /// Whether repeating the first request does no harm.
    is_repeatable: bool,
}

/// The reply to a request: the first one of a call, or a poll of its job.
pub struct Reply {
    /// The outcome, as of any call.
    pub outcome: Outcome,
    pub(crate) url: Option<Url>,
    pub(crate) headers: HeaderMap,
    pub(crate) retry_after: Option<Duration>,
    /// Whether the request may be sent again.
    pub again: Again,
    /// Whether the upstream rejected the token, without executing the request.
    pub refuses_token: bool,
    /// Secrets that must not appear in a failure.
    pub(crate) hidden: Credentials,
    /// The permit for a long response of the upstream; hold it as long as the long outcome is in memory.
    pub large: Option<Large>,
}

impl Reply {
    /// The reply for a request that was not sent.
    pub fn unsent(tool_id: ToolId, failure: Failure) -> Self {
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
            again: Again::InVain,
            refuses_token: false,
            hidden: Credentials::new(),
            large: None,
        }
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }
}

/// The result of the first response.
pub enum Begun<'a> {
    /// The call is finished.
    Over(Box<Outcome>, Option<Large>),
    /// The job continues.
    Goes(Box<Job<'a>>),
}

/// The result of a poll.
pub enum Looked {
    /// The job is finished.
    Over(Box<Outcome>, Option<Large>),
    /// The status cannot be determined; polling stops.
    GivenUp(Box<Outcome>),
    /// The job continues, with the status that the upstream reports.
    Goes(String),
    /// The upstream redirects; the next request continues this poll.
    SentOn,
}

/// A job that continues at the upstream.
pub struct Job<'a> {
    follow: &'a Follow,
    known: Known,
    status: Url,
    /// The target of the next request of this poll, after a redirect.
    elsewhere: Option<Elsewhere>,
    cancel: Option<Request>,
    wait: Duration,
    asked_to_wait: Option<Duration>,
    looks: u32,
    failed_looks: u32,
}

/// The known facts about a job.
struct Known {
    tool_id: ToolId,
    start: Instant,
    /// The latest status; empty if there was none.
    word: String,
    upstream_status: Option<u16>,
}

impl Follow {
    pub(crate) fn compile(method: &str, polling: &Polling) -> Result<Self, TemplateError> {
        let cancel = polling.cancel.as_ref().map(|cancel| {
            let address = NextAddress::compile(&cancel.url_template)?;
            match model::header::is_token(&cancel.method) {
                true => Ok((cancel.method.clone(), address)),
                false => {
                    Err(TemplateError::Method { method: cancel.method.escape_debug().collect() })
                }
            }
        });
        let (shortest, longest) = Polling::WAITS_MS;
        let (fewest, most) = Polling::RANGE_OF_ATTEMPTS;
        let first = polling.interval_ms.clamp(shortest, longest);
        let longest = polling.max_interval_ms.clamp(first, longest);
        let method = Method::from_bytes(method.as_bytes());
        Ok(Self {
            status: NextAddress::compile(&polling.status_url_template)?,
            status_path: polling.status_path.as_deref().map(Path::read),
            completed: polling.completed.clone(),
            failed: polling.failed.clone(),
            result_path: polling.result_path.as_deref().map(Path::read),
            first_wait: Duration::from_millis(first.into()),
            longest_wait: Duration::from_millis(longest.into()),
            attempts: polling.attempts.clamp(fewest, most),
            cancel: cancel.transpose()?,
            is_repeatable: method.is_ok_and(|method| method.is_idempotent()),
        })
    }

    /// Handles the response to the first request. The job may be finished already.
    pub(crate) fn begun(
        &self,
        start: Instant,
        arguments: &Map<String, Value>,
        reply: Reply,
    ) -> Begun<'_> {
        if reply.outcome.status == CallStatus::Failed && !self.is_begun_elsewhere(&reply) {
            return Begun::Over(Box::new(reply.outcome), reply.large);
        }
        let answer = reply.outcome.result.as_ref().unwrap_or(&Value::Null);
        let before = Before { answer, headers: &reply.headers };
        let from = reply.url.as_ref();
        let address = |of: &NextAddress| match from {
            Some(from) => of.render(arguments, before, from),
            None => Err(TemplateError::Address { rule: "of the first request is not known" }),
        };
        let known = Known {
            tool_id: reply.outcome.tool_id.clone(),
            start,
            word: self.word(answer),
            upstream_status: reply.outcome.upstream_status,
        };
        if let Some(end) = self.end(&known, &reply.outcome, &reply.hidden) {
            return Begun::Over(Box::new(end), reply.large);
        }
        let status = match address(&self.status) {
            Ok(status) => status,
            // A fast API may return the result at once, with nothing to poll.
            Err(TemplateError::Untold { .. })
                if known.word.is_empty() && known.upstream_status != Some(202) =>
            {
                return Begun::Over(Box::new(reply.outcome), reply.large);
            }
            Err(error) => {
                let message =
                    format!("the work was begun, and nobody can ask how it goes: {error}");
                let failed = known.failed(ErrorCode::PollFailed, message, false);
                return Begun::Over(Box::new(failed), None);
            }
        };
        // A job that cannot be cancelled is still polled.
        let cancel = self.cancel.as_ref().and_then(|(method, of)| {
            let url = address(of).ok()?;
            Some(Request { method: method.to_string(), url, headers: Vec::new(), body: None })
        });
        Begun::Goes(Box::new(Job {
            follow: self,
            known,
            status,
            elsewhere: None,
            cancel,
            wait: self.first_wait,
            asked_to_wait: reply.retry_after.map(|wait| wait.min(RETRY_AFTER)),
            looks: 0,
            failed_looks: 0,
        }))
    }

    /// Whether the first response is only a redirect to the status.
    fn is_begun_elsewhere(&self, reply: &Reply) -> bool {
        let is_see_other = reply.outcome.upstream_status == Some(303);
        is_see_other && reply.location().is_some() && self.status.is_location()
    }

    /// The status in a response; empty if there is none.
    fn word(&self, answer: &Value) -> String {
        match self.status_path.as_ref().and_then(|path| path.find(answer)) {
            Some(Value::String(text)) => plain_text(text).chars().take(WORD).collect(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(word)) => word.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
        }
    }

    /// The final outcome, if the status says that the job has ended.
    fn end(&self, known: &Known, last: &Outcome, hidden: &Credentials) -> Option<Outcome> {
        let is_among = |words: &[Box<str>]| words.iter().any(|word| **word == *known.word);
        if known.word.is_empty() {
            return None;
        }
        if is_among(&self.failed) {
            let said = beginning_of(last.result.as_ref().unwrap_or(&Value::Null), hidden);
            let message = format!("the upstream says that the work failed: {said}");
            return Some(known.failed(ErrorCode::PollFailed, message, false));
        }
        is_among(&self.completed).then(|| self.done(known, last))
    }

    /// The outcome of a completed job, from its last response.
    fn done(&self, known: &Known, last: &Outcome) -> Outcome {
        let result = match &self.result_path {
            None => last.result.clone(),
            Some(path) => {
                let Some(result) = last.result.as_ref().and_then(|answer| path.find(answer)) else {
                    let message =
                        format!("the work is done, and its answer has no result at `{path}`");
                    return known.failed(ErrorCode::PollFailed, message, false);
                };
                Some(result.clone())
            }
        };
        let content = last.content.clone();
        Outcome { status: CallStatus::Completed, result, content, error: None, ..known.outcome() }
    }
}

impl Job<'_> {
    /// The wait before the next poll; `None` if the maximum number of polls is reached.
    pub fn wait(&mut self) -> Option<Duration> {
        if self.elsewhere.is_some() {
            return Some(self.asked_to_wait.take().unwrap_or_default());
        }
        if self.follow.attempts <= self.looks {
            return None;
        }
        self.looks += 1;
        let wait = self.wait.max(self.asked_to_wait.take().unwrap_or_default());
        self.wait = (self.wait * 3 / 2).min(self.follow.longest_wait);
        Some(wait)
    }

    /// The number of polls so far.
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// The request for the status.
    pub fn status(&self) -> Request {
        let accept = ("Accept".to_owned(), "application/json".to_owned());
        let url = self.elsewhere.as_ref().map_or(&self.status, |elsewhere| &elsewhere.url);
        let (method, url) = ("GET".to_owned(), url.clone());
        Request { method, url, headers: vec![accept], body: None }
    }

    /// The request that cancels the job, if it can be cancelled.
    pub fn cancel(&self) -> Option<Request> {
        self.cancel.clone()
    }

    /// Handles the reply to a poll.
    pub fn heard(&mut self, reply: Reply) -> Looked {
        self.known.upstream_status = reply.outcome.upstream_status.or(self.known.upstream_status);
        self.asked_to_wait = reply.retry_after.map(|wait| wait.min(RETRY_AFTER));
        let was_sent_on = self.elsewhere.take();
        self.elsewhere = Elsewhere::after(&reply, was_sent_on.as_ref());
        if self.elsewhere.is_some() {
            return Looked::SentOn;
        }
        let last = reply.outcome;
        if let Some(failure) = last.error {
            return self.not_heard(failure, last.upstream_status);
        }
        self.failed_looks = 0;
        self.known.word = self.follow.word(last.result.as_ref().unwrap_or(&Value::Null));
        let is_past =
            self.follow.status_path.is_none() || was_sent_on.is_some_and(|it| it.is_result);
        let is_result = is_past && self.known.word.is_empty() && last.upstream_status != Some(202);
        let end = match is_result {
            true => Some(self.follow.done(&self.known, &last)),
            false => self.follow.end(&self.known, &last, &reply.hidden),
        };
        match end {
            Some(end) => Looked::Over(Box::new(end), reply.large),
            None => Looked::Goes(self.known.word.clone()),
        }
    }

    /// Handles a failed poll: a single failure says nothing about the job; repeated ones end the polling.
    fn not_heard(&mut self, failure: Failure, status: Option<u16>) -> Looked {
        let is_passing = match (failure.code, status) {
            // Our own limits prevented the request.
            (ErrorCode::RateLimited | ErrorCode::CircuitOpen, _) => {
                return Looked::Goes(failure.message);
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
        self.failed_looks += 1;
        if is_passing && self.failed_looks < FAILED_LOOKS {
            return Looked::Goes(failure.message);
        }
        let message = format!("nobody can say how the work goes: {}", failure.message);
        let can_repeat = is_passing && self.follow.is_repeatable;
        Looked::GivenUp(Box::new(self.known.failed(ErrorCode::PollFailed, message, can_repeat)))
    }

    /// The outcome if the agent lost access to the tool.
    pub fn taken_away(&self) -> Outcome {
        let message = "the tool was taken away while it worked: what came of it is not looked at";
        self.known.failed(ErrorCode::NotGranted, message.to_owned(), false)
    }

    /// The outcome if the source now has another address or other credentials.
    pub fn left_behind(&self) -> Outcome {
        let message = "the source was changed while it worked: what came of it is not looked at";
        let is_repeatable = self.follow.is_repeatable;
        self.known.failed(ErrorCode::PollFailed, message.to_owned(), is_repeatable)
    }

    /// The outcome if the job took too long or too many polls.
    pub fn out_of_time(&self) -> Outcome {
        let said = match (&self.follow.status_path, &self.known.word) {
            (None, _) => "it is still answered with 202".to_owned(),
            (Some(path), word) if word.is_empty() => format!("there is no status at `{path}`"),
            (Some(_), word) => format!("its status is `{word}`"),
        };
        let message = format!("the work did not end in time after {} looks: {said}", self.looks);
        self.known.failed(ErrorCode::PollTimeout, message, self.follow.is_repeatable)
    }
}

impl Known {
    fn failed(&self, code: ErrorCode, message: String, retryable: bool) -> Outcome {
        Outcome { error: Some(Failure::new(code, message, retryable)), ..self.outcome() }
    }

    fn outcome(&self) -> Outcome {
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
