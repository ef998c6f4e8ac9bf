//! Name resolution with the egress check: one lookup, a check of all addresses, and exactly these for the connection.
//!
//! This prevents DNS rebinding: a name cannot change its addresses between the check and the connection.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::EgressPolicy;

mod dns_lookups;

#[cfg(test)]
pub(crate) use dns_lookups::LookupFn;
pub(crate) use dns_lookups::{DnsLookups, LookupOwner, TooManyLookups};

/// Resolves names for connections to one port, because `reqwest` does not pass the port to its resolver.
#[derive(Clone)]
pub(crate) struct EgressResolver {
    pub(crate) egress: Arc<EgressPolicy>,
    pub(crate) lookups: Arc<DnsLookups>,
    pub(crate) owner: LookupOwner,
    pub(crate) port: u16,
}

impl EgressResolver {
    /// All addresses of the name, if the policy allows all of them.
    pub(crate) async fn resolve_allowed(
        self,
        name: String,
    ) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        let addresses = self.lookups.look_up(&name, self.owner).await?;
        self.egress.check_addresses(&name, self.port, &addresses)?;
        Ok(addresses)
    }
}

impl Resolve for EgressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.resolve_allowed(name.as_str().to_owned()).await?;
            let addresses: Vec<_> =
                addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
