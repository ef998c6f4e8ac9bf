//! TLS with a certificate and a key in files. The files are reloaded when they change, because certificates expire.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use config::file_stamp::FileStamp;
use jiff::Timestamp;
use limits::bounded_read::{BoundedReadError, read_file};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// Size limit of a PEM file: more than any certificate chain needs.
const MAX_PEM_BYTES: u64 = 1 << 20;
/// Interval between checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The TLS acceptor of all connections; cheap to clone.
#[derive(Clone)]
pub struct ReloadingTls {
    acceptor: TlsAcceptor,
    pair: Arc<ReloadingCertificate>,
}

/// A certificate and its key, with the paths of their files.
#[derive(Debug)]
struct ReloadingCertificate {
    files: [PathBuf; 2],
    /// Stamps of the files from before they were first read.
    first_stamps: [FileStamp; 2],
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: BoundedReadError },
    #[error("`{}` has no PEM of the kind that is needed", path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("`{}` is not the key of `{}`", key.display(), certificate.display())]
    KeyMismatch { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    #[error("`{}` does not say when it ends", path.display())]
    UnknownExpiry { path: PathBuf },
    #[error("TLS cannot be set up")]
    SetUp(#[source] rustls::Error),
}

impl ReloadingTls {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let files = [certificate.to_owned(), key.to_owned()];
        let first = files.each_ref().map(|path| FileStamp::read_stamp(path));
        let current = RwLock::new(Arc::new(load_certified_key(certificate, key, &provider)?));
        let pair = Arc::new(ReloadingCertificate {
            files,
            first_stamps: first,
            provider: Arc::clone(&provider),
            current,
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::SetUp)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&pair) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), pair })
    }

    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
    ) -> io::Result<TlsStream<S>> {
        self.acceptor.accept(socket).await
    }

    /// Checks the files periodically, and loads a changed certificate if it is usable; never returns.
    pub async fn reload_on_change(self) {
        let mut before = self.pair.first_stamps;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let now = self.pair.files.each_ref().map(|path| FileStamp::read_stamp(path));
            if now == before {
                continue;
            }
            before = now;
            match self.pair.reload() {
                Ok(()) => tracing::info!("the certificate is read again"),
                Err(error) => {
                    let cause = model::format_error_chain(&error);
                    tracing::warn!("the certificate before stays in service: {cause}");
                }
            }
        }
    }
}

impl ReloadingCertificate {
    fn reload(&self) -> Result<(), TlsError> {
        let [certificate, key] = &self.files;
        let pair = Arc::new(load_certified_key(certificate, key, &self.provider)?);
        *self.current.write().expect("no one panics while holding the pair") = pair;
        Ok(())
    }
}

impl ResolvesServerCert for ReloadingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().expect("no one panics while holding the pair")))
    }
}

/// The expiry time of a certificate, if the certificate and its key are usable.
pub fn certificate_expiry(certificate: &Path, key: &Path) -> Result<Timestamp, TlsError> {
    let pair = load_certified_key(certificate, key, &aws_lc_rs::default_provider())?;
    let odd = || TlsError::UnknownExpiry { path: certificate.to_owned() };
    let first = pair.cert.first().ok_or_else(odd)?;
    let read = Certificate::from_der(first).map_err(|_| odd())?;
    let ends = read.tbs_certificate.validity.not_after.to_unix_duration();
    let seconds = i64::try_from(ends.as_secs()).map_err(|_| odd())?;
    Timestamp::from_second(seconds).map_err(|_| odd())
}

fn load_certified_key(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let not_pem = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::Pem { path, source }
    };
    let text = read_pem_file(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = match chain.map_err(not_pem(certificate))? {
        chain if chain.is_empty() => return Err(not_pem(certificate)(pem::Error::NoItemsFound)),
        chain => chain,
    };
    let private = PrivateKeyDer::from_pem_slice(&read_pem_file(key)?).map_err(not_pem(key))?;
    CertifiedKey::from_der(chain, private, provider).map_err(|source| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        TlsError::KeyMismatch { certificate, key, source }
    })
}

fn read_pem_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_file(path, MAX_PEM_BYTES)
        .map_err(|source| TlsError::Read { path: path.to_owned(), source })
}
