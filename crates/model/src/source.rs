//! A source: something registered that offers tools. Its profile, kinds, settings, trust, visibility and health.

mod stdio_command;
mod upstream_auth;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

pub use self::stdio_command::{CommandProblem, CommandSandbox, StdioCommand};
pub use self::upstream_auth::{
    ApiKeyLocation, AuthProblem, ClientCertificate, ClientProof, McpClient, TokenClient,
    UpstreamAuth, is_scope,
};
use crate::{CustomSettings, DisplayName, OpenapiSettings, SecretRef, SourceId, SourceLimits};

/// A source to register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSource {
    /// The id: given by the admin, or derived from the name.
    pub id: SourceId,
    /// Everything that an admin configures.
    pub profile: SourceProfile,
}

/// What an admin says of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceProfile {
    /// Shown to people; selectors see it.
    pub name: DisplayName,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Where the upstream is; a specification in a file or a child process has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<SourceUrl>,
    /// The kind, and what only that kind needs.
    pub settings: SourceSettings,
    /// How toolcrib shows itself to the upstream.
    #[serde(default)]
    pub auth: UpstreamAuth,
    /// What toolcrib shows of itself over TLS, to the origin of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
    /// What may be reached for this source although it is not public: addresses, networks, host names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Box<str>>,
    /// Request headers of an agent that are passed on; never the one that opened toolcrib.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forward_headers: BTreeSet<Box<str>>,
    /// What an agent's token must allow (its `scope` or `scp`) for its tools to be called, instead of what the
    /// specification says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_scopes: Option<BTreeSet<Box<str>>>,
    /// Whether new and changed tools wait for an admin.
    #[serde(default)]
    pub trust: Trust,
    /// Where agents meet its tools, unless the tool says otherwise.
    #[serde(default)]
    pub visibility: Visibility,
    /// How much it is given to do.
    #[serde(default, skip_serializing_if = "SourceLimits::is_default")]
    pub limits: SourceLimits,
    /// Seconds between scheduled refreshes; none means by hand and by signal only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_every: Option<u32>,
    /// A refresh that would remove more than this share of the tools is held back (per cent).
    #[serde(default = "default_shrink_limit")]
    pub shrink_limit: u8,
}

impl SourceProfile {
    /// All secrets that the profile refers to.
    pub fn secret_refs(&self) -> Vec<&SecretRef> {
        let mut secrets = self.auth.secret_refs();
        if let Some(certificate) = &self.client_certificate {
            secrets.extend([&certificate.chain, &certificate.key]);
        }
        match &self.settings {
            SourceSettings::Mcp { command: Some(command), .. } => {
                secrets.extend(command.environment.values());
            }
            SourceSettings::Openapi(settings) => secrets.extend(settings.credentials.values()),
            SourceSettings::Custom(custom) => {
                let commands = custom.tools.iter().filter_map(|tool| tool.command.as_ref());
                secrets.extend(commands.flat_map(|command| command.run.environment.values()));
            }
            SourceSettings::Mcp { command: None, .. }
            | SourceSettings::HttpManifest { .. }
            | SourceSettings::Workflow { .. }
            | SourceSettings::Builtin {} => {}
        }
        secrets
    }
}

fn default_shrink_limit() -> u8 {
    50
}

/// The kinds of source.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Kind")]
pub enum SourceKind {
    /// An OpenAPI specification.
    Openapi,
    /// An MCP server.
    Mcp,
    /// A server with `GET /tools`.
    HttpManifest,
    /// Declared multi-step tools.
    Workflow,
    /// Tools that ship with toolcrib.
    Builtin,
    /// Tools, prompts and resources that an admin writes down.
    Custom,
}

impl SourceKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Openapi, Self::Mcp, Self::HttpManifest, Self::Workflow, Self::Builtin, Self::Custom];

    /// The kind as written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openapi => "openapi",
            Self::Mcp => "mcp",
            Self::HttpManifest => "http_manifest",
            Self::Workflow => "workflow",
            Self::Builtin => "builtin",
            Self::Custom => "custom",
        }
    }
}

/// The error for a string that is not a kind of source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no kind of source `{given}`; the kinds are {}", SourceKind::ALL.map(SourceKind::as_str).join(", "))]
pub struct InvalidSourceKind {
    /// The rejected string, cut to a readable length.
    pub given: String,
}

impl FromStr for SourceKind {
    type Err = InvalidSourceKind;

    fn from_str(text: &str) -> Result<Self, InvalidSourceKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| InvalidSourceKind { given: text.chars().take(80).collect() })
    }
}
impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What only one kind of source needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "Settings")]
pub enum SourceSettings {
    /// An OpenAPI specification.
    Openapi(OpenapiSettings),
    /// An MCP server: a child process if there is a command, otherwise Streamable HTTP at the source's URL.
    Mcp {
        /// The child process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<StdioCommand>,
        /// How long a connection lives.
        #[serde(default)]
        lifecycle: Lifecycle,
        /// Whether agents share a connection.
        #[serde(default, skip_serializing_if = "Isolation::is_auto")]
        isolation: Isolation,
    },
    /// A server with `GET /tools`.
    HttpManifest {},
    /// Declared multi-step tools.
    Workflow {
        /// Documents of the Serverless Workflow DSL 1.0, in YAML or JSON: each is one tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        documents: Vec<Box<str>>,
    },
    /// Tools that ship with toolcrib.
    Builtin {},
    /// Tools, prompts and resources that an admin writes down.
    Custom(CustomSettings),
}

impl SourceSettings {
    /// The kind that these settings belong to.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::Openapi(_) => SourceKind::Openapi,
            Self::Mcp { .. } => SourceKind::Mcp,
            Self::HttpManifest {} => SourceKind::HttpManifest,
            Self::Workflow { .. } => SourceKind::Workflow,
            Self::Builtin {} => SourceKind::Builtin,
            Self::Custom(_) => SourceKind::Custom,
        }
    }
}

/// How long a connection to an MCP server lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// As long as one use.
    Transient,
    /// As long as the source is enabled; supervised.
    #[default]
    Persistent,
}

/// Whether agents share a connection to an MCP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// A program and a server without sessions are shared, a session is each agent's own.
    #[default]
    Auto,
    /// All share one.
    Shared,
    /// Each agent has its own, and a program its own process.
    PerAgent,
}

impl Isolation {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Whether new and changed tools wait for an admin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// They are served at once.
    #[default]
    Auto,
    /// They wait; agents keep the last approved version.
    Review,
}

/// Where agents meet a tool.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// In their list.
    #[default]
    Listed,
    /// Only through search.
    Searchable,
    /// Only by name.
    Hidden,
}

/// How a source's refreshes went lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Health")]
pub enum SourceHealth {
    /// Not asked yet.
    #[default]
    Unknown,
    /// The last refresh succeeded.
    Healthy,
    /// The last one or two failed.
    Degraded,
    /// The last three or more failed.
    Unhealthy,
}

/// An `http` or `https` address without credentials in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("format" = "uri", "title" = "an `http://` or `https://` URL, such as `https://api.example.com/openapi.json`", "pattern" = "^[Hh][Tt][Tt][Pp][Ss]?://"))]
pub struct SourceUrl(Url);

/// The error for a string that is not a source's URL. It may contain a password, so the message does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSourceUrl {
    /// The URL does not parse.
    #[error("this is not a URL")]
    NotAUrl(#[source] url::ParseError),
    /// The scheme is not `http` or `https`.
    #[error("a source's URL starts with `http://` or `https://`")]
    Scheme,
    /// The URL contains a user name or a password.
    #[error("a URL holds no user name or password: give them under `auth`, by reference")]
    Credentials,
}

impl SourceUrl {
    /// The parsed URL.
    pub fn as_url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for SourceUrl {
    type Err = InvalidSourceUrl;

    fn from_str(text: &str) -> Result<Self, InvalidSourceUrl> {
        let url = Url::parse(text).map_err(InvalidSourceUrl::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidSourceUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidSourceUrl::Credentials);
        }
        Ok(Self(url))
    }
}
impl TryFrom<String> for SourceUrl {
    type Error = InvalidSourceUrl;

    fn try_from(text: String) -> Result<Self, InvalidSourceUrl> {
        text.parse()
    }
}
impl From<SourceUrl> for String {
    fn from(url: SourceUrl) -> Self {
        url.0.into()
    }
}
impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}
impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_is_rejected_with_the_list_of_kinds() {
        let error = "graphql".parse::<SourceKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no kind of source `graphql`; the kinds are openapi, mcp, http_manifest, workflow, builtin, custom"
        );
    }

    #[test]
    fn a_url_with_credentials_is_rejected_and_not_repeated() {
        for text in ["https://me:hunter2@example.com", "ftp://example.com/hunter2", "hunter2"] {
            let error = text.parse::<SourceUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
        assert!("https://example.com/openapi.json".parse::<SourceUrl>().is_ok());
    }

    #[test]
    fn a_workflow_source_contains_its_documents() {
        let plain: SourceSettings = serde_json::from_str(r#"{"kind":"workflow"}"#).unwrap();
        assert_eq!(plain, SourceSettings::Workflow { documents: Vec::new() });
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"kind":"workflow"}"#);
        let text = r#"{"kind":"workflow","documents":["document: {}"]}"#;
        let settings: SourceSettings = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&settings).unwrap(), text);
    }

    #[test]
    fn a_profile_needs_only_a_name_and_a_kind() {
        let text = r#"{"name":"Pets","settings":{"kind":"openapi"}}"#;
        let profile: SourceProfile = serde_json::from_str(text).unwrap();
        assert_eq!((profile.settings.kind(), profile.shrink_limit), (SourceKind::Openapi, 50));
    }
}
