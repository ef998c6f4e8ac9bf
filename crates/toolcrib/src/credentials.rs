//! What the upstream of a source is shown: a credential of ours, or a token that was given for the agent who calls.
//!
//! The agent's own token goes to the authorization server that exchanges it, and to nobody else (requirement E4). None of
//! the failures here repeats a secret, and none of them says anything about whether the source works.

mod tokens;

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::clock::Clock;
use execution::{Given, Own};
use model::{Agent, Auth, Digest, ErrorCode, Failure, SecretRef, Settings, SourceId};
use model::{SourceProfile, TokenClient};
use moka::sync::Cache;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use upstream::egress::Allowed;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::http::{HttpClient, HttpError, Identity, Origin, Url};
use upstream::mcp::oauth::{
    ACCESS_TOKEN, Grant, Granted, Grants, OAuthError, OAuthLimits, Subject,
};

pub(crate) use self::tokens::Held;
use self::tokens::Tokens;
use crate::identity::CameWith;
use crate::secrets::Secrets;
use crate::telemetry::Telemetry;
use crate::upstreams::whose;

/// How many clients with a certificate are kept, and for how long without use.
const IDENTIFIED: u64 = 1_000;
const IDENTIFIED_FOR: Duration = Duration::from_secs(10 * 60);

/// The credentials of one crib.
pub(crate) struct Keyring {
    client: HttpClient,
    tokens: Tokens,
    telemetry: Arc<Telemetry>,
    /// Clients that show a certificate, under all that they were made of.
    identified: Cache<Digest, HttpClient>,
}

/// On whose behalf.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    /// Nobody's: a source is asked what it offers.
    Ours,
    /// An agent's, with what it came with.
    Agent(&'a Agent, &'a CameWith),
}

/// What one request to an MCP server carries besides what its connection does.
#[derive(Clone, Default)]
pub(crate) struct Carried {
    pub(crate) headers: HeaderMap,
    pub(crate) token: Option<Held>,
}

impl Keyring {
    pub(crate) fn new(
        client: HttpClient,
        clock: Arc<dyn Clock>,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let identified =
            Cache::builder().max_capacity(IDENTIFIED).time_to_idle(IDENTIFIED_FOR).build();
        Self { client, tokens: Tokens::new(clock), telemetry, identified }
    }

    /// A client like this one that shows the certificate of the source, if it has one, where the source is. The client
    /// has the rights of the source already.
    pub(crate) async fn identified(
        &self,
        client: &HttpClient,
        (source, profile): (&SourceId, &SourceProfile),
        origin: Option<Origin>,
        secrets: Option<&Secrets>,
    ) -> Result<HttpClient, Failure> {
        let Some(certificate) = &profile.client_certificate else { return Ok(client.clone()) };
        let chain = read(source, &certificate.chain, secrets).await?;
        let key = read(source, &certificate.key, secrets).await?;
        let (chain, key) = (chain.expose_secret(), key.expose_secret());
        let at = origin.as_ref().map(Origin::ascii_serialization);
        let made_of = Digest::of(json!([source, profile.allow, at, chain, key]).to_string());
        if let Some(known) = self.identified.get(&made_of) {
            return Ok(known);
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

    /// What a request over HTTP is given, and the token in it if it is one that was asked for.
    pub(crate) async fn given(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<(Given, Option<Held>), Failure> {
        let mut given = Given { headers: forwarded(profile, whose), ..Given::default() };
        if let Settings::Openapi(settings) = &profile.settings {
            for (scheme, reference) in &settings.credentials {
                let value = read(source, reference, secrets).await?;
                given.credentials.insert(scheme.to_string(), value);
            }
        }
        let mut held = None;
        given.own = match &profile.auth {
            Auth::None => None,
            Auth::ApiKey { location, name, value } => {
                Some(Own::api_key(*location, name, read(source, value, secrets).await?))
            }
            Auth::Basic { username, password } => {
                Some(Own::basic(username, &read(source, password, secrets).await?))
            }
            Auth::Bearer { token } => Some(Own::bearer(read(source, token, secrets).await?)),
            Auth::ClientCredentials { .. } | Auth::TokenExchange { .. } => {
                held = self.token(source, profile, whose, secrets).await?;
                given.proof = held.as_ref().and_then(|held| held.proof().cloned());
                held.as_ref().map(|held| Own::bearer(held.token().clone()))
            }
        };
        Ok((given, held))
    }

    /// What a request to an MCP server carries. Fixed credentials are in its connection.
    pub(crate) async fn carried(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<Carried, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in forwarded(profile, whose) {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.try_into()) {
                headers.insert(name, value);
            }
        }
        let token = self.token(source, profile, whose, secrets).await?;
        if let Some(held) = &token {
            let text = format!("Bearer {}", held.token().expose_secret());
            let value = HeaderValue::try_from(text);
            let mut value = value.map_err(|_| unusable(source, &"a token cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Carried { headers, token })
    }

    /// An upstream refused it: whoever comes next gets another. Whether it is worth another try for this one as well.
    pub(crate) async fn refused(&self, held: &Held) -> bool {
        self.tokens.forget(held).await;
        !held.is_new()
    }

    /// A token that is asked for; none if the source wants another kind of credential.
    async fn token(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        whose: Whose<'_>,
        secrets: Option<&Secrets>,
    ) -> Result<Option<Held>, Failure> {
        let wish = match (&profile.auth, whose) {
            (Auth::TokenExchange { .. }, Whose::Agent(agent, came)) => {
                let token = came.token().ok_or_else(nothing_to_exchange)?;
                Wish::of(&profile.auth, Some((agent, token)))
            }
            (auth, _) => Wish::of(auth, None),
        };
        let Some(wish) = wish else { return Ok(None) };
        if let Some(problem) = profile.auth.problems().first() {
            return Err(wish.failed(source, problem));
        }
        let secret = read(source, &wish.client.client_secret, secrets).await?;
        let key = wish.key(source, &secret);
        // What cannot be read is refused when the source is called.
        let client = self.client.allowing_texts(&profile.allow);
        let mut client = client.unwrap_or_else(|_| self.client.clone());
        let certificate = profile.client_certificate.as_ref();
        if certificate.is_some_and(|certificate| certificate.for_tokens) {
            client = self.identified(&client, (source, profile), None, secrets).await?;
        }
        let asked = async {
            let start = Instant::now();
            let granted = self.ask(profile, &wish, &secret, client).await;
            let is_exchange = wish.subject.is_some();
            self.telemetry.token(source, is_exchange, start.elapsed(), granted.is_ok());
            granted
        };
        let held = self.tokens.get(key, asked).await;
        let held = held.map(|held| Some(held.got_with(secret)));
        held.map_err(|error| wish.refused(source, &error))
    }

    async fn ask(
        &self,
        profile: &SourceProfile,
        wish: &Wish<'_>,
        secret: &SecretString,
        client: HttpClient,
    ) -> Result<Granted, OAuthError> {
        let allowed = profile.allow.iter().filter_map(|text| text.parse::<Allowed>().ok());
        let allowed: Vec<Allowed> = allowed.collect();
        let named = wish.token_url().cloned().or_else(|| wish.issuer()?.parse().ok());
        // To a host that is allowed by name, the way is the admin's own.
        let trusts = |url: &Url| allowed.iter().any(|allowed| allowed.names(url));
        let grants = Grants {
            trusts_plain_http: named.as_ref().is_some_and(trusts),
            client,
            limits: OAuthLimits::default(),
        };
        let place = match (wish.token_url(), wish.issuer()) {
            (Some(url), _) => grants.place(url)?,
            (None, issuer) => self.tokens.place(issuer.unwrap_or_default(), &grants).await?,
        };
        let grant = Grant {
            client_id: &wish.client.client_id,
            client_secret: secret.expose_secret(),
            proof: wish.client.client_proof,
            subject: wish.subject.map(|(_, token)| Subject {
                token: token.expose_secret(),
                requested: wish.requested,
            }),
            audience: wish.audience,
            scopes: &wish.client.scopes,
        };
        let granted = grants.ask(&place, grant).await;
        granted.inspect_err(|_| self.tokens.look_again(wish.issuer().unwrap_or_default()))
    }
}

/// A token that is wished for.
struct Wish<'a> {
    client: &'a TokenClient,
    audience: Option<&'a str>,
    requested: &'a str,
    /// Whose token is exchanged.
    subject: Option<(&'a Agent, &'a SecretString)>,
}

impl<'a> Wish<'a> {
    /// Without a subject, a token of our own: also where others are exchanged, to ask an MCP server what it offers.
    fn of(auth: &'a Auth, subject: Option<(&'a Agent, &'a SecretString)>) -> Option<Self> {
        match auth {
            Auth::None | Auth::ApiKey { .. } | Auth::Basic { .. } | Auth::Bearer { .. } => None,
            Auth::ClientCredentials { client, audience } => {
                let (audience, requested) = (audience.as_deref(), ACCESS_TOKEN);
                Some(Self { client, audience, requested, subject })
            }
            Auth::TokenExchange { client, audience, requested_token_type } => {
                let requested = requested_token_type.as_deref().unwrap_or(ACCESS_TOKEN);
                Some(Self { client, audience: Some(audience.as_str()), requested, subject })
            }
        }
    }

    fn token_url(&self) -> Option<&'a Url> {
        self.client.token_url.as_ref().map(model::SourceUrl::as_url)
    }

    fn issuer(&self) -> Option<&'a str> {
        self.client.issuer.as_deref()
    }

    /// Everything that the token depends on. Two tokens of one agent may allow different things, and a secret that was
    /// replaced was replaced for a reason: both are in it, as a digest that says nothing about them.
    fn key(&self, source: &SourceId, secret: &SecretString) -> Digest {
        let subject = self.subject.map(|(agent, token)| (whose(agent), token.expose_secret()));
        let place = (self.token_url().map(Url::as_str), self.issuer());
        let proof = (&self.client.client_id, secret.expose_secret(), self.client.client_proof);
        let wished = (self.audience, &self.client.scopes, self.requested);
        Digest::of(json!([source, place, proof, wished, subject]).to_string())
    }

    fn code(&self) -> ErrorCode {
        match self.subject {
            Some(_) => ErrorCode::TokenExchangeFailed,
            None => ErrorCode::ClientCredentialsFailed,
        }
    }

    fn what(&self) -> &'static str {
        match self.subject {
            Some(_) => "the agent's token cannot be exchanged for one of the source",
            None => "there is no token for the source",
        }
    }

    /// The cause is for our log.
    fn failed(&self, source: &SourceId, cause: &dyn std::error::Error) -> Failure {
        tracing::warn!(%source, "{} `{source}`: {}", self.what(), model::sentence(cause));
        Failure::new(self.code(), self.what(), false)
    }

    fn refused(&self, source: &SourceId, error: &OAuthError) -> Failure {
        let failure = self.failed(source, error);
        let what = self.what();
        match error {
            OAuthError::Refused { code, .. } => {
                let message = format!("{what}: the authorization server says `{code}`");
                let retryable = matches!(&**code, "temporarily_unavailable" | "server_error");
                Failure { message, retryable, ..failure }
            }
            OAuthError::Http { source, .. } => {
                let is_refused = matches!(**source, HttpError::Refused(_));
                let message = format!("{what}: the authorization server does not answer");
                Failure { message, retryable: !is_refused, ..failure }
            }
            _ => failure,
        }
    }
}

fn nothing_to_exchange() -> Failure {
    let message = "the source is called with the agent's own rights, and the agent showed no token \
                   that could be exchanged: call with a token of a trusted issuer";
    let code = ErrorCode::TokenExchangeFailed;
    Failure::new(code, message, false)
}

/// Headers of the agent's request that an admin lets pass, and that may pass.
pub(crate) fn forwarded(profile: &SourceProfile, whose: Whose<'_>) -> Vec<(String, String)> {
    let Whose::Agent(_, came) = whose else { return Vec::new() };
    // A trace is passed on to everybody, and only if it is one.
    let is_trace = |name: &str| {
        ["traceparent", "tracestate"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let wanted = profile.forward_headers.iter().filter(|name| !is_trace(name));
    let passed = wanted.filter_map(|name| {
        let value = came.header(name)?.to_str().ok()?;
        Some((name.to_string(), value.to_owned()))
    });
    passed.collect()
}

async fn read(
    source: &SourceId,
    reference: &SecretRef,
    secrets: Option<&Secrets>,
) -> Result<SecretString, Failure> {
    let secrets = secrets.ok_or_else(|| unusable(source, &"no secret can be read here"))?;
    secrets.read(reference).await.map_err(|error| unusable(source, &error))
}

/// The cause is for our log: it may name files and variables that are nothing for an agent.
fn unusable(source: &SourceId, cause: &dyn std::fmt::Display) -> Failure {
    tracing::error!(%source, "the credential of source `{source}` cannot be used: {cause}");
    let message = "the credential of the source cannot be used".to_owned();
    Failure::new(ErrorCode::InternalError, message, false)
}
