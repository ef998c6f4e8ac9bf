//! Credentials for upstreams: a credential of the source, or a token obtained for the calling agent.
//!
//! The agent's own token is sent only to the authorization server that exchanges it (requirement E4). No failure in
//! this module repeats a secret, and none of them counts as a failure of the source.

mod token_cache;
mod token_fetch;
mod token_request;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::clock::Clock;
use catalog::source::Source;
use execution::{CallCredentials, SourceCredential};
use limits::LruCache;
use model::{
    Agent, CallFailure, Digest, DisplayName, ErrorCode, SecretRef, SourceId, SourceProfile,
    SourceSettings, UpstreamAuth,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::http::{ClientTlsCertificate, HttpClient, Origin, Url};

pub use self::token_cache::CachedToken;
use self::token_cache::TokenCache;
use self::token_fetch::TokenFetch;
use self::token_request::TokenRequest;
use crate::identity::RequestCredentials;
use crate::secrets::SecretStore;
use crate::telemetry::ToolcribTelemetry;

/// The most HTTP clients of sources to keep, and how long to keep an unused one.
const MAX_SOURCE_CLIENTS: u64 = 1_000;
const CLIENT_IDLE_TIME: Duration = Duration::from_secs(10 * 60);

/// Reads and obtains the credentials of all sources.
pub struct UpstreamKeyring {
    client: HttpClient,
    tokens: TokenCache,
    telemetry: Arc<ToolcribTelemetry>,
    /// Clients with a client certificate, keyed by a digest of everything they were built from.
    certificate_clients: LruCache<Digest, HttpClient>,
    /// Clients with a source's own egress allowlist, keyed by it: building one is slow, and its connections are worth
    /// keeping.
    allowlist_clients: LruCache<Digest, HttpClient>,
}

/// On whose behalf an upstream is called.
#[derive(Clone, Copy)]
pub enum OnBehalfOf<'a> {
    /// On behalf of toolcrib itself: discovery.
    Toolcrib,
    /// On behalf of an agent, with the credentials and headers of its request.
    Agent(&'a Agent, &'a RequestCredentials),
}

/// The scope of a credential: a source, or one tool of it whose tokens have a different audience. The profile is
/// borrowed because it may contain a specification of many megabytes.
pub struct CredentialScope<'a> {
    source: &'a SourceId,
    profile: &'a SourceProfile,
    auth: Cow<'a, UpstreamAuth>,
}

impl<'a> CredentialScope<'a> {
    pub fn for_source(source: &'a SourceId, profile: &'a SourceProfile) -> Self {
        Self { source, profile, auth: Cow::Borrowed(&profile.auth) }
    }

    /// The scope of a tool: the audience that an admin set for the tool replaces the source's.
    pub fn for_tool(source: &'a Source, audience: Option<&DisplayName>) -> Self {
        let Source { id, profile, .. } = source;
        Self { source: id, profile, auth: profile.auth.with_audience(audience) }
    }
}

/// Headers and token of one request to an MCP server, in addition to those of its connection.
#[derive(Clone, Default)]
pub struct RequestAuth {
    pub(crate) headers: HeaderMap,
    pub token: Option<CachedToken>,
}

/// Why there is no token.
struct TokenUnavailable {
    failure: CallFailure,
    /// Whether the authorization server issues tokens for agents only, and none for toolcrib itself.
    is_for_agents_only: bool,
}

impl From<CallFailure> for TokenUnavailable {
    fn from(failure: CallFailure) -> Self {
        Self { failure, is_for_agents_only: false }
    }
}

impl From<TokenUnavailable> for CallFailure {
    fn from(none: TokenUnavailable) -> Self {
        none.failure
    }
}

impl UpstreamKeyring {
    pub fn new(
        client: HttpClient,
        clock: Arc<dyn Clock>,
        telemetry: Arc<ToolcribTelemetry>,
    ) -> Self {
        Self {
            client,
            tokens: TokenCache::new(clock),
            telemetry,
            certificate_clients: LruCache::new(MAX_SOURCE_CLIENTS)
                .with_idle_timeout(CLIENT_IDLE_TIME),
            allowlist_clients: LruCache::new(MAX_SOURCE_CLIENTS)
                .with_idle_timeout(CLIENT_IDLE_TIME),
        }
    }

    /// A client like `client` that presents the source's client certificate, if it has one, to `origin`. The client
    /// already has the source's egress permissions.
    pub async fn client_with_certificate(
        &self,
        client: &HttpClient,
        (source, profile): (&SourceId, &SourceProfile),
        origin: Option<Origin>,
        secrets: Option<&SecretStore>,
    ) -> Result<HttpClient, CallFailure> {
        match read_certificate(source, profile, secrets).await? {
            Some(certificate) => {
                self.certificate_client(client, (source, profile), &certificate, origin)
            }
            None => Ok(client.clone()),
        }
    }

    fn certificate_client(
        &self,
        client: &HttpClient,
        (source, profile): (&SourceId, &SourceProfile),
        certificate: &CertificateWithKey,
        origin: Option<Origin>,
    ) -> Result<HttpClient, CallFailure> {
        let (chain, key) = certificate.pem_texts();
        let at = origin.as_ref().map(Origin::ascii_serialization);
        let made_of = Digest::of_bytes(json!([source, profile.allow, at, chain, key]).to_string());
        if let Some(known) = self.certificate_clients.get(&made_of) {
            return Ok(known.sharing_limiter_of(client));
        }
        let identity = ClientTlsCertificate::from_pem(chain, key).map_err(|why| {
            let message = format!("the client certificate of the source cannot be used: {why}");
            tracing::error!(%source, "source `{source}`: {message}");
            CallFailure::new(ErrorCode::InternalError, message, false)
        })?;
        let identified = client.with_client_certificate(identity, origin);
        self.certificate_clients.insert(made_of, identified.clone());
        Ok(identified)
    }

    /// A client that may also reach these targets. An invalid entry is reported when the source is called.
    fn client_with_allowlist(&self, allow: &[Box<str>]) -> HttpClient {
        if allow.is_empty() {
            return self.client.clone();
        }
        self.allowlist_clients.get_with(Digest::of_bytes(json!(allow).to_string()), || {
            self.client.with_allowed_texts(allow).unwrap_or_else(|_| self.client.clone())
        })
    }

    /// The credentials for an HTTP request, and the token among them if one was requested.
    pub async fn http_credentials(
        &self,
        wanted: &CredentialScope<'_>,
        whose: OnBehalfOf<'_>,
        secrets: Option<&SecretStore>,
    ) -> Result<(CallCredentials, Option<CachedToken>), CallFailure> {
        let CredentialScope { source, profile, auth } = wanted;
        let mut given = CallCredentials {
            headers: forwarded_headers(profile, whose),
            ..CallCredentials::default()
        };
        if let SourceSettings::Openapi(settings) = &profile.settings {
            for (scheme, reference) in &settings.credentials {
                let value = read_secret(source, reference, secrets).await?;
                given.credentials.insert(scheme.to_string(), value);
            }
        }
        let mut held = None;
        given.own = match &**auth {
            UpstreamAuth::None => None,
            UpstreamAuth::ApiKey { location, name, value } => Some(SourceCredential::api_key(
                *location,
                name,
                read_secret(source, value, secrets).await?,
            )),
            UpstreamAuth::Basic { username, password } => Some(SourceCredential::basic(
                username,
                &read_secret(source, password, secrets).await?,
            )),
            UpstreamAuth::Bearer { token } => {
                Some(SourceCredential::bearer(read_secret(source, token, secrets).await?))
            }
            UpstreamAuth::ClientCredentials { .. }
            | UpstreamAuth::TokenExchange { .. }
            | UpstreamAuth::McpOauth { .. }
            | UpstreamAuth::McpEnterprise { .. } => {
                held = self.request_token(wanted, whose, secrets).await?;
                given.proof = held.as_ref().and_then(|held| held.client_secret().cloned());
                held.as_ref().map(|held| SourceCredential::bearer(held.token().clone()))
            }
        };
        Ok((given, held))
    }

    /// Headers and token of a request to an MCP server. Fixed credentials belong to its connection.
    pub async fn mcp_request_auth(
        &self,
        wanted: &CredentialScope<'_>,
        whose: OnBehalfOf<'_>,
        secrets: Option<&SecretStore>,
    ) -> Result<RequestAuth, CallFailure> {
        build_request_auth(wanted, whose, self.request_token(wanted, whose, secrets).await?)
    }

    /// Headers and token for discovery at an MCP server. Where tokens are exchanged and toolcrib has none of its own,
    /// they are empty, and the failure explains why.
    pub async fn mcp_discovery_auth(
        &self,
        wanted: &CredentialScope<'_>,
        secrets: Option<&SecretStore>,
    ) -> Result<(RequestAuth, Option<CallFailure>), CallFailure> {
        match self.request_token(wanted, OnBehalfOf::Toolcrib, secrets).await {
            Ok(token) => Ok((build_request_auth(wanted, OnBehalfOf::Toolcrib, token)?, None)),
            Err(TokenUnavailable { failure, is_for_agents_only: true }) => {
                Ok((RequestAuth::default(), Some(failure)))
            }
            Err(none) => Err(none.into()),
        }
    }

    /// Invalidates a token that an upstream rejected; returns whether a retry with another token is worthwhile.
    pub async fn invalidate_token(&self, held: &CachedToken) -> bool {
        self.tokens.invalidate_token(held).await
    }

    /// Requests a token; `None` if the source uses another kind of credential.
    async fn request_token(
        &self,
        wanted: &CredentialScope<'_>,
        whose: OnBehalfOf<'_>,
        secrets: Option<&SecretStore>,
    ) -> Result<Option<CachedToken>, TokenUnavailable> {
        let CredentialScope { source, profile, auth } = wanted;
        if !auth.uses_fetched_token() {
            return Ok(None);
        }
        let subject = match whose {
            OnBehalfOf::Agent(agent, came) if auth.is_per_agent() => {
                Some((agent, came.token().ok_or_else(no_subject_token)?))
            }
            OnBehalfOf::Agent(..) | OnBehalfOf::Toolcrib => None,
        };
        let wish = TokenRequest::from_profile(profile, auth, subject);
        let wish =
            wish.ok_or_else(|| unusable_credential(source, &"it is for MCP servers at a `url`"))?;
        if let Some(problem) = auth.find_problems().first() {
            return Err(wish.token_failure(source, problem).into());
        }
        let proofs = wish.read_client_secrets(source, secrets).await?;
        let certificate = read_certificate(source, profile, secrets).await?;
        let for_tokens = certificate.as_ref().filter(|certificate| certificate.for_tokens);
        if proofs.own.is_none() && for_tokens.is_none() {
            let cause = "it has neither a `client_secret` nor a certificate `for_tokens`";
            return Err(unusable_credential(source, &cause).into());
        }
        let key = wish.cache_key(source, &proofs, for_tokens);
        let client = self.client_with_allowlist(&profile.allow);
        let showing = |certificate: Option<&CertificateWithKey>, origin| match certificate {
            Some(shown) => self.certificate_client(&client, (source, profile), shown, origin),
            None => Ok(client.clone()),
        };
        let server = wish.mcp_server_url();
        let asking = TokenFetch {
            tokens: &self.tokens,
            source,
            wish: &wish,
            proofs: &proofs,
            upstream_client: showing(server.and(certificate.as_ref()), server.map(Url::origin))?,
            authority_client: showing(for_tokens, None)?,
            allowed: profile.allow.iter().filter_map(|text| text.parse().ok()).collect(),
        };
        // The future is large: boxed, or every waiting call would contain it.
        let asked = Box::pin(async {
            let start = Instant::now();
            let granted = asking.fetch_token().await;
            self.telemetry.record_token_request(
                source,
                subject.is_some(),
                start.elapsed(),
                granted.is_ok(),
            );
            granted
        });
        let held = self.tokens.get(key, asked).await;
        let held = held.map(|held| Some(held.with_origin(proofs.own.clone(), server)));
        held.map_err(|error| TokenUnavailable {
            failure: wish.oauth_failure(source, &error),
            is_for_agents_only: wish.is_for_agents_only(&error),
        })
    }
}

fn build_request_auth(
    wanted: &CredentialScope<'_>,
    whose: OnBehalfOf<'_>,
    token: Option<CachedToken>,
) -> Result<RequestAuth, CallFailure> {
    let mut headers = HeaderMap::new();
    for (name, value) in forwarded_headers(wanted.profile, whose) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.try_into()) {
            headers.insert(name, value);
        }
    }
    if let Some(held) = &token {
        let text = format!("Bearer {}", held.token().expose_secret());
        let value = HeaderValue::try_from(text);
        let mut value =
            value.map_err(|_| unusable_credential(wanted.source, &"a token cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(RequestAuth { headers, token })
}

fn no_subject_token() -> CallFailure {
    let message = "the source is called with the agent's own rights, and the agent showed no token \
                   that could be exchanged: call with a token of a trusted issuer";
    let code = ErrorCode::TokenExchangeFailed;
    CallFailure::new(code, message, false)
}

/// Headers of the agent's request that an admin allows to be forwarded. None of them can replace the source's own
/// credential, whatever the settings say.
pub fn forwarded_headers(profile: &SourceProfile, whose: OnBehalfOf<'_>) -> Vec<(String, String)> {
    let OnBehalfOf::Agent(_, came) = whose else { return Vec::new() };
    // Trace headers are passed on separately, to every upstream, and only if they are valid.
    let is_trace = |name: &str| {
        ["traceparent", "tracestate"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let is_own = |name: &str| {
        profile.auth.api_key_header().is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    let wanted = profile.forward_headers.iter().filter(|name| !is_trace(name) && !is_own(name));
    came.forwardable_headers(wanted.map(|name| &**name))
}

/// A client certificate with its key.
struct CertificateWithKey {
    chain: SecretString,
    key: SecretString,
    for_tokens: bool,
}

impl CertificateWithKey {
    fn pem_texts(&self) -> (&str, &str) {
        (self.chain.expose_secret(), self.key.expose_secret())
    }
}

async fn read_certificate(
    source: &SourceId,
    profile: &SourceProfile,
    secrets: Option<&SecretStore>,
) -> Result<Option<CertificateWithKey>, CallFailure> {
    let Some(said) = &profile.client_certificate else { return Ok(None) };
    let chain = read_secret(source, &said.chain, secrets).await?;
    let key = read_secret(source, &said.key, secrets).await?;
    Ok(Some(CertificateWithKey { chain, key, for_tokens: said.for_tokens }))
}

async fn read_secret(
    source: &SourceId,
    reference: &SecretRef,
    secrets: Option<&SecretStore>,
) -> Result<SecretString, CallFailure> {
    let secrets =
        secrets.ok_or_else(|| unusable_credential(source, &"no secret can be read here"))?;
    secrets.read_secret(reference).await.map_err(|error| unusable_credential(source, &error))
}

/// The cause is only for admins: it may name files and environment variables.
fn unusable_credential(source: &SourceId, cause: &dyn std::fmt::Display) -> CallFailure {
    tracing::error!(%source, "the credential of source `{source}` cannot be used: {cause}");
    let message = "the credential of the source cannot be used";
    CallFailure::new(ErrorCode::InternalError, message, false).with_cause(cause.to_string())
}
