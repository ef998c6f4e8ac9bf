//! A manifest: what a tool is and how it is executed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CustomWork, Digest, McpPrimitive, RawJson, Schema, SchemaRef};

/// The definition of a tool and its execution. `Manifest<Schema>` is complete; `Manifest<SchemaRef>` is the form in
/// events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest<S = Schema> {
    /// The upstream's name for the tool.
    pub name: Box<str>,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// Describes the tool to the model that selects it.
    #[serde(default)]
    pub description: Box<str>,
    /// `GET`, `POST`, …
    pub method: Box<str>,
    /// `/orders/{id}`, or `/mcp/{name}` for tools of MCP servers.
    pub path: Box<str>,
    /// Tags set by the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Box<str>>,
    /// The JSON Schema of the arguments.
    pub input_schema: S,
    /// The JSON Schema of a successful result.
    #[serde(default = "absent", skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<S>,
    /// How a call is executed.
    pub execution: Execution,
    /// Whether the specification marks it as deprecated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// The specification's security requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<RawJson>,
    /// MCP annotations, icons, `_meta` and other upstream fields, passed on unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<Box<str>, RawJson>,
}

fn absent<S>() -> Option<S> {
    None
}

/// How a call is carried out: the execution mode and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Execution {
    /// One HTTP request, one answer.
    SyncHttp(HttpRequest),
    /// An HTTP request that starts work, then questions until it is done.
    AsyncPoll {
        /// The request that starts the work.
        request: HttpRequest,
        /// How to ask whether it is done.
        polling: StatusPolling,
    },
    /// `tools/call` on an MCP server.
    McpCall,
    /// `prompts/get` on an MCP server: no tool but a prompt.
    McpPrompt,
    /// `resources/read` on an MCP server: no tool but a resource.
    McpResource {
        /// Its address there.
        uri: Box<str>,
    },
    /// The same for all resources whose addresses are like this.
    McpTemplate {
        /// What their addresses are like (RFC 6570).
        uri_template: Box<str>,
    },
    /// A tool of toolcrib's own.
    Builtin,
    /// Several steps that call other tools.
    Workflow {
        /// The document that says which, as JSON.
        #[serde(default)]
        document: Box<str>,
    },
    /// What an admin wrote down: a fixed answer, a command, a prompt, a resource.
    Custom {
        /// Which of them. Nothing is what this version does not know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        does: Option<Box<CustomWork>>,
    },
}

impl Execution {
    /// Which MCP primitive it executes; for most modes a tool.
    pub fn primitive(&self) -> McpPrimitive {
        match self {
            Self::McpPrompt => McpPrimitive::Prompt,
            Self::McpResource { .. } | Self::McpTemplate { .. } => McpPrimitive::Resource,
            Self::Custom { does } => {
                does.as_ref().map_or(McpPrimitive::Tool, |work| work.primitive())
            }
            Self::SyncHttp(_)
            | Self::AsyncPoll { .. }
            | Self::McpCall
            | Self::Builtin
            | Self::Workflow { .. } => McpPrimitive::Tool,
        }
    }

    /// What a manifest of a `custom` source does.
    pub fn custom_work(&self) -> Option<&CustomWork> {
        match self {
            Self::Custom { does } => does.as_deref(),
            _ => None,
        }
    }

    /// The URI of a resource.
    pub fn resource_uri(&self) -> Option<&str> {
        match (self, self.custom_work()) {
            (Self::McpResource { uri }, _) | (_, Some(CustomWork::Resource { uri, .. })) => {
                Some(uri)
            }
            _ => None,
        }
    }

    /// The URI template of a group of resources.
    pub fn resource_template(&self) -> Option<&str> {
        match (self, self.custom_work()) {
            (Self::McpTemplate { uri_template }, _)
            | (_, Some(CustomWork::Template { uri_template, .. })) => Some(uri_template),
            _ => None,
        }
    }

    /// The mode as written in JSON.
    pub fn mode_name(&self) -> &'static str {
        match self {
            Self::SyncHttp(_) => "sync_http",
            Self::AsyncPoll { .. } => "async_poll",
            Self::McpCall => "mcp_call",
            Self::McpPrompt => "mcp_prompt",
            Self::McpResource { .. } => "mcp_resource",
            Self::McpTemplate { .. } => "mcp_template",
            Self::Builtin => "builtin",
            Self::Workflow { .. } => "workflow",
            Self::Custom { .. } => "custom",
        }
    }
}

/// Longest template, in bytes.
pub const TEMPLATE_LIMIT: usize = 64 * 1024;

/// Templates of an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpRequest {
    /// The address.
    pub url_template: Box<str>,
    /// The headers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_template: BTreeMap<Box<str>, Box<str>>,
    /// The body, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_template: Option<Box<str>>,
    /// How the body is encoded.
    #[serde(default)]
    pub body_encoding: BodyEncoding,
}

/// How a request's body is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyEncoding {
    /// `application/json`
    #[default]
    Json,
    /// `application/x-www-form-urlencoded`
    Form,
    /// `multipart/form-data`
    Multipart,
    /// Plain text.
    Text,
    /// Bytes, given as base64.
    Bytes,
}

/// How to ask whether work that was started is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Polling")]
pub struct StatusPolling {
    /// Where to ask; sees the arguments and the answer to the first request. One expression alone is a whole address
    /// that the upstream tells, at the origin of the first request.
    pub status_url_template: Box<str>,
    /// Where the status stands in an answer: `job.status`, or `/job/status`. Without it the work goes on as long as it is
    /// answered with 202.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_path: Option<Box<str>>,
    /// Statuses that mean done.
    pub completed: Vec<Box<str>>,
    /// Statuses that mean failed.
    pub failed: Vec<Box<str>>,
    /// Where the result stands in the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_path: Option<Box<str>>,
    /// How long to wait before asking first, in milliseconds. Every further wait is half as long again.
    #[serde(default = "default_interval", skip_serializing_if = "is_default_interval")]
    pub interval_ms: u32,
    /// The longest wait, in milliseconds.
    #[serde(default = "default_max_interval", skip_serializing_if = "is_default_max_interval")]
    pub max_interval_ms: u32,
    /// How often to ask.
    #[serde(default = "default_attempts", skip_serializing_if = "is_default_attempts")]
    pub attempts: u32,
    /// How to say that the work is not wanted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
}

/// A request that ends work which was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequest {
    /// `DELETE`, `POST`, …
    pub method: Box<str>,
    /// Where to; sees what the address of the status sees.
    pub url_template: Box<str>,
}

impl StatusPolling {
    /// Default first wait (requirement E2), in milliseconds.
    pub const INTERVAL_MS: u32 = 1_000;
    /// Default longest wait, in milliseconds.
    pub const MAX_INTERVAL_MS: u32 = 30_000;
    /// Default number of status requests.
    pub const DEFAULT_ATTEMPTS: u32 = 60;
    /// The allowed range of waits, in milliseconds; settings outside are clamped.
    pub const WAIT_RANGE_MS: (u32, u32) = (100, 10 * 60 * 1_000);
    /// The allowed range of the number of status requests; settings outside are clamped.
    pub const ATTEMPTS_RANGE: (u32, u32) = (1, 1_000);
}

fn default_interval() -> u32 {
    StatusPolling::INTERVAL_MS
}

fn is_default_interval(interval: &u32) -> bool {
    *interval == StatusPolling::INTERVAL_MS
}

fn default_max_interval() -> u32 {
    StatusPolling::MAX_INTERVAL_MS
}

fn is_default_max_interval(interval: &u32) -> bool {
    *interval == StatusPolling::MAX_INTERVAL_MS
}

fn default_attempts() -> u32 {
    StatusPolling::DEFAULT_ATTEMPTS
}

fn is_default_attempts(attempts: &u32) -> bool {
    *attempts == StatusPolling::DEFAULT_ATTEMPTS
}

impl<S> Manifest<S> {
    /// Whether it is an MCP tool that can only be called as a task (`execution.taskSupport` is `required`).
    pub fn requires_task(&self) -> bool {
        let execution = self.extra.get("execution").map(RawJson::to_value);
        execution.is_some_and(|it| it.get("taskSupport").is_some_and(|word| word == "required"))
    }
}

impl Manifest<Schema> {
    /// Converts to the form stored in events.
    pub fn into_stored(self) -> Manifest<SchemaRef> {
        Manifest {
            input_schema: self.input_schema.reference().clone(),
            output_schema: self.output_schema.map(|schema| schema.reference().clone()),
            name: self.name,
            title: self.title,
            description: self.description,
            method: self.method,
            path: self.path,
            tags: self.tags,
            execution: self.execution,
            deprecated: self.deprecated,
            security: self.security,
            extra: self.extra,
        }
    }
}

impl Manifest<SchemaRef> {
    /// SHA-256 over all fields, independent of key order: manifests with equal fingerprints are equal.
    pub fn fingerprint(&self) -> Digest {
        Digest::of_canonical(&serde_json::to_value(self).expect("a manifest is JSON"))
    }

    /// Digests of the documents that its schemas refer to.
    pub fn document_digests(&self) -> impl Iterator<Item = Digest> + '_ {
        self.input_schema
            .document_digests()
            .chain(self.output_schema.iter().flat_map(SchemaRef::document_digests))
    }
}
