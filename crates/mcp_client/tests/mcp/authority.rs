//! A strict authorization server, and an MCP server that accepts its tokens.
//!
//! The authorization server records every protocol violation of the client, so that tests can check for none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::server::{ReceivedRequest, Reply, Server};

/// Configuration of the server, and a record of its requests.
#[derive(Default)]
pub(crate) struct Authority {
    /// Announced lifetime of tokens, in seconds.
    pub(crate) holds: Option<u64>,
    /// Fields that override those of the metadata.
    pub(crate) metadata: Value,
    /// The `iss` parameter of authorization responses instead of the issuer; an empty one omits it.
    pub(crate) iss: Option<String>,
    pub(crate) offline: bool,
    pub(crate) registered: u32,
    pub(crate) asked: Vec<HashMap<String, String>>,
    pub(crate) refreshed: u32,
    pub(crate) amiss: Vec<String>,
    codes: HashMap<String, HashMap<String, String>>,
    tokens: HashMap<String, String>,
    refreshes: HashMap<String, String>,
    count: u32,
}

pub(crate) type SharedAuthority = Arc<Mutex<Authority>>;

pub(crate) const SECRET: &str = "a secret: %/+";

impl Authority {
    pub(crate) fn shared() -> SharedAuthority {
        Arc::new(Mutex::new(Self { metadata: json!({}), ..Self::default() }))
    }

    /// The scopes of a valid token.
    pub(crate) fn scopes(&self, header: Option<&str>) -> Option<String> {
        self.tokens.get(header?.strip_prefix("Bearer ")?).cloned()
    }

    pub(crate) fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }

    pub(crate) fn revoke_all(&mut self) {
        self.tokens.clear();
        self.refreshes.clear();
    }

    fn next_value(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{}", self.count)
    }

    fn answer(&mut self, asked: &ReceivedRequest) -> Reply {
        let base = format!("http://{}", asked.header("host").unwrap_or_default());
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        match path {
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = json!({
                    "issuer": base,
                    "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"),
                    "registration_endpoint": format!("{base}/register"),
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                    "scopes_supported": ["read", "offline_access"],
                });
                for (name, value) in self.metadata.as_object().unwrap() {
                    metadata[name] = value.clone();
                }
                Reply::Json(200, vec![], Some(metadata))
            }
            "/register" => self.register(&asked.body),
            "/authorize" => self.authorize(&base, parse_form(query)),
            "/token" => self.token(asked),
            _ => Reply::status(404),
        }
    }

    fn register(&mut self, wish: &Value) -> Reply {
        self.registered += 1;
        self.expect(wish["application_type"] == "native", "the kind of application");
        self.expect(wish["token_endpoint_auth_method"] == "client_secret_basic", "the method");
        self.expect(wish["redirect_uris"][0] == "http://localhost:9/back", "the redirect");
        let id = format!("client-{}", self.registered);
        Reply::Json(201, vec![], Some(json!({"client_id": id, "client_secret": SECRET})))
    }

    fn authorize(&mut self, base: &str, asked: HashMap<String, String>) -> Reply {
        let is = |name: &str, value: &str| asked.get(name).is_some_and(|it| it == value);
        self.expect(is("response_type", "code"), "the kind of answer");
        self.expect(is("code_challenge_method", "S256"), "the kind of challenge");
        self.expect(asked.get("state").is_some_and(|it| it.len() >= 32), "the state");
        self.expect(asked.contains_key("resource"), "the resource");
        let code = self.next_value("code");
        let iss = self.iss.clone().unwrap_or_else(|| base.to_owned());
        let iss = if iss.is_empty() { iss } else { format!("&iss={iss}") };
        let back = format!("{}?code={code}&state={}{iss}", asked["redirect_uri"], asked["state"]);
        self.codes.insert(code, asked.clone());
        self.asked.push(asked);
        Reply::Json(302, vec![("location", back)], None)
    }

    fn token(&mut self, asked: &ReceivedRequest) -> Reply {
        let form = parse_form(&asked.text);
        let is_client = asked.header("authorization").is_some_and(|header| {
            let pair = STANDARD.decode(header.trim_start_matches("Basic ")).unwrap_or_default();
            let encoded: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
            String::from_utf8(pair).is_ok_and(|it| it.ends_with(&format!(":{encoded}")))
        });
        self.expect(is_client, "the client");
        let scope = match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(consent) = self.codes.remove(&form["code"]) else {
                    self.expect(false, "the code");
                    return oauth_error("invalid_grant");
                };
                let hash = digest(&SHA256, form["code_verifier"].as_bytes());
                let hash = URL_SAFE_NO_PAD.encode(hash);
                self.expect(consent["code_challenge"] == hash, "the verifier");
                self.expect(consent["resource"] == form["resource"], "the resource");
                self.expect(consent["redirect_uri"] == form["redirect_uri"], "the redirect");
                consent.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => match self.refreshes.remove(&form["refresh_token"]) {
                Some(scope) => {
                    self.refreshed += 1;
                    scope
                }
                None => return oauth_error("invalid_grant"),
            },
            "client_credentials" => form.get("scope").cloned().unwrap_or_default(),
            _ => return oauth_error("unsupported_grant_type"),
        };
        let (access, refresh) = (self.next_value("token"), self.next_value("refresh"));
        self.tokens.insert(access.clone(), scope.clone());
        let mut tokens = json!({"access_token": access, "token_type": "bearer"});
        if let Some(holds) = self.holds {
            tokens["expires_in"] = json!(holds);
        }
        if self.offline {
            tokens["refresh_token"] = json!(refresh);
            self.refreshes.insert(refresh, scope);
        }
        Reply::Json(200, vec![], Some(tokens))
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.amiss.push(what.to_owned());
        }
    }
}

fn oauth_error(code: &str) -> Reply {
    Reply::Json(400, vec![], Some(json!({"error": code})))
}

pub(crate) fn parse_form(text: &str) -> HashMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

pub(crate) async fn start(authority: &SharedAuthority) -> Server {
    let authority = authority.clone();
    Server::start(move |asked| authority.lock().unwrap().answer(asked)).await
}

/// An MCP server that names the issuer with the index `turn` as its authorization server. Every request needs the scope
/// `read`, and a tool the scope of its own name.
pub(crate) async fn start_resource_server(
    authority: &SharedAuthority,
    issuers: Vec<String>,
    turn: Arc<AtomicU32>,
) -> Server {
    let authority = authority.clone();
    Server::start(move |asked| {
        let base = format!("http://{}", asked.header("host").unwrap_or_default());
        let metadata = format!("{base}/where/only/it/knows");
        if asked.path == "/where/only/it/knows" {
            let issuer = &issuers[turn.load(Ordering::Relaxed) as usize];
            let resource = format!("{base}/mcp");
            let document = json!({"resource": resource, "authorization_servers": [issuer]});
            return Reply::Json(200, vec![], Some(document));
        }
        let challenge = |more: &str| {
            let header = format!("Bearer {more}, resource_metadata=\"{metadata}\"");
            vec![("www-authenticate", header)]
        };
        if asked.path != "/mcp" {
            return Reply::status(404);
        }
        let Some(scopes) = authority.lock().unwrap().scopes(asked.header("authorization")) else {
            return Reply::Json(401, challenge("scope=\"read\""), Some(json!({})));
        };
        let tool = asked.body["params"]["name"].as_str().unwrap_or("read");
        if !scopes.split(' ').any(|scope| scope == tool) {
            let wanted = format!("error=\"insufficient_scope\", scope=\"{tool}\"");
            return Reply::Json(403, challenge(&wanted), Some(json!({})));
        }
        match asked.method() {
            "server/discover" => Reply::result(
                asked,
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}),
            ),
            _ => Reply::result(asked, json!({"scopes": scopes})),
        }
    })
    .await
}
