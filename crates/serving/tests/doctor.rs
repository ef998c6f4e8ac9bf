//! `toolcrib doctor`: what is wrong is said in plain words, with what to do.

use serde_json::{Value, json};

use crate::api::server::Server;
use crate::api::tls::certificate::Certificate;
use crate::support::{Folder, Run, ok};
use crate::upstream::{Upstream, answer};

/// Without how many files this machine may open.
fn seen(run: &Run) -> String {
    let lines = run.seen().lines().map(str::to_owned).collect::<Vec<_>>();
    let is_of_machine = |line: &&String| line.contains("limits ") || line.contains("`ulimit -Hn`");
    lines.iter().filter(|line| !is_of_machine(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_is_wrong_with_a_catalog_is_said_with_what_to_do() {
    let run = Folder::with_catalog().run("doctor --offline");
    insta::assert_snapshot!(seen(&run), @"
    ok       store                         toolcrib.db: 18 events, all of them read
    PROBLEM  keys                          nobody can administer
                                           → the next start of `toolcrib serve` makes a key for an admin and prints it
    ok       clock                         not before the last event
    PROBLEM  secret sealed:petstore-token  sealed secrets need a key: give one with TOOLCRIB_SEALING_KEY or --sealing-key-file (`openssl rand -base64 32 > FILE` makes one)
                                           → source `petstore` cannot be called without it
    ok       source petstore               nothing is known against it

    2 problems, 0 warnings
    exit code: 3
    ");
}

#[test]
fn a_journal_that_is_not_there_is_not_made() {
    let folder = Folder::empty();
    insta::assert_snapshot!(seen(&folder.run("doctor")), @"
    PROBLEM  store   the journal `FOLDER/toolcrib.db` cannot be opened (there is no such file: `toolcrib journal import` makes one)
                     → say where the journal is with --journal; `toolcrib serve` makes a new one

    1 problem, 0 warnings
    exit code: 3
    ");
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_server_in_good_health_has_nothing_to_fear() {
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
    assert_eq!(of_shop.unwrap()["says"], "it is there");
}

#[test]
fn sources_that_are_away_and_clocks_that_differ_are_found() {
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
fn files_of_tls_are_looked_at() {
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
fn a_shell_and_man_are_told_of_every_verb() {
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
