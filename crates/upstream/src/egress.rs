//! The egress policy: the one check that every outgoing connection passes.
//!
//! By default only public addresses are allowed. Three things are always forbidden: cloud metadata addresses, ports
//! of other protocols, and schemes other than `http` and `https`. The error for a forbidden address does not depend on
//! whether anything listens there, so that toolcrib cannot be used to scan a network.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

mod address_ranges;
mod allowed_destination;

pub use allowed_destination::{AllowedDestination, InvalidDestination};

/// The destinations that may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressPolicy {
    /// Also allow private and loopback addresses; meant for development.
    pub allow_private: bool,
    /// Destinations that are allowed although they are not public.
    pub allowed: Vec<AllowedDestination>,
}

/// Why a destination may not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The URL is longer than `MAX_URL`.
    #[error("the url is longer than {MAX_URL} bytes: send long values in the body")]
    TooLong,
    /// The scheme is neither `http` nor `https`.
    #[error("`{scheme}` urls are not fetched: use `https` or `http`")]
    Scheme { scheme: String },
    /// The URL contains a user name or a password, which would end up in logs.
    #[error("the url has a user name or a password in it: remove them and set the source's `auth`")]
    Credentials,
    /// The URL has no host.
    #[error("the url has no host: write it as in `https://api.example.com/`")]
    NoHost,
    /// The port belongs to another protocol such as mail or a database, where the bytes of a request could do harm.
    #[error("port {port} is not used for http: serve the upstream on another one")]
    Port { port: u16 },
    /// The address, or one of the addresses of the name, is not allowed.
    #[error(
        "`{host}` is, or leads to, an address that is not public: name it under `allow`, or use `--allow-private` where there is no source"
    )]
    Forbidden {
        /// The host as written.
        host: String,
    },
}

/// The maximum length of a URL, in bytes.
pub const MAX_URL: usize = 8 * 1024;

/// The metadata address that most clouds use.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// The "bad ports" of the Fetch standard that are still in use, and the ports of common databases and queues.
const PORTS_WITHOUT_HTTP: [u16; 38] = [
    0, 7, 9, 19, 20, 21, 22, 23, 25, 53, 69, 110, 111, 119, 123, 135, 137, 139, 143, 161, 389, 445,
    465, 514, 587, 636, 993, 995, 1433, 1521, 2049, 3306, 3389, 5432, 5672, 6379, 11211, 27017,
];

impl EgressPolicy {
    /// Checks everything that does not need a DNS lookup. Call it before every request: a host that is an IP address
    /// never reaches the resolver.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        if MAX_URL < url.as_str().len() {
            return Err(EgressError::TooLong);
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::Credentials);
        }
        let (Some(host), Some(written), Some(port)) =
            (url.host(), url.host_str(), url.port_or_known_default())
        else {
            return Err(EgressError::NoHost);
        };
        if PORTS_WITHOUT_HTTP.contains(&port) {
            return Err(EgressError::Port { port });
        }
        let address = match host {
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
            Host::Domain(name) => well_known_address(trim_trailing_dots(name)),
        };
        self.check_addresses(written, port, address.as_slice())
    }

    /// Checks that all addresses of a host are allowed. One forbidden address is enough to refuse, because a DNS answer
    /// that mixes both is a mistake or an attack.
    pub fn check_addresses(
        &self,
        host: &str,
        port: u16,
        addresses: &[IpAddr],
    ) -> Result<(), EgressError> {
        if addresses.iter().all(|address| self.is_allowed(host, port, *address)) {
            return Ok(());
        }
        Err(EgressError::Forbidden { host: host.to_owned() })
    }

    /// The ports that some allowed destination is limited to.
    pub(crate) fn allowed_ports(&self) -> impl Iterator<Item = u16> {
        self.allowed.iter().filter_map(AllowedDestination::port)
    }

    fn is_allowed(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let address = address_ranges::unwrap_address(address);
        if address_ranges::is_metadata(address) {
            return false;
        }
        address_ranges::is_public(address)
            || (self.allow_private && address_ranges::is_private(address))
            || self
                .allowed
                .iter()
                .any(|allowed| allowed.covers(trim_trailing_dots(host), port, address))
    }
}

/// Removes trailing dots: `localhost.` is `localhost`.
fn trim_trailing_dots(host: &str) -> &str {
    host.trim_end_matches('.')
}

/// Names with a fixed address, which no resolver may decide on (RFC 6761).
fn well_known_address(name: &str) -> Option<IpAddr> {
    if name == "localhost" || name.ends_with(".localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    matches!(name, "metadata.google.internal" | "metadata.goog").then_some(METADATA)
}

#[cfg(test)]
pub(crate) mod tests;
