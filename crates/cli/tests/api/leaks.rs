//! Secrets must not leak: canaries in every place for secrets, upstreams that echo everything, and a search through
//! all that a server emits: responses, logs, metrics, pushes, exports and files (OAU, EXE).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

mod echo;
mod search;

use serde_json::{Value, json};

use self::search::{Canary, files, found};
use super::issuer::{config_with_inline_key, signed_token};
use super::server::{Ask, Server};
use super::tls::certificate::Certificate;
use crate::signer::Signer;
use crate::support::{Folder, KEY};
use crate::upstream::{Upstream, answer};

const API_KEY: &str = "canary-key/51+c9=";
const PASSWORD: &str = "canary-pass/20+7a";
const TOKEN: &str = "canary-token-e02f";
const CLIENT_SECRET: &str = "canary-client-93bb";
const PROVIDER_SECRET: &str = "canary-provider-41d8";
const FORWARDED: &str = "canary-tenant-6604";
const REFUSED: &str = "canary-refused-77c1";
const WRONG: &str = "canary-wrong-1f8d";

/// Every kind of upstream credential.
fn modes(tokens: &str) -> Vec<(&'static str, Value)> {
    let key = |location: &str| json!({"kind": "api_key", "location": location, "name": "k", "value": "sealed:key"});
    let client = |kind: &str, audience: Value| {
        json!({"kind": kind, "token_url": tokens, "client_id": "crib",
            "client_secret": "sealed:client", "audience": audience})
    };
    vec![
        ("none", json!({"kind": "none"})),
        ("header", key("header")),
        ("query", key("query")),
        ("cookie", key("cookie")),
        ("basic", json!({"kind": "basic", "username": "me", "password": "sealed:password"})),
        ("bearer", json!({"kind": "bearer", "token": "sealed:token"})),
        ("own", client("client_credentials", Value::Null)),
        ("exchange", client("token_exchange", json!("pets"))),
        (
            "named",
            json!({"kind": "mcp_oauth", "client_id": "crib", "client_secret": "sealed:client"}),
        ),
        (
            "vouched",
            json!({"kind": "mcp_enterprise", "client_id": "crib", "client_secret": "sealed:client",
                "identity_provider": {"token_url": tokens, "client_id": "crib",
                    "client_secret": "sealed:provider"}}),
        ),
    ]
}

/// An MCP source takes no key in the query, and the `mcp_…` kinds of credentials are for MCP sources only.
fn is_valid_for(mode: &str, kind: &str) -> bool {
    match kind {
        "mcp" => mode != "query",
        _ => !["named", "vouched"].contains(&mode),
    }
}

/// Server whose upstreams echo everything, and all outputs collected so far.
struct World {
    server: Server,
    upstream: Upstream,
    collector: Upstream,
    signer: Signer,
    /// Private key of the client certificate.
    private: String,
    /// Name of each source; its tools are called `VERB_` plus that name.
    sources: Vec<String>,
    heard: Vec<(String, String)>,
}

impl World {
    fn new() -> Self {
        let upstream = echo::start();
        let collector = Upstream::replying(|_| answer("200 OK", "", b"{}"));
        let (folder, signer) = (Folder::empty(), Signer::p256());
        let Certificate { pem, key, .. } = Certificate::new();
        let sealing = ("TOOLCRIB_SEALING_KEY", KEY);
        for (name, value) in [
            ("key", API_KEY),
            ("password", PASSWORD),
            ("client", CLIENT_SECRET),
            ("provider", PROVIDER_SECRET),
            ("chain", &*pem),
            ("private", &*key),
        ] {
            folder.run_with(&format!("secret set {name}"), value, &[sealing]).output();
        }
        let issuers = json!({"issuers": [config_with_inline_key(&signer, json!({}))]});
        folder.write("config.json", issuers.to_string());
        let environment = [
            sealing,
            ("TOOLCRIB_LOG", "debug"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url("/")),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
        ];
        let server =
            Server::on_folder_with_environment(folder, "--config config.json", &environment);
        let private = key.lines().nth(2).unwrap().to_owned();
        let (sources, heard) = (Vec::new(), Vec::new());
        let mut world = Self { server, upstream, collector, signer, private, sources, heard };
        world.set_by_request();
        world
    }

    /// Sets a secret over the API, in valid and in invalid requests.
    fn set_by_request(&mut self) {
        let good = json!({"value": TOKEN}).to_string();
        let twice = format!(r#"{{"value": "{REFUSED}", "value": "{REFUSED}"}}"#);
        let bad = [
            json!({"valeu": REFUSED}).to_string(),
            json!({"value": [REFUSED]}).to_string(),
            json!({"value": REFUSED.repeat(5_000)}).to_string(),
            json!({"value": REFUSED, "note": REFUSED}).to_string(),
            json!(REFUSED).to_string(),
            format!(r#"{{"value": {REFUSED}}}"#),
            twice,
        ];
        for (number, body) in bad.into_iter().chain([good.clone(), good]).enumerate() {
            let ask = self.server.ask("PUT", "/api/secrets/token").text("application/json", &body);
            let answer = self.server.send(&ask);
            assert_eq!(answer.status == 204, 7 <= number, "{number}: {answer:?}");
            self.collect("an answer to a new secret", format!("{answer:?}"));
        }
    }

    /// Registers a source of each kind for each credential, and grants all of them to the role `staff`.
    fn add_sources(&mut self) {
        for (mode, auth) in modes(&self.upstream.url("/token")) {
            for kind in ["openapi", "mcp"] {
                if !is_valid_for(mode, kind) {
                    continue;
                }
                let name = format!("{mode}-{kind}");
                let settings = match kind {
                    "openapi" => {
                        json!({"kind": kind, "specification": {"text": echo::specification(&name)}})
                    }
                    _ => json!({"kind": kind}),
                };
                let certificate =
                    json!({"chain": "sealed:chain", "key": "sealed:private", "for_tokens": true});
                let source = json!({"name": name, "url": self.upstream.url(&format!("/{name}")),
                    "allow": ["127.0.0.1"], "auth": auth, "settings": settings, "limits": {"timeout": 2},
                    "client_certificate": certificate, "forward_headers": ["x-tenant"],
                    "required_scopes": ["pets"]});
                self.server.post("/api/sources", &source).ok();
                let path = format!("/api/sources/{name}");
                self.server.wait_for(&path, |source| !source["inventory"].is_null());
                self.sources.push(name);
            }
        }
        self.server
            .post("/api/groups", &json!({"name": "all", "selectors": [{"source": "*"}]}))
            .ok();
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
        self.server.post("/api/policies", &policy).ok();
    }

    fn collect(&mut self, place: &str, said: String) {
        self.heard.push((place.to_owned(), said));
    }

    /// Calls a tool over REST and over MCP, and collects both answers.
    fn call(&mut self, credential: &str, tool: &str) -> [String; 2] {
        let rest = Ask::new("POST", "/api/agents/tools/call").json(&json!({"name": tool}));
        let answers = [rest, over_mcp(tool)].map(|ask| {
            let ask = ask.bearer(credential).header("X-Tenant", FORWARDED);
            format!("{:?}", self.server.send(&ask))
        });
        for answer in &answers {
            // A header forwarded for the agent may come back to it.
            self.collect(&format!("an answer of {tool}"), answer.replace(FORWARDED, "its own"));
        }
        answers
    }

    /// Collects the answers of every `GET` without path parameters, and of each source.
    fn collect_all_pages(&mut self, credential: &str) {
        let document = self.server.send(&Ask::new("GET", "/api/openapi.json")).ok();
        let paths = document["paths"].as_object().unwrap().iter();
        let paths =
            paths.filter(|(path, methods)| !path.contains('{') && methods["get"].is_object());
        let mut paths: Vec<String> = paths.map(|(path, _)| path.clone()).collect();
        assert!(paths.contains(&"/metrics".to_owned()), "{paths:?}");
        assert!(paths.contains(&"/api/executions".to_owned()), "{paths:?}");
        paths.extend(self.sources.iter().map(|name| format!("/api/sources/{name}")));
        paths.extend(self.sources.iter().map(|name| format!("/api/sources/{name}/history")));
        for path in paths {
            let said = format!("{:?}", self.server.get_as(credential, &path));
            self.collect(&path, said);
        }
    }
}

fn over_mcp(tool: &str) -> Ask {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": {}, "_meta": meta}});
    Ask::new("POST", "/mcp")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .json(&message)
}

#[test]
fn no_output_contains_a_secret_and_no_upstream_gets_an_agent_token() {
    let mut world = World::new();
    let log = world.server.log();
    world.add_sources();
    let token = signed_token(&world.signer, json!({}), json!({"role": "staff", "scope": "pets"}));
    let narrow = signed_token(&world.signer, json!({}), json!({"role": "staff", "scope": "other"}));
    let key = json!({"name": "bot", "claims": {"role": "staff", "scope": "pets"}});
    let key = world.server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();

    for source in world.sources.clone() {
        let tool = |what: &str| format!("{what}_{}", source.replace('-', "_"));
        for (verb, expected) in [("echo", "you sent"), ("odd", "you sent"), ("fail", "you sent")] {
            for said in world.call(&token, &tool(verb)) {
                assert!(said.contains(expected), "{source} {verb}: {said}");
                let is_shown_something = !source.starts_with("none");
                assert_eq!(said.contains("***"), is_shown_something, "{source} {verb}: {said}");
            }
        }
        for said in world.call(&narrow, &tool("echo")) {
            assert!(said.contains("`pets`"), "{source}: {said}");
        }
        for said in world.call(&key, &tool("echo")) {
            let exchanges = ["exchange", "vouched"].iter().any(|mode| source.starts_with(mode));
            assert_eq!(said.contains("showed no token"), exchanges, "{source}: {said}");
        }
        world.call(WRONG, &tool("echo"));
    }
    for source in ["query_openapi", "exchange_openapi", "bearer_mcp"] {
        let [said, _] = world.call(&token, &format!("late_{source}"));
        assert!(said.contains("upstream_timeout"), "{said}");
    }
    for credential in [world.server.key.clone(), token.clone(), key.clone()] {
        world.collect_all_pages(&credential);
    }
    let folder = world.server.folder.path("");
    world.heard.extend(files(&folder));

    let (code, _) = world.server.stop();
    assert_eq!(code, Some(0));
    world.collect("the log", log.join().unwrap());
    for arguments in ["journal export", "execution export", "journal show", "execution list -n 500"]
    {
        let said = world.server.folder.run(arguments).output();
        assert!(said.contains("bearer"), "{arguments}: {said}");
        world.collect(arguments, said);
    }
    world.heard.extend(files(&folder));
    let pushed = world.collector.requests();
    assert!(pushed.iter().any(|push| push.contains("bearer-mcp")), "{}", pushed.len());
    world.collect("what is pushed", pushed.concat());

    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let agents = [
        Canary::new("a token of an agent", &token),
        Canary::new("its signature", &signature(&token)),
        Canary::new("another token", &signature(&narrow)),
        Canary::new("the key of an agent", &key),
        Canary::new("the key of the admin", &world.server.key),
        Canary::new("a wrong token", WRONG),
    ];
    let mut canaries = vec![
        Canary::new("an API key", API_KEY),
        Canary::new("a password", PASSWORD),
        Canary::new("a fixed token", TOKEN),
        Canary::new("a secret that was refused", REFUSED),
        Canary::new("the secret of the client", CLIENT_SECRET),
        Canary::new("the secret at the identity provider", PROVIDER_SECRET),
        Canary::new("an assertion", echo::ASSERTION),
        Canary::new("a token of ours", echo::OWN),
        Canary::new("an exchanged token", echo::EXCHANGED),
        Canary::new("what is passed on", FORWARDED),
        Canary::new("the key that seals", KEY),
        Canary::new("the key of a certificate", &world.private),
    ];
    let requests = world.upstream.requests();
    let to_tokens = |request: &&String| request.starts_with("POST /token");
    let calls: Vec<(String, String)> = requests
        .iter()
        .filter(|it| !to_tokens(it))
        .map(|it| ("a request".to_owned(), it.clone()))
        .collect();
    assert_eq!(found(&agents, &calls), [""; 0]);
    // The upstreams got exactly the secrets meant for them.
    let seen = found(&canaries, &calls).join("\n");
    let expected = [
        "an API key",
        "a password",
        "a fixed token",
        "a token of ours",
        "an exchanged token",
        "what is passed on",
    ];
    for canary in &canaries {
        assert_eq!(
            seen.contains(&format!("{} stands", canary.name)),
            expected.contains(&canary.name),
            "{}",
            canary.name
        );
    }
    assert!(requests.iter().filter(to_tokens).any(|request| request.contains(&token)));

    canaries.extend(agents);
    assert_eq!(found(&canaries, &world.heard), [""; 0]);
}
