//! From a name to addresses: asked once, all of them checked, and exactly these handed to the connection.
//!
//! So a name that changes its answer between the check and the connection gains nothing.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::Egress;

/// Asks for the addresses of a name, and may block. It is a value so that tests can answer themselves.
pub(crate) type Lookup = fn(&str) -> io::Result<Vec<IpAddr>>;

/// What the system says: its hosts file, then DNS.
pub(crate) fn ask_the_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Resolves names for connections to one port; `reqwest` does not say which one a connection is for.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) egress: Arc<Egress>,
    pub(crate) lookup: Lookup,
    pub(crate) port: u16,
}

impl Resolver {
    /// All addresses of the name, if all of them are open.
    pub(crate) async fn addresses(
        self,
        name: String,
    ) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
        let lookup = self.lookup;
        let asked = name.clone();
        let addresses = tokio::task::spawn_blocking(move || lookup(&asked)).await??;
        self.egress.check_addresses(&name, self.port, &addresses)?;
        Ok(addresses)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str().to_owned()).await?;
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
