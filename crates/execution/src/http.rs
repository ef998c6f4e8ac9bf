//! A tool that is called over HTTP: compiled once, called often, and never sent twice by itself.
//!
//! The steps of a call are separate methods, so that a dry run can stop before the last: check, render, authorize,
//! send. The reply says whether the caller may retry.

mod again;
mod failure;

pub use again::Again;
pub use failure::{code_of, wrong_arguments};

use std::time::{Duration, Instant};

use model::{ErrorCode, Execution, Failure, HttpRequest, Manifest, SchemaRef, ToolId};
use serde_json::{Map, Value};
use upstream::LONG;
use upstream::http::{self, HttpClient, Limits, Method, Origin, header};
use upstream::mcp::oauth::refuses_token;

use crate::async_poll::Follow;
use crate::template::is_header_text;
use crate::{
    Answer, Arguments, Asked, Begun, CredentialError, Credentials, Given, Others, Problem, Reply,
    Request, RequestTemplate, Security, TemplateError, outcome, outcome_of_document,
    outcome_of_tool_result, without_credentials,
};

/// The approximate number of headers that the HTTP client adds.
const HEADERS_ADDED: usize = 4;

/// A tool that is called over HTTP.
pub struct HttpTool {
    id: ToolId,
    arguments: Arguments,
    template: RequestTemplate,
    security: Security,
    answers: Answers,
    /// How to poll the job, if the call continues after the first response.
    follow: Option<Box<Follow>>,
}

/// The shape of an upstream's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Any JSON is the result.
    Api,
    /// JSON may have the shape of an MCP tool result.
    ToolResult,
    /// The body is a document, passed on as content.
    Document,
}

/// Why a tool cannot be called at all.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum HttpToolError {
    /// A template is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The security requirements are invalid.
    #[error(transparent)]
    Security(#[from] CredentialError),
    /// The tool has another execution mode.
    #[error("the tool is not called over HTTP")]
    NotHttp,
}

impl HttpTool {
    /// Compiles a manifest with its resolved input schema.
    pub fn compile(
        id: ToolId,
        manifest: &Manifest<SchemaRef>,
        input_schema: &Value,
        answers: Answers,
    ) -> Result<Self, HttpToolError> {
        let (request, polling) = match &manifest.execution {
            Execution::SyncHttp(request) => (request, None),
            Execution::AsyncPoll { request, polling } => (request, Some(polling)),
            _ => return Err(HttpToolError::NotHttp),
        };
        let mut tool = Self::of_request(id, (&manifest.method, request), input_schema, answers)?;
        tool.security = Security::parse(manifest.security.as_ref())?;
        if let Some(polling) = polling {
            tool.follow = Some(Box::new(Follow::compile(&manifest.method, polling)?));
            // The first response of a job is not its result yet.
            tool.answers = Answers::Api;
        }
        Ok(tool)
    }

    /// Compiles a method and its request, without a manifest.
    pub fn of_request(
        id: ToolId,
        (method, request): (&str, &HttpRequest),
        input_schema: &Value,
        answers: Answers,
    ) -> Result<Self, HttpToolError> {
        let template = RequestTemplate::compile(method, request)?;
        let others = if template.takes_rest() { Others::Sent } else { Others::Refused };
        let arguments = Arguments::compile(input_schema, others);
        let security = Security::parse(None)?;
        Ok(Self { id, arguments, template, security, answers, follow: None })
    }

    /// The approximate memory, relative to a small tool.
    pub fn weight(&self) -> u32 {
        self.arguments.weight()
    }

    /// Reports all problems of these arguments.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        self.arguments.check(arguments)
    }

    /// The request for checked arguments, without credentials, so that it can be shown.
    pub fn request(&self, arguments: &Map<String, Value>) -> Result<Request, TemplateError> {
        self.template.render(arguments)
    }

    /// The security requirements of the tool.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// Adds credentials to a request. Returns false, and leaves the request unchanged, if the requirements cannot be
    /// satisfied. With an origin, credentials are sent only to it; without one, the caller has chosen the target.
    pub fn authorise(
        &self,
        request: &mut Request,
        credentials: &Credentials,
        origin: Option<&Origin>,
    ) -> Result<bool, CredentialError> {
        match origin {
            Some(origin) => self.security.apply_within(origin, credentials, request),
            None => self.security.apply(credentials, request),
        }
    }

    /// Sends a request once, and returns the reply with the request's credentials masked.
    pub async fn send(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        credentials: Credentials,
    ) -> Reply {
        let mut reply = self.exchange(client, limits, request, &credentials).await;
        if let Some(failure) = &mut reply.outcome.error {
            failure.message = without_credentials(&failure.message, &credentials);
        }
        Reply { hidden: credentials, ..reply }
    }

    async fn exchange(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        credentials: &Credentials,
    ) -> Reply {
        let start = Instant::now();
        let method = request.method.clone();
        let Some(request) = wired(request) else {
            return Reply::unsent(self.id.clone(), failure::unsendable());
        };
        let answer = match client.send(request, limits).await {
            Ok(answer) => answer,
            Err(error) => {
                let mut reply = Reply::unsent(self.id.clone(), failure::of(&error));
                reply.again = Again::after(&error);
                reply.outcome.execution_time_ms = millis(start.elapsed());
                return reply;
            }
        };
        let (tool_id, answers, execution_time) = (self.id.clone(), self.answers, start.elapsed());
        if answer.body.len() <= LONG {
            let url = answer.url.clone();
            let asked = Asked { tool_id, method: &method, url, credentials, execution_time };
            return reply(asked, answers, answer);
        }
        // Decode a long response on a low-priority thread, so that it does not block other calls.
        let (credentials, url) = (credentials.clone(), answer.url.clone());
        let late = failure::unread(&url, limits.deadline);
        let left = limits.deadline.saturating_sub(start.elapsed());
        let read = answer.read_aside(left, move |answer| {
            let credentials = &credentials;
            let asked = Asked { tool_id, method: &method, url, credentials, execution_time };
            reply(asked, answers, answer)
        });
        read.await.unwrap_or_else(|| {
            let mut reply = Reply::unsent(self.id.clone(), late);
            reply.outcome.execution_time_ms = millis(start.elapsed());
            reply
        })
    }

    /// Validates arguments and returns them as they are sent, or a failure with all problems.
    pub fn checked(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let arguments = self.arguments.checked(arguments);
        arguments.map_err(wrong_arguments)
    }

    /// The id of the tool.
    pub fn id(&self) -> &ToolId {
        &self.id
    }

    /// Whether calls continue as jobs after the first response.
    pub fn is_job(&self) -> bool {
        self.follow.is_some()
    }

    /// Handles the first response of a call.
    pub fn begun(&self, start: Instant, arguments: &Map<String, Value>, reply: Reply) -> Begun<'_> {
        match &self.follow {
            Some(follow) => follow.begun(start, arguments, reply),
            None => Begun::Over(Box::new(reply.outcome), reply.large),
        }
    }

    /// Authorizes and sends a rendered request. If required credentials are missing, it is sent without them: many APIs
    /// declare requirements that they do not enforce.
    pub async fn call(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        given: &Given,
        origin: Option<&Origin>,
    ) -> Reply {
        match self.authorised(request, given, origin) {
            Ok(request) => {
                let mut hidden = given.hidden();
                hidden.extend(self.security.passwords(&given.credentials));
                self.send(client, limits, request, hidden).await
            }
            Err(error) => {
                let failure = Failure::new(ErrorCode::InternalError, error.to_string(), false);
                Reply::unsent(self.id.clone(), failure)
            }
        }
    }

    fn authorised(
        &self,
        mut request: Request,
        given: &Given,
        origin: Option<&Origin>,
    ) -> Result<Request, CredentialError> {
        // The tool's own headers and credentials take precedence over passed-on headers.
        for (name, value) in given.headers_to(&request.url, origin) {
            if request.header(name).is_none() && is_header_text(value) {
                request.set_header(name, value.clone());
            }
        }
        self.authorise(&mut request, &given.credentials, origin)?;
        if let Some(own) = &given.own {
            own.apply(origin, &mut request)?;
        }
        Ok(request)
    }
}

/// Converts a response to a reply.
fn reply(asked: Asked<'_>, answers: Answers, mut answer: http::Answer) -> Reply {
    let body = std::mem::take(&mut answer.body).into();
    let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let location = header(header::LOCATION);
    let read =
        Answer { status: answer.status, content_type: answer.content_type(), location, body };
    let mut outcome = match answers {
        Answers::Api => outcome(asked, read),
        Answers::ToolResult => outcome_of_tool_result(asked, read),
        Answers::Document => outcome_of_document(asked, read),
    };
    let is_good = outcome.error.is_none();
    let wished = again::retry_after(&answer);
    if let Some(failure) = &mut outcome.error {
        failure.retry_after = wished;
    }
    Reply {
        outcome,
        retry_after: http::retry_after(&answer.headers).map(Duration::from_secs),
        again: Again::after_status(answer.status, wished),
        refuses_token: answer.status == 401 && refuses_token(&answer.headers),
        url: Some(answer.url),
        headers: answer.headers,
        hidden: Credentials::new(),
        // A failure keeps only an excerpt, so no long body remains in memory.
        large: is_good.then_some(answer.large),
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Converts to the HTTP client's types; fails only if a header or method is invalid, which earlier checks prevent.
fn wired(request: Request) -> Option<http::Request> {
    let mut headers = header::HeaderMap::with_capacity(request.headers.len() + HEADERS_ADDED);
    for (name, value) in request.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, header::HeaderValue::from_str(&value).ok()?);
    }
    let method = Method::from_bytes(request.method.as_bytes()).ok()?;
    Some(http::Request { method, url: request.url, headers, body: request.body })
}
