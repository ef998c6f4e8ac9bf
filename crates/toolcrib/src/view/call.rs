//! A call: found among the agent's own tools, then executed. There is no other way to call for an agent.

use std::error::Error;
use std::fmt::Display;
use std::time::Instant;

use catalog::CataloguedTool;
use catalog::source::Source;
use execution::{Answers, Credentials, HttpTool};
use model::{
    CallStatus, ErrorCode, Failure, Kind, Outcome, Settings, SourceId, SpecificationPlace, ToolId,
    ToolResult,
};
use serde_json::{Map, Value};
use upstream::egress::{Allowed, InvalidAllowed};
use upstream::http::{self, HttpClient, Limits};

use super::tool::Origin;
use super::{AgentView, NotFound, ViewedTool};
use crate::provider::{ProviderError, ToolProvider};

impl AgentView {
    /// Calls a tool by name.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find(name)?;
        Ok(self.execute(&tool, arguments).await)
    }

    /// Calls a tool of the catalog by id.
    pub async fn call_id(
        &self,
        id: &ToolId,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find_id(id)?;
        Ok(self.execute(&tool, arguments).await)
    }

    async fn execute(&self, tool: &ViewedTool, arguments: Map<String, Value>) -> Outcome {
        let start = Instant::now();
        let id = tool.id().cloned().unwrap_or_else(|| provided_id(tool.name()));
        let done = match tool.origin() {
            Origin::Catalog(entry) => self.execute_catalogued(entry, &arguments).await,
            Origin::Provider(_, provider) => {
                provided(&id, provider.as_ref(), tool.name(), arguments, start).await
            }
        };
        done.unwrap_or_else(|failure| failed(id, start, failure))
    }

    async fn execute_catalogued(
        &self,
        entry: &CataloguedTool,
        arguments: &Map<String, Value>,
    ) -> Result<Outcome, Failure> {
        let source = self.snapshot.source(&entry.tool.source).map(|entry| &entry.source);
        let (Some(source), Some(manifest), Some(schema)) =
            (source, entry.tool.served_manifest(), &entry.input_schema)
        else {
            return Err(refused("the tool is not served"));
        };
        if !self.snapshot.served().contains(entry.slot) {
            return Err(refused("the tool is not served"));
        }
        let answers = match source.profile.settings.kind() {
            Kind::HttpManifest => Answers::ToolResult,
            Kind::Openapi | Kind::Mcp | Kind::Workflow | Kind::Builtin | Kind::Custom => {
                Answers::Api
            }
        };
        let tool = HttpTool::compile(entry.tool.id.clone(), manifest, &schema.to_value(), answers)
            .map_err(|error| unusable(&entry.tool.id, &error, "the tool cannot be called"))?;
        let credentials = self.credentials(source).await?;
        let client = client(source, self.crib.client())
            .map_err(|error| unusable(&entry.tool.id, &error, "the tool cannot be reached"))?;
        let origin = origin(source);
        Ok(tool.call(&client, Limits::default(), arguments, &credentials, origin.as_ref()).await)
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
}

/// What may be reached for this source.
fn client(source: &Source, client: &HttpClient) -> Result<HttpClient, InvalidAllowed> {
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

async fn provided(
    id: &ToolId,
    provider: &dyn ToolProvider,
    name: &str,
    arguments: Map<String, Value>,
    start: Instant,
) -> Result<Outcome, Failure> {
    match provider.call_tool(name, arguments).await {
        Ok(result) => Ok(outcome(id.clone(), result, start)),
        Err(error @ (ProviderError::ToolNotFound { .. } | ProviderError::Failed(_))) => {
            Err(Failure {
                code: ErrorCode::BuiltinError,
                message: error.to_string(),
                retryable: false,
            })
        }
    }
}

fn outcome(tool_id: ToolId, result: ToolResult, start: Instant) -> Outcome {
    let message = || "the tool says that it failed".to_owned();
    let error = result.is_error.then(|| Failure {
        code: ErrorCode::BuiltinError,
        message: message(),
        retryable: false,
    });
    Outcome {
        tool_id,
        status: if result.is_error { CallStatus::Failed } else { CallStatus::Completed },
        result: result.structured_content.map(Value::Object),
        content: result.content,
        error,
        execution_time_ms: elapsed(start),
        upstream_status: None,
    }
}

/// A provider's tool is not in the catalog; in records it stands under this id.
fn provided_id(name: &str) -> ToolId {
    let source: SourceId = "provider".parse().expect("it is an id");
    let named = ToolId::new(&source, name);
    named.unwrap_or_else(|_| ToolId::new(&source, "unnamed").expect("it is an id"))
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

fn refused(message: &str) -> Failure {
    Failure { code: ErrorCode::InternalError, message: message.to_owned(), retryable: false }
}

/// The cause is for our log: it may name files, variables and addresses that are nothing for an agent.
fn unusable(what: &impl Display, cause: &dyn Error, message: &str) -> Failure {
    tracing::error!(%what, %cause, "`{what}` cannot be used: {cause}");
    refused(message)
}
