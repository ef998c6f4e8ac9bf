//! A compiled catalog tool: everything that a call needs and that does not change between calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use builtin::Builtin;
use catalog::{CataloguedSource, CataloguedTool};
use execution::{Answers, Arguments, CommandLine, HttpTool, Others, Projection};
use model::{
    CustomCommand, CustomHolds, CustomWork, Execution, Failure, FixedAnswer, Kind, Name, RawJson,
    Settings, SourceProfile, SpecificationPlace,
};
use serde_json::{Map, Value};
use upstream::Room;
use upstream::egress::Egress;
use upstream::http::{self, HttpClient, Limits};
use workflow::Workflow;

use super::call::{refused, unusable};
use crate::upstreams::bridge::{Asking, Wanted};
use crate::workflows::read_workflow;

/// A compiled catalog tool.
pub(crate) enum Ready {
    Http(Arc<HttpReady>),
    Mcp(Box<McpReady>),
    Builtin(Box<BuiltinReady>),
    Workflow(Box<WorkflowReady>),
    Custom(Box<CustomReady>),
}

/// A tool that sends HTTP requests.
pub(crate) struct HttpReady {
    pub(super) tool: HttpTool,
    pub(super) output: Option<Arguments>,
    pub(super) projection: Option<Arc<Projection>>,
    pub(super) client: HttpClient,
    pub(super) origin: Option<http::Origin>,
    /// Overrides the token audience of the source.
    pub(super) audience: Option<Name>,
}

pub(crate) struct BuiltinReady {
    pub(super) builtin: &'static Builtin,
    pub(super) arguments: Arguments,
    pub(super) projection: Option<Arc<Projection>>,
    pub(super) client: HttpClient,
}

/// A tool that an admin wrote: a fixed answer or a program.
pub(crate) struct CustomReady {
    pub(super) work: ToolWork,
    pub(super) arguments: Arguments,
    pub(super) output: Option<Arguments>,
    pub(super) projection: Option<Arc<Projection>>,
}

pub(crate) enum ToolWork {
    Answer(FixedAnswer),
    Command(Box<CustomCommand>, CommandLine),
}

/// A tool of an MCP server.
pub(crate) struct McpReady {
    pub(super) arguments: Arguments,
    pub(super) projection: Option<Arc<Projection>>,
    schema: Arc<Value>,
    /// Its name at the server.
    name: Box<str>,
    must_be_a_task: bool,
    is_repeatable: bool,
    /// Overrides the token audience of the source.
    audience: Option<Name>,
}

pub(crate) struct WorkflowReady {
    pub(super) arguments: Arguments,
    pub(super) output: Option<Arguments>,
    pub(super) projection: Option<Arc<Projection>>,
    pub(super) workflow: Workflow,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready")
    }
}

impl Ready {
    pub(crate) fn new(
        entry: &CataloguedTool,
        source: &CataloguedSource,
        (client, room): (&HttpClient, Room),
    ) -> Result<Self, Failure> {
        let (id, source) = (&entry.tool.id, &source.source);
        let (Some(manifest), Some(schema)) = (entry.tool.served_manifest(), &entry.input_schema)
        else {
            return Err(refused("the tool is not served"));
        };
        let projection = projection(entry)?;
        if manifest.execution == Execution::McpCall {
            let schema = Arc::new(schema.to_value());
            let arguments = Arguments::compile(&schema, Others::Sent);
            let (name, must_be_a_task) = (manifest.name.clone(), manifest.must_be_a_task());
            let is_repeatable = is_repeatable(&manifest.extra);
            return Ok(Self::Mcp(Box::new(McpReady {
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
                .map_err(|error| unusable(id, &error, "the workflow cannot be run"))?;
            let output = entry.promised_output();
            let ready = WorkflowReady {
                arguments: Arguments::compile(&schema.to_value(), Others::Sent),
                output: output.map(|it| Arguments::compile(&it.to_value(), Others::Sent)),
                projection,
                workflow,
            };
            return Ok(Self::Workflow(Box::new(ready)));
        }
        let work = manifest.execution.work();
        if let Some(CustomWork::Answer(_) | CustomWork::Command(_)) = work {
            let schema = schema.to_value();
            let (work, others) = match work {
                Some(CustomWork::Command(command)) => {
                    let line = CommandLine::compile(command, &schema);
                    let others = if command.stdin { Others::Sent } else { Others::Refused };
                    (ToolWork::Command(Box::new(command.clone()), line), others)
                }
                Some(CustomWork::Answer(answer)) => {
                    (ToolWork::Answer(answer.clone()), Others::Refused)
                }
                _ => return Err(refused("this version of toolcrib has no such tool")),
            };
            let arguments = Arguments::compile(&schema, others);
            let output = entry.promised_output();
            let output = output.map(|it| Arguments::compile(&it.to_value(), Others::Sent));
            let ready = CustomReady { work, arguments, output, projection };
            return Ok(Self::Custom(Box::new(ready)));
        }
        let allowing = |client: &HttpClient| {
            client
                .allowing_texts(&source.profile.allow)
                .map_err(|error| unusable(id, &error, "the tool cannot be reached"))
        };
        if manifest.execution == Execution::Builtin {
            let Some(builtin) = Builtin::named(&manifest.name) else {
                return Err(refused("this version of toolcrib has no such tool"));
            };
            let arguments = Arguments::compile(&schema.to_value(), Others::Refused);
            // Agents may name any address here, so the exceptions that were opened for other sources do not apply.
            let client = client.with_egress(Egress::default()).for_names_of_agents();
            let client = allowing(&client)?;
            let ready = BuiltinReady { builtin, arguments, projection, client };
            return Ok(Self::Builtin(Box::new(ready)));
        }
        let time = source.profile.limits.timeout().unwrap_or(Limits::default().deadline);
        let client = allowing(client)?.within(room, time);
        let answers = match source.profile.settings.kind() {
            Kind::HttpManifest => Answers::ToolResult,
            Kind::Openapi | Kind::Mcp | Kind::Workflow | Kind::Builtin | Kind::Custom => {
                Answers::Api
            }
        };
        let schema = schema.to_value();
        let tool = match work {
            Some(
                CustomWork::Resource { holds: CustomHolds::Request(request), .. }
                | CustomWork::Template { holds: CustomHolds::Request(request), .. },
            ) => HttpTool::of_request(id.clone(), ("GET", request), &schema, Answers::Document),
            _ => HttpTool::compile(id.clone(), manifest, &schema, answers),
        };
        let tool = tool.map_err(|error| unusable(id, &error, "the tool cannot be called"))?;
        let output = entry.promised_output();
        let output = output.map(|schema| Arguments::compile(&schema.to_value(), Others::Sent));
        Ok(Self::Http(Arc::new(HttpReady {
            tool,
            output,
            projection,
            client,
            origin: origin(&source.profile),
            audience: entry.tool.overridden.audience.clone(),
        })))
    }

    /// Approximate memory use, relative to a small tool.
    pub(crate) fn weight(&self) -> u32 {
        match self {
            Self::Http(http) => {
                http.tool.weight() + http.output.as_ref().map_or(0, Arguments::weight)
            }
            Self::Mcp(mcp) => mcp.arguments.weight(),
            Self::Builtin(builtin) => builtin.arguments.weight(),
            Self::Custom(it) => {
                it.arguments.weight() + it.output.as_ref().map_or(0, Arguments::weight)
            }
            Self::Workflow(it) => {
                let of_output = it.output.as_ref().map_or(0, Arguments::weight);
                it.arguments.weight() + of_output + it.workflow.weight()
            }
        }
    }

    /// The output schema, where toolcrib itself guarantees it.
    pub(super) fn output(&self) -> Option<&Arguments> {
        match self {
            Self::Http(http) => http.output.as_ref(),
            Self::Workflow(it) => it.output.as_ref(),
            Self::Custom(it) => it.output.as_ref(),
            Self::Mcp(_) | Self::Builtin(_) => None,
        }
    }

    /// The argument schema; an HTTP tool checks its arguments itself.
    pub(super) fn arguments(&self) -> Option<&Arguments> {
        match self {
            Self::Http(_) => None,
            Self::Mcp(it) => Some(&it.arguments),
            Self::Builtin(it) => Some(&it.arguments),
            Self::Workflow(it) => Some(&it.arguments),
            Self::Custom(it) => Some(&it.arguments),
        }
    }

    /// The admin's projection of its answers, if any.
    pub(super) fn projection(&self) -> Option<&Arc<Projection>> {
        match self {
            Self::Http(it) => it.projection.as_ref(),
            Self::Mcp(it) => it.projection.as_ref(),
            Self::Builtin(it) => it.projection.as_ref(),
            Self::Workflow(it) => it.projection.as_ref(),
            Self::Custom(it) => it.projection.as_ref(),
        }
    }
}

impl McpReady {
    pub(super) fn wanted(&self, arguments: Map<String, Value>) -> Wanted {
        let params = Map::from_iter([
            ("name".to_owned(), Value::from(&*self.name)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        let (schema, must_be_a_task) = (Arc::clone(&self.schema), self.must_be_a_task);
        let what = Asking::Tool { schema, must_be_a_task };
        let (is_repeatable, audience) = (self.is_repeatable, self.audience.clone());
        Wanted { params, what, is_repeatable, audience, until: None, due: None }
    }
}

/// Compiles the admin's projection. It was valid when it was set, but perhaps in another version of toolcrib.
fn projection(entry: &CataloguedTool) -> Result<Option<Arc<Projection>>, Failure> {
    let Some(text) = &entry.tool.overridden.projection else { return Ok(None) };
    match Projection::compile(text) {
        Ok(projection) => Ok(Some(Arc::new(projection))),
        Err(error) => Err(unusable(&entry.tool.id, &error, "the projection of the tool is wrong")),
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
pub(crate) fn origin(profile: &SourceProfile) -> Option<http::Origin> {
    let specification = match &profile.settings {
        Settings::Openapi(settings) => settings.specification.as_ref(),
        _ => None,
    };
    match (&profile.url, specification) {
        (Some(url), _) | (None, Some(SpecificationPlace::Url(url))) => Some(url.as_url().origin()),
        (None, _) => None,
    }
}

/// Whether requests of both profiles go to the same upstream, so that a request of one may carry the credentials of the
/// other. Without a fixed URL, the specification and the credentials settings also decide, and must be equal.
pub(super) fn goes_the_same_way(before: &SourceProfile, now: &SourceProfile) -> bool {
    fn way(profile: &SourceProfile) -> impl PartialEq {
        let SourceProfile { url, auth, client_certificate, allow, settings, .. } = profile;
        let specification = match settings {
            Settings::Openapi(settings) => Some((&settings.specification, &settings.credentials)),
            _ => None,
        };
        let others = url.is_none().then_some((auth, specification));
        (url, client_certificate, allow, others)
    }
    way(before) == way(now)
}
