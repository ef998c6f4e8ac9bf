//! Requests with a foreign `Host` or `Origin`, or with an ambiguous target (MCP-01 to MCP-03).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::server::{Ask, Server};
use crate::support::Folder;

/// Status of the answer to a raw request.
fn raw(server: &Server, text: &str) -> String {
    let mut stream = server.connect();
    stream.write_all(text.replace("KEY", &server.key).as_bytes()).unwrap();
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer));
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn every_route_checks_host_and_origin_even_with_a_credential() {
    let server = Server::start();
    for path in ["/api/whoami", "/api/groups", "/api/openapi.json", "/nowhere"] {
        let ask = || server.ask("GET", path);
        let fine = server.send(&ask()).status;
        let of = |name: &str, value: &str| server.send(&ask().header(name, value));
        assert_eq!(of("Origin", "http://localhost:5173").status, fine);
        assert!(of("Host", "evil.example").problem().starts_with("421 misdirected_request"));
        for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
            let problem = of("Origin", origin).problem();
            assert!(problem.starts_with("403 forbidden: pages from"), "{path}: {problem}");
        }
        let answer = of("Host", "localhost/admin?x=");
        assert!(answer.problem().starts_with("400 invalid_request"), "{answer:?}");
        assert!(!answer.header("x-request-id").is_empty());
    }
}

#[test]
fn only_local_callers_are_served_without_a_credential() {
    let server = Server::start();
    let ask = || Ask::new("GET", "/api/whoami");
    assert_eq!(server.send(&ask()).ok()["means"], "nothing");
    assert_eq!(server.send(&ask().header("Host", "127.0.0.1:1")).status, 200);
    for proxy in ["Forwarded", "X-Forwarded-For", "Via"] {
        assert_eq!(server.send(&ask().header(proxy, "192.0.2.1")).status, 403, "{proxy}");
        assert_eq!(server.send(&ask().header(proxy, "192.0.2.1").bearer(&server.key)).status, 200);
    }
    // Behind a proxy that adds no headers, the `Host` is that of the proxy.
    let server = server.restart("--listen 127.0.0.1:0 --public-url https://crib.example.com");
    let ask = || ask().header("Host", "crib.example.com");
    assert_eq!(server.send(&ask()).status, 403);
    assert_eq!(server.send(&ask().bearer(&server.key)).status, 200);
}

#[test]
fn host_names_come_from_options_and_the_configuration() {
    let folder = Folder::empty();
    let config = json!({
        "public_url": "https://old.example.com",
        "allowed_hosts": ["crib.internal"],
        "allowed_origins": ["https://chat.example.com"],
    });
    folder.write("config.json", config.to_string());
    let options = "--config config.json --public-url https://crib.example.com";
    let server = Server::on_folder(folder, options);
    let status = |name: &str, value: &str| {
        server.send(&server.ask("GET", "/api/whoami").header(name, value)).status
    };
    for host in ["localhost", "crib.example.com", "crib.internal:8080"] {
        assert_eq!(status("Host", host), 200, "{host}");
    }
    for host in ["old.example.com", "chat.example.com", "192.0.2.1"] {
        assert_eq!(status("Host", host), 421, "{host}");
    }
    for origin in ["https://crib.example.com", "https://chat.example.com"] {
        assert_eq!(status("Origin", origin), 200, "{origin}");
    }
    assert_eq!(status("Origin", "https://crib.internal"), 403);
}

#[test]
fn a_public_listener_accepts_any_host_with_a_credential() {
    let server = Server::start().restart("--listen 0.0.0.0:0");
    let ask = |host: &str| server.ask("GET", "/api/whoami").header("Host", host);
    assert_eq!(server.send(&ask("toolcrib:8080")).status, 200);
    let page = |origin: &str| server.send(&ask("toolcrib:8080").header("Origin", origin)).status;
    assert_eq!(page("http://toolcrib:8080"), 200);
    assert_eq!(page("http://evil.example"), 403);
    // Without credentials, DNS rebinding could make a browser send requests here under a foreign name.
    let server = server.restart("--listen 0.0.0.0:0 --allow-anonymous");
    let nobody = |host: &str| server.send(&Ask::new("GET", "/api/whoami").header("Host", host));
    assert_eq!(nobody("192.0.2.1:8080").status, 200);
    assert_eq!(nobody("evil.example").status, 421);
}

#[test]
fn an_ambiguous_request_target_is_rejected() {
    let server = Server::start();
    let with = |target: &str, headers: &str| {
        let rest = "Authorization: Bearer KEY\r\nConnection: close\r\n\r\n";
        raw(&server, &format!("GET {target} HTTP/1.1\r\n{headers}{rest}"))
    };
    let host = "Host: localhost\r\n";
    assert_eq!(with("/api/groups", host), "200");
    assert_eq!(with("http://localhost/api/groups", host), "200");
    assert_eq!(with("http://evil.example/api/groups", host), "400");
    assert_eq!(with("http://localhost@evil.example/api/groups", "Host: evil.example\r\n"), "400");
    assert_eq!(with("/api/groups", ""), "400");
    assert_eq!(with("/api/groups", "Host: localhost\r\nHost: localhost\r\n"), "400");
    for target in [
        "//api/groups",
        "/api//groups",
        "/api/groups/",
        "/api/groups;x",
        "/api;x/groups",
        "/api/%2e%2e/api/groups",
        "/%2e%2e/api/groups",
        "/x/../api/groups",
        "/api/keys/%2e%2e/groups",
        "/api/keys/..%2fgroups",
        "/api%2fgroups",
        "/API/groups",
        "/api/groups%00",
        "\\api\\groups",
        "*",
        "localhost:80",
    ] {
        let status = with(target, host);
        assert!(["400", "404"].contains(&status.as_str()), "{target}: {status}");
    }
    assert_eq!(with("/api/groups#/../keys", host), "200", "a fragment is no part of a target");
}
