//! A tool that is called over HTTP: compiled once, called often, and never sent twice by itself.
//!
//! The steps of a call stand alone, so that a dry run can stop before the last: check → request → authorise → send.
//! Whoever calls is told whether it may be tried again.

mod again;
mod failure;

pub use again::Again;
pub use failure::code_of;

use std::time::Instant;

use model::{CallStatus, ErrorCode, Execution, Failure, Manifest, Outcome, SchemaRef, ToolId};
use serde_json::{Map, Value};
use upstream::http::{self, HttpClient, Limits, Method, Origin, header};

use crate::template::is_header_text;
use crate::{
    Answer, Arguments, Asked, CredentialError, Credentials, Given, Others, Problem, Request,
    RequestTemplate, Security, TemplateError, outcome, outcome_of_tool_result, without_credentials,
};

/// How many headers are added on the way out, about.
const HEADERS_ADDED: usize = 4;

/// A tool that is called over HTTP.
pub struct HttpTool {
    id: ToolId,
    arguments: Arguments,
    template: RequestTemplate,
    security: Security,
    answers: Answers,
}

/// How an upstream answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// As an API: any JSON is the result.
    Api,
    /// Perhaps in the shape of an MCP tool result.
    ToolResult,
}

/// Why a tool cannot be called at all.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum HttpToolError {
    /// Its templates.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What it asks callers to show.
    #[error(transparent)]
    Security(#[from] CredentialError),
    /// It is executed in another way.
    #[error("the tool is not called by one HTTP request")]
    NotHttp,
}

impl HttpTool {
    /// Takes a manifest, and its input schema written out.
    pub fn compile(
        id: ToolId,
        manifest: &Manifest<SchemaRef>,
        input_schema: &Value,
        answers: Answers,
    ) -> Result<Self, HttpToolError> {
        let Execution::SyncHttp(request) = &manifest.execution else {
            return Err(HttpToolError::NotHttp);
        };
        let template = RequestTemplate::compile(&manifest.method, request)?;
        let others = if template.takes_rest() { Others::Sent } else { Others::Refused };
        let arguments = Arguments::compile(input_schema, others);
        let security = Security::parse(manifest.security.as_ref())?;
        Ok(Self { id, arguments, template, security, answers })
    }

    /// About how much memory it takes, against that of a small one.
    pub fn weight(&self) -> u32 {
        self.arguments.weight()
    }

    /// All that is wrong with these arguments.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        self.arguments.check(arguments)
    }

    /// The request for arguments that were checked, without credentials: it can be shown.
    pub fn request(&self, arguments: &Map<String, Value>) -> Result<Request, TemplateError> {
        self.template.render(arguments)
    }

    /// What it asks callers to show.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// Puts credentials into a request; false if it asks for others than are given, and then it is as it was. With an
    /// origin, credentials go nowhere else; without one, whoever calls has chosen where the request goes.
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

    /// Sends a request, once, and says what came of it. A failure does not repeat the credentials that are in it.
    pub async fn send(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        credentials: &Credentials,
    ) -> Outcome {
        self.try_once(client, limits, request, credentials).await.0
    }

    async fn try_once(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        credentials: &Credentials,
    ) -> (Outcome, Again) {
        let (mut outcome, again) = self.exchange(client, limits, request, credentials).await;
        if let Some(failure) = &mut outcome.error {
            failure.message = without_credentials(&failure.message, credentials);
        }
        (outcome, again)
    }

    async fn exchange(
        &self,
        client: &HttpClient,
        limits: Limits,
        request: Request,
        credentials: &Credentials,
    ) -> (Outcome, Again) {
        let start = Instant::now();
        let method = request.method.clone();
        let Some(request) = wired(request) else {
            return (self.failed(start, failure::unsendable()), Again::InVain);
        };
        let answer = match client.send(request, limits).await {
            Ok(answer) => answer,
            Err(error) => {
                return (self.failed(start, failure::of(&error)), Again::after(&error));
            }
        };
        let asked = Asked {
            tool_id: self.id.clone(),
            method: &method,
            url: answer.url.clone(),
            credentials,
            execution_time: start.elapsed(),
        };
        let location = answer.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let read = Answer {
            status: answer.status,
            content_type: answer.content_type(),
            location,
            body: &answer.body,
        };
        let mut outcome = match self.answers {
            Answers::Api => outcome(asked, &read),
            Answers::ToolResult => outcome_of_tool_result(asked, &read),
        };
        let retry_after = again::retry_after(&answer);
        if let Some(failure) = &mut outcome.error {
            failure.retry_after = retry_after;
        }
        (outcome, Again::after_status(answer.status, retry_after))
    }

    /// The arguments as they are sent, or all that is wrong with them.
    pub fn checked(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let arguments = self.arguments.checked(arguments);
        arguments.map_err(|problems| failure::wrong_arguments(&problems))
    }

    /// The steps that are left for arguments that were checked. Without the credentials it asks for, it is sent as it is:
    /// many an API says more than it means.
    pub async fn call(
        &self,
        client: &HttpClient,
        limits: Limits,
        arguments: &Map<String, Value>,
        given: &Given,
        origin: Option<&Origin>,
    ) -> (Outcome, Again) {
        let start = Instant::now();
        match self.authorised(arguments, given, origin) {
            Ok(request) => self.try_once(client, limits, request, &given.hidden()).await,
            Err(failure) => (self.failed(start, failure), Again::InVain),
        }
    }

    /// Whether a call that ended so may be made again without harm (RFC 9110, section 9.2).
    pub fn may_be_repeated(&self, arguments: &Map<String, Value>, again: Again) -> bool {
        again != Again::InVain
            && self.request(arguments).is_ok_and(|request| again.does_no_harm(&request))
    }

    fn authorised(
        &self,
        arguments: &Map<String, Value>,
        given: &Given,
        origin: Option<&Origin>,
    ) -> Result<Request, Failure> {
        let refused = |code, message| Failure::new(code, message, false);
        let mut request =
            self.request(arguments).map_err(|error| refused(error.code(), error.to_string()))?;
        // What the tool itself says in a header, and credentials, come before what is passed on.
        for (name, value) in &given.headers {
            if request.header(name).is_none() && is_header_text(value) {
                request.set_header(name, value.clone());
            }
        }
        let authorised = self.authorise(&mut request, &given.credentials, origin);
        let authorised = authorised.and_then(|_| match &given.own {
            Some(own) => own.apply(origin, &mut request),
            None => Ok(()),
        });
        authorised.map_err(|error| refused(ErrorCode::InternalError, error.to_string()))?;
        Ok(request)
    }

    fn failed(&self, start: Instant, failure: Failure) -> Outcome {
        Outcome {
            tool_id: self.id.clone(),
            status: CallStatus::Failed,
            result: None,
            content: Vec::new(),
            error: Some(failure),
            execution_time_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            upstream_status: None,
        }
    }
}

/// In the types of the one who sends it. Templates and credentials were checked, so nothing should be left to refuse.
fn wired(request: Request) -> Option<http::Request> {
    let mut headers = header::HeaderMap::with_capacity(request.headers.len() + HEADERS_ADDED);
    for (name, value) in request.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, header::HeaderValue::from_str(&value).ok()?);
    }
    let method = Method::from_bytes(request.method.as_bytes()).ok()?;
    Some(http::Request { method, url: request.url, headers, body: request.body })
}
