//! The place for tokens: a code, an older token or the client itself is exchanged for a token (OAuth 2.1, section 3.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::client::{Client, Method};
use super::consent::{Code, Wish, refused};
use super::fetch::{Fetch, Way, in_trouble, parsed, unusable};
use super::server::Server;
use super::{OAuthError, Url};
use crate::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};

pub(super) const WHAT: &str = "a token";
const MAX_TOKEN: usize = 16 * 1024;
/// How long before its end a token is renewed, in seconds; sooner if it is a short one.
const EARLY: u64 = 30;
const SIGNED: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// What there is for one principal at one server. It cannot be printed.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// Who gave them. Nobody else is shown them, but for the server they are for.
    pub(super) issuer: String,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// When they are renewed, a little before they end: seconds since 1970.
    pub(super) renewed: Option<u64>,
    /// What they were asked for with.
    pub(super) scopes: Vec<String>,
    /// Where the server said that its metadata is, if it did.
    pub(super) metadata: Option<String>,
}

/// What is given for a token.
pub(super) enum Given<'a> {
    Code {
        code: Code,
        redirect: &'a str,
    },
    Refresh(&'a str),
    /// The client has the right itself.
    Nothing,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

pub(super) async fn exchange(
    fetch: Fetch<'_>,
    server: &Server,
    wish: Wish<'_>,
    given: Given<'_>,
) -> Result<Tokens, OAuthError> {
    let (headers, form) = form(fetch, server, wish, &given)?;
    let sent = Sent { headers, form, secrets: secrets(wish.client.secret.as_deref()) };
    let document = post(fetch.way(), &server.token, &server.origin, sent).await?;
    let older = match given {
        Given::Refresh(token) => Some(token),
        Given::Code { .. } | Given::Nothing => None,
    };
    tokens(parsed(WHAT, &server.token, document)?, server, wish, (fetch.oauth.now)(), older)
}

/// What is sent to a place for tokens, and what of it must not come back in its words.
pub(super) struct Sent {
    pub(super) headers: HeaderMap,
    pub(super) form: String,
    pub(super) secrets: Vec<String>,
}

/// A secret in the ways it is written in a request.
pub(super) fn secrets(secret: Option<&str>) -> Vec<String> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect();
    secret.into_iter().flat_map(|secret| [secret.to_owned(), encoded(secret)]).collect()
}

/// Sends a form to a place for tokens. What comes back is a document, or why there is none.
pub(super) async fn post(
    way: Way<'_>,
    place: &Url,
    origin: &str,
    sent: Sent,
) -> Result<Value, OAuthError> {
    let Sent { headers, form, mut secrets } = sent;
    let shown = headers.get(AUTHORIZATION).and_then(|shown| shown.to_str().ok());
    secrets.extend(shown.and_then(|shown| shown.split(' ').next_back()).map(str::to_owned));
    let kind = "application/x-www-form-urlencoded";
    let answer = way.post(WHAT, place, headers, kind, form).await?;
    if let Some(error) = in_trouble(origin, &answer) {
        return Err(error);
    }
    let document = strict_json::tolerant(&answer.body).ok();
    let member = |name| document.as_ref().and_then(|it| it.get(name)?.as_str());
    // Some say so with 200.
    if let Some(code) = member("error").filter(|code| answer.status != 200 || !code.is_empty()) {
        let description = member("error_description").map(|text| {
            let hide = |text: String, secret: &String| text.replace(secret.as_str(), "***");
            secrets.iter().filter(|secret| !secret.is_empty()).fold(text.to_owned(), hide)
        });
        return Err(refused(origin, code, description));
    }
    if answer.status != 200 {
        return Err(OAuthError::Status { origin: origin.to_owned(), status: answer.status });
    }
    document.ok_or_else(|| unusable(WHAT, place, "it is no JSON"))
}

fn form(
    fetch: Fetch<'_>,
    server: &Server,
    wish: Wish<'_>,
    given: &Given<'_>,
) -> Result<(HeaderMap, String), OAuthError> {
    let mut form = Serializer::new(String::new());
    match given {
        Given::Code { code, redirect } => {
            form.append_pair("grant_type", "authorization_code");
            form.append_pair("code", &code.code).append_pair("code_verifier", &code.verifier);
            form.append_pair("redirect_uri", redirect);
        }
        Given::Refresh(token) => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
        }
        Given::Nothing => {
            form.append_pair("grant_type", "client_credentials");
            if !wish.scopes.is_empty() {
                form.append_pair("scope", &wish.scopes.join(" "));
            }
        }
    }
    form.append_pair("resource", wish.resource);
    let headers = show(fetch, server, wish.client, &mut form)?;
    Ok((headers, form.finish()))
}

/// How we show who we are: in a header, in the form, or by signing.
fn show(
    fetch: Fetch<'_>,
    server: &Server,
    client: &Client,
    form: &mut Serializer<'_, String>,
) -> Result<HeaderMap, OAuthError> {
    let mut headers = HeaderMap::new();
    let secret = client.secret.as_deref().unwrap_or_default();
    let odd = || unusable("a client", &server.token, "it cannot be shown");
    match client.method {
        Method::None => {
            form.append_pair("client_id", &client.id);
        }
        Method::Post => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        Method::Basic => {
            headers.insert(AUTHORIZATION, basic(&client.id, secret).ok_or_else(odd)?);
        }
        Method::Signed => {
            let registered = fetch.oauth.registered.as_ref();
            let key = registered.and_then(|it| it.key.as_ref()).ok_or_else(odd)?;
            let now = (fetch.oauth.now)();
            let assertion = key.assertion(&client.id, &server.issuer, now).ok_or_else(odd)?;
            form.append_pair("client_assertion_type", SIGNED);
            form.append_pair("client_assertion", &assertion).append_pair("client_id", &client.id);
        }
    }
    Ok(headers)
}

/// A client and its secret in a header. Both are encoded first (RFC 6749, section 2.3.1).
pub(super) fn basic(id: &str, secret: &str) -> Option<HeaderValue> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// How long a token holds: a number, which some write as a text.
pub(super) fn seconds(expires_in: &Value) -> Option<u64> {
    match expires_in {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().or_else(|| other.as_f64().map(|it| it.max(0.0) as u64)),
    }
}

fn tokens(
    answer: Answer,
    server: &Server,
    wish: Wish<'_>,
    now: u64,
    older: Option<&str>,
) -> Result<Tokens, OAuthError> {
    let refuse = |why| unusable(WHAT, &server.token, why);
    // One of another kind must be shown in another way, and is worth nothing to us (RFC 6749, section 7.1).
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(refuse("it is not one that its bearer may use"));
    }
    if !is_token(&answer.access_token) {
        return Err(refuse("it has characters that no token has, or too many"));
    }
    let seconds = answer.expires_in.as_ref().and_then(seconds);
    Ok(Tokens {
        issuer: server.issuer.clone(),
        access: answer.access_token,
        // Whoever gives no new one lets the old one go on.
        refresh: answer
            .refresh_token
            .filter(|token| is_token(token))
            .or_else(|| older.map(str::to_owned)),
        renewed: seconds.map(|seconds: u64| {
            let early = (seconds / 4).min(EARLY);
            now.saturating_add(seconds - early)
        }),
        scopes: wish.scopes.to_vec(),
        metadata: None,
    })
}

pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}
