//! A user's consent: the authorization URL, and the code that the browser brings back (OAuth 2.1, PKCE, RFC 8707,
//! RFC 9207).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::timeout;

use super::authorization_server::AuthorizationServer;
use super::client_registration::OAuthClient;
use super::oauth_requests::{OAuthRequester, invalid_response};
use super::oauth_settings::ConsentCallback;
use super::requested_scopes::OFFLINE_ACCESS;
use super::{OAuthError, Url};

/// A query string from a browser is not longer than a URL.
const MAX_REDIRECT_QUERY: usize = 16 * 1024;

/// The client, resource and scopes for which a token is requested.
#[derive(Clone, Copy)]
pub(super) struct GrantParameters<'a> {
    pub(super) client: &'a OAuthClient,
    /// The resource identifier exactly as the server writes it.
    pub(super) resource: &'a str,
    pub(super) scopes: &'a [String],
}

/// An authorization code with its PKCE verifier; both are needed to obtain a token.
pub(super) struct AuthorizationCode {
    pub(super) code: String,
    pub(super) verifier: String,
}

pub(super) async fn request_consent(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    wish: GrantParameters<'_>,
    redirect: &Url,
    consent: &ConsentCallback,
) -> Result<AuthorizationCode, OAuthError> {
    server.check_pkce()?;
    let (state, verifier) = (random_secret(), random_secret());
    let url = authorization_url(fetch, server, wish, redirect, (&state, &verifier))?;
    let asked = timeout(fetch.oauth.limits.consent_deadline, consent(url)).await;
    let answer = asked.ok().flatten().ok_or(OAuthError::NoConsent)?;
    Ok(AuthorizationCode { code: extract_code(&answer, &state, server)?, verifier })
}

/// An unguessable string of 256 random bits.
pub(super) fn random_secret() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

fn authorization_url(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    wish: GrantParameters<'_>,
    redirect: &Url,
    (state, verifier): (&str, &str),
) -> Result<Url, OAuthError> {
    const WHAT: &str = "the place for consent";
    let place = server.metadata.authorization_endpoint.as_deref();
    let place =
        place.ok_or_else(|| invalid_response(WHAT, &server.token_endpoint, "there is none"))?;
    let mut url = fetch.transport().parse_endpoint(WHAT, place)?;
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let scope = wish.scopes.join(" ");
    let mut parts = vec![
        ("response_type", "code"),
        ("client_id", &wish.client.id),
        ("redirect_uri", redirect.as_str()),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", state),
        ("resource", wish.resource),
    ];
    if !scope.is_empty() {
        parts.push(("scope", &scope));
    }
    // A refresh token requires an explicit consent (OpenID Connect Core, section 11).
    if wish.scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
        parts.push(("prompt", "consent"));
    }
    // If a parameter appeared twice, it would be unclear which value counts.
    if url.query_pairs().any(|(name, _)| parts.iter().any(|(ours, _)| *ours == name)) {
        return Err(invalid_response(WHAT, &url, "its url says itself what we have to say"));
    }
    url.query_pairs_mut().extend_pairs(parts);
    Ok(url)
}

/// The code, if the answer belongs to this request and comes from the right issuer.
fn extract_code(
    answer: &str,
    state: &str,
    server: &AuthorizationServer,
) -> Result<String, OAuthError> {
    let refuse = |why| OAuthError::InvalidConsentAnswer { why };
    if MAX_REDIRECT_QUERY < answer.len() {
        return Err(refuse("it is too long"));
    }
    let answer = answer.strip_prefix('?').unwrap_or(answer);
    let pairs: Vec<_> = url::form_urlencoded::parse(answer.as_bytes()).collect();
    let only = |name: &str| {
        let mut found = pairs.iter().filter(|(known, _)| known == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(refuse("it says something twice")),
            (found, _) => Ok(found.map(|(_, value)| &**value)),
        }
    };
    if only("state")? != Some(state) {
        return Err(refuse("it is the answer to another question"));
    }
    // The issuer must be checked before any other parameter (RFC 9207, section 2.4).
    let must = server.metadata.authorization_response_iss_parameter_supported;
    let is_theirs = match only("iss")? {
        Some(issuer) => issuer == server.issuer,
        None => !must,
    };
    if !is_theirs {
        let (what, origin) = ("the answer to the consent", server.origin.clone());
        let found = sanitize_text(only("iss")?.unwrap_or_default());
        return Err(OAuthError::WrongIssuer { what, origin, found });
    }
    if let Some(code) = only("error")? {
        return Err(refusal_error(&server.origin, code, None));
    }
    let code = only("code")?.filter(|code| !code.is_empty());
    code.map(str::to_owned).ok_or_else(|| refuse("there is no code in it"))
}

/// Makes an untrusted text printable: one line of limited length, with long words removed, as they may be secrets.
pub(super) fn sanitize_text(text: &str) -> String {
    const LONGEST: usize = 300;
    const WORD: usize = 100;
    let words = text.split_whitespace().map(|word| if word.len() <= WORD { word } else { "…" });
    let line: String = words.collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST).flat_map(char::escape_debug).collect()
}

/// An error response, with its code if that is well-formed: it is untrusted (RFC 6749, section 5.2).
pub(super) fn refusal_error(origin: &str, code: &str, description: Option<String>) -> OAuthError {
    const LONGEST: usize = 64;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_code = !code.is_empty() && code.len() <= LONGEST && code.chars().all(is_plain);
    let code = if is_code { code } else { "an unknown error" };
    let description = description.map(|text| sanitize_text(&text).into());
    OAuthError::Refused { origin: origin.to_owned(), code: code.into(), description }
}
