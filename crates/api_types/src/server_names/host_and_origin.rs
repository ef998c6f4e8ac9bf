//! Hosts and origins, as they appear in requests and in configurations.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

/// Longest host name in bytes (RFC 1035, 2.3.4).
const MAX_HOST_LENGTH: usize = 255;

/// A host name or IP address with an optional port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAndPort {
    /// Lower case; IPv6 addresses in brackets.
    name: Box<str>,
    port: Option<u16>,
}

/// Why a string is no valid host, host name or origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHostOrOrigin {
    /// Neither a host name nor an address.
    #[error("a host is a name or an address, such as `crib.example.com`")]
    Host,
    /// A port where only a name is allowed.
    #[error("write the name alone, such as `crib.example.com`: any port will do")]
    Port,
    #[error("an origin is written like `https://chat.example.com`, with a port if it has one")]
    Origin,
}

impl HostAndPort {
    /// Whether this is `localhost` or a loopback address.
    pub fn is_local(&self) -> bool {
        &*self.name == "localhost" || self.ip_address().is_some_and(|address| address.is_loopback())
    }

    pub(super) fn ip_address(&self) -> Option<IpAddr> {
        self.name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl FromStr for HostAndPort {
    type Err = InvalidHostOrOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidHostOrOrigin> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            Some(_) | None => (text, None),
        };
        let is_digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port.map(|port| port.parse().ok().filter(|_| is_digits(port))) {
            Some(None) => return Err(InvalidHostOrOrigin::Host),
            Some(port) => port,
            None => None,
        };
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_good = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !name.is_empty() && name.bytes().all(is_host_name_byte),
        };
        match is_good && name.len() <= MAX_HOST_LENGTH {
            true => Ok(Self { name: name.to_ascii_lowercase().into(), port }),
            false => Err(InvalidHostOrOrigin::Host),
        }
    }
}

fn is_host_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// The name of a host, or its address; any port will do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct HostName(Box<str>);

impl HostName {
    pub(super) fn matches_host(&self, host: &HostAndPort) -> bool {
        self.0 == host.name
    }
}

impl FromStr for HostName {
    type Err = InvalidHostOrOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidHostOrOrigin> {
        match text.parse()? {
            HostAndPort { name, port: None } => Ok(Self(name)),
            HostAndPort { port: Some(_), .. } => Err(InvalidHostOrOrigin::Port),
        }
    }
}

impl TryFrom<String> for HostName {
    type Error = InvalidHostOrOrigin;

    fn try_from(text: String) -> Result<Self, InvalidHostOrOrigin> {
        text.parse()
    }
}

/// Where a page is from (RFC 6454): `https://chat.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct WebOrigin {
    scheme: OriginScheme,
    /// With its port, whether or not it was written.
    host: HostAndPort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginScheme {
    Http,
    Https,
}

impl OriginScheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl WebOrigin {
    pub fn host(&self) -> &HostAndPort {
        &self.host
    }

    pub(super) fn name(&self) -> HostName {
        HostName(self.host.name.clone())
    }

    /// Whether this is the origin of the host itself. The scheme is ignored: a proxy may have terminated TLS.
    pub(super) fn matches_host(&self, host: &HostAndPort) -> bool {
        let port = host.port.unwrap_or(self.scheme.default_port());
        self.host.name == host.name && self.host.port == Some(port)
    }
}

impl FromStr for WebOrigin {
    type Err = InvalidHostOrOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidHostOrOrigin> {
        let (scheme, host) = text.split_once("://").ok_or(InvalidHostOrOrigin::Origin)?;
        let scheme = match scheme {
            "http" => OriginScheme::Http,
            "https" => OriginScheme::Https,
            _ => return Err(InvalidHostOrOrigin::Origin),
        };
        let HostAndPort { name, port } = host.parse().map_err(|_| InvalidHostOrOrigin::Origin)?;
        let port = Some(port.unwrap_or(scheme.default_port()));
        Ok(Self { scheme, host: HostAndPort { name, port } })
    }
}

impl TryFrom<String> for WebOrigin {
    type Error = InvalidHostOrOrigin;

    fn try_from(text: String) -> Result<Self, InvalidHostOrOrigin> {
        text.parse()
    }
}
