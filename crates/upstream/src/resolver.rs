//! From a name to addresses: asked once, all of them checked, and exactly these handed to the connection.
//!
//! So a name that changes its answer between the check and the connection gains nothing.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::Egress;

mod lookups;

#[cfg(test)]
pub(crate) use lookups::Lookup;
pub(crate) use lookups::{Lookups, TooManyLookups, Whose};

/// Resolves names for connections to one port; `reqwest` does not say which one a connection is for.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) egress: Arc<Egress>,
    pub(crate) lookups: Arc<Lookups>,
    pub(crate) whose: Whose,
    pub(crate) port: u16,
}

impl Resolver {
    /// All addresses of the name, if all of them are open.
    pub(crate) async fn addresses(
        self,
        name: String,
    ) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        let addresses = self.lookups.addresses(&name, self.whose).await?;
        self.egress.check_addresses(&name, self.port, &addresses)?;
        Ok(addresses)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str().to_owned()).await?;
            let addresses: Vec<_> =
                addresses.iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
