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
pub struct Allowed {
    target: Target,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
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
pub struct InvalidAllowed;

impl Allowed {
    /// The port, if the destination is limited to one.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether the URL, as written, has this destination as its host: by name or by address.
    pub fn names(&self, url: &Url) -> bool {
        let here = match (url.host(), &self.target) {
            (Some(Host::Domain(host)), Target::Name(name)) => name.eq_ignore_ascii_case(host),
            (Some(Host::Ipv4(address)), Target::Network(network)) => {
                network.contains(&IpAddr::V4(address))
            }
            (Some(Host::Ipv6(address)), Target::Network(network)) => {
                network.contains(&IpAddr::V6(address))
            }
            (_, Target::Name(_) | Target::Network(_)) => false,
        };
        here && self.port.is_none_or(|only| Some(only) == url.port_or_known_default())
    }

    pub(super) fn covers(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let here = match &self.target {
            Target::Network(network) => network.contains(&address),
            Target::Name(name) => name.eq_ignore_ascii_case(host),
        };
        here && self.port.is_none_or(|only| only == port)
    }
}

impl FromStr for Allowed {
    type Err = InvalidAllowed;

    fn from_str(text: &str) -> Result<Self, InvalidAllowed> {
        // The colons of an IPv6 address do not separate a port.
        if let Some(network) = network(text) {
            return Ok(Self { target: Target::Network(network), port: None });
        }
        let (target, port) = match text.rsplit_once(':') {
            Some((target, port)) => (target, Some(port_number(port).ok_or(InvalidAllowed)?)),
            None => (text, None),
        };
        let target = network(target).map(Target::Network).or_else(|| name(target));
        Ok(Self { target: target.ok_or(InvalidAllowed)?, port })
    }
}

fn port_number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

fn network(text: &str) -> Option<IpNet> {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let network = inside.parse::<IpNet>().ok();
    network
        .or_else(|| inside.parse::<IpAddr>().ok().map(IpNet::from))
        .map(|network| network.trunc())
}

fn name(text: &str) -> Option<Target> {
    let Ok(Host::Domain(name)) = Host::parse(text) else { return None };
    let name = super::without_dots(&name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && name.chars().all(plain)).then(|| Target::Name(name.to_owned()))
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.target {
            Target::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                network.addr().to_string()
            }
            Target::Network(network) => network.to_string(),
            Target::Name(name) => name.clone(),
        };
        match self.port {
            Some(port) if target.contains(':') => write!(f, "[{target}]:{port}"),
            Some(port) => write!(f, "{target}:{port}"),
            None => f.write_str(&target),
        }
    }
}

impl TryFrom<String> for Allowed {
    type Error = InvalidAllowed;

    fn try_from(text: String) -> Result<Self, InvalidAllowed> {
        text.parse()
    }
}

impl From<Allowed> for String {
    fn from(allowed: Allowed) -> Self {
        allowed.to_string()
    }
}
