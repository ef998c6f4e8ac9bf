//! Who we are to servers that want a certificate of their clients (mutual TLS).

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use url::Origin;

use super::connections::Connections;
use super::{HttpClient, Url};

/// A certificate and its key. It cannot be printed.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

/// Why there is no certificate to show. Repeats nothing of what was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentity {
    /// No certificate in it.
    #[error(
        "its `chain` is no certificate: give one in PEM (`-----BEGIN CERTIFICATE-----`), ours first and those between it \
         and the root after it"
    )]
    Chain,
    /// No key in it.
    #[error(
        "its `key` is no private key: give one in PEM (`-----BEGIN PRIVATE KEY-----`), not encrypted"
    )]
    Key,
    /// A key of something else.
    #[error(
        "its `key` does not belong to the first certificate of its `chain`: give the two that were made together"
    )]
    Mismatch,
}

impl Identity {
    /// From a chain of certificates, ours first, and the key of ours, both in PEM.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, InvalidIdentity> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(InvalidIdentity::Chain)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|_| InvalidIdentity::Key)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => InvalidIdentity::Mismatch,
            rustls::Error::InvalidCertificate(_) => InvalidIdentity::Chain,
            _ => InvalidIdentity::Key,
        })?;
        Ok(Self(Arc::new(certified)))
    }

    pub(super) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from((*self.0).clone()))
    }
}

/// The connections on which a certificate is shown.
pub(super) struct Identified {
    /// Nobody else is shown it; without one, whoever asks for it.
    origin: Option<Origin>,
    identity: Identity,
    connections: Connections,
}

impl Identified {
    pub(super) fn over(&self, others: &Connections) -> Self {
        let connections = others.with_identity(&self.identity);
        Self { origin: self.origin.clone(), identity: self.identity.clone(), connections }
    }
}

impl HttpClient {
    /// The same, with a certificate for servers of this origin that ask for one; without an origin, for all of them.
    pub fn identified(&self, identity: Identity, origin: Option<Origin>) -> Self {
        let connections = self.connections.with_identity(&identity);
        let identified = Some(Arc::new(Identified { origin, identity, connections }));
        Self { identified, ..self.clone() }
    }

    /// Whether it shows a certificate to anybody.
    pub(crate) fn is_identified(&self) -> bool {
        self.identified.is_some()
    }

    pub(super) fn connections_to(&self, url: &Url) -> &Connections {
        let is_for = |identified: &&Arc<Identified>| {
            identified.origin.as_ref().is_none_or(|origin| *origin == url.origin())
        };
        self.identified.as_ref().filter(is_for).map_or(&self.connections, |it| &it.connections)
    }
}
