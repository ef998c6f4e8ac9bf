//! The client identity at an authorization server: preregistered, a client id metadata document, or dynamic
//! registration (RFC 7591), in this order.

use json::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::json;
use upstream::http::header::HeaderMap;

use super::authorization_server::AuthorizationServer;
use super::oauth_requests::{OAuthRequester, invalid_response, is_loopback, parse_document};
use super::oauth_settings::{OAuthFlow, OAuthSettings};
use super::oauth_store::OAuthStoreKey;
use super::{OAuthError, Url};

const ERROR_SUBJECT: &str = "a registration";
const MAX_CREDENTIAL_BYTES: usize = 2048;

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientAuthMethod {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
    #[serde(rename = "private_key_jwt")]
    Signed,
}

/// A client of one authorization server. It has no `Debug`, so that it cannot be printed.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) method: ClientAuthMethod,
    /// The redirect URI. Another URI needs another registration.
    redirect: Option<String>,
    /// When the secret expires, in seconds since 1970.
    expires: Option<u64>,
}

/// Finds the client for an authorization server, or registers one. `bound` is the issuer of the previous tokens.
pub(super) async fn find_client(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    bound: Option<&str>,
) -> Result<OAuthClient, OAuthError> {
    let oauth = fetch.oauth;
    if let Some(client) = preregistered_client(oauth, server, bound)? {
        return Ok(client);
    }
    let is_code = matches!(oauth.flow, OAuthFlow::AuthorizationCode { .. });
    if let (Some(url), true, true) =
        (&oauth.client_metadata_url, is_code, server.metadata.client_id_metadata_document_supported)
    {
        let (id, method) = (url.as_str().to_owned(), ClientAuthMethod::None);
        return Ok(OAuthClient { id, secret: None, method, redirect: None, expires: None });
    }
    if let Some(client) = stored_client(oauth, server).await {
        return Ok(client);
    }
    let client = register_client(fetch, server).await?;
    let text = serde_json::to_string(&client).ok();
    oauth.store.save(&client_key(server), text).await;
    Ok(client)
}

/// Deletes a stored registration that the authorization server no longer accepts.
pub(super) async fn forget_client(oauth: &OAuthSettings, server: &AuthorizationServer) {
    oauth.store.save(&client_key(server), None).await;
}

fn client_key(server: &AuthorizationServer) -> OAuthStoreKey {
    OAuthStoreKey::Client { issuer: server.issuer.clone() }
}

fn preregistered_client(
    oauth: &OAuthSettings,
    server: &AuthorizationServer,
    bound: Option<&str>,
) -> Result<Option<OAuthClient>, OAuthError> {
    let Some(registered) = &oauth.registered_client else { return Ok(None) };
    let issuer = registered.issuer.as_deref().or(bound);
    if issuer.is_some_and(|issuer| issuer != server.issuer) {
        return Err(OAuthError::RegisteredElsewhere { origin: server.origin.clone() });
    }
    let method = match (&registered.key, &registered.secret) {
        (Some(_), _) => ClientAuthMethod::Signed,
        (None, Some(_)) => secret_method(server).unwrap_or(ClientAuthMethod::Basic),
        (None, None) => ClientAuthMethod::None,
    };
    let (id, secret) = (registered.id.clone(), registered.secret.clone());
    Ok(Some(OAuthClient { id, secret, method, redirect: None, expires: None }))
}

async fn stored_client(oauth: &OAuthSettings, server: &AuthorizationServer) -> Option<OAuthClient> {
    let text = oauth.store.load(&client_key(server)).await?;
    let client: OAuthClient = serde_json::from_str(&text).ok()?;
    let holds = client.expires.is_none_or(|end| (oauth.now)() < end);
    (holds && client.redirect == redirect_uri(oauth)).then_some(client)
}

fn redirect_uri(oauth: &OAuthSettings) -> Option<String> {
    match &oauth.flow {
        OAuthFlow::AuthorizationCode { redirect, .. } => Some(redirect.as_str().to_owned()),
        OAuthFlow::ClientCredentials => None,
    }
}

/// The preferred way to send a client secret, if the authorization server accepts one.
fn secret_method(server: &AuthorizationServer) -> Option<ClientAuthMethod> {
    let Some(methods) = &server.metadata.token_endpoint_auth_methods_supported else {
        return Some(ClientAuthMethod::Basic);
    };
    let takes = |name: &str| methods.iter().any(|method| method == name);
    match (takes("client_secret_basic"), takes("client_secret_post")) {
        (true, _) => Some(ClientAuthMethod::Basic),
        (false, true) => Some(ClientAuthMethod::Post),
        (false, false) => None,
    }
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

async fn register_client(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
) -> Result<OAuthClient, OAuthError> {
    let unknown = || OAuthError::NoRegistration { origin: server.origin.clone() };
    let OAuthFlow::AuthorizationCode { redirect, .. } = &fetch.oauth.flow else {
        return Err(unknown());
    };
    let place = server.metadata.registration_endpoint.as_deref().ok_or_else(unknown)?;
    let place = fetch.transport().parse_endpoint("the place for registrations", place)?;
    let wished = secret_method(server).unwrap_or(ClientAuthMethod::None);
    let wish = json!({
        "client_name": fetch.oauth.client_name,
        "redirect_uris": [redirect.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wished,
        "application_type": application_type(redirect),
    });
    let answer = fetch
        .transport()
        .post_body(ERROR_SUBJECT, &place, HeaderMap::new(), "application/json", wish.to_string())
        .await?;
    if !matches!(answer.status, 200 | 201) {
        return Err(invalid_response(ERROR_SUBJECT, &place, "it was refused"));
    }
    let document = strict_json::parse_tolerant(&answer.body);
    let document =
        document.map_err(|_| invalid_response(ERROR_SUBJECT, &place, "it is no JSON"))?;
    client_from_response(parse_document(ERROR_SUBJECT, &place, document)?, wished, redirect)
        .ok_or_else(|| invalid_response(ERROR_SUBJECT, &place, "there is no client in it"))
}

/// The application type, which follows from the redirect URI (SEP-837).
fn application_type(redirect: &Url) -> &'static str {
    match redirect.scheme() {
        "https" => "web",
        _ if is_loopback(redirect) => "native",
        "http" => "web",
        _ => "native",
    }
}

/// Reads the registered client. The authorization server decides on the authentication method.
fn client_from_response(
    answer: RegistrationResponse,
    wished: ClientAuthMethod,
    redirect: &Url,
) -> Option<OAuthClient> {
    let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let RegistrationResponse { client_id: id, client_secret: secret, .. } = answer;
    if id.is_empty() || MAX_CREDENTIAL_BYTES < id.len() || !is_plain(&id) {
        return None;
    }
    let secret = secret.filter(|secret| !secret.is_empty());
    if secret
        .as_ref()
        .is_some_and(|secret| MAX_CREDENTIAL_BYTES < secret.len() || !is_plain(secret))
    {
        return None;
    }
    let method = match answer.token_endpoint_auth_method.as_deref() {
        Some("none") => ClientAuthMethod::None,
        Some("client_secret_basic") => ClientAuthMethod::Basic,
        Some("client_secret_post") => ClientAuthMethod::Post,
        Some(_) => return None,
        None => wished,
    };
    let method = if secret.is_some() { method } else { ClientAuthMethod::None };
    let expires = answer.client_secret_expires_at.filter(|&end| end != 0);
    Some(OAuthClient { id, secret, method, redirect: Some(redirect.as_str().to_owned()), expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_type_follows_from_the_redirect_uri() {
        for (redirect, expected) in [
            ("https://crib.example/callback", "web"),
            ("http://localhost:8080/callback", "native"),
            ("http://127.0.0.1/callback", "native"),
            ("http://crib.internal/callback", "web"),
            ("com.example.crib:/callback", "native"),
        ] {
            assert_eq!(application_type(&redirect.parse().unwrap()), expected, "{redirect}");
        }
    }

    #[test]
    fn the_authorization_server_decides_on_the_authentication_method() {
        let of = |answer: serde_json::Value| {
            let redirect = "https://crib.example/".parse().unwrap();
            let answer = serde_json::from_value(answer).unwrap();
            client_from_response(answer, ClientAuthMethod::Basic, &redirect)
                .map(|client| (client.id, client.method))
        };
        let id = "a".to_owned();
        assert_eq!(
            of(json!({"client_id": "a", "client_secret": "b"})),
            Some((id, ClientAuthMethod::Basic))
        );
        let post = json!({"client_id": "a", "client_secret": "b", "token_endpoint_auth_method": "client_secret_post"});
        assert_eq!(of(post), Some(("a".to_owned(), ClientAuthMethod::Post)));
        assert_eq!(of(json!({"client_id": "a"})), Some(("a".to_owned(), ClientAuthMethod::None)));
        assert_eq!(of(json!({"client_id": ""})), None);
        assert_eq!(of(json!({"client_id": "a\r\nb"})), None);
        let odd = json!({"client_id": "a", "token_endpoint_auth_method": "tls_client_auth"});
        assert_eq!(of(odd), None);
    }
}
