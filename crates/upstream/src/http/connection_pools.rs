//! Connection pools: how `reqwest` is configured, and nothing else.
//!
//! Every default that would send a request twice, to another place, or with additional content is switched off here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Proxy, redirect, retry};
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

use super::{ClientTlsCertificate, HttpError, http_error};
use crate::egress::EgressPolicy;
use crate::egress_resolver::{DnsLookups, EgressResolver, LookupOwner};

/// The connections of one egress policy. Root certificates are loaded once and shared by all policies.
#[derive(Clone)]
pub(super) struct ConnectionPools {
    tls: Arc<ClientConfig>,
    proxy: Option<Proxy>,
    resolver: EgressResolver,
    /// One client for each port that the policy names, because a resolver has to know its port.
    by_port: Arc<BTreeMap<u16, Client>>,
    others: Client,
}

/// For all addresses of a name together, so that a silent address leaves time for the next one.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// The HTTP/2 flow-control window of one stream. The window of the connection must hold all responses that wait for
/// [a permit](crate::large_bodies): otherwise the response that has the permit could receive no more data.
const STREAM_WINDOW: u32 = 512 * 1024;
const CONNECTION_WINDOW: u32 = 128 * STREAM_WINDOW;

/// How many TLS sessions are kept for resumption.
const MAX_TLS_SESSIONS: usize = 256;

/// Stands for all ports that the policy does not name.
const ANY_PORT: u16 = 0;

impl ConnectionPools {
    pub(super) fn new(egress: Arc<EgressPolicy>, lookups: Arc<DnsLookups>) -> Self {
        let tls = tls_config(load_system_roots());
        let resolver =
            EgressResolver { egress, lookups, owner: LookupOwner::Sources, port: ANY_PORT };
        Self::build_pools(Arc::new(tls), None, resolver)
    }

    /// For servers in tests, with the test's own root certificates.
    #[cfg(test)]
    pub(super) fn with_roots(egress: Arc<EgressPolicy>, roots: Arc<RootCertStore>) -> Self {
        let lookups = DnsLookups::shared_system();
        let resolver =
            EgressResolver { egress, lookups, owner: LookupOwner::Sources, port: ANY_PORT };
        Self::build_pools(Arc::new(tls_config(roots)), None, resolver)
    }

    /// Connections that present a client certificate if the server asks for one.
    pub(super) fn with_client_certificate(&self, identity: &ClientTlsCertificate) -> Self {
        let mut tls = (*self.tls).clone();
        tls.client_auth_cert_resolver = identity.certificate_resolver();
        // TLS sessions of the old identity must not be resumed.
        tls.resumption = Resumption::in_memory_sessions(MAX_TLS_SESSIONS);
        Self::build_pools(Arc::new(tls), self.proxy.clone(), self.resolver.clone())
    }

    pub(super) fn with_egress(&self, egress: Arc<EgressPolicy>) -> Self {
        let resolver = EgressResolver { egress, ..self.resolver.clone() };
        Self::build_pools(self.tls.clone(), self.proxy.clone(), resolver)
    }

    pub(super) fn for_agent_hosts(&self) -> Self {
        let resolver = EgressResolver { owner: LookupOwner::Agents, ..self.resolver.clone() };
        Self::build_pools(self.tls.clone(), self.proxy.clone(), resolver)
    }

    pub(super) fn with_proxy(&self, url: &Url) -> Result<Self, HttpError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpError::InvalidProxy);
        }
        let proxy = Proxy::all(url.as_str()).map_err(|_| HttpError::InvalidProxy)?;
        Ok(Self::build_pools(self.tls.clone(), Some(proxy), self.resolver.clone()))
    }

    fn build_pools(tls: Arc<ClientConfig>, proxy: Option<Proxy>, resolver: EgressResolver) -> Self {
        let client =
            |port| build_client(&tls, proxy.clone(), EgressResolver { port, ..resolver.clone() });
        let by_port = resolver.egress.allowed_ports().map(|port| (port, client(port))).collect();
        let others = client(ANY_PORT);
        Self { tls, proxy, resolver, by_port: Arc::new(by_port), others }
    }

    /// The client to use for a URL that passed the egress check.
    ///
    /// A proxy resolves names itself, and `reqwest` resolves only the proxy's own name. So the name is resolved here
    /// too, and refused if it leads to a forbidden address.
    pub(super) async fn client_for(&self, url: &Url) -> Result<&Client, HttpError> {
        let port = url.port_or_known_default().unwrap_or(ANY_PORT);
        if let (Some(_), Some(Host::Domain(name))) = (&self.proxy, url.host()) {
            let resolver = EgressResolver { port, ..self.resolver.clone() };
            let looked_up = resolver.resolve_allowed(name.to_owned()).await;
            looked_up.map_err(|source| match http_error::find_egress_error(&*source) {
                Some(refusal) => HttpError::EgressDenied(refusal),
                None => HttpError::Connect { origin: super::origin_text(url), source },
            })?;
        }
        Ok(self.by_port.get(&port).unwrap_or(&self.others))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that talks to the network")]
fn build_client(tls: &ClientConfig, proxy: Option<Proxy>, resolver: EgressResolver) -> Client {
    let builder = Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .user_agent(concat!("toolcrib/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_DEADLINE)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false);
    let builder = match proxy {
        Some(proxy) => builder.proxy(proxy),
        // Without this, `reqwest` takes proxies from the environment.
        None => builder.no_proxy().dns_resolver(resolver),
    };
    builder.build().expect("it fails only when it has to make the TLS settings itself")
}

/// The system's root certificates. `SSL_CERT_FILE` and `SSL_CERT_DIR` are respected.
fn load_system_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (usable, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        tracing::warn!(
            "no root certificates found, so no https upstream can be reached: install `ca-certificates`"
        );
    }
    Arc::new(roots)
}

fn tls_config(roots: Arc<RootCertStore>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    tls
}
