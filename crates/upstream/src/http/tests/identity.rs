//! Tests against a server that requires a client certificate.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::certificate::Certificate;
use super::*;

fn roots(certificate: &Certificate) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.der.clone())).unwrap();
    Arc::new(roots)
}

/// A TLS acceptor with this certificate, optionally only for clients with that one.
pub(super) fn acceptor(
    own: &Certificate,
    clients: Option<&Certificate>,
    protocols: &[&[u8]],
) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match clients {
        Some(clients) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(clients), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => config.with_no_client_auth(),
    };
    let chain = vec![CertificateDer::from(own.der.clone())];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A server with this certificate, for clients with that one. It answers with the number of certificates presented.
async fn server(own: &Certificate, clients: &Certificate) -> Url {
    let acceptor = acceptor(own, Some(clients), &[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let shown = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
            let mut asked = [0; 1024];
            drop(stream.read(&mut asked).await);
            let text = format!("{shown} shown");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            drop(stream.write_all(head.as_bytes()).await);
            drop(stream.shutdown().await);
        }
    });
    url(&format!("https://localhost:{port}/"))
}

/// A client that trusts a test server.
pub(super) fn trusting(certificate: &Certificate) -> HttpClient {
    let egress = Arc::new(EgressPolicy { allow_private: true, allowed: vec![] });
    let connections = ConnectionPools::with_roots(egress.clone(), roots(certificate));
    HttpClient { connections, egress, ..client() }
}

#[tokio::test]
async fn a_certificate_is_presented_only_to_the_server_it_is_for() {
    let (own, ours, others) = (Certificate::new(), Certificate::new(), Certificate::new());
    let asked = server(&own, &ours).await;
    let identity = |of: &Certificate| ClientTlsCertificate::from_pem(&of.pem, &of.key).unwrap();
    let client = trusting(&own);
    assert!(get(&client, asked.clone()).await.is_err(), "nobody is let in without");
    let here = Some(asked.origin());
    let identified = client.with_client_certificate(identity(&ours), here.clone());
    assert_eq!(body(get(&identified, asked.clone()).await), Ok("1 shown".to_owned()));
    let document = identified.get_document(&asked, ExchangeLimits::default()).await;
    assert_eq!(body(document), Ok("1 shown".to_owned()));
    let opened = identified
        .open_stream(UpstreamRequest::get(asked.clone()), ExchangeLimits::default())
        .await;
    assert_eq!(opened.ok().unwrap().read_rest(100).await.ok().unwrap(), b"1 shown");
    let anywhere = client.with_client_certificate(identity(&ours), None);
    assert_eq!(body(get(&anywhere, asked.clone()).await), Ok("1 shown".to_owned()));
    let wider = identified.with_allowed(["10.0.0.1".parse().unwrap()]);
    assert_eq!(body(get(&wider, asked.clone()).await), Ok("1 shown".to_owned()));

    let elsewhere = Some(url("https://localhost:1/").origin());
    let elsewhere = client.with_client_certificate(identity(&ours), elsewhere);
    assert!(get(&elsewhere, asked.clone()).await.is_err(), "it is for another origin");
    let stranger = client.with_client_certificate(identity(&others), here);
    assert!(get(&stranger, asked).await.is_err(), "the server does not know that one");
}

#[test]
fn an_invalid_certificate_is_rejected_with_advice() {
    let (one, two) = (Certificate::new(), Certificate::new());
    let wrong = |chain: &str, key: &str| ClientTlsCertificate::from_pem(chain, key).err().unwrap();
    assert_eq!(wrong("canary", &one.key), InvalidClientCertificate::Chain);
    assert_eq!(wrong(&one.key, &one.key), InvalidClientCertificate::Chain);
    assert_eq!(wrong(&one.pem, "canary"), InvalidClientCertificate::Key);
    assert_eq!(wrong(&one.pem, &one.pem), InvalidClientCertificate::Key);
    assert_eq!(wrong(&one.pem, &two.key), InvalidClientCertificate::Mismatch);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(wrong(broken, &one.key), InvalidClientCertificate::Chain);
    assert!(wrong("canary", "canary").to_string().contains("-----BEGIN CERTIFICATE-----"));
}
