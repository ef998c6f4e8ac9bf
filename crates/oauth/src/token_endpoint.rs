//! The token endpoint: exchanges a code, a refresh token or client credentials for a token (OAuth 2.1, section 3.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::authorization_server::AuthorizationServer;
use super::client_registration::{ClientAuthMethod, OAuthClient};
use super::oauth_requests::{
    OAuthRequester, OAuthTransport, invalid_response, parse_document, unavailable_error,
};
use super::user_consent::{AuthorizationCode, GrantParameters, refusal_error};
use super::{OAuthError, Url};

pub(super) const TOKEN_SUBJECT: &str = "a token";
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// How long before its expiry a token is renewed, in seconds; a quarter of a short lifetime at most.
const RENEWAL_MARGIN: u64 = 30;
const JWT_ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The stored tokens of one principal at one server. They have no `Debug`, so that they cannot be printed.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredTokens {
    /// The issuer. Only it and the server that the tokens are for receive them.
    pub(super) issuer: String,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// When to renew the access token, shortly before it expires: seconds since 1970.
    pub(super) renewed: Option<u64>,
    /// The requested scopes.
    pub(super) scopes: Vec<String>,
    /// The URL of the resource metadata, if the server named one.
    pub(super) metadata: Option<String>,
}

/// The value exchanged for a token.
pub(super) enum ExchangeInput<'a> {
    Code {
        code: AuthorizationCode,
        redirect: &'a str,
    },
    Refresh(&'a str),
    /// The client itself is authorized.
    ClientItself,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

pub(super) async fn exchange_token(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    wish: GrantParameters<'_>,
    given: ExchangeInput<'_>,
) -> Result<StoredTokens, OAuthError> {
    let (headers, form) = token_form(fetch, server, wish, &given)?;
    let sent = TokenFormRequest {
        headers,
        form,
        secrets: secret_spellings(wish.client.secret.as_deref()),
    };
    let document =
        post_token_form(fetch.transport(), &server.token_endpoint, &server.origin, sent).await?;
    let older = match given {
        ExchangeInput::Refresh(token) => Some(token),
        ExchangeInput::Code { .. } | ExchangeInput::ClientItself => None,
    };
    check_token_response(
        parse_document(TOKEN_SUBJECT, &server.token_endpoint, document)?,
        server,
        wish,
        (fetch.oauth.now)(),
        older,
    )
}

/// A request to the token endpoint, and the secrets that must not appear in errors.
pub(super) struct TokenFormRequest {
    pub(super) headers: HeaderMap,
    pub(super) form: String,
    pub(super) secrets: Vec<String>,
}

/// The spellings of a secret in a request.
pub(super) fn secret_spellings(secret: Option<&str>) -> Vec<String> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect();
    secret.into_iter().flat_map(|secret| [secret.to_owned(), encoded(secret)]).collect()
}

/// Sends a form to a token endpoint and returns the JSON response or the error.
pub(super) async fn post_token_form(
    way: OAuthTransport<'_>,
    place: &Url,
    origin: &str,
    sent: TokenFormRequest,
) -> Result<Value, OAuthError> {
    let TokenFormRequest { headers, form, mut secrets } = sent;
    let shown = headers.get(AUTHORIZATION).and_then(|shown| shown.to_str().ok());
    secrets.extend(shown.and_then(|shown| shown.split(' ').next_back()).map(str::to_owned));
    let kind = "application/x-www-form-urlencoded";
    let answer = way.post_body(TOKEN_SUBJECT, place, headers, kind, form).await?;
    if let Some(error) = unavailable_error(origin, &answer) {
        return Err(error);
    }
    let document = strict_json::parse_tolerant(&answer.body).ok();
    let member = |name| document.as_ref().and_then(|it| it.get(name)?.as_str());
    // Some servers report an error with status 200.
    if let Some(code) = member("error").filter(|code| answer.status != 200 || !code.is_empty()) {
        let description = member("error_description").map(|text| {
            let hide = |text: String, secret: &String| text.replace(secret.as_str(), "***");
            secrets.iter().filter(|secret| !secret.is_empty()).fold(text.to_owned(), hide)
        });
        return Err(refusal_error(origin, code, description));
    }
    if answer.status != 200 {
        return Err(OAuthError::NotTokenEndpoint {
            origin: origin.to_owned(),
            status: answer.status,
        });
    }
    document.ok_or_else(|| invalid_response(TOKEN_SUBJECT, place, "it is no JSON"))
}

fn token_form(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    wish: GrantParameters<'_>,
    given: &ExchangeInput<'_>,
) -> Result<(HeaderMap, String), OAuthError> {
    let mut form = Serializer::new(String::new());
    match given {
        ExchangeInput::Code { code, redirect } => {
            form.append_pair("grant_type", "authorization_code");
            form.append_pair("code", &code.code).append_pair("code_verifier", &code.verifier);
            form.append_pair("redirect_uri", redirect);
        }
        ExchangeInput::Refresh(token) => {
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", token);
        }
        ExchangeInput::ClientItself => {
            form.append_pair("grant_type", "client_credentials");
            if !wish.scopes.is_empty() {
                form.append_pair("scope", &wish.scopes.join(" "));
            }
        }
    }
    form.append_pair("resource", wish.resource);
    let headers = authenticate_client(fetch, server, wish.client, &mut form)?;
    Ok((headers, form.finish()))
}

/// Authenticates the client: in a header, in the form, or with a signed assertion.
fn authenticate_client(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    client: &OAuthClient,
    form: &mut Serializer<'_, String>,
) -> Result<HeaderMap, OAuthError> {
    let mut headers = HeaderMap::new();
    let secret = client.secret.as_deref().unwrap_or_default();
    let odd = || invalid_response("a client", &server.token_endpoint, "it cannot be shown");
    match client.method {
        ClientAuthMethod::None => {
            form.append_pair("client_id", &client.id);
        }
        ClientAuthMethod::Post => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret);
        }
        ClientAuthMethod::Basic => {
            headers.insert(AUTHORIZATION, basic_auth_header(&client.id, secret).ok_or_else(odd)?);
        }
        ClientAuthMethod::Signed => {
            let registered = fetch.oauth.registered_client.as_ref();
            let key = registered.and_then(|it| it.key.as_ref()).ok_or_else(odd)?;
            let now = (fetch.oauth.now)();
            let assertion = key.sign_assertion(&client.id, &server.issuer, now).ok_or_else(odd)?;
            form.append_pair("client_assertion_type", JWT_ASSERTION_TYPE);
            form.append_pair("client_assertion", &assertion).append_pair("client_id", &client.id);
        }
    }
    Ok(headers)
}

/// The Basic header for a client id and secret. Both are form-encoded first (RFC 6749, section 2.3.1).
pub(super) fn basic_auth_header(id: &str, secret: &str) -> Option<HeaderValue> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The lifetime of a token in seconds: a number, which some servers write as a string.
pub(super) fn parse_lifetime(expires_in: &Value) -> Option<u64> {
    match expires_in {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().or_else(|| other.as_f64().map(|it| it.max(0.0) as u64)),
    }
}

fn check_token_response(
    answer: TokenResponse,
    server: &AuthorizationServer,
    wish: GrantParameters<'_>,
    now: u64,
    older: Option<&str>,
) -> Result<StoredTokens, OAuthError> {
    let refuse = |why| invalid_response(TOKEN_SUBJECT, &server.token_endpoint, why);
    // Other token types need another way of sending, so the token is useless to us (RFC 6749, section 7.1).
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(refuse("it is not one that its bearer may use"));
    }
    if !is_valid_token(&answer.access_token) {
        return Err(refuse("it has characters that no token has, or too many"));
    }
    let seconds = answer.expires_in.as_ref().and_then(parse_lifetime);
    Ok(StoredTokens {
        issuer: server.issuer.clone(),
        access: answer.access_token,
        // Without a new refresh token, the old one stays valid.
        refresh: answer
            .refresh_token
            .filter(|token| is_valid_token(token))
            .or_else(|| older.map(str::to_owned)),
        renewed: seconds.map(|seconds: u64| {
            let early = (seconds / 4).min(RENEWAL_MARGIN);
            now.saturating_add(seconds - early)
        }),
        scopes: wish.scopes.to_vec(),
        metadata: None,
    })
}

pub(super) fn is_valid_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TOKEN_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}
