//! A destination that is allowed although it is not public: `10.20.0.0/16`, `[fd00::1]:8443`, `billing.internal:8443`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// An address, a network or a host name, on one port or on all ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedDestination {
    host: DestinationHost,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DestinationHost {
    /// A single address is stored as a network with one address.
    Network(IpNet),
    /// Lower case, without a trailing dot.
    Name(String),
}

/// The text is neither an address, a network nor a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this cannot be allowed: write an address, a network or a host name, and a port if only that one is meant, \
     as in `10.20.0.0/16`, `[fd00::1]:8443` or `billing.internal:8443`"
)]
pub struct InvalidDestination;

impl AllowedDestination {
    /// The port, if the destination is limited to one.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether the URL, as written, has this destination as its host: by name or by address.
    pub fn matches_url(&self, url: &Url) -> bool {
        let here = match (url.host(), &self.host) {
            (Some(Host::Domain(host)), DestinationHost::Name(name)) => {
                name.eq_ignore_ascii_case(host)
            }
            (Some(Host::Ipv4(address)), DestinationHost::Network(network)) => {
                network.contains(&IpAddr::V4(address))
            }
            (Some(Host::Ipv6(address)), DestinationHost::Network(network)) => {
                network.contains(&IpAddr::V6(address))
            }
            (_, DestinationHost::Name(_) | DestinationHost::Network(_)) => false,
        };
        here && self.port.is_none_or(|only| Some(only) == url.port_or_known_default())
    }

    pub(super) fn covers(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let here = match &self.host {
            DestinationHost::Network(network) => network.contains(&address),
            DestinationHost::Name(name) => name.eq_ignore_ascii_case(host),
        };
        here && self.port.is_none_or(|only| only == port)
    }
}

impl FromStr for AllowedDestination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        // The colons of an IPv6 address do not separate a port.
        if let Some(network) = parse_network(text) {
            return Ok(Self { host: DestinationHost::Network(network), port: None });
        }
        let (target, port) = match text.rsplit_once(':') {
            Some((target, port)) => (target, Some(parse_port(port).ok_or(InvalidDestination)?)),
            None => (text, None),
        };
        let target =
            parse_network(target).map(DestinationHost::Network).or_else(|| parse_host_name(target));
        Ok(Self { host: target.ok_or(InvalidDestination)?, port })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

fn parse_network(text: &str) -> Option<IpNet> {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let network = inside.parse::<IpNet>().ok();
    network
        .or_else(|| inside.parse::<IpAddr>().ok().map(IpNet::from))
        .map(|network| network.trunc())
}

fn parse_host_name(text: &str) -> Option<DestinationHost> {
    let Ok(Host::Domain(name)) = Host::parse(text) else { return None };
    let name = super::trim_trailing_dots(&name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && name.chars().all(plain)).then(|| DestinationHost::Name(name.to_owned()))
}

impl fmt::Display for AllowedDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.host {
            DestinationHost::Network(network)
                if network.prefix_len() == network.max_prefix_len() =>
            {
                network.addr().to_string()
            }
            DestinationHost::Network(network) => network.to_string(),
            DestinationHost::Name(name) => name.clone(),
        };
        match self.port {
            Some(port) if target.contains(':') => write!(f, "[{target}]:{port}"),
            Some(port) => write!(f, "{target}:{port}"),
            None => f.write_str(&target),
        }
    }
}

impl TryFrom<String> for AllowedDestination {
    type Error = InvalidDestination;

    fn try_from(text: String) -> Result<Self, InvalidDestination> {
        text.parse()
    }
}

impl From<AllowedDestination> for String {
    fn from(allowed: AllowedDestination) -> Self {
        allowed.to_string()
    }
}
