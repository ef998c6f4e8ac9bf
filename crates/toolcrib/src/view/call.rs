//! A call: found among the agent's own tools, then executed. There is no other way to call for an agent.

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use catalog::source::Source;
use catalog::{CataloguedSource, CataloguedTool};
use execution::{Answers, Arguments, Credentials, HttpTool, Others};
use model::{
    CallStatus, Content, ErrorCode, Failure, Kind, Outcome, Settings, SourceId, SpecificationPlace,
    ToolId, ToolResult,
};
use serde_json::{Map, Value};
use upstream::egress::{Allowed, InvalidAllowed};
use upstream::http::{self, HttpClient, Limits};

use super::tool::Origin;
use super::{AgentView, MetaTool, NotFound, ViewedTool, meta};
use crate::call::{Ability, CallContext, NoAnswer, Question};
use crate::provider::{ProvidedTool, ProviderError, ToolProvider};
use crate::ready;

/// What came of a call.
#[derive(Debug)]
pub enum Called {
    /// It was carried out, or failed.
    Done(Box<Done>),
    /// Questions to the caller; with the answers it is called again.
    Asks(Vec<(Box<str>, Question)>),
    /// The caller cannot do what the tool needs.
    Unable(Ability),
    /// The tool failed in the words of JSON-RPC.
    Error {
        /// A number of JSON-RPC or MCP.
        code: i64,
        /// For people.
        message: String,
    },
}

/// A call that was carried out, or failed.
#[derive(Debug)]
pub struct Done {
    tool_id: ToolId,
    start: Instant,
    by: DoneBy,
}

#[derive(Debug)]
enum DoneBy {
    /// An upstream, with what the tool promised of its results.
    Upstream(Outcome, Option<Arc<Ready>>),
    /// Code of ours or of whoever embeds us.
    Here(ToolResult),
    /// Nobody: something stood in the way.
    Nobody(Failure),
}

/// A tool that is ready to be called: what calling needs and does not change from call to call.
pub(crate) struct Ready {
    tool: HttpTool,
    output: Option<Arguments>,
    client: HttpClient,
    origin: Option<http::Origin>,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready")
    }
}

impl AgentView {
    /// Calls a tool by name, for a caller that hears nothing on the way and cannot be asked.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find(name)?;
        Ok(self.call_quietly(&tool, arguments).await)
    }

    /// Calls a tool of the catalog by id, for a caller that hears nothing on the way and cannot be asked.
    pub async fn call_id(
        &self,
        id: &ToolId,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find_id(id)?;
        Ok(self.call_quietly(&tool, arguments).await)
    }

    /// Calls a tool that was found in this view.
    pub async fn call_with(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        self.execute(tool, arguments, call).await
    }

    async fn call_quietly(&self, tool: &ViewedTool, arguments: Map<String, Value>) -> Outcome {
        let (start, id) = (Instant::now(), id_of(tool));
        let why = match self.execute(tool, arguments, &CallContext::silent()).await {
            Called::Done(done) => return done.into_outcome(),
            Called::Unable(ability) => NoAnswer::Unable(ability).to_string(),
            Called::Asks(_) => NoAnswer::Later.to_string(),
            Called::Error { message, .. } => message,
        };
        failed(id, start, failure_of_tool(why))
    }

    async fn execute(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        let (start, tool_id) = (Instant::now(), id_of(tool));
        let by = match tool.origin() {
            Origin::Catalog(entry) => {
                let done = self.execute_catalogued(entry, arguments).await;
                done.unwrap_or_else(DoneBy::Nobody)
            }
            Origin::Provider(tool, provider) => {
                match self.provided_call(tool, provider.as_ref(), arguments, call).await {
                    Ok(by) => by,
                    Err(called) => return called,
                }
            }
            Origin::Meta(tool) => {
                if let Err(failure) = check(&ready::arguments(&tool.input_schema()), &arguments) {
                    DoneBy::Nobody(failure)
                } else if *tool == MetaTool::Search {
                    DoneBy::Here(meta::search(self, &arguments))
                } else {
                    let (name, inner) = meta::execution(arguments);
                    match self.find(&name) {
                        Ok(tool) if !matches!(tool.origin(), Origin::Meta(_)) => {
                            return Box::pin(self.execute(&tool, inner, call)).await;
                        }
                        Ok(_) => DoneBy::Nobody(failure_of_tool(format!(
                            "`{name}` is not called by way of execute_tool"
                        ))),
                        Err(missing) => DoneBy::Nobody(Failure {
                            code: ErrorCode::NotGranted,
                            message: missing.to_string(),
                            retryable: false,
                        }),
                    }
                }
            }
        };
        Called::Done(Box::new(Done { tool_id, start, by }))
    }

    async fn execute_catalogued(
        &self,
        entry: &Arc<CataloguedTool>,
        arguments: Map<String, Value>,
    ) -> Result<DoneBy, Failure> {
        let source = self.snapshot.source(&entry.tool.source);
        let is_served = self.snapshot.served().contains(entry.slot);
        let Some(source) = source.filter(|_| is_served) else {
            return Err(refused("the tool is not served"));
        };
        let ready = self.crib.ready(entry, source)?;
        let credentials = self.credentials(&source.source).await?;
        let (limits, origin) = (Limits::default(), ready.origin.as_ref());
        let outcome = ready.tool.call(&ready.client, limits, arguments, &credentials, origin).await;
        let promised = ready.output.is_some().then_some(ready);
        Ok(DoneBy::Upstream(outcome, promised))
    }

    /// The credentials of the source, by the name of the scheme they are for.
    async fn credentials(&self, source: &Source) -> Result<Credentials, Failure> {
        let Settings::Openapi(settings) = &source.profile.settings else {
            return Ok(Credentials::new());
        };
        let mut credentials = Credentials::new();
        for (scheme, reference) in &settings.credentials {
            let secrets =
                self.crib.secrets().ok_or_else(|| refused("no secret can be read here"))?;
            let value = secrets.read(reference).await;
            let value = value.map_err(|error| refused(&error.to_string()))?;
            credentials.insert(scheme.to_string(), value);
        }
        Ok(credentials)
    }

    async fn provided_call(
        &self,
        tool: &Arc<ProvidedTool>,
        provider: &dyn ToolProvider,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<DoneBy, Called> {
        if let Err(failure) = check(&self.crib.arguments_of_provided(tool), &arguments) {
            return Ok(DoneBy::Nobody(failure));
        }
        let error = match provider.call_tool(&tool.name, arguments, call).await {
            Ok(result) => return Ok(DoneBy::Here(result)),
            Err(error) => error,
        };
        match error {
            ProviderError::NoAnswer(NoAnswer::Later) => Err(Called::Asks(call.take_open())),
            ProviderError::NoAnswer(NoAnswer::Unable(ability)) => Err(Called::Unable(ability)),
            ProviderError::Protocol { code, message } => Err(Called::Error { code, message }),
            ProviderError::NoAnswer(NoAnswer::Refused(why))
            | ProviderError::Failed(why)
            | ProviderError::Invalid(why) => {
                Ok(DoneBy::Nobody(failure_of_tool(format!("Error: {why}"))))
            }
            missing @ ProviderError::ToolNotFound { .. } => {
                Ok(DoneBy::Nobody(failure_of_tool(missing.to_string())))
            }
        }
    }
}

impl Done {
    /// For programs (requirement E3).
    pub fn into_outcome(self) -> Outcome {
        let (tool_id, start) = (self.tool_id, self.start);
        match self.by {
            DoneBy::Upstream(outcome, _) => outcome,
            DoneBy::Nobody(failure) => failed(tool_id, start, failure),
            DoneBy::Here(result) => Outcome {
                tool_id,
                status: if result.is_error { CallStatus::Failed } else { CallStatus::Completed },
                error: result.is_error.then(|| {
                    let text = result.content.iter().find_map(|content| match content {
                        Content::Text { text } => Some(text.clone()),
                        _ => None,
                    });
                    failure_of_tool(text.unwrap_or_else(|| "the tool says that it failed".into()))
                }),
                result: result.structured_content.map(Value::Object),
                content: result.content,
                execution_time_ms: elapsed(start),
                upstream_status: None,
            },
        }
    }

    /// For agents, in the shape of MCP.
    pub fn into_tool_result(self) -> ToolResult {
        match self.by {
            DoneBy::Upstream(outcome, promised) => {
                let output = promised.as_ref().and_then(|ready| ready.output.as_ref());
                execution::tool_result(outcome, output)
            }
            DoneBy::Here(result) => result,
            DoneBy::Nobody(failure) => {
                execution::tool_result(failed(self.tool_id, self.start, failure), None)
            }
        }
    }
}

impl Ready {
    pub(crate) fn new(
        entry: &CataloguedTool,
        source: &CataloguedSource,
        client: &HttpClient,
    ) -> Result<Self, Failure> {
        let (id, source) = (&entry.tool.id, &source.source);
        let (Some(manifest), Some(schema)) = (entry.tool.served_manifest(), &entry.input_schema)
        else {
            return Err(refused("the tool is not served"));
        };
        let answers = match source.profile.settings.kind() {
            Kind::HttpManifest => Answers::ToolResult,
            Kind::Openapi | Kind::Mcp | Kind::Workflow | Kind::Builtin | Kind::Custom => {
                Answers::Api
            }
        };
        let tool = HttpTool::compile(id.clone(), manifest, &schema.to_value(), answers)
            .map_err(|error| unusable(id, &error, "the tool cannot be called"))?;
        let output = entry.output_schema.as_ref();
        let output = output.map(|schema| Arguments::compile(&schema.to_value(), Others::Sent));
        let client = allowed_client(source, client)
            .map_err(|error| unusable(id, &error, "the tool cannot be reached"))?;
        Ok(Self { tool, output, client, origin: origin(source) })
    }
}

/// What may be reached for this source.
fn allowed_client(source: &Source, client: &HttpClient) -> Result<HttpClient, InvalidAllowed> {
    if source.profile.allow.is_empty() {
        return Ok(client.clone());
    }
    let allowed = source.profile.allow.iter().map(|text| text.parse());
    let allowed: Result<Vec<Allowed>, _> = allowed.collect();
    Ok(client.allowing(allowed?))
}

/// Where credentials may go (requirement O7). A specification that an admin wrote down names its own servers.
fn origin(source: &Source) -> Option<http::Origin> {
    let specification = match &source.profile.settings {
        Settings::Openapi(settings) => settings.specification.as_ref(),
        _ => None,
    };
    match (&source.profile.url, specification) {
        (Some(url), _) | (None, Some(SpecificationPlace::Url(url))) => Some(url.as_url().origin()),
        (None, _) => None,
    }
}

fn check(schema: &Arguments, arguments: &Map<String, Value>) -> Result<(), Failure> {
    schema.check(arguments).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let (code, message) = (ErrorCode::ValidationError, problems.join("\n"));
        Failure { code, message, retryable: false }
    })
}

/// A tool that is not in the catalog stands in records under this id.
fn id_of(tool: &ViewedTool) -> ToolId {
    let of_source = |source: &str| {
        let source: SourceId = source.parse().expect("it is an id");
        let named = ToolId::new(&source, tool.name());
        named.unwrap_or_else(|_| ToolId::new(&source, "unnamed").expect("it is an id"))
    };
    match tool.origin() {
        Origin::Catalog(entry) => entry.tool.id.clone(),
        Origin::Provider(..) => of_source("provider"),
        Origin::Meta(_) => of_source("toolcrib"),
    }
}

fn failed(tool_id: ToolId, start: Instant, failure: Failure) -> Outcome {
    Outcome {
        tool_id,
        status: CallStatus::Failed,
        result: None,
        content: Vec::new(),
        error: Some(failure),
        execution_time_ms: elapsed(start),
        upstream_status: None,
    }
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn failure_of_tool(message: String) -> Failure {
    Failure { code: ErrorCode::BuiltinError, message, retryable: false }
}

fn refused(message: &str) -> Failure {
    Failure { code: ErrorCode::InternalError, message: message.to_owned(), retryable: false }
}

/// The cause is for our log: it may name files, variables and addresses that are nothing for an agent.
fn unusable(what: &impl Display, cause: &dyn Error, message: &str) -> Failure {
    tracing::error!(%what, %cause, "`{what}` cannot be used: {cause}");
    refused(message)
}
