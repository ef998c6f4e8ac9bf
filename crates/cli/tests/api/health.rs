//! Liveness and readiness endpoints.

use std::time::{Duration, Instant};

use serde_json::json;

use super::issuer::{config, server_trusting};
use super::server::{Ask, Server};

#[test]
fn a_server_that_started_is_live_and_ready() {
    let server = Server::start();
    let look = |path: &str| server.send(&Ask::new("GET", path)).ok();
    assert_eq!(look("/health/live"), json!({"status": "live"}));
    assert_eq!(look("/health/ready"), json!({"status": "ready"}));
}

#[test]
fn an_issuer_without_reachable_keys_is_a_note_and_not_a_failure() {
    let nowhere = json!({"keys": {"jwks_url": "https://127.0.0.1:9/keys"}, "allow": ["127.0.0.1"]});
    let server = server_trusting(&[config(nowhere)]);
    server.post_empty("/api/issuers/refresh-keys").ok();
    let ready = server.send(&Ask::new("GET", "/health/ready")).ok();
    assert_eq!(ready, json!({"status": "ready", "notes": ["issuer_keys"]}));
}

#[test]
fn a_draining_server_is_not_ready_but_still_answers() {
    let mut server = Server::start_with("--drain-delay 3");
    let kept = server.connect();
    server.request_stop();
    let deadline = Instant::now() + Duration::from_secs(2);
    let answer = loop {
        let answer = server.send(&Ask::new("GET", "/health/ready"));
        if answer.status != 200 {
            break answer;
        }
        assert!(Instant::now() < deadline, "it still says that it is ready");
    };
    assert!(answer.problem().starts_with("503 not_ready"), "{answer:?}");
    assert_eq!(answer.json()["reasons"], json!(["draining"]));
    assert_eq!(server.send(&Ask::new("GET", "/health/live")).status, 200);
    assert_eq!(server.get("/api/groups").status, 200);
    drop(kept);
    assert_eq!(server.wait_for_exit().0, Some(0));
}
