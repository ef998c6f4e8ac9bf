//! The public URL of a server: tokens name it as audience, and metadata repeat it byte for byte (RFC 9728, 3.3).

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::WebOrigin;

/// An origin, exactly as it was written: `https://crib.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct PublicUrl {
    text: Box<str>,
    origin: WebOrigin,
}

/// Why a string is no public URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a public url is written like `https://crib.example.com`, without a path")]
pub struct InvalidPublicUrl;

impl PublicUrl {
    /// The default: derived from the address of the listener.
    pub fn from_listener(address: SocketAddr, has_tls: bool) -> Self {
        let scheme = if has_tls { "https" } else { "http" };
        let port = address.port();
        let text = match address.ip().is_unspecified() {
            true => format!("{scheme}://localhost:{port}"),
            false => format!("{scheme}://{address}"),
        };
        let url = url::Url::parse(&text).map(|url| url.origin().ascii_serialization());
        url.ok().and_then(|url| url.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn origin(&self) -> &WebOrigin {
        &self.origin
    }
}

impl Default for PublicUrl {
    fn default() -> Self {
        "http://localhost".parse().expect("this machine has a name")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for PublicUrl {
    type Err = InvalidPublicUrl;

    fn from_str(text: &str) -> Result<Self, InvalidPublicUrl> {
        let text = text.strip_suffix('/').unwrap_or(text);
        // Clients derive a lower-case URL without the default port, and compare it byte for byte.
        let is_usual = url::Url::parse(text)
            .is_ok_and(|url| url.origin().ascii_serialization() == text && url.host().is_some());
        match text.parse() {
            Ok(origin) if is_usual => Ok(Self { text: text.into(), origin }),
            Ok(_) | Err(_) => Err(InvalidPublicUrl),
        }
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = InvalidPublicUrl;

    fn try_from(text: String) -> Result<Self, InvalidPublicUrl> {
        text.parse()
    }
}
