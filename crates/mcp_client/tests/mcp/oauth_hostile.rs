//! Malicious MCP servers and authorization servers during OAuth.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mcp_client::McpError;
use oauth::{ConsentCallback, McpAuthorization, OAuthError, OAuthFlow};
use serde_json::{Value, json};
use upstream::egress::EgressPolicy;
use upstream::http::{HttpClient, HttpError};

use crate::oauth::{World, client, consent, oauth, oauth_cause, open_at, url};
use crate::server::{ReceivedRequest, Reply, Server};
use crate::support::*;

/// An MCP server that is its own authorization server; `other` can override any reply.
async fn server(
    other: impl Fn(&ReceivedRequest, &str) -> Option<Reply> + Send + Sync + 'static,
) -> Server {
    Server::start(move |asked| {
        let base = format!("http://{}", asked.header("host").unwrap_or_default());
        if let Some(reply) = other(asked, &base) {
            return reply;
        }
        let path = asked.path.split('?').next().unwrap_or_default();
        let document = match path {
            "/.well-known/oauth-protected-resource/mcp" => {
                json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]})
            }
            "/.well-known/oauth-authorization-server" => metadata(&base),
            "/register" => json!({"client_id": "a"}),
            "/token" => json!({"access_token": "hush", "token_type": "Bearer"}),
            "/authorize" => return redirect_back(asked, &format!("iss={base}&code=hush")),
            _ => return Reply::Json(401, vec![("www-authenticate", "Bearer".to_owned())], None),
        };
        Reply::Json(200, vec![], Some(document))
    })
    .await
}

fn metadata(base: &str) -> Value {
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

fn redirect_back(asked: &ReceivedRequest, answer: &str) -> Reply {
    let asked = crate::authority::parse_form(asked.path.split_once('?').unwrap().1);
    let to = format!("{}?state={}&{answer}", asked["redirect_uri"], asked["state"]);
    Reply::Json(302, vec![("location", to)], None)
}

/// The error of an attempt to connect. The errors never contain a secret.
async fn refusal(server: &Server, client: &HttpClient) -> OAuthError {
    let mut oauth = oauth(consent(client.clone()));
    oauth.limits.request_deadline = Duration::from_millis(500);
    let authorization = McpAuthorization::new(client.clone(), url(server), oauth);
    let error = open_at(client, url(server), &authorization).await.err().unwrap();
    assert!(!format!("{error:?} {error} {authorization:?}").contains("hush"), "{error:?}");
    oauth_cause(&error).clone()
}

fn has_received(server: &Server, path: &str) -> bool {
    server.received_requests().iter().any(|asked| asked.path.starts_with(path))
}

/// A server with modified metadata.
async fn server_with_metadata(change: impl Fn(&mut Value, &str) + Send + Sync + 'static) -> Server {
    server(move |asked, base| {
        (asked.path == "/.well-known/oauth-authorization-server").then(|| {
            let mut metadata = metadata(base);
            change(&mut metadata, base);
            Reply::Json(200, vec![], Some(metadata))
        })
    })
    .await
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    for other in ["https://evil.example".to_owned(), "BASE/".to_owned()] {
        let server = server_with_metadata(move |metadata, base| {
            metadata["issuer"] = json!(other.replace("BASE", base))
        })
        .await;
        let error = refusal(&server, &client()).await;
        assert!(matches!(error, OAuthError::WrongIssuer { .. }), "{error:?}");
        assert!(!has_received(&server, "/register") && !has_received(&server, "/authorize"));
    }
}

#[tokio::test]
async fn metadata_of_another_resource_is_not_used() {
    let server = server(|asked, base| {
        let document =
            json!({"resource": "https://evil.example/mcp", "authorization_servers": [base]});
        let is_it = asked.path.starts_with("/.well-known/oauth-protected");
        is_it.then(|| Reply::Json(200, vec![], Some(document)))
    })
    .await;
    let error = refusal(&server, &client()).await;
    assert!(matches!(error, OAuthError::WrongResource { .. }), "{error:?}");
    assert!(!has_received(&server, "/.well-known/oauth-authorization-server"));
}

#[tokio::test]
async fn an_authorization_response_of_another_request_or_issuer_gets_no_token() {
    for (answer, is_mixed_up) in [
        ("code=hush&iss=https://evil.example", true),
        ("code=hush&iss=BASE/", true),
        ("code=hush&iss=BASE&iss=https://evil.example", false),
        ("code=hush&iss=BASE&code=other", false),
        ("code=hush&iss=BASE&state=other", false),
        ("iss=BASE", false),
        ("iss=https://evil.example&error=access_denied", true),
    ] {
        let server = server(move |asked, base| {
            let is_it = asked.path.starts_with("/authorize");
            is_it.then(|| redirect_back(asked, &answer.replace("BASE", base)))
        })
        .await;
        let error = refusal(&server, &client()).await;
        assert_eq!(matches!(error, OAuthError::WrongIssuer { .. }), is_mixed_up, "{answer}");
        assert!(
            is_mixed_up || matches!(error, OAuthError::InvalidConsentAnswer { .. }),
            "{answer}: {error:?}"
        );
        assert!(!has_received(&server, "/token"), "{answer}");
    }
}

#[tokio::test]
async fn an_authorization_response_without_a_required_issuer_gets_no_token() {
    let server = server(|asked, base| match asked.path.split('?').next() {
        Some("/authorize") => Some(redirect_back(asked, "code=hush")),
        Some("/.well-known/oauth-authorization-server") => {
            let mut metadata = metadata(base);
            metadata["authorization_response_iss_parameter_supported"] = json!(true);
            Some(Reply::Json(200, vec![], Some(metadata)))
        }
        _ => None,
    })
    .await;
    let error = refusal(&server, &client()).await;
    assert!(matches!(error, OAuthError::WrongIssuer { .. }), "{error:?}");
    assert!(!has_received(&server, "/token"));
}

#[tokio::test]
async fn forbidden_addresses_are_not_contacted() {
    let inner = Server::start(|_| Reply::status(200)).await;
    let forbidden = inner.url("");
    for place in ["issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint"] {
        let inside = forbidden.clone();
        let server = server(move |asked, base| match (place, asked.path.as_str()) {
            ("issuer", "/.well-known/oauth-protected-resource/mcp") => {
                let document =
                    json!({"resource": format!("{base}/mcp"), "authorization_servers": [inside]});
                Some(Reply::Json(200, vec![], Some(document)))
            }
            (_, "/.well-known/oauth-authorization-server") => {
                let mut metadata = metadata(base);
                metadata[place] = json!(format!("{inside}/inside"));
                Some(Reply::Json(200, vec![], Some(metadata)))
            }
            _ => None,
        })
        .await;
        let open = url(&server);
        let open = format!("{}:{}", open.host_str().unwrap(), open.port().unwrap());
        let egress = EgressPolicy { allow_private: false, allowed: vec![open.parse().unwrap()] };
        let error = refusal(&server, &HttpClient::new(egress)).await;
        assert!(matches!(error, OAuthError::Forbidden { .. }), "{place}: {error:?}");
    }
    assert_eq!(inner.request_summaries(), Vec::<String>::new());
}

#[tokio::test]
async fn resource_metadata_of_another_origin_is_not_fetched() {
    let inner = Server::start(|_| Reply::status(200)).await;
    let header = format!("Bearer resource_metadata=\"{}\"", inner.url("/inside"));
    let server = Server::start(move |_| {
        Reply::Json(401, vec![("www-authenticate", header.clone())], Some(json!({})))
    })
    .await;
    let error = refusal(&server, &client()).await;
    assert!(matches!(error, OAuthError::InvalidResponse { .. }), "{error:?}");
    assert!(error.to_string().contains("another origin"), "{error}");
    assert_eq!(inner.request_summaries(), Vec::<String>::new());
}

#[tokio::test]
async fn insecure_and_malformed_endpoints_get_neither_secrets_nor_users() {
    for (place, named) in [
        ("token_endpoint", "http://as.example/token"),
        ("authorization_endpoint", "http://as.example/authorize"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "https://user:pass@as.example/"),
        ("authorization_endpoint", "https://as.example/?client_id=theirs"),
        ("authorization_endpoint", "https://as.example/#here"),
        ("token_endpoint", "no url"),
    ] {
        let server = server_with_metadata(move |metadata, _| metadata[place] = json!(named)).await;
        let error = refusal(&server, &client()).await;
        let is_told = matches!(
            error,
            OAuthError::InsecureUrl { .. }
                | OAuthError::Forbidden { .. }
                | OAuthError::InvalidResponse { .. }
                | OAuthError::InvalidUrl { .. }
        );
        assert!(is_told, "{named}: {error:?}");
        assert!(!has_received(&server, "/token"), "{named}");
    }
}

#[tokio::test]
async fn without_pkce_no_consent_is_requested() {
    for methods in [json!([]), json!(["plain"])] {
        let server = server_with_metadata(move |metadata, _| {
            metadata["code_challenge_methods_supported"] = methods.clone();
        })
        .await;
        let error = refusal(&server, &client()).await;
        assert!(matches!(error, OAuthError::NoPkce { .. }), "{error:?}");
        assert!(!has_received(&server, "/authorize"));
    }
}

#[tokio::test]
async fn redirects_and_document_sizes_are_limited() {
    let circles = server(|asked, base| {
        let is_it = asked.path.starts_with("/.well-known/oauth-authorization-server");
        is_it.then(|| Reply::Json(302, vec![("location", format!("{base}{}", asked.path))], None))
    })
    .await;
    let error = refusal(&circles, &client()).await;
    let OAuthError::Http { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**source, HttpError::TooManyRedirects { .. }), "{error:?}");

    for path in ["/.well-known/oauth-protected-resource/mcp", "/register", "/token"] {
        let large = server(move |asked, _| {
            let document = json!({"resource": "x".repeat(300 * 1024)});
            (asked.path == path).then(|| Reply::Json(200, vec![], Some(document)))
        })
        .await;
        let error = refusal(&large, &client()).await;
        let OAuthError::Http { source, .. } = &error else { panic!("{path}: {error:?}") };
        assert!(matches!(**source, HttpError::TooLarge { .. }), "{path}: {error:?}");
    }
}

#[tokio::test]
async fn a_hanging_endpoint_times_out() {
    for path in ["/.well-known/oauth-authorization-server", "/register", "/token"] {
        let hanging = server(move |asked, _| {
            (asked.path == path).then(|| Reply::Stream(vec![crate::server::StreamPart::Hold]))
        })
        .await;
        let begun = Instant::now();
        let error = refusal(&hanging, &client()).await;
        let OAuthError::Http { source, .. } = &error else { panic!("{path}: {error:?}") };
        assert!(matches!(**source, HttpError::Timeout { .. }), "{path}: {error:?}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_token_of_another_type_or_with_invalid_characters_is_not_sent() {
    for (token, kind) in [("hush", "DPoP"), ("hu\r\nsh", "Bearer"), ("", "Bearer")] {
        let server = server(move |asked, _| {
            let document = json!({"access_token": token, "token_type": kind});
            (asked.path == "/token").then(|| Reply::Json(200, vec![], Some(document)))
        })
        .await;
        let error = refusal(&server, &client()).await;
        assert!(matches!(error, OAuthError::InvalidResponse { .. }), "{error:?}");
        assert!(
            server.received_requests().iter().all(|asked| asked.header("authorization").is_none())
        );
    }
}

/// Counts the consent requests.
fn count_consent_requests(consent: ConsentCallback, count: &Arc<AtomicU32>) -> ConsentCallback {
    let count = count.clone();
    Arc::new(move |url| {
        count.fetch_add(1, Ordering::Relaxed);
        consent(url)
    })
}

#[tokio::test]
async fn repeated_challenges_cause_a_limited_number_of_consent_requests() {
    for (status, at_most) in [(401, 1), (403, 3)] {
        let wishes = AtomicU32::new(0);
        let server = server(move |asked, _| {
            asked.header("authorization").filter(|_| asked.path == "/mcp")?;
            let wish = wishes.fetch_add(1, Ordering::Relaxed);
            let header = format!("Bearer error=\"insufficient_scope\", scope=\"s{wish}\"");
            Some(Reply::Json(status, vec![("www-authenticate", header)], None))
        })
        .await;
        let (client, count) = (client(), Arc::default());
        let mut oauth = oauth(count_consent_requests(consent(client.clone()), &count));
        oauth.limits.failure_cooldown = Duration::ZERO;
        let authorization = McpAuthorization::new(client.clone(), url(&server), oauth);
        for _ in 0..5 {
            let error = open_at(&client, url(&server), &authorization).await.err().unwrap();
            let is_told = matches!(
                error,
                McpError::TokenUnavailable { .. } | McpError::Unauthorized { status: 403, .. }
            );
            assert!(is_told, "{status}: {error:?}");
        }
        let count = count.load(Ordering::Relaxed);
        assert!((1..=at_most).contains(&count), "{status}: {count}");
    }
}

#[tokio::test]
async fn the_number_of_scopes_is_limited() {
    let server = server(|asked, _| {
        let scopes: Vec<_> = (0..1000).map(|number| format!("s{number}")).collect();
        let header = format!("Bearer scope=\"{}\"", scopes.join(" "));
        let is_it = asked.path == "/mcp";
        is_it.then(|| Reply::Json(401, vec![("www-authenticate", header)], None))
    })
    .await;
    let error = refusal(&server, &client()).await;
    assert!(matches!(error, OAuthError::TooManyScopes { .. }), "{error:?}");
}

#[tokio::test]
async fn failed_consent_is_not_requested_again_at_once() {
    let world = World::new().await;
    let connection = world.open_connection().await;
    world.authority.lock().unwrap().revoke_all();
    world.authority.lock().unwrap().iss = Some("https://evil.example".to_owned());
    for _ in 0..5 {
        let error = call(&connection, "read", json!({})).await.unwrap_err();
        assert!(matches!(oauth_cause(&error), OAuthError::WrongIssuer { .. }), "{error:?}");
    }
    assert_eq!(world.count_consents(), 2);
}

#[tokio::test]
async fn waiting_for_consent_has_a_timeout() {
    let server = server(|_, _| None).await;
    let client = client();
    let never: ConsentCallback = Arc::new(|_| Box::pin(std::future::pending()));
    let mut oauth = oauth(never);
    oauth.limits.consent_deadline = Duration::from_millis(200);
    assert!(matches!(oauth.flow, OAuthFlow::AuthorizationCode { .. }));
    let authorization = McpAuthorization::new(client.clone(), url(&server), oauth);
    let error = open_at(&client, url(&server), &authorization).await.err().unwrap();
    assert!(matches!(oauth_cause(&error), OAuthError::NoConsent), "{error:?}");
}
