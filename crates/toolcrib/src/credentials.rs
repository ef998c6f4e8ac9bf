//! Credentials for upstreams: a credential of the source, or a token obtained for the calling agent.
//!
//! The agent's own token is sent only to the authorization server that exchanges it (requirement E4). No failure in
//! this module repeats a secret, and none of them counts as a failure of the source.

mod asking;
mod tokens;
mod wish;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::clock::Clock;
use catalog::source::Source;
use execution::{Given, Own};
use model::SourceProfile;
use model::{Agent, Auth, Cache, Digest, ErrorCode, Failure, Name, SecretRef, Settings, SourceId};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::http::{HttpClient, Identity, Origin, Url};

use self::asking::Asking;
pub(crate) use self::tokens::Held;
use self::tokens::Tokens;
use self::wish::Wish;
use crate::identity::CameWith;
use crate::secrets::Secrets;
use crate::telemetry::Telemetry;

/// The most HTTP clients of sources to keep, and how long to keep an unused one.
const CLIENTS: u64 = 1_000;
const CLIENTS_FOR: Duration = Duration::from_secs(10 * 60);

/// Reads and obtains the credentials of all sources.
pub(crate) struct Keyring {
    client: HttpClient,
    tokens: Tokens,
    telemetry: Arc<Telemetry>,
    /// Clients with a client certificate, keyed by a digest of everything they were built from.
    identified: Cache<Digest, HttpClient>,
    /// Clients with a source's own egress allowlist, keyed by it: building one is slow, and its connections are worth
    /// keeping.
    allowed: Cache<Digest, HttpClient>,
}

/// On whose behalf an upstream is called.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    /// On behalf of toolcrib itself: discovery.
    Ours,
    /// On behalf of an agent, with the credentials and headers of its request.
    Agent(&'a Agent, &'a CameWith),
}

/// The scope of a credential: a source, or one tool of it whose tokens have a different audience. The profile is
/// borrowed because it may contain a specification of many megabytes.
pub(crate) struct For<'a> {
    source: &'a SourceId,
    profile: &'a SourceProfile,
    auth: Cow<'a, Auth>,
}

impl<'a> For<'a> {
    pub(crate) fn source(source: &'a SourceId, profile: &'a SourceProfile) -> Self {
        Self { source, profile, auth: Cow::Borrowed(&profile.auth) }
    }

    /// The scope of a tool: the audience that an admin set for the tool replaces the source's.
    pub(crate) fn tool(source: &'a Source, audience: Option<&Name>) -> Self {
        let Source { id, profile, .. } = source;
        Self { source: id, profile, auth: profile.auth.for_audience(audience) }
    }
}

/// Headers and token of one request to an MCP server, in addition to those of its connection.
#[derive(Clone, Default)]
pub(crate) struct Carried {
    pub(crate) headers: HeaderMap,
    pub(crate) token: Option<Held>,
}

/// Why there is no token.
struct NoToken {
    failure: Failure,
    /// Whether the authorization server issues tokens for agents only, and none for toolcrib itself.
    is_for_agents_alone: bool,
}

impl From<Failure> for NoToken {
    fn from(failure: Failure) -> Self {
        Self { failure, is_for_agents_alone: false }
    }
}

impl From<NoToken> for Failure {
    fn from(none: NoToken) -> Self {
        none.failure
    }
}

impl Keyring {
    pub(crate) fn new(
        client: HttpClient,
        clock: Arc<dyn Clock>,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self {
            client,
            tokens: Tokens::new(clock),
            telemetry,
            identified: Cache::new(CLIENTS).lasting_unused(CLIENTS_FOR),
            allowed: Cache::new(CLIENTS).lasting_unused(CLIENTS_FOR),
        }
    }

    /// A client like `client` that presents the source's client certificate, if it has one, to `origin`. The client
    /// already has the source's egress permissions.
    pub(crate) async fn identified(
        &self,
        client: &HttpClient,
        (source, profile): (&SourceId, &SourceProfile),
        origin: Option<Origin>,
        secrets: Option<&Secrets>,
    ) -> Result<HttpClient, Failure> {
        match certificate(source, profile, secrets).await? {
            Some(certificate) => self.showing(client, (source, profile), &certificate, origin),
            None => Ok(client.clone()),
        }
    }

    fn showing(
        &self,
        client: &HttpClient,
        (source, profile): (&SourceId, &SourceProfile),
        certificate: &Certificate,
        origin: Option<Origin>,
    ) -> Result<HttpClient, Failure> {
        let (chain, key) = certificate.pem();
        let at = origin.as_ref().map(Origin::ascii_serialization);
        let made_of = Digest::of(json!([source, profile.allow, at, chain, key]).to_string());
        if let Some(known) = self.identified.get(&made_of) {
            return Ok(known.in_room_of(client));
        }
        let identity = Identity::from_pem(chain, key).map_err(|why| {
            let message = format!("the client certificate of the source cannot be used: {why}");
            tracing::error!(%source, "source `{source}`: {message}");
            Failure::new(ErrorCode::InternalError, message, false)
        })?;
        let identified = client.identified(identity, origin);
        self.identified.insert(made_of, identified.clone());
        Ok(identified)
    }

    /// A client that may also reach these targets. An invalid entry is reported when the source is called.
    fn allowing(&self, allow: &[Box<str>]) -> HttpClient {
        if allow.is_empty() {
            return self.client.clone();
        }
        self.allowed.get_with(Digest::of(json!(allow).to_string()), || {
            self.client.allowing_texts(allow).unwrap_or_else(|_| self.client.clone())
        })
    }

    /// The credentials for an HTTP request, and the token among them if one was requested.
    pub(crate) async fn given(
        &self,
        wanted: &For<'_>,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<(Given, Option<Held>), Failure> {
        let For { source, profile, auth } = wanted;
        let mut given = Given { headers: forwarded(profile, whose), ..Given::default() };
        if let Settings::Openapi(settings) = &profile.settings {
            for (scheme, reference) in &settings.credentials {
                let value = read(source, reference, secrets).await?;
                given.credentials.insert(scheme.to_string(), value);
            }
        }
        let mut held = None;
        given.own = match &**auth {
            Auth::None => None,
            Auth::ApiKey { location, name, value } => {
                Some(Own::api_key(*location, name, read(source, value, secrets).await?))
            }
            Auth::Basic { username, password } => {
                Some(Own::basic(username, &read(source, password, secrets).await?))
            }
            Auth::Bearer { token } => Some(Own::bearer(read(source, token, secrets).await?)),
            Auth::ClientCredentials { .. }
            | Auth::TokenExchange { .. }
            | Auth::McpOauth { .. }
            | Auth::McpEnterprise { .. } => {
                held = self.token(wanted, whose, secrets).await?;
                given.proof = held.as_ref().and_then(|held| held.proof().cloned());
                held.as_ref().map(|held| Own::bearer(held.token().clone()))
            }
        };
        Ok((given, held))
    }

    /// Headers and token of a request to an MCP server. Fixed credentials belong to its connection.
    pub(crate) async fn carried(
        &self,
        wanted: &For<'_>,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<Carried, Failure> {
        carrying(wanted, whose, self.token(wanted, whose, secrets).await?)
    }

    /// Headers and token for discovery at an MCP server. Where tokens are exchanged and toolcrib has none of its own,
    /// they are empty, and the failure explains why.
    pub(crate) async fn carried_to_list(
        &self,
        wanted: &For<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<(Carried, Option<Failure>), Failure> {
        match self.token(wanted, Whose::Ours, secrets).await {
            Ok(token) => Ok((carrying(wanted, Whose::Ours, token)?, None)),
            Err(NoToken { failure, is_for_agents_alone: true }) => {
                Ok((Carried::default(), Some(failure)))
            }
            Err(none) => Err(none.into()),
        }
    }

    /// Invalidates a token that an upstream rejected; returns whether a retry with another token is worthwhile.
    pub(crate) async fn refused(&self, held: &Held) -> bool {
        self.tokens.forget(held).await
    }

    /// Requests a token; `None` if the source uses another kind of credential.
    async fn token(
        &self,
        wanted: &For<'_>,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<Option<Held>, NoToken> {
        let For { source, profile, auth } = wanted;
        if !auth.is_a_token() {
            return Ok(None);
        }
        let subject = match whose {
            Whose::Agent(agent, came) if auth.is_per_agent() => {
                Some((agent, came.token().ok_or_else(nothing_to_exchange)?))
            }
            Whose::Agent(..) | Whose::Ours => None,
        };
        let wish = Wish::of(profile, auth, subject);
        let wish = wish.ok_or_else(|| unusable(source, &"it is for MCP servers at a `url`"))?;
        if let Some(problem) = auth.problems().first() {
            return Err(wish.failed(source, problem).into());
        }
        let proofs = wish.proofs(source, secrets).await?;
        let certificate = certificate(source, profile, secrets).await?;
        let for_tokens = certificate.as_ref().filter(|certificate| certificate.for_tokens);
        if proofs.own.is_none() && for_tokens.is_none() {
            let cause = "it has neither a `client_secret` nor a certificate `for_tokens`";
            return Err(unusable(source, &cause).into());
        }
        let key = wish.key(source, &proofs, for_tokens);
        let client = self.allowing(&profile.allow);
        let showing = |certificate: Option<&Certificate>, origin| match certificate {
            Some(shown) => self.showing(&client, (source, profile), shown, origin),
            None => Ok(client.clone()),
        };
        let server = wish.server();
        let asking = Asking {
            tokens: &self.tokens,
            source,
            wish: &wish,
            proofs: &proofs,
            to_upstream: showing(server.and(certificate.as_ref()), server.map(Url::origin))?,
            to_authorities: showing(for_tokens, None)?,
            allowed: profile.allow.iter().filter_map(|text| text.parse().ok()).collect(),
        };
        // The future is large: boxed, or every waiting call would contain it.
        let asked = Box::pin(async {
            let start = Instant::now();
            let granted = asking.granted().await;
            self.telemetry.token(source, subject.is_some(), start.elapsed(), granted.is_ok());
            granted
        });
        let held = self.tokens.get(key, asked).await;
        let held = held.map(|held| Some(held.got_with(proofs.own.clone(), server)));
        held.map_err(|error| NoToken {
            failure: wish.refused(source, &error),
            is_for_agents_alone: wish.is_for_agents_alone(&error),
        })
    }
}

fn carrying(wanted: &For<'_>, whose: Whose<'_>, token: Option<Held>) -> Result<Carried, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in forwarded(wanted.profile, whose) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.try_into()) {
            headers.insert(name, value);
        }
    }
    if let Some(held) = &token {
        let text = format!("Bearer {}", held.token().expose_secret());
        let value = HeaderValue::try_from(text);
        let mut value = value.map_err(|_| unusable(wanted.source, &"a token cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Carried { headers, token })
}

fn nothing_to_exchange() -> Failure {
    let message = "the source is called with the agent's own rights, and the agent showed no token \
                   that could be exchanged: call with a token of a trusted issuer";
    let code = ErrorCode::TokenExchangeFailed;
    Failure::new(code, message, false)
}

/// Headers of the agent's request that an admin allows to be forwarded. None of them can replace the source's own
/// credential, whatever the settings say.
pub(crate) fn forwarded(profile: &SourceProfile, whose: Whose<'_>) -> Vec<(String, String)> {
    let Whose::Agent(_, came) = whose else { return Vec::new() };
    // Trace headers are passed on separately, to every upstream, and only if they are valid.
    let is_trace = |name: &str| {
        ["traceparent", "tracestate"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let is_own =
        |name: &str| profile.auth.header_of_key().is_some_and(|own| own.eq_ignore_ascii_case(name));
    let wanted = profile.forward_headers.iter().filter(|name| !is_trace(name) && !is_own(name));
    came.headers(wanted.map(|name| &**name))
}

/// A client certificate with its key.
struct Certificate {
    chain: SecretString,
    key: SecretString,
    for_tokens: bool,
}

impl Certificate {
    fn pem(&self) -> (&str, &str) {
        (self.chain.expose_secret(), self.key.expose_secret())
    }
}

async fn certificate(
    source: &SourceId,
    profile: &SourceProfile,
    secrets: Option<&Secrets>,
) -> Result<Option<Certificate>, Failure> {
    let Some(said) = &profile.client_certificate else { return Ok(None) };
    let chain = read(source, &said.chain, secrets).await?;
    let key = read(source, &said.key, secrets).await?;
    Ok(Some(Certificate { chain, key, for_tokens: said.for_tokens }))
}

async fn read(
    source: &SourceId,
    reference: &SecretRef,
    secrets: Option<&Secrets>,
) -> Result<SecretString, Failure> {
    let secrets = secrets.ok_or_else(|| unusable(source, &"no secret can be read here"))?;
    secrets.read(reference).await.map_err(|error| unusable(source, &error))
}

/// The cause is only for admins: it may name files and environment variables.
fn unusable(source: &SourceId, cause: &dyn std::fmt::Display) -> Failure {
    tracing::error!(%source, "the credential of source `{source}` cannot be used: {cause}");
    let message = "the credential of the source cannot be used";
    Failure::new(ErrorCode::InternalError, message, false).because(cause.to_string())
}
