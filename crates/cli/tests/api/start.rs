//! How a server starts and stops.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::{Ask, Server, signal};
use crate::support::Folder;

#[test]
fn only_the_first_start_prints_an_admin_key() {
    let server = Server::start();
    let me = server.get("/api/whoami").ok();
    assert_eq!((&me["subject"], &me["is_admin"]), (&json!("key:first-admin"), &json!(true)));
    let server = server.restart("--listen 127.0.0.1:0");
    assert_eq!(server.get("/api/whoami").ok(), me);
}

#[test]
fn an_unmatchable_admin_policy_does_not_suppress_the_admin_key() {
    let mut server = Server::start();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "root"}]);
    let policy = json!({"name": "Roots", "admin": true, "matchers": matchers});
    server.post("/api/policies", &policy).ok();
    server.send(&server.ask("POST", "/api/keys/first-admin/revoke")).ok();
    server.stop();
    assert!(greeting(&server.folder, "").contains("tcrib_first-admin-2_"));
}

#[test]
fn an_option_creates_another_admin_key() {
    let mut server = Server::start();
    server.stop();
    assert!(!greeting(&server.folder, "").contains("tcrib_"));
    assert!(greeting(&server.folder, " --new-admin-key").contains("tcrib_first-admin-2_"));
}

#[test]
fn a_start_without_any_admin_key_creates_one() {
    let mut server = Server::start();
    server.send(&server.ask("POST", "/api/keys/first-admin/revoke")).ok();
    assert_eq!(server.get("/api/keys").status, 401);
    server.stop();
    assert!(greeting(&server.folder, "").contains("tcrib_first-admin-2_"));
}

/// Startup message of a server.
fn greeting(folder: &Folder, options: &str) -> String {
    let mut child = folder.start(&format!("serve --listen 127.0.0.1:0{options}"), &[]);
    let mut said = vec![0; 4096];
    let read = child.stdout.as_mut().unwrap().read(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said[..read]).into_owned();
    signal(&child, "INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    said
}

#[test]
fn a_graceful_shutdown_answers_accepted_requests() {
    let mut server = Server::start();
    let mut stream = server.connect();
    let body = json!({"name": "late"}).to_string();
    let head = format!(
        "POST /api/groups HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        server.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Once this later request is answered, the server has also read the head of the earlier one.
    server.get("/api/groups").ok();
    let address = server.url("").replace("http://", "");
    let stopping = std::thread::spawn(move || server.stop());
    // The server is stopping once it accepts no new connections.
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < deadline, "the server goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let (code, said) = stopping.join().unwrap();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[test]
fn a_port_in_use_is_reported_and_no_journal_is_created() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = Folder::empty();
    let run = folder.run(&format!("serve --listen {}", taken.local_addr().unwrap()));
    assert_eq!(run.code, Some(1));
    let expected = format!(
        "error: cannot listen on {}: give another address with --listen",
        taken.local_addr().unwrap()
    );
    assert!(run.stderr.starts_with(&expected), "{}", run.stderr);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn a_public_server_without_any_credential_does_not_start() {
    let folder = Folder::empty();
    let run = folder.run("serve --listen 0.0.0.0:0");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.contains("there is no issuer and no API key yet")
            && run.stderr.contains("--allow-anonymous"),
        "{}",
        run.stderr
    );
}

#[test]
fn two_servers_cannot_share_a_journal_file() {
    let server = Server::start();
    let run = server.folder.run("serve --listen 127.0.0.1:0");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("is in use by another process"), "{}", run.stderr);
    assert_eq!(server.send(&Ask::new("GET", "/api/whoami")).status, 200);
}
