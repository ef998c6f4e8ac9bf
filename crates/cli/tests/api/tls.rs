//! A server with TLS: protocols, handshake deadline and certificate reload.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

#[path = "../../../upstream/tests/support/certificate.rs"]
pub(crate) mod certificate;

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use self::certificate::Certificate;
use super::issuer::{config_with_inline_key, server_trusting_on};
use super::server::Server;
use crate::signer::Signer;
use crate::support::Folder;

const OPTIONS: &str = "--tls-cert crib.pem --tls-key crib.key";

fn write_pair(folder: &Folder, certificate: &Certificate) {
    folder.write("crib.pem", &certificate.pem);
    folder.write("crib.key", &certificate.key);
}

/// Server with this certificate.
fn server(certificate: &Certificate, options: &str) -> Server {
    let folder = Folder::empty();
    write_pair(&folder, certificate);
    Server::on_folder(folder, &format!("{OPTIONS} {options}"))
}

/// Request by a client that trusts only this certificate; returns the negotiated protocol and the answer.
fn ask(
    server: &Server,
    trusted: &Certificate,
    protocol: &str,
    path: &str,
) -> std::io::Result<(String, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.der.clone())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, server.connect());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // A connection closed without `close_notify` is an error, but the answer has been read.
    stream.read_to_end(&mut answer).ok();
    let agreed = stream.conn.alpn_protocol().unwrap_or_default().to_vec();
    Ok((String::from_utf8(agreed).unwrap(), String::from_utf8_lossy(&answer).into_owned()))
}

#[test]
fn a_tls_port_accepts_only_tls() {
    let certificate = Certificate::new();
    let server = server(&certificate, "");
    let (agreed, answer) = ask(&server, &certificate, "http/1.1", "/api/whoami").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(agreed, "http/1.1");
    assert_eq!(ask(&server, &certificate, "h2", "/").unwrap().0, "h2");
    assert!(ask(&server, &Certificate::new(), "http/1.1", "/").is_err(), "another is not trusted");
    let mut plain = server.connect();
    plain.write_all(b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer));
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

#[test]
fn resource_metadata_contains_https_urls() {
    let (certificate, folder) = (Certificate::new(), Folder::empty());
    write_pair(&folder, &certificate);
    let server =
        server_trusting_on(folder, &[config_with_inline_key(&Signer::p256(), json!({}))], OPTIONS);
    let path = "/.well-known/oauth-protected-resource/mcp";
    let (_, answer) = ask(&server, &certificate, "http/1.1", path).unwrap();
    let resource = server.url("/mcp").replace("http://", "https://");
    assert!(answer.contains(&format!("\"resource\":\"{resource}\"")), "{answer}");
}

#[test]
fn an_unfinished_handshake_is_closed() {
    let (certificate, folder) = (Certificate::new(), Folder::empty());
    write_pair(&folder, &certificate);
    folder.write("config.json", r#"{"limits": {"head_within": 1, "idle": 3600}}"#);
    let server = Server::on_folder(folder, &format!("{OPTIONS} --config config.json"));
    for beginning in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00"] {
        let mut stream = server.connect();
        stream.write_all(beginning).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}

#[test]
fn a_new_certificate_is_loaded_without_a_restart_unless_it_is_invalid() {
    let (first, second) = (Certificate::new(), Certificate::new());
    let mut server = server(&first, "");
    server.folder.write("crib.pem", "broken");
    // An invalid file is ignored: the previous certificate stays until a complete pair is there.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(ask(&server, &first, "http/1.1", "/").is_ok());
    write_pair(&server.folder, &second);
    let deadline = Instant::now() + Duration::from_secs(30);
    while ask(&server, &second, "http/1.1", "/").is_err() {
        assert!(Instant::now() < deadline, "the new certificate is not taken");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(ask(&server, &first, "http/1.1", "/").is_err());
    let (_, said) = server.stop();
    assert!(
        said.contains("the certificate before stays in service: `crib.pem` has no PEM"),
        "{said}"
    );
}

#[test]
fn a_server_does_not_start_with_an_invalid_certificate_or_key() {
    let (one, other) = (Certificate::new(), Certificate::new());
    let folder = Folder::empty();
    let refused = |expected: &str| {
        let run = folder.run(&format!("serve --listen 127.0.0.1:0 {OPTIONS}"));
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    refused("`crib.pem` cannot be read");
    write_pair(&folder, &one);
    folder.write("crib.key", &other.key);
    refused("`crib.key` is not the key of `crib.pem`");
    folder.write("crib.key", &one.pem);
    refused("`crib.key` has no PEM of the kind that is needed");
    write_pair(&folder, &one);
    let run = folder.run(&format!("serve --listen unix:crib.sock {OPTIONS}"));
    assert!(run.stderr.contains("TLS is for a port"), "{}", run.stderr);
    let run = folder.run("serve --tls-cert crib.pem");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
}
