//! A compiled catalog tool: everything that a call needs and that does not change between calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use builtin::BuiltinTool;
use catalog::{CataloguedSource, CataloguedTool};
use execution::{
    ArgumentValidator, CommandLine, HttpTool, HttpToolResponse, ResultProjection,
    UndeclaredArguments,
};
use model::{
    CallFailure, CustomCommand, CustomHolds, CustomWork, DisplayName, Execution, FixedAnswer,
    RawJson, SourceKind, SourceProfile, SourceSettings, SpecificationLocation,
};
use serde_json::{Map, Value};
use sources::workflow_documents::read_workflow;
use upstream::egress::EgressPolicy;
use upstream::http::{ExchangeLimits, HttpClient};
use upstream::{LargeBodyLimiter, http};
use workflow::Workflow;

use crate::call_failures::{internal_failure, report_unusable};
use crate::upstream_connections::mcp_bridge::{BridgeRequest, RequestTarget};

/// A compiled catalog tool.
pub enum CompiledTool {
    Http(Arc<CompiledHttpTool>),
    Mcp(Box<CompiledMcpTool>),
    Builtin(Box<CompiledBuiltinTool>),
    Workflow(Box<CompiledWorkflow>),
    Custom(Box<CompiledCustomTool>),
}

/// A tool that sends HTTP requests.
pub struct CompiledHttpTool {
    pub tool: HttpTool,
    pub(super) output: Option<ArgumentValidator>,
    pub(super) projection: Option<Arc<ResultProjection>>,
    pub client: HttpClient,
    pub origin: Option<http::Origin>,
    /// Overrides the token audience of the source.
    pub audience: Option<DisplayName>,
}

pub struct CompiledBuiltinTool {
    pub builtin: &'static BuiltinTool,
    pub(super) arguments: ArgumentValidator,
    pub(super) projection: Option<Arc<ResultProjection>>,
    pub client: HttpClient,
}

/// A tool that an admin wrote: a fixed answer or a program.
pub struct CompiledCustomTool {
    pub work: CustomToolWork,
    pub(super) arguments: ArgumentValidator,
    pub(super) output: Option<ArgumentValidator>,
    pub(super) projection: Option<Arc<ResultProjection>>,
}

pub enum CustomToolWork {
    Answer(FixedAnswer),
    Command(Box<CustomCommand>, CommandLine),
}

/// A tool of an MCP server.
pub struct CompiledMcpTool {
    pub(super) arguments: ArgumentValidator,
    pub(super) projection: Option<Arc<ResultProjection>>,
    schema: Arc<Value>,
    /// Its name at the server.
    name: Box<str>,
    must_be_a_task: bool,
    is_repeatable: bool,
    /// Overrides the token audience of the source.
    audience: Option<DisplayName>,
}

pub struct CompiledWorkflow {
    pub(super) arguments: ArgumentValidator,
    pub(super) output: Option<ArgumentValidator>,
    pub(super) projection: Option<Arc<ResultProjection>>,
    pub workflow: Workflow,
}

impl std::fmt::Debug for CompiledTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompiledTool")
    }
}

impl CompiledTool {
    pub(crate) fn new(
        entry: &CataloguedTool,
        source: &CataloguedSource,
        (client, room): (&HttpClient, LargeBodyLimiter),
    ) -> Result<Self, CallFailure> {
        let (id, source) = (&entry.tool.id, &source.source);
        let (Some(manifest), Some(schema)) = (entry.tool.served_manifest(), &entry.input_schema)
        else {
            return Err(internal_failure("the tool is not served"));
        };
        let projection = compile_projection(entry)?;
        if manifest.execution == Execution::McpCall {
            let schema = Arc::new(schema.to_value());
            let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Sent);
            let (name, must_be_a_task) = (manifest.name.clone(), manifest.requires_task());
            let is_repeatable = is_repeatable(&manifest.extra);
            return Ok(Self::Mcp(Box::new(CompiledMcpTool {
                arguments,
                projection,
                schema,
                name,
                must_be_a_task,
                is_repeatable,
                audience: entry.tool.overridden.audience.clone(),
            })));
        }
        if let Execution::Workflow { document } = &manifest.execution {
            // It was valid when it was discovered, but perhaps by another version of toolcrib.
            let workflow = read_workflow(document)
                .map_err(|error| report_unusable(id, &error, "the workflow cannot be run"))?;
            let output = entry.promised_output_schema();
            let ready = CompiledWorkflow {
                arguments: ArgumentValidator::compile(
                    &schema.to_value(),
                    UndeclaredArguments::Sent,
                ),
                output: output.map(|it| {
                    ArgumentValidator::compile(&it.to_value(), UndeclaredArguments::Sent)
                }),
                projection,
                workflow,
            };
            return Ok(Self::Workflow(Box::new(ready)));
        }
        let work = manifest.execution.custom_work();
        if let Some(CustomWork::Answer(_) | CustomWork::Command(_)) = work {
            let schema = schema.to_value();
            let (work, others) = match work {
                Some(CustomWork::Command(command)) => {
                    let line = CommandLine::compile(command, &schema);
                    let others = if command.stdin {
                        UndeclaredArguments::Sent
                    } else {
                        UndeclaredArguments::Rejected
                    };
                    (CustomToolWork::Command(Box::new(command.clone()), line), others)
                }
                Some(CustomWork::Answer(answer)) => {
                    (CustomToolWork::Answer(answer.clone()), UndeclaredArguments::Rejected)
                }
                _ => return Err(internal_failure("this version of toolcrib has no such tool")),
            };
            let arguments = ArgumentValidator::compile(&schema, others);
            let output = entry.promised_output_schema();
            let output = output
                .map(|it| ArgumentValidator::compile(&it.to_value(), UndeclaredArguments::Sent));
            let ready = CompiledCustomTool { work, arguments, output, projection };
            return Ok(Self::Custom(Box::new(ready)));
        }
        let allowing = |client: &HttpClient| {
            client
                .with_allowed_texts(&source.profile.allow)
                .map_err(|error| report_unusable(id, &error, "the tool cannot be reached"))
        };
        if manifest.execution == Execution::Builtin {
            let Some(builtin) = BuiltinTool::find_by_name(&manifest.name) else {
                return Err(internal_failure("this version of toolcrib has no such tool"));
            };
            let arguments =
                ArgumentValidator::compile(&schema.to_value(), UndeclaredArguments::Rejected);
            // Agents may name any address here, so the exceptions that were opened for other sources do not apply.
            let client = client.with_egress(EgressPolicy::default()).for_agent_hosts();
            let client = allowing(&client)?;
            let ready = CompiledBuiltinTool { builtin, arguments, projection, client };
            return Ok(Self::Builtin(Box::new(ready)));
        }
        let time = source.profile.limits.timeout().unwrap_or(ExchangeLimits::default().deadline);
        let client = allowing(client)?.with_body_limiter(room, time);
        let answers = match source.profile.settings.kind() {
            SourceKind::HttpManifest => HttpToolResponse::ToolResult,
            SourceKind::Openapi
            | SourceKind::Mcp
            | SourceKind::Workflow
            | SourceKind::Builtin
            | SourceKind::Custom => HttpToolResponse::Api,
        };
        let schema = schema.to_value();
        let tool = match work {
            Some(
                CustomWork::Resource { holds: CustomHolds::Request(request), .. }
                | CustomWork::Template { holds: CustomHolds::Request(request), .. },
            ) => HttpTool::from_request(
                id.clone(),
                ("GET", request),
                &schema,
                HttpToolResponse::Document,
            ),
            _ => HttpTool::compile(id.clone(), manifest, &schema, answers),
        };
        let tool =
            tool.map_err(|error| report_unusable(id, &error, "the tool cannot be called"))?;
        let output = entry.promised_output_schema();
        let output = output.map(|schema| {
            ArgumentValidator::compile(&schema.to_value(), UndeclaredArguments::Sent)
        });
        Ok(Self::Http(Arc::new(CompiledHttpTool {
            tool,
            output,
            projection,
            client,
            origin: credential_origin(&source.profile),
            audience: entry.tool.overridden.audience.clone(),
        })))
    }

    /// Approximate memory use, relative to a small tool.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::Http(http) => {
                http.tool.relative_size()
                    + http.output.as_ref().map_or(0, ArgumentValidator::relative_size)
            }
            Self::Mcp(mcp) => mcp.arguments.relative_size(),
            Self::Builtin(builtin) => builtin.arguments.relative_size(),
            Self::Custom(it) => {
                it.arguments.relative_size()
                    + it.output.as_ref().map_or(0, ArgumentValidator::relative_size)
            }
            Self::Workflow(it) => {
                let of_output = it.output.as_ref().map_or(0, ArgumentValidator::relative_size);
                it.arguments.relative_size() + of_output + it.workflow.memory_weight()
            }
        }
    }

    /// The output schema, where toolcrib itself guarantees it.
    pub fn output_schema(&self) -> Option<&ArgumentValidator> {
        match self {
            Self::Http(http) => http.output.as_ref(),
            Self::Workflow(it) => it.output.as_ref(),
            Self::Custom(it) => it.output.as_ref(),
            Self::Mcp(_) | Self::Builtin(_) => None,
        }
    }

    /// The argument schema; an HTTP tool checks its arguments itself.
    pub fn argument_schema(&self) -> Option<&ArgumentValidator> {
        match self {
            Self::Http(_) => None,
            Self::Mcp(it) => Some(&it.arguments),
            Self::Builtin(it) => Some(&it.arguments),
            Self::Workflow(it) => Some(&it.arguments),
            Self::Custom(it) => Some(&it.arguments),
        }
    }

    /// The admin's projection of its answers, if any.
    pub fn projection(&self) -> Option<&Arc<ResultProjection>> {
        match self {
            Self::Http(it) => it.projection.as_ref(),
            Self::Mcp(it) => it.projection.as_ref(),
            Self::Builtin(it) => it.projection.as_ref(),
            Self::Workflow(it) => it.projection.as_ref(),
            Self::Custom(it) => it.projection.as_ref(),
        }
    }
}

impl CompiledMcpTool {
    pub fn to_mcp_request(&self, arguments: Map<String, Value>) -> BridgeRequest {
        let params = Map::from_iter([
            ("name".to_owned(), Value::from(&*self.name)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        let (schema, must_be_a_task) = (Arc::clone(&self.schema), self.must_be_a_task);
        let what = RequestTarget::Tool { schema, must_be_a_task };
        let (is_repeatable, audience) = (self.is_repeatable, self.audience.clone());
        BridgeRequest {
            params,
            target: what,
            is_idempotent: is_repeatable,
            audience,
            caller_deadline: None,
            own_deadline: None,
        }
    }
}

/// Compiles the admin's projection. It was valid when it was set, but perhaps in another version of toolcrib.
fn compile_projection(
    entry: &CataloguedTool,
) -> Result<Option<Arc<ResultProjection>>, CallFailure> {
    let Some(text) = &entry.tool.overridden.projection else { return Ok(None) };
    match ResultProjection::compile(text) {
        Ok(projection) => Ok(Some(Arc::new(projection))),
        Err(error) => {
            Err(report_unusable(&entry.tool.id, &error, "the projection of the tool is wrong"))
        }
    }
}

/// Whether repeating a call is harmless according to the server's annotations; a wrong annotation harms only the
/// server.
fn is_repeatable(extra: &BTreeMap<Box<str>, RawJson>) -> bool {
    let annotations = extra.get("annotations").map(RawJson::to_value).unwrap_or_default();
    let says = |hint| annotations.get(hint).is_some_and(|said| *said == true);
    says("readOnlyHint") || says("idempotentHint")
}

/// The only origin that may receive credentials (requirement O7). An inline specification names its own servers.
pub fn credential_origin(profile: &SourceProfile) -> Option<http::Origin> {
    let specification = match &profile.settings {
        SourceSettings::Openapi(settings) => settings.specification.as_ref(),
        _ => None,
    };
    match (&profile.url, specification) {
        (Some(url), _) | (None, Some(SpecificationLocation::Url(url))) => {
            Some(url.as_url().origin())
        }
        (None, _) => None,
    }
}

/// Whether requests of both profiles go to the same upstream, so that a request of one may carry the credentials of the
/// other. Without a fixed URL, the specification and the credentials settings also decide, and must be equal.
pub fn has_same_destination(before: &SourceProfile, now: &SourceProfile) -> bool {
    fn destination(profile: &SourceProfile) -> impl PartialEq {
        let SourceProfile { url, auth, client_certificate, allow, settings, .. } = profile;
        let specification = match settings {
            SourceSettings::Openapi(settings) => {
                Some((&settings.specification, &settings.credentials))
            }
            _ => None,
        };
        let others = url.is_none().then_some((auth, specification));
        (url, client_certificate, allow, others)
    }
    destination(before) == destination(now)
}
