//! `toolcrib doctor`: each problem is explained in plain words, with a remedy.

use serde_json::{Value, json};

use crate::api::server::Server;
use crate::api::tls::certificate::Certificate;
use crate::support::{Folder, Run, ok};
use crate::upstream::{Upstream, answer};

/// Output without the limits of this machine on open files.
fn seen(run: &Run) -> String {
    let lines = run.seen().lines().map(str::to_owned).collect::<Vec<_>>();
    let is_of_machine = |line: &&String| line.contains("limits ") || line.contains("`ulimit -Hn`");
    lines.iter().filter(|line| !is_of_machine(line)).map(|line| format!("{line}\n")).collect()
}

/// Paragraphs about one check, without column padding.
fn of_check(run: &Run, check: &str) -> String {
    let mut is_meant = false;
    let mut found = String::new();
    for line in seen(run).lines() {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !line.starts_with(' ') {
            let name = words.split_once(' ').map_or("", |(_, name)| name);
            is_meant = name.starts_with(check);
        }
        if is_meant {
            found += &format!("{words}\n");
        }
    }
    found
}

#[test]
fn problems_of_a_catalog_are_reported_with_remedies() {
    let run = Folder::with_catalog().run("doctor --offline");
    insta::assert_snapshot!(seen(&run), @"
    ok       store                         toolcrib.db: 18 events, all of them read
    warning  keys                          nobody can administer
                                           → the next start of `toolcrib serve` makes a key for an admin and prints it
    ok       clock                         not before the last event
    PROBLEM  secret sealed:petstore-token  sealed secrets need a key: give one with TOOLCRIB_SEALING_KEY or --sealing-key-file (`openssl rand -base64 32 > FILE` makes one)
                                           → source `petstore` cannot be called without it
    ok       source petstore               nothing is known against it

    1 problem, 1 warning
    exit code: 3
    ");
}

#[test]
fn a_missing_journal_is_reported_and_not_created() {
    let folder = Folder::empty();
    insta::assert_snapshot!(seen(&folder.run("doctor")), @"
    PROBLEM  store   the journal `FOLDER/toolcrib.db` cannot be opened (there is no such file: `toolcrib serve` makes one, `toolcrib journal import` one from an export)
                     → say where the journal is with --journal; `toolcrib serve` makes a new one

    1 problem, 0 warnings
    exit code: 3
    ");
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_healthy_server_has_no_problems() {
    let server = Server::start();
    let upstream = Upstream::replying(|_| ok("application/json", r#"{"tools": []}"#));
    let host = upstream.url("").replace("http://", "");
    let source = json!({"name": "Shop", "url": upstream.url(""), "settings": {"kind": "http_manifest"}, "allow": [host]});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/shop", |source| source["health"] == "healthy");
    let run = server.folder.run("doctor");
    assert!(!run.seen().contains("PROBLEM"), "{}", run.seen());
    assert_eq!(run.code, Some(0));
    let report = server.folder.run("doctor --json").output();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["ok"], true);
    let of_shop = report["findings"].as_array().unwrap().iter().find(|one| one["of"] == "shop");
    assert_eq!(of_shop.unwrap()["says"], format!("http://{host} is there"));
}

#[test]
fn unreachable_sources_and_clock_skew_are_found() {
    let server = Server::start();
    let late = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let late = Upstream::replying(move |_| answer("503 Service Unavailable", late, b""));
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (name, url) in [("Late", late.url("")), ("Gone", format!("http://{gone}"))] {
        let settings = json!({"kind": "http_manifest"});
        let source =
            json!({"name": name, "url": url, "settings": settings, "allow": ["127.0.0.1"]});
        server.post("/api/sources", &source).ok();
    }
    let run = server.folder.run("doctor --json");
    assert_eq!(run.code, Some(3));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let states = |check: &str, of: &str| -> Vec<&Value> {
        let found = findings.iter().filter(|one| one["check"] == check && one["of"] == of);
        found.map(|one| &one["state"]).collect()
    };
    assert!(states("source", "gone").contains(&&json!("problem")), "{report}");
    assert!(!states("source", "late").contains(&&json!("problem")), "{report}");
    assert_eq!(states("clock", "late"), ["warning"]);
}

#[test]
fn an_unusable_token_endpoint_is_found() {
    let metadata = r#"{"issuer": "https://id.test", "token_endpoint": "https://id.test/token"}"#;
    let upstream = Upstream::replying(move |_| ok("application/json", metadata));
    let url = upstream.url("");
    let folder = Folder::empty();
    for (name, place, said) in [
        ("other", format!("auth.issuer={url}"), "comes from another issuer, `https://id.test`"),
        ("open", "auth.token_url=http://id.test/token".to_owned(), "is not `https`"),
        ("fine", format!("auth.token_url={url}/token"), ""),
    ] {
        let auth = "auth.kind=token_exchange auth.audience=api auth.client_id=crib auth.client_secret=env:SECRET";
        let rest = format!("url={url} settings.kind=http_manifest allow=[\"127.0.0.1\"]");
        folder.run(&format!("source add {name} name={name} {rest} {auth} {place}")).output();
        let seen = of_check(&folder.run("doctor"), &format!("source {name}"));
        assert_eq!(seen.contains("of its tokens"), !said.is_empty(), "{seen}");
        assert!(seen.contains(said), "{seen}");
    }
}

#[test]
fn tls_files_are_checked() {
    let folder = Folder::with_catalog();
    let (one, other) = (Certificate::new(), Certificate::new());
    folder.write("crib.pem", &one.pem);
    folder.write("crib.key", &one.key);
    folder.write("other.key", &other.key);
    let tls = |key: &str| {
        let run = folder.run(&format!("doctor --offline --tls-cert crib.pem --tls-key {key}"));
        run.stdout.lines().find(|line| line.contains(" tls ")).unwrap_or_default().to_owned()
    };
    assert!(tls("crib.key").starts_with("ok       tls"), "{}", tls("crib.key"));
    assert!(tls("other.key").contains("`other.key` is not the key of `crib.pem`"));
}

#[test]
fn all_errors_of_a_configuration_are_reported_and_other_checks_still_run() {
    let folder = Folder::with_catalog();
    let look = |text: &str, check: &str| {
        folder.write("crib.yaml", text);
        let run = folder.run("doctor --offline --config crib.yaml --sealing-key-file nowhere");
        // These lines do not depend on the configuration file.
        for line in ["ok       store ", "PROBLEM  sealing key ", "ok       source petstore "] {
            assert!(run.seen().contains(line), "{}", run.seen());
        }
        of_check(&run, check)
    };
    insta::assert_snapshot!(look("record: {mode: loose}\nlimits: {connections: many}\n", "config"), @"
    PROBLEM config the configuration cannot be used
    crib.yaml:1:10: `record.mode`: there is no `loose`; there is `default`, `strict`, `off`
    crib.yaml:2:10: `limits.connections`: is to be an integer or null, not a string
    → a server with this file does not start: mend it
    ");
    insta::assert_snapshot!(look("tools: [{id: petstore:getOwner, labels: [pij]}]", "config"), @"
    PROBLEM config the configuration cannot be used
    crib.yaml:1:33: `tools[0].labels`: names label `pij`, which is not there; did you mean `pii`?
    → a server with this file does not start: mend it
    ");
    insta::assert_snapshot!(look("search: {embeddings: {folder: nowhere}}", "embeddings"), @"
    PROBLEM embeddings `FOLDER/nowhere/config.json` of a sentence model cannot be read: No such file or directory (os error 2)
    → a server with this file does not start: mend it
    ");
    insta::assert_snapshot!(look("labels: [{id: new, name: New}]", "config"), @"
    warning config it can be applied, and is not in force yet
    → see what it would change: toolcrib plan crib.yaml
    ");
}

#[test]
fn sources_whose_calls_would_be_blocked_are_found() {
    let folder = Folder::empty();
    let document = r#"{"openapi": "3.1.0", "info": {"title": "Till", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:8099/v1"}],
        "paths": {"/sum": {"get": {"operationId": "sum", "responses": {"200": {"description": "ok"}}}}}}"#;
    folder.write("till.json", document);
    let file = folder.path("till.json");
    let settings = format!("settings.specification.file={}", file.display());
    folder.run(&format!("source add till name=Till settings.kind=openapi {settings}")).output();
    folder.run("source refresh till").output();
    insta::assert_snapshot!(of_check(&folder.run("doctor --offline"), "source till"), @r#"
    ok source till `FOLDER/till.json` can be read
    PROBLEM source till its calls are refused: `127.0.0.1:8099` is, or leads to, no public address
    → if that is meant: toolcrib source edit till allow='["127.0.0.1:8099"]'
    "#);
    folder.run(r#"source edit till allow=["127.0.0.1:8099"]"#).output();
    let seen = of_check(&folder.run("doctor --offline"), "source till");
    assert!(!seen.contains("PROBLEM"), "{seen}");
}

#[test]
fn the_embeddings_endpoint_is_tried() {
    let folder = Folder::with_catalog();
    let refusing = Upstream::replying(|_| answer("401 Unauthorized", "", b"{}"));
    let url = refusing.url("/v1/embeddings");
    folder.write("crib.yaml", format!("search: {{embeddings: {{url: '{url}', model: m}}}}"));
    let report = folder.run("doctor --json --config crib.yaml");
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let found = report["findings"].as_array().unwrap().iter();
    let found: Vec<&Value> = found.filter(|one| one["check"] == "embeddings").collect();
    assert_eq!((found.len(), &found[0]["state"]), (1, &json!("problem")), "{report}");
    assert!(!refusing.requests().is_empty());
}

#[test]
fn completions_and_the_manual_contain_every_verb() {
    let folder = Folder::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.run(&format!("completions {shell}")).output();
        assert!(["serve", "doctor", "demo"].iter().all(|word| script.contains(word)), "{shell}");
    }
    let manual = folder.run("man").output();
    assert!(manual.starts_with(".ie"), "{}", manual.lines().next().unwrap_or_default());
    assert!(
        [".SH TOOLCRIB SERVE", ".SH TOOLCRIB DOCTOR"].iter().all(|title| manual.contains(title))
    );
}
