//! The client identity at an authorization server: preregistered, a client id metadata document, or dynamic
//! registration (RFC 7591), in this order.

use model::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fetch::{Fetch, is_here, parsed, unusable};
use super::server::Server;
use super::settings::{Flow, OAuth};
use super::store::Kept;
use super::{OAuthError, Url};
use crate::http::header::HeaderMap;

const WHAT: &str = "a registration";
const MAX_ID: usize = 2048;

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
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
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) method: Method,
    /// The redirect URI. Another URI needs another registration.
    redirect: Option<String>,
    /// When the secret expires, in seconds since 1970.
    expires: Option<u64>,
}

/// Finds the client for an authorization server, or registers one. `bound` is the issuer of the previous tokens.
pub(super) async fn find(
    fetch: Fetch<'_>,
    server: &Server,
    bound: Option<&str>,
) -> Result<Client, OAuthError> {
    let oauth = fetch.oauth;
    if let Some(client) = by_hand(oauth, server, bound)? {
        return Ok(client);
    }
    let is_code = matches!(oauth.flow, Flow::Code { .. });
    if let (Some(url), true, true) =
        (&oauth.metadata_url, is_code, server.metadata.client_id_metadata_document_supported)
    {
        let (id, method) = (url.as_str().to_owned(), Method::None);
        return Ok(Client { id, secret: None, method, redirect: None, expires: None });
    }
    if let Some(client) = kept(oauth, server).await {
        return Ok(client);
    }
    let client = register(fetch, server).await?;
    let text = serde_json::to_string(&client).ok();
    oauth.store.save(&key(server), text).await;
    Ok(client)
}

/// Deletes a stored registration that the authorization server no longer accepts.
pub(super) async fn forget(oauth: &OAuth, server: &Server) {
    oauth.store.save(&key(server), None).await;
}

fn key(server: &Server) -> Kept {
    Kept::Client { issuer: server.issuer.clone() }
}

fn by_hand(
    oauth: &OAuth,
    server: &Server,
    bound: Option<&str>,
) -> Result<Option<Client>, OAuthError> {
    let Some(registered) = &oauth.registered else { return Ok(None) };
    let issuer = registered.issuer.as_deref().or(bound);
    if issuer.is_some_and(|issuer| issuer != server.issuer) {
        return Err(OAuthError::RegisteredElsewhere { origin: server.origin.clone() });
    }
    let method = match (&registered.key, &registered.secret) {
        (Some(_), _) => Method::Signed,
        (None, Some(_)) => with_secret(server).unwrap_or(Method::Basic),
        (None, None) => Method::None,
    };
    let (id, secret) = (registered.id.clone(), registered.secret.clone());
    Ok(Some(Client { id, secret, method, redirect: None, expires: None }))
}

async fn kept(oauth: &OAuth, server: &Server) -> Option<Client> {
    let text = oauth.store.load(&key(server)).await?;
    let client: Client = serde_json::from_str(&text).ok()?;
    let holds = client.expires.is_none_or(|end| (oauth.now)() < end);
    (holds && client.redirect == redirect(oauth)).then_some(client)
}

fn redirect(oauth: &OAuth) -> Option<String> {
    match &oauth.flow {
        Flow::Code { redirect, .. } => Some(redirect.as_str().to_owned()),
        Flow::ClientCredentials => None,
    }
}

/// The preferred way to send a client secret, if the authorization server accepts one.
fn with_secret(server: &Server) -> Option<Method> {
    let Some(methods) = &server.metadata.token_endpoint_auth_methods_supported else {
        return Some(Method::Basic);
    };
    let takes = |name: &str| methods.iter().any(|method| method == name);
    match (takes("client_secret_basic"), takes("client_secret_post")) {
        (true, _) => Some(Method::Basic),
        (false, true) => Some(Method::Post),
        (false, false) => None,
    }
}

#[derive(Deserialize)]
struct Answer {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

async fn register(fetch: Fetch<'_>, server: &Server) -> Result<Client, OAuthError> {
    let unknown = || OAuthError::Unknown { origin: server.origin.clone() };
    let Flow::Code { redirect, .. } = &fetch.oauth.flow else { return Err(unknown()) };
    let place = server.metadata.registration_endpoint.as_deref().ok_or_else(unknown)?;
    let place = fetch.way().place("the place for registrations", place)?;
    let wished = with_secret(server).unwrap_or(Method::None);
    let wish = json!({
        "client_name": fetch.oauth.name,
        "redirect_uris": [redirect.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wished,
        "application_type": application_type(redirect),
    });
    let answer = fetch
        .way()
        .post(WHAT, &place, HeaderMap::new(), "application/json", wish.to_string())
        .await?;
    if !matches!(answer.status, 200 | 201) {
        return Err(unusable(WHAT, &place, "it was refused"));
    }
    let document = strict_json::tolerant(&answer.body);
    let document = document.map_err(|_| unusable(WHAT, &place, "it is no JSON"))?;
    client_of(parsed(WHAT, &place, document)?, wished, redirect)
        .ok_or_else(|| unusable(WHAT, &place, "there is no client in it"))
}

/// The application type, which follows from the redirect URI (SEP-837).
fn application_type(redirect: &Url) -> &'static str {
    match redirect.scheme() {
        "https" => "web",
        _ if is_here(redirect) => "native",
        "http" => "web",
        _ => "native",
    }
}

/// Reads the registered client. The authorization server decides on the authentication method.
fn client_of(answer: Answer, wished: Method, redirect: &Url) -> Option<Client> {
    let is_plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let Answer { client_id: id, client_secret: secret, .. } = answer;
    if id.is_empty() || MAX_ID < id.len() || !is_plain(&id) {
        return None;
    }
    let secret = secret.filter(|secret| !secret.is_empty());
    if secret.as_ref().is_some_and(|secret| MAX_ID < secret.len() || !is_plain(secret)) {
        return None;
    }
    let method = match answer.token_endpoint_auth_method.as_deref() {
        Some("none") => Method::None,
        Some("client_secret_basic") => Method::Basic,
        Some("client_secret_post") => Method::Post,
        Some(_) => return None,
        None => wished,
    };
    let method = if secret.is_some() { method } else { Method::None };
    let expires = answer.client_secret_expires_at.filter(|&end| end != 0);
    Some(Client { id, secret, method, redirect: Some(redirect.as_str().to_owned()), expires })
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
            client_of(answer, Method::Basic, &redirect).map(|client| (client.id, client.method))
        };
        let id = "a".to_owned();
        assert_eq!(of(json!({"client_id": "a", "client_secret": "b"})), Some((id, Method::Basic)));
        let post = json!({"client_id": "a", "client_secret": "b", "token_endpoint_auth_method": "client_secret_post"});
        assert_eq!(of(post), Some(("a".to_owned(), Method::Post)));
        assert_eq!(of(json!({"client_id": "a"})), Some(("a".to_owned(), Method::None)));
        assert_eq!(of(json!({"client_id": ""})), None);
        assert_eq!(of(json!({"client_id": "a\r\nb"})), None);
        let odd = json!({"client_id": "a", "token_endpoint_auth_method": "tls_client_auth"});
        assert_eq!(of(odd), None);
    }
}
