//! Client certificates for servers that require mutual TLS.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use url::Origin;

use super::connection_pools::ConnectionPools;
use super::{HttpClient, Url};

/// A certificate chain and its private key. It has no `Debug`, so that it cannot be printed.
#[derive(Clone)]
pub struct ClientTlsCertificate(Arc<CertifiedKey>);

/// Why a client certificate is invalid. Messages repeat nothing of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClientCertificate {
    /// The chain contains no certificate.
    #[error(
        "its `chain` is no certificate: give one in PEM (`-----BEGIN CERTIFICATE-----`), ours first and those between it \
         and the root after it"
    )]
    Chain,
    /// The key is not a private key.
    #[error(
        "its `key` is no private key: give one in PEM (`-----BEGIN PRIVATE KEY-----`), not encrypted"
    )]
    Key,
    /// The key belongs to another certificate.
    #[error(
        "its `key` does not belong to the first certificate of its `chain`: give the two that were made together"
    )]
    Mismatch,
}

impl ClientTlsCertificate {
    /// Reads a certificate chain, the client's own certificate first, and its private key, both in PEM.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, InvalidClientCertificate> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let chain =
            chain.ok().filter(|chain| !chain.is_empty()).ok_or(InvalidClientCertificate::Chain)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|_| InvalidClientCertificate::Key)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => InvalidClientCertificate::Mismatch,
            rustls::Error::InvalidCertificate(_) => InvalidClientCertificate::Chain,
            _ => InvalidClientCertificate::Key,
        })?;
        Ok(Self(Arc::new(certified)))
    }

    pub(super) fn certificate_resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from((*self.0).clone()))
    }
}

/// The connections on which a client certificate is presented.
pub(super) struct CertifiedConnections {
    /// The only origin that gets the certificate; `None` means every server that asks for one.
    origin: Option<Origin>,
    certificate: ClientTlsCertificate,
    connections: ConnectionPools,
}

impl CertifiedConnections {
    pub(super) fn with_pools(&self, others: &ConnectionPools) -> Self {
        let connections = others.with_client_certificate(&self.certificate);
        Self { origin: self.origin.clone(), certificate: self.certificate.clone(), connections }
    }
}

impl HttpClient {
    /// A client that presents a certificate to servers of this origin; without an origin, to every server that asks.
    pub fn with_client_certificate(
        &self,
        identity: ClientTlsCertificate,
        origin: Option<Origin>,
    ) -> Self {
        let connections = self.connections.with_client_certificate(&identity);
        let identified =
            Some(Arc::new(CertifiedConnections { origin, certificate: identity, connections }));
        Self { certified: identified, ..self.clone() }
    }

    /// Whether the client has a certificate to present.
    pub fn has_client_certificate(&self) -> bool {
        self.certified.is_some()
    }

    pub(super) fn pools_for(&self, url: &Url) -> &ConnectionPools {
        let is_for = |identified: &&Arc<CertifiedConnections>| {
            identified.origin.as_ref().is_none_or(|origin| *origin == url.origin())
        };
        self.certified.as_ref().filter(is_for).map_or(&self.connections, |it| &it.connections)
    }
}
