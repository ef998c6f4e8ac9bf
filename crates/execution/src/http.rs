//! A tool that is called over HTTP: compiled once, called often, and never sent twice by itself.
//!
//! The steps of a call stand alone, so that a dry run can stop before the last: check → request → authorise → send.
//! Whoever calls is told whether it may be tried again.

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

/// How many headers are added on the way out, about.
const HEADERS_ADDED: usize = 4;

/// A tool that is called over HTTP.
pub struct HttpTool {
    id: ToolId,
    arguments: Arguments,
    template: RequestTemplate,
    security: Security,
    answers: Answers,
    /// How to follow the work, if it goes on after the answer.
    follow: Option<Box<Follow>>,
}

/// How an upstream answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// As an API: any JSON is the result.
    Api,
    /// Perhaps in the shape of an MCP tool result.
    ToolResult,
    /// With a document, which is content as it is.
    Document,
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
    #[error("the tool is not called over HTTP")]
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
        let (request, polling) = match &manifest.execution {
            Execution::SyncHttp(request) => (request, None),
            Execution::AsyncPoll { request, polling } => (request, Some(polling)),
            _ => return Err(HttpToolError::NotHttp),
        };
        let mut tool = Self::of_request(id, (&manifest.method, request), input_schema, answers)?;
        tool.security = Security::parse(manifest.security.as_ref())?;
        if let Some(polling) = polling {
            tool.follow = Some(Box::new(Follow::compile(&manifest.method, polling)?));
            // What is said of work that goes on is no result yet.
            tool.answers = Answers::Api;
        }
        Ok(tool)
    }

    /// Takes a method and its request alone.
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

    /// Sends a request, once, and says what came of it, without the credentials that are in it.
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
        // Whoever serves calls would serve nobody else meanwhile.
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

    /// The arguments as they are sent, or all that is wrong with them.
    pub fn checked(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        let arguments = self.arguments.checked(arguments);
        arguments.map_err(wrong_arguments)
    }

    /// The id it goes by.
    pub fn id(&self) -> &ToolId {
        &self.id
    }

    /// Whether its work goes on after the answer.
    pub fn is_job(&self) -> bool {
        self.follow.is_some()
    }

    /// What the answer to its request leads to.
    pub fn begun(&self, start: Instant, arguments: &Map<String, Value>, reply: Reply) -> Begun<'_> {
        match &self.follow {
            Some(follow) => follow.begun(start, arguments, reply),
            None => Begun::Over(Box::new(reply.outcome), reply.large),
        }
    }

    /// The steps that are left for a request without credentials. Without those it asks for, it is sent as it is: many an
    /// API says more than it means.
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
        // What the tool itself says in a header, and credentials, come before what is passed on.
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

/// What an answer says.
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
        // Of a failure only the beginning is told: nothing that is large is left of it.
        large: is_good.then_some(answer.large),
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
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
