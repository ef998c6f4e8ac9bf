//! The names this server answers to. `Host` and `Origin` of every request are held against them: a name that was pointed
//! at this machine, or a page from elsewhere, gets nowhere, whatever else it shows.

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

/// The names of a server; by default those of this machine.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<HostName>,
    origins: Vec<Origin>,
    others: Others,
}

/// Which names are answered that are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Others {
    /// Those of this machine.
    #[default]
    Local,
    /// Addresses too: what asks for one was not led here by a name.
    Addresses,
    /// Any.
    Any,
}

impl Names {
    /// Those that were configured, and those of this machine.
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

    /// Also what is sensible where the server listens. If it was given no name and callers must show a credential, any
    /// will do: no page can make a browser show one.
    pub fn listening_on(self, address: SocketAddr, needs_credential: bool) -> Self {
        let others = match address.ip().is_loopback() {
            true => Others::Local,
            false if self.names.is_empty() && needs_credential => Others::Any,
            false => Others::Addresses,
        };
        Self { others, ..self }
    }

    /// Also any other: only who may open the socket comes.
    pub fn on_a_socket(self) -> Self {
        Self { others: Others::Any, ..self }
    }

    /// Whether any `Host` is answered.
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

    /// A page may ask its own server, and one on this machine any other on it.
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

/// Which host a request is for (RFC 9112, 3.2; RFC 9113, 8.3.1). One of HTTP/1.0 need not say.
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

/// A header that may be there once.
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
