//! Listening addresses as the command line takes them: `127.0.0.1:8080` or `unix:/run/toolcrib.sock`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use api_types::server_names::{PublicUrl, ServerNames};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The error for a string that is no listening address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give an address with a port, such as 127.0.0.1:8080, or unix:PATH")]
pub struct InvalidListenAddress;

impl ListenAddress {
    /// Whether only clients on this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// The URL of the server if no public URL is configured.
    pub fn default_public_url(&self, has_tls: bool) -> PublicUrl {
        match self {
            Self::Tcp(address) => PublicUrl::from_listener(*address, has_tls),
            Self::Unix(_) => PublicUrl::default(),
        }
    }

    /// The host names that the server answers to on this address.
    pub fn server_names(&self, names: ServerNames, needs_credential: bool) -> ServerNames {
        match self {
            Self::Tcp(address) => names.listening_on(*address, needs_credential),
            Self::Unix(_) => names.on_unix_socket(),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidListenAddress;

    fn from_str(text: &str) -> Result<Self, InvalidListenAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(InvalidListenAddress),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| InvalidListenAddress),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The file mode of a Unix socket, in octal as for `chmod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub(super) u32);

/// The error for a string that is no file mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a mode in octal, such as 660")]
pub struct InvalidSocketMode;

impl FromStr for SocketMode {
    type Err = InvalidSocketMode;

    fn from_str(text: &str) -> Result<Self, InvalidSocketMode> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or(InvalidSocketMode)
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_sockets_and_modes_are_parsed() {
        for text in ["127.0.0.1:8080", "[::]:0", "unix:/run/toolcrib.sock", "unix:crib"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "8080", "localhost:8080", "/run/toolcrib.sock"] {
            assert_eq!(text.parse::<ListenAddress>(), Err(InvalidListenAddress), "{text}");
        }
        assert_eq!("0660".parse(), Ok(SocketMode(0o660)));
        for text in ["", "8", "1777", "rw-"] {
            assert_eq!(text.parse::<SocketMode>(), Err(InvalidSocketMode), "{text}");
        }
    }
}
