//! Malformed requests: each gets a problem document and reaches no handler.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::server::{Ask, Server};

#[test]
fn every_response_has_a_request_id_and_security_headers() {
    let server = Server::start();
    let nowhere = Ask::new("GET", "/nowhere").bearer(&server.key);
    for answer in [
        server.get("/api/groups"),
        server.send(&nowhere),
        server.send(&Ask::new("GET", "/api/docs")),
    ] {
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
        assert!(!answer.header("x-request-id").is_empty());
    }
}

#[test]
fn the_journal_records_the_request_id_and_the_caller() {
    let mut server = Server::start();
    let ask = server
        .ask("POST", "/api/groups")
        .header("X-Request-Id", "req-7")
        .json(&json!({"name": "g"}));
    assert_eq!(server.send(&ask).header("x-request-id"), "req-7");
    let bad = server.ask("GET", "/api/groups").header("X-Request-Id", "two words");
    assert_ne!(server.send(&bad).header("x-request-id"), "two words");
    server.stop();
    let events = server.folder.run("journal tail --json").output();
    let event = events.lines().find(|line| line.contains("GroupCreated")).unwrap();
    assert!(event.contains("req-7") && event.contains("key:first-admin"), "{event}");
}

#[test]
fn exactly_one_bearer_credential_is_accepted() {
    let server = Server::start();
    let key = server.key.clone();
    let ask = |path: &str| Ask::new("GET", path);
    let status = |ask: Ask| server.send(&ask).status;
    assert_eq!(status(ask("/api/groups").header("Authorization", &format!("bearer {key}"))), 200);
    assert_eq!(status(ask("/api/groups").bearer(&key).bearer(&key)), 400);
    assert_eq!(status(ask("/api/groups").bearer(&"a".repeat(20_000))), 431);
    for value in [
        "Basic Zmlyc3QtYWRtaW46",
        &format!("Bearer  {key}"),
        &format!("Bearer {key} "),
        &key,
        "Bearer",
    ] {
        let answer = server.send(&ask("/api/whoami").header("Authorization", value));
        // White space around a header value is not part of it.
        let expected = if value.ends_with(' ') { 200 } else { 401 };
        assert_eq!(answer.status, expected, "{value}: {answer:?}");
    }
    assert_eq!(status(ask("/api/groups").header("Cookie", &format!("token={key}"))), 401);
    assert_eq!(
        status(
            ask("/api/groups")
                .header("X-User-ID", "first-admin")
                .header("X-Forwarded-User", "admin")
        ),
        401
    );
    assert_eq!(status(ask(&format!("/api/groups?access_token={key}"))), 401);
    assert_eq!(server.send(&ask("/api/groups")).header("www-authenticate"), "Bearer");
}

#[test]
fn a_body_must_be_complete_json() {
    let server = Server::start();
    let post = |media_type: &str, body: &str| {
        server.send(&server.ask("POST", "/api/groups").text(media_type, body))
    };
    for media_type in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        assert!(
            post(media_type, "{\"name\":\"g\"}")
                .problem()
                .starts_with("415 unsupported_media_type")
        );
    }
    assert!(post("application/json", "{\"name\":").problem().starts_with("400 malformed_json"));
    let twice = post("application/json", "{\"name\":\"a\",\"name\":\"b\"}").problem();
    assert!(
        twice.starts_with("400 malformed_json: the member `name` stands here twice"),
        "{twice}"
    );
    assert!(
        post("application/json", &"[".repeat(10_000)).problem().starts_with("400 malformed_json")
    );
    assert_eq!(post("Application/JSON; charset=utf-8", "{\"name\":\"g\"}").status, 201);
    assert!(
        post("application/json", "")
            .problem()
            .starts_with("422 validation_error: `name`: is missing")
    );
}

#[test]
fn a_body_that_is_too_large_is_rejected() {
    let server = Server::start();
    let mut stream = server.connect();
    let head = format!(
        "POST /api/groups HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 1048577\r\n\r\n",
        server.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    drop(stream.write_all(&vec![b' '; 1_048_577]));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
}

#[test]
fn unknown_paths_methods_and_parameters_get_a_problem() {
    let server = Server::start();
    assert!(server.get("/api/nothing").problem().starts_with("404 not_found"));
    assert!(server.get("/").problem().starts_with("404 not_found"));
    let answer = server.put("/api/groups", &json!({}));
    assert!(answer.problem().starts_with("405 method_not_allowed"));
    assert_eq!(answer.header("allow"), "GET,HEAD,POST");
    assert!(server.get("/api/groups/Not%20An%20Id").problem().starts_with("404 not_found"));
    assert!(server.get("/api/groups/%FF").problem().starts_with("404 not_found"));
    for (query, problem) in [
        ("actve=true", "`actve`: is not known here; did you mean `active`?"),
        ("active=maybe", "`active`: is to be a boolean or null, not a string"),
        ("limit=0", "`limit`: is less than 1"),
        ("limit=201", "`limit`: is more than 200"),
        ("limit=1&limit=2", "`limit`: stands here twice"),
        ("cursor=%C3%BC", "`cursor`: is none of ours: take `next_cursor` as it is"),
    ] {
        let found = server.get(&format!("/api/groups?{query}")).problem();
        assert_eq!(found, format!("422 validation_error: {problem}"));
    }
    let found = server.send(&server.ask("POST", "/api/sources/a/refresh?force=true")).problem();
    assert!(found.starts_with("422 validation_error: `force`: is not known here"), "{found}");
}

#[test]
fn an_idempotent_retry_does_not_recreate_a_deleted_resource() {
    let server = Server::start();
    let matcher = json!({"claim": "role", "operator": "exists"});
    for (kind, body) in [
        ("sources", json!({"name": "x", "settings": {"kind": "custom"}})),
        ("groups", json!({"name": "x"})),
        ("policies", json!({"name": "x", "matchers": [matcher], "admin": true})),
        ("labels", json!({"name": "x"})),
        ("keys", json!({"name": "x"})),
    ] {
        let path = format!("/api/{kind}");
        let ask = || server.ask("POST", &path).header("Idempotency-Key", kind).json(&body);
        assert_eq!(server.send(&ask()).status, 201, "{kind}");
        server.delete(&format!("{path}/x")).ok();
        let problem = server.send(&ask()).problem();
        assert!(problem.starts_with("409 gone_since: this request has made it"), "{problem}");
        assert_eq!(server.post(&path, &body).status, 201, "{kind}");
    }
}
