//! A tool that is called over HTTP: compiled once, called often, and never sent twice by itself.
//!
//! The steps of a call are separate methods, so that a dry run can stop before the last: check, render, authorize,
//! send. The reply says whether the caller may retry.

mod http_failure;
mod retry_safety;

pub use http_failure::{error_code_of, invalid_arguments_failure};
pub use retry_safety::RetrySafety;

use std::time::{Duration, Instant};

use limits::MAX_INLINE_BYTES;
use model::{CallFailure, ErrorCode, Execution, HttpRequest, Manifest, SchemaRef, ToolId};
use oauth::rejects_token;
use serde_json::{Map, Value};
use upstream::http;
use upstream::http::{ExchangeLimits, HttpClient, Method, Origin, header};

use crate::async_poll::JobPolling;
use crate::template::is_header_text;
use crate::{
    AnsweredRequest, ArgumentValidator, CallCredentials, CredentialError, Credentials,
    InvalidArgument, JobStart, RenderedRequest, RequestTemplate, ResponseParts,
    SecurityRequirements, TemplateError, UndeclaredArguments, UpstreamReply, outcome_of_api,
    outcome_of_document, outcome_of_tool_result, without_credentials,
};

/// The approximate number of headers that the HTTP client adds.
const CLIENT_HEADERS: usize = 4;

/// A tool that is called over HTTP.
pub struct HttpTool {
    id: ToolId,
    arguments: ArgumentValidator,
    template: RequestTemplate,
    security: SecurityRequirements,
    answers: HttpToolResponse,
    /// How to poll the job, if the call continues after the first response.
    follow: Option<Box<JobPolling>>,
}

/// The shape of an upstream's responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpToolResponse {
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
        answers: HttpToolResponse,
    ) -> Result<Self, HttpToolError> {
        let (request, polling) = match &manifest.execution {
            Execution::SyncHttp(request) => (request, None),
            Execution::AsyncPoll { request, polling } => (request, Some(polling)),
            _ => return Err(HttpToolError::NotHttp),
        };
        let mut tool = Self::from_request(id, (&manifest.method, request), input_schema, answers)?;
        tool.security = SecurityRequirements::parse(manifest.security.as_ref())?;
        if let Some(polling) = polling {
            tool.follow = Some(Box::new(JobPolling::compile(&manifest.method, polling)?));
            // The first response of a job is not its result yet.
            tool.answers = HttpToolResponse::Api;
        }
        Ok(tool)
    }

    /// Compiles a method and its request, without a manifest.
    pub fn from_request(
        id: ToolId,
        (method, request): (&str, &HttpRequest),
        input_schema: &Value,
        answers: HttpToolResponse,
    ) -> Result<Self, HttpToolError> {
        let template = RequestTemplate::compile(method, request)?;
        let others = if template.takes_rest() {
            UndeclaredArguments::Sent
        } else {
            UndeclaredArguments::Rejected
        };
        let arguments = ArgumentValidator::compile(input_schema, others);
        let security = SecurityRequirements::parse(None)?;
        Ok(Self { id, arguments, template, security, answers, follow: None })
    }

    /// The approximate memory, relative to a small tool.
    pub fn relative_size(&self) -> u32 {
        self.arguments.relative_size()
    }

    /// Reports all problems of these arguments.
    pub fn check_arguments(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<(), Vec<InvalidArgument>> {
        self.arguments.check(arguments)
    }

    /// The request for checked arguments, without credentials, so that it can be shown.
    pub fn render_request(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<RenderedRequest, TemplateError> {
        self.template.render(arguments)
    }

    /// The security requirements of the tool.
    pub fn security(&self) -> &SecurityRequirements {
        &self.security
    }

    /// Adds credentials to a request. Returns false, and leaves the request unchanged, if the requirements cannot be
    /// satisfied. With an origin, credentials are sent only to it; without one, the caller has chosen the target.
    pub fn add_credentials(
        &self,
        request: &mut RenderedRequest,
        credentials: &Credentials,
        origin: Option<&Origin>,
    ) -> Result<bool, CredentialError> {
        match origin {
            Some(origin) => self.security.apply_to_origin(origin, credentials, request),
            None => self.security.apply(credentials, request),
        }
    }

    /// Sends a request once, and returns the reply with the request's credentials masked.
    pub async fn send_request(
        &self,
        client: &HttpClient,
        limits: ExchangeLimits,
        request: RenderedRequest,
        credentials: Credentials,
    ) -> UpstreamReply {
        let mut reply = self.exchange_messages(client, limits, request, &credentials).await;
        if let Some(failure) = &mut reply.outcome.error {
            failure.message = without_credentials(&failure.message, &credentials);
        }
        UpstreamReply { hidden: credentials, ..reply }
    }

    async fn exchange_messages(
        &self,
        client: &HttpClient,
        limits: ExchangeLimits,
        request: RenderedRequest,
        credentials: &Credentials,
    ) -> UpstreamReply {
        let start = Instant::now();
        let method = request.method.clone();
        let Some(request) = to_client_request(request) else {
            return UpstreamReply::unsent(self.id.clone(), http_failure::unsendable_failure());
        };
        let answer = match client.send(request, limits).await {
            Ok(answer) => answer,
            Err(error) => {
                let mut reply =
                    UpstreamReply::unsent(self.id.clone(), http_failure::failure_of_error(&error));
                reply.retry_safety = RetrySafety::after_error(&error);
                reply.outcome.execution_time_ms = whole_millis(start.elapsed());
                return reply;
            }
        };
        let (tool_id, answers, execution_time) = (self.id.clone(), self.answers, start.elapsed());
        if answer.body.len() <= MAX_INLINE_BYTES {
            let url = answer.url.clone();
            let asked =
                AnsweredRequest { tool_id, method: &method, url, credentials, execution_time };
            return reply_of_response(asked, answers, answer);
        }
        // Decode a long response on a low-priority thread, so that it does not block other calls.
        let (credentials, url) = (credentials.clone(), answer.url.clone());
        let late = http_failure::undecoded_failure(&url, limits.deadline);
        let left = limits.deadline.saturating_sub(start.elapsed());
        let read = answer.read_low_priority(left, move |answer| {
            let credentials = &credentials;
            let asked =
                AnsweredRequest { tool_id, method: &method, url, credentials, execution_time };
            reply_of_response(asked, answers, answer)
        });
        read.await.unwrap_or_else(|| {
            let mut reply = UpstreamReply::unsent(self.id.clone(), late);
            reply.outcome.execution_time_ms = whole_millis(start.elapsed());
            reply
        })
    }

    /// Validates arguments and returns them as they are sent, or a failure with all problems.
    pub fn validate_arguments(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, CallFailure> {
        let arguments = self.arguments.validate(arguments);
        arguments.map_err(invalid_arguments_failure)
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
    pub fn start_job(
        &self,
        start: Instant,
        arguments: &Map<String, Value>,
        reply: UpstreamReply,
    ) -> JobStart<'_> {
        match &self.follow {
            Some(follow) => follow.start_job(start, arguments, reply),
            None => JobStart::Finished(Box::new(reply.outcome), reply.large),
        }
    }

    /// Authorizes and sends a rendered request. If required credentials are missing, it is sent without them: many APIs
    /// declare requirements that they do not enforce.
    pub async fn call(
        &self,
        client: &HttpClient,
        limits: ExchangeLimits,
        request: RenderedRequest,
        given: &CallCredentials,
        origin: Option<&Origin>,
    ) -> UpstreamReply {
        match self.authorize_request(request, given, origin) {
            Ok(request) => {
                let mut hidden = given.secrets_to_mask();
                hidden.extend(self.security.basic_passwords(&given.credentials));
                self.send_request(client, limits, request, hidden).await
            }
            Err(error) => {
                let failure = CallFailure::new(ErrorCode::InternalError, error.to_string(), false);
                UpstreamReply::unsent(self.id.clone(), failure)
            }
        }
    }

    fn authorize_request(
        &self,
        mut request: RenderedRequest,
        given: &CallCredentials,
        origin: Option<&Origin>,
    ) -> Result<RenderedRequest, CredentialError> {
        // The tool's own headers and credentials take precedence over passed-on headers.
        for (name, value) in given.headers_to(&request.url, origin) {
            if request.header(name).is_none() && is_header_text(value) {
                request.set_header(name, value.clone());
            }
        }
        self.add_credentials(&mut request, &given.credentials, origin)?;
        if let Some(own) = &given.own {
            own.apply(origin, &mut request)?;
        }
        Ok(request)
    }
}

/// Converts a response to a reply.
fn reply_of_response(
    asked: AnsweredRequest<'_>,
    answers: HttpToolResponse,
    mut answer: http::UpstreamResponse,
) -> UpstreamReply {
    let body = std::mem::take(&mut answer.body).into();
    let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let location = header(header::LOCATION);
    let read = ResponseParts {
        status: answer.status,
        content_type: answer.content_type(),
        location,
        body,
    };
    let mut outcome = match answers {
        HttpToolResponse::Api => outcome_of_api(asked, read),
        HttpToolResponse::ToolResult => outcome_of_tool_result(asked, read),
        HttpToolResponse::Document => outcome_of_document(asked, read),
    };
    let is_good = outcome.error.is_none();
    let wished = retry_safety::overload_retry_after(&answer);
    if let Some(failure) = &mut outcome.error {
        failure.retry_after = wished;
    }
    UpstreamReply {
        outcome,
        retry_after: http::retry_after(&answer.headers).map(Duration::from_secs),
        retry_safety: RetrySafety::after_status(answer.status, wished),
        token_rejected: answer.status == 401 && rejects_token(&answer.headers),
        url: Some(answer.url),
        headers: answer.headers,
        hidden: Credentials::new(),
        // A failure keeps only an excerpt, so no long body remains in memory.
        large: is_good.then_some(answer.body_lease),
    }
}

fn whole_millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Converts to the HTTP client's types; fails only if a header or method is invalid, which earlier checks prevent.
fn to_client_request(request: RenderedRequest) -> Option<http::UpstreamRequest> {
    let mut headers = header::HeaderMap::with_capacity(request.headers.len() + CLIENT_HEADERS);
    for (name, value) in request.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, header::HeaderValue::from_str(&value).ok()?);
    }
    let method = Method::from_bytes(request.method.as_bytes()).ok()?;
    Some(http::UpstreamRequest { method, url: request.url, headers, body: request.body })
}
