//! Which way out is open: the one guard every outgoing connection passes.
//!
//! Without further words only public addresses are. Three things are shut whatever is allowed: the metadata addresses of
//! clouds, ports on which no HTTP is spoken, and schemes other than `http` and `https`. A refused address gives the same
//! sentence whether something listens there or not, so that nobody can use toolcrib to look around.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

mod allowed;
mod ranges;

pub use allowed::{Allowed, InvalidAllowed};

/// What may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// For development: private and loopback addresses are open too.
    pub allow_private: bool,
    /// Open although they are not public.
    pub allowed: Vec<Allowed>,
}

/// Why something may not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// Longer than any address people use.
    #[error("the url is longer than {MAX_URL} bytes: send long values in the body")]
    TooLong,
    /// Not the web.
    #[error("`{scheme}` urls are not fetched: use `https` or `http`")]
    Scheme {
        /// What it was.
        scheme: String,
    },
    /// A user name or a password in the url would end up in logs.
    #[error("the url has a user name or a password in it: remove them and set the source's `auth`")]
    Credentials,
    /// Nowhere to go.
    #[error("the url has no host: write it as in `https://api.example.com/`")]
    NoHost,
    /// A port of mail, databases and the like, where bytes of a request could do harm.
    #[error("port {port} is not used for http: serve the upstream on another one")]
    Port {
        /// The port.
        port: u16,
    },
    /// The address, or one of those the name stands for, is not open.
    #[error(
        "`{host}` is, or leads to, an address that is not public: name it under `allow`, or use `--allow-private` where there is no source"
    )]
    Forbidden {
        /// As it was written.
        host: String,
    },
}

/// How long a url may be, in bytes.
pub const MAX_URL: usize = 8 * 1024;

/// The metadata address most clouds share.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// From the "bad ports" of the Fetch standard, those still in use, and the ports of common databases and queues.
const PORTS_WITHOUT_HTTP: [u16; 38] = [
    0, 7, 9, 19, 20, 21, 22, 23, 25, 53, 69, 110, 111, 119, 123, 135, 137, 139, 143, 161, 389, 445,
    465, 514, 587, 636, 993, 995, 1433, 1521, 2049, 3306, 3389, 5432, 5672, 6379, 11211, 27017,
];

impl Egress {
    /// Everything that can be said without asking for the addresses of a name. It must run before every request:
    /// nobody is asked for the address when the host is one.
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
            Host::Domain(name) => address_of_well_known(without_dots(name)),
        };
        self.check_addresses(written, port, address.as_slice())
    }

    /// Whether all of the addresses a host stands for are open. One that is not is enough to refuse: the answer mixes
    /// them only by mistake or on purpose.
    pub fn check_addresses(
        &self,
        host: &str,
        port: u16,
        addresses: &[IpAddr],
    ) -> Result<(), EgressError> {
        if addresses.iter().all(|address| self.is_open(host, port, *address)) {
            return Ok(());
        }
        Err(EgressError::Forbidden { host: host.to_owned() })
    }

    /// The ports for which there is more open than for others.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.allowed.iter().filter_map(Allowed::port)
    }

    fn is_open(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let address = ranges::without_wrapping(address);
        if ranges::is_metadata(address) {
            return false;
        }
        ranges::is_public(address)
            || (self.allow_private && ranges::is_private(address))
            || self.allowed.iter().any(|allowed| allowed.covers(without_dots(host), port, address))
    }
}

/// `localhost.` is `localhost`.
fn without_dots(host: &str) -> &str {
    host.trim_end_matches('.')
}

/// Names that need no looking up, and whose answer is not left to a resolver (RFC 6761).
fn address_of_well_known(name: &str) -> Option<IpAddr> {
    if name == "localhost" || name.ends_with(".localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    matches!(name, "metadata.google.internal" | "metadata.goog").then_some(METADATA)
}

#[cfg(test)]
pub(crate) mod tests;
