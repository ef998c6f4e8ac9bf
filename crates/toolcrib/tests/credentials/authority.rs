//! A test authorization server that issues tokens by client credentials, by token exchange and for ID-JAG assertions of
//! another authorization server. It rejects every request that violates RFC 6749, RFC 8693 or RFC 7523.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::wire::{ReceivedRequest, Reply, Server};

pub(crate) const CLIENT: &str = "tool crib";
const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
pub(crate) const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ASSERTION: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// Configuration of the server, and a record of its requests.
pub(crate) struct AuthorityState {
    pub(crate) secret: String,
    /// Subject of each accepted subject token.
    pub(crate) subjects: HashMap<String, String>,
    /// The `subject_token_type` that it accepts.
    pub(crate) takes: &'static str,
    /// Reply at the first well-known metadata address, instead of the metadata.
    pub(crate) beside: Option<Reply>,
    pub(crate) audiences: Vec<String>,
    /// Resources that it issues tokens for (RFC 8707).
    pub(crate) resources: Vec<String>,
    /// Other authorization servers for which it issues ID-JAG assertions.
    pub(crate) vouches_at: Vec<String>,
    pub(crate) expires_in: Option<u64>,
    /// Reply to a rejected token request, instead of the standard error.
    pub(crate) refuses: Option<Reply>,
    /// Error code for every client credentials request, if only token exchange is allowed.
    pub(crate) only_exchanges: Option<&'static str>,
    pub(crate) takes_post: bool,
    /// Token endpoint for clients with a certificate (`mtls_endpoint_aliases`, RFC 8705, section 5).
    pub(crate) alias: Option<String>,
    /// Fields that override those of the token response.
    pub(crate) answer: Value,
    pub(crate) given: u32,
    pub(crate) amiss: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) known: Arc<Mutex<AuthorityState>>,
    pub(crate) server: Arc<Server>,
}

impl Authority {
    pub(crate) async fn start() -> Self {
        let known = Arc::new(Mutex::new(AuthorityState {
            secret: "a secret: %/+".to_owned(),
            subjects: HashMap::new(),
            takes: ACCESS,
            beside: None,
            audiences: vec!["api".to_owned()],
            resources: Vec::new(),
            vouches_at: Vec::new(),
            expires_in: Some(300),
            refuses: None,
            only_exchanges: None,
            takes_post: false,
            alias: None,
            answer: json!({}),
            given: 0,
            amiss: Vec::new(),
        }));
        let mine = Arc::clone(&known);
        let server = Server::replying(move |asked| mine.lock().unwrap().reply(asked)).await;
        Self { known, server: Arc::new(server) }
    }

    pub(crate) fn with_state<T>(&self, work: impl FnOnce(&mut AuthorityState) -> T) -> T {
        work(&mut self.known.lock().unwrap())
    }

    pub(crate) fn issued_tokens(&self) -> u32 {
        self.with_state(|known| known.given)
    }
}

impl AuthorityState {
    fn reply(&mut self, asked: &ReceivedRequest) -> Reply {
        let base = format!("http://{}", asked.header("host").unwrap());
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/.well-known/oauth-authorization-server") if self.beside.is_some() => {
                self.beside.clone().expect("it is there")
            }
            ("GET", "/.well-known/oauth-authorization-server") if self.resources.is_empty() => {
                (404, json!({})).into()
            }
            (
                "GET",
                "/.well-known/openid-configuration" | "/.well-known/oauth-authorization-server",
            ) => {
                let methods =
                    if self.takes_post { "client_secret_post" } else { "client_secret_basic" };
                let mut metadata = json!({"issuer": base, "token_endpoint": format!("{base}/token"),
                    "token_endpoint_auth_methods_supported": [methods]});
                if let Some(alias) = &self.alias {
                    metadata["mtls_endpoint_aliases"] = json!({"token_endpoint": alias});
                }
                (200, metadata).into()
            }
            ("POST", "/token" | "/mtls/token") => match self.token(&base, asked) {
                Ok(token) => (200, token).into(),
                Err((status, code)) => {
                    self.amiss.push(code.to_owned());
                    let said = json!({"error": code, "error_description": asked.body});
                    self.refuses.clone().unwrap_or_else(|| (status, said).into())
                }
            },
            _ => (404, json!({})).into(),
        }
    }

    fn token(&mut self, base: &str, asked: &ReceivedRequest) -> Result<Value, (u16, &'static str)> {
        let invalid = || (400, "invalid_request");
        if asked.header_values("content-type") != ["application/x-www-form-urlencoded"] {
            return Err(invalid());
        }
        let mut form: HashMap<String, String> = HashMap::new();
        for (name, value) in form_urlencoded::parse(asked.body.as_bytes()).into_owned() {
            // RFC 6749, section 3.2: a repeated parameter is an error, and one without a value counts as omitted.
            if form.insert(name, value).is_some() {
                return Err(invalid());
            }
        }
        self.check_client(asked, &form)?;
        if self.refuses.is_some() {
            return Err((503, "temporarily_unavailable"));
        }
        if form.get("requested_token_type").is_some_and(|kind| kind == ID_JAG) {
            return self.issue_assertion(&form);
        }
        let target = match (form.get("audience"), form.get("resource")) {
            (Some(audience), None) => self.audiences.contains(audience).then_some(audience),
            (None, Some(resource)) => self.resources.contains(resource).then_some(resource),
            _ => None,
        };
        let target = target.cloned().ok_or((400, "invalid_target"))?;
        let (subject, kind) = match form.get("grant_type").map(String::as_str) {
            Some("client_credentials") => match self.only_exchanges {
                Some(code) => return Err((400, code)),
                None => (CLIENT.replace(' ', "-"), None),
            },
            Some(ASSERTION) => {
                let words = form.get("assertion").map(|it| it.split('|').collect::<Vec<_>>());
                match words.as_deref() {
                    Some(&["vouched", at, of, subject]) if at == base && of == target => {
                        (subject.to_owned(), None)
                    }
                    _ => return Err((400, "invalid_grant")),
                }
            }
            Some(EXCHANGE) => {
                let is = |name: &str, value: &str| form.get(name).is_some_and(|it| it == value);
                let subject = form.get("subject_token").and_then(|it| self.subjects.get(it));
                let (Some(subject), true) = (subject, is("subject_token_type", self.takes)) else {
                    return Err(invalid());
                };
                if form.contains_key("actor_token") || form.contains_key("actor_token_type") {
                    return Err(invalid());
                }
                let kind = form.get("requested_token_type").map_or(ACCESS, String::as_str);
                let kind = [ACCESS, ID_TOKEN].into_iter().find(|known| kind == *known);
                (subject.clone(), Some(kind.ok_or_else(invalid)?))
            }
            _ => return Err((400, "unsupported_grant_type")),
        };
        self.given += 1;
        let scope = form.get("scope").cloned().unwrap_or_default().replace(' ', "+");
        let token = format!("for.{target}.of.{subject}.{scope}.{}", self.given);
        let mut answer = json!({"access_token": token, "token_type": "Bearer"});
        if let Some(kind) = kind {
            answer["issued_token_type"] = json!(kind);
            // Section 2.2.1 of RFC 8693: `token_type` is `N_A` unless the token is an access token.
            answer["token_type"] = json!(if kind == ACCESS { "Bearer" } else { "N_A" });
        }
        if let Some(seconds) = self.expires_in {
            answer["expires_in"] = json!(seconds);
        }
        for (name, value) in self.answer.as_object().unwrap() {
            answer[name] = value.clone();
        }
        Ok(answer)
    }

    /// Exchanges a subject token for an ID-JAG assertion for one audience and one resource.
    fn issue_assertion(
        &mut self,
        form: &HashMap<String, String>,
    ) -> Result<Value, (u16, &'static str)> {
        let is = |name: &str, value: &str| form.get(name).is_some_and(|it| it == value);
        let subject = form.get("subject_token").and_then(|it| self.subjects.get(it));
        let (Some(subject), true, true) =
            (subject, is("subject_token_type", self.takes), is("grant_type", EXCHANGE))
        else {
            return Err((400, "invalid_request"));
        };
        let at = form.get("audience").filter(|at| self.vouches_at.contains(at));
        let (Some(at), Some(resource)) = (at, form.get("resource")) else {
            return Err((400, "invalid_target"));
        };
        let assertion = format!("vouched|{at}|{resource}|{subject}");
        self.given += 1;
        let mut answer = json!({"access_token": assertion, "token_type": "N_A",
            "issued_token_type": ID_JAG, "expires_in": 300});
        for (name, value) in self.answer.as_object().unwrap() {
            answer[name] = value.clone();
        }
        Ok(answer)
    }

    /// Accepts exactly one way of client authentication.
    fn check_client(
        &self,
        asked: &ReceivedRequest,
        form: &HashMap<String, String>,
    ) -> Result<(), (u16, &'static str)> {
        let in_form = form.get("client_id").zip(form.get("client_secret"));
        let in_header = asked.header("authorization").map(|value| {
            let pair = BASE64_STANDARD.decode(value.strip_prefix("Basic ").unwrap_or_default());
            let pair = String::from_utf8(pair.unwrap_or_default()).unwrap();
            let decoded = |text: &str| -> String {
                let text = format!("x={text}");
                form_urlencoded::parse(text.as_bytes()).next().unwrap().1.into_owned()
            };
            let (id, secret) = pair.split_once(':').unwrap_or_default();
            (decoded(id), decoded(secret))
        });
        let (id, secret) = match (in_form, in_header) {
            (Some((id, secret)), None) if self.takes_post => (id.clone(), secret.clone()),
            (None, Some(pair)) if !self.takes_post => pair,
            _ => return Err((401, "invalid_client")),
        };
        match id == CLIENT && secret == self.secret {
            true => Ok(()),
            false => Err((401, "invalid_client")),
        }
    }
}
