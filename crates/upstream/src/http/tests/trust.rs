//! Servers without a valid certificate: nothing is sent to them, and the error tells the admin why.

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::certificate::Certificate;
use super::identity::{acceptor, trusting};
use super::*;

const LONG_AGO: [&str; 2] = ["200101000000Z", "210101000000Z"];
const NOW: [&str; 2] = ["250101000000Z", "490101000000Z"];
const NOT_YET: [&str; 2] = ["480101000000Z", "490101000000Z"];

/// The TLS configuration of a server, which a test can replace.
type Spoken = Arc<Mutex<TlsAcceptor>>;

/// A server that answers `in` to every client that gets in, once on each connection.
async fn server(own: &Certificate) -> (Url, Spoken) {
    let spoken = Arc::new(Mutex::new(acceptor(own, None, &[])));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = url(&format!("https://localhost:{}/", listener.local_addr().unwrap().port()));
    let speaks = Arc::clone(&spoken);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = speaks.lock().unwrap().clone();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            drop(stream.read(&mut [0; 1024]).await);
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nin";
            drop(stream.write_all(answer).await);
            drop(stream.shutdown().await);
        }
    });
    (asked, spoken)
}

/// A server that answers the TLS handshake with these bytes and closes the connection; returns the bytes it received.
async fn server_saying(said: Vec<u8>) -> (Url, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = url(&format!("https://localhost:{}/", listener.local_addr().unwrap().port()));
    let told = tokio::spawn(async move {
        let (mut stream, _): (TcpStream, _) = listener.accept().await.unwrap();
        let mut told = vec![0; 16 * 1024];
        let first = stream.read(&mut told).await.unwrap();
        told.truncate(first);
        drop(stream.write_all(&said).await);
        drop(stream.shutdown().await);
        drop(stream.read_to_end(&mut told).await);
        told
    });
    (asked, told)
}

/// The innermost cause, as shown in the failure of a call. Checks that nothing was sent.
fn why(answer: Result<UpstreamResponse, HttpError>) -> String {
    let error = answer.err().unwrap();
    assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
    let first = error.source();
    let innermost = std::iter::successors(first, |&error| error.source()).last();
    innermost.unwrap().to_string()
}

/// The error of a client that trusts this certificate for a server that presents it.
async fn distrust(name: &str, times: [&str; 2]) -> String {
    let own = Certificate::for_host(name, times);
    let (asked, _) = server(&own).await;
    why(trusting(&own).send(post(asked), ExchangeLimits::default()).await)
}

#[tokio::test]
async fn a_certificate_is_valid_only_in_its_period_and_for_its_name() {
    let own = Certificate::for_host("localhost", NOW);
    let (asked, _) = server(&own).await;
    assert_eq!(body(get(&trusting(&own), asked).await), Ok("in".to_owned()));
    let told = distrust("localhost", LONG_AGO).await;
    assert!(told.starts_with("invalid peer certificate: certificate expired"), "{told}");
    let told = distrust("localhost", NOT_YET).await;
    assert!(told.starts_with("invalid peer certificate: certificate not valid yet"), "{told}");
    let told = distrust("elsewhere.test", NOW).await;
    assert!(told.contains("certificate not valid for name \"localhost\""), "{told}");
    assert!(told.contains("elsewhere.test"), "{told}");
}

#[tokio::test]
async fn only_trusted_issuers_can_sign_a_certificate() {
    let (own, authority) = (Certificate::new(), Certificate::for_host("authority.test", NOW));
    let (asked, _) = server(&own).await;
    let client = trusting(&authority);
    let unknown = "invalid peer certificate: UnknownIssuer";
    assert_eq!(why(get(&client, asked.clone()).await), unknown);
    assert_eq!(why(client.get_document(&asked, ExchangeLimits::default()).await), unknown);
    // An issuer with the same name is not trusted either.
    let told = why(get(&trusting(&Certificate::new()), asked).await);
    assert_eq!(told, "invalid peer certificate: BadSignature");
}

#[tokio::test]
async fn a_replaced_certificate_is_checked_on_the_next_connection() {
    let own = Certificate::new();
    let (asked, spoken) = server(&own).await;
    let client = trusting(&own);
    assert_eq!(body(get(&client, asked.clone()).await), Ok("in".to_owned()));
    *spoken.lock().unwrap() = acceptor(&Certificate::new(), None, &[]);
    let told = why(get(&client, asked.clone()).await);
    assert!(told.starts_with("invalid peer certificate: "), "{told}");
    *spoken.lock().unwrap() = acceptor(&own, None, &[]);
    assert_eq!(body(get(&client, asked).await), Ok("in".to_owned()));
}

/// A `ServerHello` of TLS 1.1 with a cipher of that time.
fn hello_of_tls_1_1() -> Vec<u8> {
    let (head, random) = ([0x16, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2], [7; 32]);
    [&head[..], &random, &[0, 0, 0x2f, 0]].concat()
}

#[tokio::test]
async fn a_server_with_an_old_tls_version_or_a_broken_handshake_receives_nothing() {
    let whole = hello_of_tls_1_1();
    let half = whole.split_at(20).0.to_vec();
    for (said, why_not) in
        [(whole, "peer is incompatible"), (half, "handshake eof"), (vec![], "handshake eof")]
    {
        let (asked, told) = server_saying(said).await;
        let mut request = post(asked);
        request.headers.insert("x-key", HeaderValue::from_static("hunter2"));
        let told_us = why(client().send(request, ExchangeLimits::default()).await);
        assert!(told_us.contains(why_not), "{told_us}");
        let told = String::from_utf8_lossy(&told.await.unwrap()).into_owned();
        assert!(!told.contains("POST") && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_file_in_the_environment_says_whom_to_trust() {
    let name = "http::tests::trust::a_file_in_the_environment_says_whom_to_trust";
    if let Some(folder) = std::env::var_os("FOLDER_OF_TEST") {
        return is_trusted(Path::new(&folder));
    }
    let (own, folder) = (Certificate::new(), tempfile::tempdir().unwrap());
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("chain.pem"), &own.pem).unwrap();
    std::fs::write(file("chain"), &own.der).unwrap();
    std::fs::write(file("key"), &own.key).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "only a process of its own has its own environment"
    )]
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .envs([("SSL_CERT_FILE", file("chain.pem")), ("FOLDER_OF_TEST", file(""))])
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}

#[tokio::main(flavor = "current_thread")]
async fn is_trusted(folder: &Path) {
    let der = std::fs::read(folder.join("chain")).unwrap();
    let key = std::fs::read_to_string(folder.join("key")).unwrap();
    let (asked, _) = server(&Certificate { der, pem: String::new(), key }).await;
    assert_eq!(body(get(&client(), asked).await), Ok("in".to_owned()));
}
