//! A server on a Unix socket: file permissions decide who may connect.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::server::Server;
use crate::support::Folder;

const LISTEN: &str = "--listen unix:crib.sock";

/// Status of the answer to a request over the socket.
fn ask(server: &Server, headers: &str) -> String {
    let mut stream = UnixStream::connect(server.folder.path("crib.sock")).unwrap();
    let rest = "Connection: close\r\n\r\n";
    stream.write_all(format!("GET /api/whoami HTTP/1.1\r\n{headers}{rest}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

fn mode(server: &Server) -> u32 {
    std::fs::metadata(server.folder.path("crib.sock")).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_socket_belongs_to_its_owner_and_accepts_any_host_but_no_web_pages() {
    let mut server = Server::start_with(LISTEN);
    assert_eq!(mode(&server), 0o600);
    assert_eq!(ask(&server, "Host: localhost\r\n"), "200");
    assert_eq!(ask(&server, "Host: toolcrib\r\n"), "200");
    assert_eq!(ask(&server, "Host: a b\r\n"), "400");
    assert_eq!(ask(&server, "Host: localhost\r\nOrigin: https://evil.example\r\n"), "403");
    assert_eq!(ask(&server, "Host: localhost\r\nVia: 1.1 proxy\r\n"), "403");
    assert_eq!(server.stop(), (Some(0), String::new()));
    assert!(server.folder.files().iter().all(|name| !name.contains("sock")));
}

#[test]
fn only_the_socket_of_a_dead_server_is_replaced() {
    let mut server = Server::start_with(LISTEN);
    let beside = server.folder.run("--journal other.db serve --listen unix:crib.sock");
    assert_eq!(beside.code, Some(1));
    assert!(beside.stderr.contains("cannot listen on unix:crib.sock"), "{}", beside.stderr);
    server.send_signal("KILL");
    server.wait_for_exit();
    assert!(server.folder.path("crib.sock").exists());
    let server = server.restart(&format!("{LISTEN} --socket-mode 660"));
    assert_eq!((mode(&server), ask(&server, "Host: a\r\n").as_str()), (0o660, "200"));
    let folder = Folder::empty();
    folder.write("crib.sock", "mine");
    assert_eq!(folder.run(&format!("serve {LISTEN}")).code, Some(1));
    assert_eq!(folder.read("crib.sock"), "mine");
    assert_eq!(folder.files(), ["crib.sock"]);
}

#[test]
fn a_socket_created_by_another_process_is_not_deleted() {
    let mut server = Server::start_with(LISTEN);
    std::fs::remove_file(server.folder.path("crib.sock")).unwrap();
    let other = UnixListener::bind(server.folder.path("crib.sock")).unwrap();
    assert_eq!(server.stop().0, Some(0));
    assert!(server.folder.path("crib.sock").exists());
    drop(other);
}

#[test]
fn connections_accepted_before_shutdown_are_answered() {
    let folder = Folder::empty();
    folder.write("config.json", r#"{"limits": {"connections": 1}}"#);
    let mut server = Server::on_folder(folder, &format!("{LISTEN} --config config.json"));
    let connect = || UnixStream::connect(server.folder.path("crib.sock")).unwrap();
    let streams: Vec<_> = (0..5).map(|_| connect()).collect();
    server.request_stop();
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.folder.path("crib.sock").exists() {
        assert!(Instant::now() < deadline, "the socket is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut stream in streams {
        stream.write_all(b"GET /api/whoami HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(server.wait_for_exit().0, Some(0));
}
