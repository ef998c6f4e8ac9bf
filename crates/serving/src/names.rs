//! Checks `Host` and `Origin` of every request against the names of the server. This rejects DNS rebinding and pages
//! from other sites, whatever credential they send.

mod host;
mod public_url;

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Version};

pub(crate) use self::host::Host;
pub use self::host::{HostName, Origin};
pub use self::public_url::PublicUrl;
use crate::problem::{Code, Problem};

/// The host names and origins that the server accepts; by default only this machine.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<HostName>,
    origins: Vec<Origin>,
    others: Others,
}

/// Which hosts are accepted without being listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Others {
    /// Names and addresses of this machine.
    #[default]
    Local,
    /// IP addresses too: DNS rebinding needs a name.
    Addresses,
    /// Any host.
    Any,
}

impl Names {
    /// Accepts the configured names and origins, and this machine.
    pub fn new(
        mut names: Vec<HostName>,
        mut origins: Vec<Origin>,
        public_url: Option<&PublicUrl>,
    ) -> Self {
        if let Some(origin) = public_url.map(PublicUrl::origin) {
            names.push(origin.name());
            origins.push(origin.clone());
        }
        Self { names, origins, others: Others::Local }
    }

    /// Also accepts hosts that fit the listener. Without configured names, a server that requires credentials accepts any
    /// host: no page can make a browser send one.
    pub fn listening_on(self, address: SocketAddr, needs_credential: bool) -> Self {
        let others = match address.ip().is_loopback() {
            true => Others::Local,
            false if self.names.is_empty() && needs_credential => Others::Any,
            false => Others::Addresses,
        };
        Self { others, ..self }
    }

    /// Accepts any host: the file permissions of the Unix socket restrict who can connect.
    pub fn on_a_socket(self) -> Self {
        Self { others: Others::Any, ..self }
    }

    /// Whether any `Host` is accepted.
    pub fn has_any(&self) -> bool {
        self.others == Others::Any
    }

    fn has(&self, host: &Host) -> bool {
        let is_other = match self.others {
            Others::Local => host.is_local(),
            Others::Addresses => host.is_local() || host.address().is_some(),
            Others::Any => true,
        };
        is_other || self.names.iter().any(|name| name.is_of(host))
    }

    /// A page may call its own server. A page on this machine may call any server on this machine.
    fn has_origin(&self, origin: &Origin, host: Option<&Host>) -> bool {
        let is_own =
            |host: &Host| origin.is_of(host) || (origin.host().is_local() && host.is_local());
        host.is_some_and(is_own) || self.origins.contains(origin)
    }

    pub(crate) fn check(&self, request: &Request) -> Result<(), Problem> {
        let host = host(request)?;
        if host.as_ref().is_some_and(|host| !self.has(host)) {
            let detail = "this server does not go by that name; `public_url` and `allowed_hosts` are its names";
            return Err(Problem::new(Code::MisdirectedRequest, detail));
        }
        let Some(text) = only(request.headers(), ORIGIN)? else { return Ok(()) };
        match text.parse::<Origin>() {
            Ok(origin) if self.has_origin(&origin, host.as_ref()) => Ok(()),
            Ok(_) | Err(_) => {
                let detail = "pages from this origin are not served; `allowed_origins` are";
                Err(Problem::new(Code::Forbidden, detail))
            }
        }
    }
}

/// The host that a request targets (RFC 9112, 3.2; RFC 9113, 8.3.1); optional in HTTP/1.0.
fn host(request: &Request) -> Result<Option<Host>, Problem> {
    let malformed = || Problem::new(Code::InvalidRequest, "say once which host this is for");
    let target = request.uri().authority().map(|authority| authority.as_str());
    let header = only(request.headers(), HOST)?;
    let text = match (target, header) {
        (Some(target), Some(header)) if !target.eq_ignore_ascii_case(header) => {
            return Err(malformed());
        }
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) if request.version() <= Version::HTTP_10 => return Ok(None),
        (None, None) => return Err(malformed()),
    };
    text.parse().map(Some).map_err(|_| malformed())
}

/// A header that may occur at most once.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(&name).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or_default())),
        (Some(_), Some(_)) => {
            Err(Problem::new(Code::InvalidRequest, format!("send `{name}` once")))
        }
    }
}

#[cfg(test)]
mod tests;
