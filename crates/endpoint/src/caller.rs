//! Authentication of a request: its one credential, and the role that the credential gives.
//!
//! A handler without a [`Caller`], an [`Admin`] or the stream caller of `view_subscription.rs` is open to everyone. Only the
//! `Authorization` header identifies a caller: no cookie, no query, no header that a proxy or an agent could set.
//! `Host` and `Origin` can only reject a request (`names.rs`), and more strictly where callers without a credential are
//! accepted because they are on this machine.

use std::net::SocketAddr;
use std::sync::Arc;

use api_types::problem::{Problem, ProblemCode};
use api_types::server_names::{HostAndPort, ServerNames, WebOrigin};
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use axum::http::request::Parts;
use toolcrib::{AuthMethod, CallerIdentity, RequestProviders};

use crate::app_state::AppState;

/// Longest credential, in bytes.
const CREDENTIAL_LIMIT: usize = 16 << 10;

/// A caller that may use tools.
pub struct Caller(pub CallerIdentity);

/// A caller that may change the catalog.
pub struct Admin(pub CallerIdentity);

/// A local process with direct access to the journal. This program adds it to requests that it makes itself; a request
/// from the network can never carry it.
#[derive(Clone)]
pub struct LocalOperator(pub CallerIdentity);

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let bearer = bearer_token(&parts.headers)?;
        let Self(identity) = Self::from_credential(bearer, parts, app).await?;
        Ok(Self(identity.with_headers(Arc::new(parts.headers.clone()))))
    }
}

impl Caller {
    /// The caller with this credential of the request. Its identity does not include the request headers.
    pub(crate) async fn from_credential(
        bearer: Option<&str>,
        parts: &Parts,
        app: &AppState,
    ) -> Result<Self, Problem> {
        let identity = app.crib.identify(bearer).await?;
        if identity.auth_method == AuthMethod::Anonymous && app.options.anonymous_is_local {
            reject_remote_anonymous(parts, &app.options.names)?;
        }
        let identity = match parts.extensions.get::<RequestProviders>() {
            Some(providers) => identity.with_providers(providers.clone()),
            None => identity,
        };
        Ok(Self(match parts.extensions.get::<RequestUser>() {
            Some(RequestUser(user)) => identity.with_user(Arc::clone(user)),
            None => identity,
        }))
    }
}

impl FromRequestParts<AppState> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        if let Some(LocalOperator(identity)) = parts.extensions.get() {
            return Ok(Self(identity.clone()));
        }
        let Caller(identity) = Caller::from_request_parts(parts, app).await?;
        if app.crib.is_admin(&identity) {
            return Ok(Self(identity));
        }
        match identity.auth_method {
            AuthMethod::Anonymous => {
                Err(Problem::credential_missing("this is for admins: send a key"))
            }
            AuthMethod::Key { .. } | AuthMethod::Token => {
                Err(Problem::new(ProblemCode::Forbidden, "this is for admins, and you are none"))
            }
        }
    }
}

/// The credential (RFC 6750, 2.1), if there is one.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return match headers.contains_key(AUTHORIZATION) {
            true => Err(Problem::new(ProblemCode::InvalidRequest, "send `Authorization` once")),
            false => Ok(None),
        };
    };
    if CREDENTIAL_LIMIT + "Bearer ".len() < value.len() {
        return Err(Problem::new(ProblemCode::HeaderTooLarge, "a credential has at most 16 KiB"));
    }
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
    });
    match token {
        Some(token) => Ok(Some(token)),
        None => Err(Problem::credential_refused("send `Authorization: Bearer …`, with one space")),
    }
}

/// Rejects DNS rebinding: such a page connects from this machine, but its `Host` or `Origin` names another host.
fn reject_remote_anonymous(parts: &Parts, names: &ServerNames) -> Result<(), Problem> {
    let text = |name| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let is_local = |host: &str| host.parse().is_ok_and(|host: HostAndPort| host.is_local());
    let is_ours = |text: &str| text.parse().is_ok_and(|origin: WebOrigin| origin.host().is_local());
    let came_by = PROXY_HEADERS.iter().any(|name| parts.headers.contains_key(*name));
    // Known only if the embedding server provides the peer address.
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let is_here = peer.is_none_or(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback());
    let local = names.accepts_any_host() || authority.or(text(HOST)).is_some_and(is_local);
    if is_here && local && !came_by && text(ORIGIN).is_none_or(is_ours) {
        return Ok(());
    }
    let detail = "without a credential, only pages and programs on this machine are served";
    Err(Problem::new(ProblemCode::Forbidden, detail))
}

/// Headers that proxies add. With one of them, only the proxy is on this machine, not the caller.
const PROXY_HEADERS: [&str; 10] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-envoy-external-address",
];

/// The user of a request, as named by the embedding program.
#[derive(Clone)]
pub struct RequestUser(pub Arc<str>);

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::response::IntoResponse as _;

    use super::*;

    fn shown(values: &[&str]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        match bearer_token(&headers) {
            Ok(token) => Ok(token.map(str::to_owned)),
            Err(problem) => Err(problem.into_response().status().as_u16()),
        }
    }

    #[test]
    fn exactly_one_bearer_credential_is_accepted() {
        assert_eq!(shown(&[]), Ok(None));
        assert_eq!(shown(&["Bearer abc"]), Ok(Some("abc".to_owned())));
        assert_eq!(shown(&["bEARER a.b-c_d~+/="]), Ok(Some("a.b-c_d~+/=".to_owned())));
        for text in
            ["", "Bearer", "Bearer ", "Bearer  a", "Bearer a b", "Basic YTpi", "abc", "Bearer\ta"]
        {
            assert_eq!(shown(&[text]), Err(401), "{text:?}");
        }
        assert_eq!(shown(&["Bearer a", "Bearer a"]), Err(400));
        assert_eq!(shown(&[&format!("Bearer {}", "a".repeat(20_000))]), Err(431));
    }
}
