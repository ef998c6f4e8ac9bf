//! How toolcrib authenticates to an upstream, and the validation of these settings.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::SourceUrl;
use crate::header_names::{is_header_name, is_reserved_header};
use crate::{DisplayName, SecretRef};

/// How toolcrib shows itself to an upstream. Secrets are references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "Auth")]
pub enum UpstreamAuth {
    /// Not at all.
    #[default]
    None,
    /// A key in a header, the query or a cookie.
    ApiKey {
        /// Where the key goes.
        location: ApiKeyLocation,
        /// The name of the header, parameter or cookie.
        name: Box<str>,
        /// The key.
        value: SecretRef,
    },
    /// HTTP Basic.
    Basic {
        /// Not secret.
        username: Box<str>,
        /// The password.
        password: SecretRef,
    },
    /// A fixed bearer token.
    Bearer {
        /// The token.
        token: SecretRef,
    },
    /// OAuth 2 client credentials.
    ClientCredentials {
        /// Who toolcrib is, and where.
        #[serde(flatten)]
        client: TokenClient,
        /// For whom the token is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<Box<str>>,
    },
    /// RFC 8693: the agent's token is exchanged for one that names the upstream.
    TokenExchange {
        /// Who toolcrib is, and where.
        #[serde(flatten)]
        client: TokenClient,
        /// For whom the token is. One of `audience` and `resource` is required: a token that is for nobody could be used
        /// anywhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<DisplayName>,
        /// The same as the address of what it opens, for authorization servers that want that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<Box<str>>,
        /// The kind of token that agents come with; an access token unless it is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject_token_type: Option<Box<str>>,
        /// The kind of token that is asked for; an access token unless it is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested_token_type: Option<Box<str>>,
    },
    /// For MCP servers: a token of toolcrib's own, from an authorization server that the MCP server names (RFC 9728).
    McpOauth {
        /// Who toolcrib is there.
        #[serde(flatten)]
        client: McpClient,
    },
    /// For MCP servers: enterprise-managed authorization. An identity provider takes the agent's token and vouches for the
    /// agent; an authorization server that the MCP server names gives a token for that.
    McpEnterprise {
        /// Who toolcrib is at the authorization server.
        #[serde(flatten)]
        client: McpClient,
        /// Who vouches for agents, and who toolcrib is there. What the token may do is said in `scopes` beside it.
        identity_provider: TokenClient,
        /// The kind of token that agents come with; an access token unless it is said. Some providers vouch for who shows an
        /// ID token alone: `urn:ietf:params:oauth:token-type:id_token`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject_token_type: Option<Box<str>>,
    },
}

/// A certificate that an upstream is shown over TLS, beside any other credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// Certificates in PEM: ours, then those between it and the root.
    pub chain: SecretRef,
    /// The private key of ours, in PEM.
    pub key: SecretRef,
    /// Whether the place where tokens come from is shown it too (RFC 8705).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_tokens: bool,
}

/// A client of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenClient {
    /// Where tokens come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<SourceUrl>,
    /// Whose metadata says where tokens come from, instead of `token_url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Box<str>>,
    /// Who toolcrib is there.
    pub client_id: Box<str>,
    /// How it proves that, unless it shows a certificate there (`tls_client_auth` of RFC 8705).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretRef>,
    /// Where the proof stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proof: Option<ClientProof>,
    /// What the token may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Box<str>>,
}

/// A client of an authorization server that an MCP server names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpClient {
    /// Where the client is known: one of those that the server names. The first of them unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Box<str>>,
    /// Who toolcrib is there.
    pub client_id: Box<str>,
    /// How it proves that.
    pub client_secret: SecretRef,
    /// Where the proof stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proof: Option<ClientProof>,
    /// What the token may do; what the server says unless it is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Box<str>>,
}

/// Where an API key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApiKeyLocation {
    /// A request header.
    Header,
    /// A query parameter.
    Query,
    /// A cookie.
    Cookie,
}

/// Where a client's secret stands when it asks for a token (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClientProof {
    /// In a header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// In the form.
    #[serde(rename = "client_secret_post")]
    Post,
}

/// A setting under `auth` that is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`auth.{member}` {why}")]
pub struct AuthProblem {
    /// Path of the field below `auth`.
    pub member: &'static str,
    /// The problem, as the end of a sentence.
    pub why: &'static str,
}

impl UpstreamAuth {
    /// Whether the credential is a token from an authorization server: it may be revoked early, so a retry can help.
    pub fn uses_fetched_token(&self) -> bool {
        match self {
            Self::None | Self::ApiKey { .. } | Self::Basic { .. } | Self::Bearer { .. } => false,
            Self::ClientCredentials { .. }
            | Self::TokenExchange { .. }
            | Self::McpOauth { .. }
            | Self::McpEnterprise { .. } => true,
        }
    }

    /// Whether it only works for MCP servers over HTTP.
    pub fn is_mcp_only(&self) -> bool {
        matches!(self, Self::McpOauth { .. } | Self::McpEnterprise { .. })
    }

    /// All secrets that it refers to.
    pub fn secret_refs(&self) -> Vec<&SecretRef> {
        match self {
            Self::None => Vec::new(),
            Self::ApiKey { value: secret, .. }
            | Self::Basic { password: secret, .. }
            | Self::Bearer { token: secret } => vec![secret],
            Self::ClientCredentials { client, .. } | Self::TokenExchange { client, .. } => {
                client.client_secret.iter().collect()
            }
            Self::McpOauth { client } => vec![&client.client_secret],
            Self::McpEnterprise { client, identity_provider, .. } => [&client.client_secret]
                .into_iter()
                .chain(&identity_provider.client_secret)
                .collect(),
        }
    }

    /// The kind as written in JSON.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ApiKey { .. } => "api_key",
            Self::Basic { .. } => "basic",
            Self::Bearer { .. } => "bearer",
            Self::ClientCredentials { .. } => "client_credentials",
            Self::TokenExchange { .. } => "token_exchange",
            Self::McpOauth { .. } => "mcp_oauth",
            Self::McpEnterprise { .. } => "mcp_enterprise",
        }
    }

    /// Whether toolcrib authenticates to the token endpoint by its TLS certificate alone.
    pub fn authenticates_by_certificate(&self) -> bool {
        match self {
            Self::ClientCredentials { client, .. } | Self::TokenExchange { client, .. } => {
                client.client_secret.is_none()
            }
            _ => false,
        }
    }

    /// The request header with the API key; nothing else may set this header.
    pub fn api_key_header(&self) -> Option<&str> {
        match self {
            Self::ApiKey { location: ApiKeyLocation::Header, name, .. } => Some(name),
            _ => None,
        }
    }

    /// Replaces the audience of the token, if one is given and the tokens are requested by audience.
    pub fn with_audience(&self, other: Option<&DisplayName>) -> Cow<'_, Self> {
        let Some(other) = other else { return Cow::Borrowed(self) };
        match self {
            Self::ClientCredentials { client, .. } => {
                let (client, audience) = (client.clone(), Some(other.as_str().into()));
                Cow::Owned(Self::ClientCredentials { client, audience })
            }
            Self::TokenExchange { .. } => {
                let mut auth = self.clone();
                if let Self::TokenExchange { audience, resource, .. } = &mut auth {
                    (*audience, *resource) = (Some(other.clone()), None);
                }
                Cow::Owned(auth)
            }
            Self::None
            | Self::ApiKey { .. }
            | Self::Basic { .. }
            | Self::Bearer { .. }
            | Self::McpOauth { .. }
            | Self::McpEnterprise { .. } => Cow::Borrowed(self),
        }
    }

    /// Whether the upstream sees the identity of each agent.
    pub fn is_per_agent(&self) -> bool {
        matches!(self, Self::TokenExchange { .. } | Self::McpEnterprise { .. })
    }

    /// All problems with these settings.
    pub fn find_problems(&self) -> Vec<AuthProblem> {
        let mut problems = Vec::new();
        let mut say = |holds: bool, member, why| {
            if !holds {
                problems.push(AuthProblem { member, why });
            }
        };
        match self {
            Self::None | Self::Bearer { .. } => {}
            Self::ApiKey { location, name, .. } => {
                let fits = match location {
                    ApiKeyLocation::Header => {
                        is_header_name(name)
                            && (!is_reserved_header(name)
                                || name.eq_ignore_ascii_case("authorization"))
                    }
                    ApiKeyLocation::Cookie => is_header_name(name),
                    ApiKeyLocation::Query => !name.is_empty(),
                };
                say(fits, "name", "cannot hold a key");
            }
            Self::Basic { username, .. } => {
                let fits = !username.contains(|c: char| c == ':' || c.is_control());
                say(fits, "username", "has a colon or a control character");
            }
            Self::ClientCredentials { client, .. } => {
                check_token_location(client, ["token_url", "issuer"], &mut say);
                check_scopes(&client.scopes, &mut say);
            }
            Self::TokenExchange { client, audience, resource, .. } => {
                check_token_location(client, ["token_url", "issuer"], &mut say);
                check_scopes(&client.scopes, &mut say);
                let is_for_somebody = audience.is_some() || resource.is_some();
                say(is_for_somebody, "audience", "is missing, and so is `resource`: give one");
                let fits = resource.as_deref().is_none_or(is_resource_uri);
                say(fits, "resource", "is no absolute URI without a fragment");
            }
            Self::McpOauth { client } => check_mcp_client(client, &mut say),
            Self::McpEnterprise { client, identity_provider, .. } => {
                check_mcp_client(client, &mut say);
                let members = ["identity_provider.token_url", "identity_provider.issuer"];
                check_token_location(identity_provider, members, &mut say);
                let fits = identity_provider.client_secret.is_some();
                say(fits, "identity_provider.client_secret", "is missing");
                let fits = identity_provider.scopes.is_empty();
                say(fits, "identity_provider.scopes", "stand in `auth.scopes`");
            }
        }
        problems
    }
}

/// Takes the result of a check; on failure it reports the field and the problem.
type CheckReporter<'a> = &'a mut dyn FnMut(bool, &'static str, &'static str);

fn check_token_location(
    client: &TokenClient,
    [of_url, of_issuer]: [&'static str; 2],
    say: CheckReporter<'_>,
) {
    let TokenClient { token_url, issuer, .. } = client;
    let both = token_url.is_some() && issuer.is_some();
    say(!both, of_issuer, "stands beside `token_url`: give one");
    let is_missing = token_url.is_none() && issuer.is_none();
    say(!is_missing, of_url, "is missing, and so is `issuer`: give one");
    say(issuer.as_deref().is_none_or(is_issuer_url), of_issuer, INVALID_ISSUER);
}

fn check_mcp_client(client: &McpClient, say: CheckReporter<'_>) {
    say(client.issuer.as_deref().is_none_or(is_issuer_url), "issuer", INVALID_ISSUER);
    check_scopes(&client.scopes, say);
}

fn check_scopes(scopes: &[Box<str>], say: CheckReporter<'_>) {
    let fits = scopes.iter().all(|scope| is_scope(scope));
    say(fits, "scopes", "has one with characters that no scope has");
}

/// Whether a string is a valid `resource` parameter (RFC 8707, section 2).
fn is_resource_uri(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.fragment().is_none())
}

const INVALID_ISSUER: &str = "is no `http` or `https` URL without credentials and query";

fn is_issuer_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

/// Whether a string is a valid scope (RFC 6749, section 3.3).
pub fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
    !text.is_empty() && text.len() <= 256 && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(auth: Value) -> Vec<String> {
        let auth: UpstreamAuth = serde_json::from_value(auth).unwrap();
        auth.find_problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn token_exchange_requires_an_audience_and_a_tool_replaces_it() {
        let auth = |more: Value| -> UpstreamAuth {
            let mut auth = json!({"kind": "token_exchange", "token_url": "https://id.example",
                "client_id": "t", "client_secret": "env:S"});
            auth.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            serde_json::from_value(auth).unwrap()
        };
        let problems = auth(json!({})).find_problems();
        assert!(problems[0].to_string().contains("`auth.audience` is missing"), "{problems:?}");
        for whom in [json!({"audience": "a"}), json!({"resource": "https://api.example/"})] {
            assert_eq!(auth(whom.clone()).find_problems(), [], "{whom}");
            let other = "vet".parse().unwrap();
            let of_tool = auth(whom).with_audience(Some(&other)).into_owned();
            assert_eq!(of_tool, auth(json!({"audience": "vet"})));
        }
    }

    #[test]
    fn token_url_and_issuer_exclude_each_other() {
        let exchange = |more: Value| {
            let mut auth = json!({"kind": "token_exchange", "client_id": "t",
                "client_secret": "env:S", "audience": "a"});
            for (name, value) in more.as_object().unwrap() {
                auth[name] = value.clone();
            }
            problems(auth)
        };
        let (url, issuer) = ("https://id.example/token", "https://id.example");
        assert!(exchange(json!({"token_url": url})).is_empty());
        assert!(exchange(json!({"issuer": issuer})).is_empty());
        assert!(exchange(json!({}))[0].contains("`auth.token_url` is missing"));
        assert!(exchange(json!({"token_url": url, "issuer": issuer}))[0].contains("beside"));
        for odd in ["id.example", "ftp://id.example", "https://me:pw@id.example", "https://a?b"] {
            assert_eq!(exchange(json!({"issuer": odd})).len(), 1, "{odd}");
        }
        assert_eq!(exchange(json!({"issuer": issuer, "scopes": ["a b"]})).len(), 1);
    }

    #[test]
    fn the_identity_provider_has_one_token_location_too() {
        let enterprise = |issuer: &str, provider: Value| {
            problems(json!({"kind": "mcp_enterprise", "issuer": issuer, "client_id": "t",
                "client_secret": "env:S", "identity_provider": provider}))
        };
        let provider =
            json!({"issuer": "https://id.example", "client_id": "t", "client_secret": "env:P"});
        assert!(enterprise("https://as.example", provider.clone()).is_empty());
        assert!(enterprise("as.example", provider.clone())[0].starts_with("`auth.issuer` is no"));
        let mut odd = provider;
        odd["token_url"] = json!("https://id.example/token");
        odd["scopes"] = json!(["a"]);
        let odd = enterprise("https://as.example", odd);
        assert!(odd[0].starts_with("`auth.identity_provider.issuer` stands beside"), "{odd:?}");
        assert_eq!(odd[1], "`auth.identity_provider.scopes` stand in `auth.scopes`");
        let bare = json!({"kind": "mcp_oauth", "client_id": "t", "client_secret": "env:S"});
        assert!(problems(bare).is_empty());
    }

    #[test]
    fn api_keys_need_a_valid_location_and_name() {
        let key = |location: &str, name: &str| {
            problems(
                json!({"kind": "api_key", "location": location, "name": name, "value": "env:K"}),
            )
        };
        assert!(key("header", "X-Key").is_empty() && key("header", "Authorization").is_empty());
        assert!(key("query", "a key").is_empty() && key("cookie", "sid").is_empty());
        for (location, name) in [("header", "Host"), ("header", "a b"), ("cookie", "a=b")] {
            assert_eq!(key(location, name), ["`auth.name` cannot hold a key"], "{name}");
        }
        let basic = json!({"kind": "basic", "username": "a:b", "password": "env:P"});
        assert_eq!(problems(basic).len(), 1);
    }
}
