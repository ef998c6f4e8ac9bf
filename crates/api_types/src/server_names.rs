//! Checks `Host` and `Origin` of every request against the names of the server. This rejects DNS rebinding and pages
//! from other sites, whatever credential they send.

mod host_and_origin;
mod public_url;

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Version};

pub use self::host_and_origin::HostAndPort;
pub use self::host_and_origin::{HostName, WebOrigin};
pub use self::public_url::PublicUrl;
use crate::problem::{Problem, ProblemCode};

/// The host names and origins that the server accepts; by default only this machine.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    names: Vec<HostName>,
    origins: Vec<WebOrigin>,
    unlisted_hosts: UnlistedHosts,
}

/// Which hosts are accepted without being listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UnlistedHosts {
    /// Names and addresses of this machine.
    #[default]
    Local,
    /// IP addresses too: DNS rebinding needs a name.
    Addresses,
    Any,
}

impl ServerNames {
    /// Accepts the configured names and origins, and this machine.
    pub fn new(
        mut names: Vec<HostName>,
        mut origins: Vec<WebOrigin>,
        public_url: Option<&PublicUrl>,
    ) -> Self {
        if let Some(origin) = public_url.map(PublicUrl::origin) {
            names.push(origin.name());
            origins.push(origin.clone());
        }
        Self { names, origins, unlisted_hosts: UnlistedHosts::Local }
    }

    /// Also accepts hosts that fit the listener. Without configured names, a server that requires credentials accepts any
    /// host: no page can make a browser send one.
    pub fn listening_on(self, address: SocketAddr, needs_credential: bool) -> Self {
        let others = match address.ip().is_loopback() {
            true => UnlistedHosts::Local,
            false if self.names.is_empty() && needs_credential => UnlistedHosts::Any,
            false => UnlistedHosts::Addresses,
        };
        Self { unlisted_hosts: others, ..self }
    }

    /// Accepts any host: the file permissions of the Unix socket restrict who can connect.
    pub fn on_unix_socket(self) -> Self {
        Self { unlisted_hosts: UnlistedHosts::Any, ..self }
    }

    /// Whether any `Host` is accepted.
    pub fn accepts_any_host(&self) -> bool {
        self.unlisted_hosts == UnlistedHosts::Any
    }

    fn accepts_host(&self, host: &HostAndPort) -> bool {
        let is_other = match self.unlisted_hosts {
            UnlistedHosts::Local => host.is_local(),
            UnlistedHosts::Addresses => host.is_local() || host.ip_address().is_some(),
            UnlistedHosts::Any => true,
        };
        is_other || self.names.iter().any(|name| name.matches_host(host))
    }

    /// A page may call its own server. A page on this machine may call any server on this machine.
    fn accepts_origin(&self, origin: &WebOrigin, host: Option<&HostAndPort>) -> bool {
        let is_own = |host: &HostAndPort| {
            origin.matches_host(host) || (origin.host().is_local() && host.is_local())
        };
        host.is_some_and(is_own) || self.origins.contains(origin)
    }

    pub fn check_request(&self, request: &Request) -> Result<(), Problem> {
        let host = requested_host(request)?;
        if host.as_ref().is_some_and(|host| !self.accepts_host(host)) {
            let detail = "this server does not go by that name; `public_url` and `allowed_hosts` are its names";
            return Err(Problem::new(ProblemCode::MisdirectedRequest, detail));
        }
        let Some(text) = single_header(request.headers(), ORIGIN)? else { return Ok(()) };
        match text.parse::<WebOrigin>() {
            Ok(origin) if self.accepts_origin(&origin, host.as_ref()) => Ok(()),
            Ok(_) | Err(_) => {
                let detail = "pages from this origin are not served; `allowed_origins` are";
                Err(Problem::new(ProblemCode::Forbidden, detail))
            }
        }
    }
}

/// The host that a request targets (RFC 9112, 3.2; RFC 9113, 8.3.1); optional in HTTP/1.0.
fn requested_host(request: &Request) -> Result<Option<HostAndPort>, Problem> {
    let malformed = || Problem::new(ProblemCode::InvalidRequest, "say once which host this is for");
    let target = request.uri().authority().map(|authority| authority.as_str());
    let header = single_header(request.headers(), HOST)?;
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
fn single_header(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(&name).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or_default())),
        (Some(_), Some(_)) => {
            Err(Problem::new(ProblemCode::InvalidRequest, format!("send `{name}` once")))
        }
    }
}

#[cfg(test)]
mod tests;
