//! A manifest: what a tool is and how it is executed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CustomWork, Digest, Primitive, RawJson, Schema, SchemaRef};

/// What a tool is and how it is executed. With [`Schema`]s it is whole; with [`SchemaRef`]s it is what events hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest<S = Schema> {
    /// The upstream's name for it.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What it does, for the model that chooses.
    #[serde(default)]
    pub description: Box<str>,
    /// `GET`, `POST`, …
    pub method: Box<str>,
    /// `/orders/{id}`, or `/mcp/{name}` for tools of MCP servers.
    pub path: Box<str>,
    /// The source's words on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Box<str>>,
    /// The arguments.
    pub input_schema: S,
    /// The shape of a successful result.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<S>,
    /// How a call is carried out.
    pub execution: Execution,
    /// The specification calls it out of date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// The specification's security requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<RawJson>,
    /// MCP annotations, icons, `_meta` and whatever else the upstream said, passed on as it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<Box<str>, RawJson>,
}

fn none<S>() -> Option<S> {
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
        polling: Polling,
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
    /// What is carried out: most often a tool.
    pub fn primitive(&self) -> Primitive {
        match self {
            Self::McpPrompt => Primitive::Prompt,
            Self::McpResource { .. } | Self::McpTemplate { .. } => Primitive::Resource,
            Self::Custom { does } => does.as_ref().map_or(Primitive::Tool, |work| work.primitive()),
            Self::SyncHttp(_)
            | Self::AsyncPoll { .. }
            | Self::McpCall
            | Self::Builtin
            | Self::Workflow { .. } => Primitive::Tool,
        }
    }

    /// What is done for something that an admin wrote down.
    pub fn work(&self) -> Option<&CustomWork> {
        match self {
            Self::Custom { does } => does.as_deref(),
            _ => None,
        }
    }

    /// The address of a resource.
    pub fn resource_uri(&self) -> Option<&str> {
        match (self, self.work()) {
            (Self::McpResource { uri }, _) | (_, Some(CustomWork::Resource { uri, .. })) => {
                Some(uri)
            }
            _ => None,
        }
    }

    /// What the addresses of several resources are like.
    pub fn resource_template(&self) -> Option<&str> {
        match (self, self.work()) {
            (Self::McpTemplate { uri_template }, _)
            | (_, Some(CustomWork::Template { uri_template, .. })) => Some(uri_template),
            _ => None,
        }
    }

    /// The mode, in one word.
    pub fn mode(&self) -> &'static str {
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

/// The longest template, in bytes.
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
pub struct Polling {
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
    #[serde(default = "first_interval", skip_serializing_if = "is_first_interval")]
    pub interval_ms: u32,
    /// The longest wait, in milliseconds.
    #[serde(default = "longest_interval", skip_serializing_if = "is_longest_interval")]
    pub max_interval_ms: u32,
    /// How often to ask.
    #[serde(default = "attempts", skip_serializing_if = "is_attempts")]
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

impl Polling {
    /// What holds where nothing else is said (requirement E2), in milliseconds.
    pub const INTERVAL_MS: u32 = 1_000;
    /// The same of the longest wait.
    pub const MAX_INTERVAL_MS: u32 = 30_000;
    /// The same of how often to ask.
    pub const ATTEMPTS: u32 = 60;
    /// The shortest and the longest wait, whatever is said, in milliseconds.
    pub const WAITS_MS: (u32, u32) = (100, 10 * 60 * 1_000);
    /// How often is asked at least and at most, whatever is said.
    pub const RANGE_OF_ATTEMPTS: (u32, u32) = (1, 1_000);
}

fn first_interval() -> u32 {
    Polling::INTERVAL_MS
}

fn is_first_interval(interval: &u32) -> bool {
    *interval == Polling::INTERVAL_MS
}

fn longest_interval() -> u32 {
    Polling::MAX_INTERVAL_MS
}

fn is_longest_interval(interval: &u32) -> bool {
    *interval == Polling::MAX_INTERVAL_MS
}

fn attempts() -> u32 {
    Polling::ATTEMPTS
}

fn is_attempts(attempts: &u32) -> bool {
    *attempts == Polling::ATTEMPTS
}

impl<S> Manifest<S> {
    /// Whether it is a tool of an MCP server that is called only as a task (`execution.taskSupport`).
    pub fn must_be_a_task(&self) -> bool {
        let execution = self.extra.get("execution").map(RawJson::to_value);
        execution.is_some_and(|it| it.get("taskSupport").is_some_and(|word| word == "required"))
    }
}

impl Manifest<Schema> {
    /// The manifest as events hold it.
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
    /// SHA-256 over every field, blind to the order of keys: two manifests with one fingerprint are one tool.
    pub fn fingerprint(&self) -> Digest {
        Digest::of_canonical(&serde_json::to_value(self).expect("a manifest is JSON"))
    }

    /// The documents it needs.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + '_ {
        self.input_schema.digests().chain(self.output_schema.iter().flat_map(SchemaRef::digests))
    }
}
