//! The startup message of a server.

use super::listen::Listen;
use crate::console::PATH as CONSOLE;
use crate::failure::Failure;
use crate::mcp::PATH as MCP;
use crate::names::Names;
use crate::out;

/// The URL of a server, and how clients reach it.
pub(super) struct Place {
    shown: String,
    pub(super) url: String,
    /// The option that `curl` needs to connect; empty for TCP.
    option: String,
    /// False for a Unix socket: clients that take only a URL cannot connect to it.
    pub(super) has_port: bool,
}

impl Place {
    pub(super) fn of(listen: &Listen, has_tls: bool) -> Self {
        match listen {
            Listen::Tcp(address) => {
                let url = format!("{}://{address}", if has_tls { "https" } else { "http" });
                Self { shown: url.clone(), url, option: String::new(), has_port: true }
            }
            Listen::Unix(path) => Self {
                shown: listen.to_string(),
                url: "http://localhost".to_owned(),
                option: format!("--unix-socket {} ", path.display()),
                has_port: false,
            },
        }
    }

    pub(super) fn mcp(&self) -> String {
        format!("{}{MCP}", self.url)
    }
}

/// Prints the URLs of all endpoints, followed by `more`.
pub(super) fn greet(
    place: &Place,
    names: &Names,
    metrics: Option<&Listen>,
    more: &str,
) -> Result<(), Failure> {
    let Place { shown, url, .. } = place;
    let mut text = format!(
        "toolcrib serves on {shown}\n  MCP       {}\n  API       {url}/api\n  API docs  {url}/api/docs\n",
        place.mcp()
    );
    if place.has_port {
        text += &format!("  Console   {url}{CONSOLE}\n");
    }
    if let Some(place) = metrics {
        text += &match place {
            Listen::Tcp(address) => format!("  Metrics   http://{address}/metrics\n"),
            Listen::Unix(_) => format!("  Metrics   {place}\n"),
        };
    }
    if names.has_any() && place.has_port {
        text += "  Names     any `Host` is answered; give its own with --public-url\n";
    }
    out::print(&(text + more))
}

/// The new admin key with a console link. Browsers do not send the part after `#` to the server.
pub(super) fn key(place: &Place, key: &str) -> String {
    format!("\nA key for an admin, shown only now:\n  {key}\n{}", console(place, key))
}

/// A console link that signs the browser in.
pub(super) fn console(place: &Place, key: &str) -> String {
    match place.has_port {
        true => format!("\nThe console, signed in:\n  {}{CONSOLE}#key={key}\n", place.url),
        false => String::new(),
    }
}

/// An example request with the key.
pub(super) fn try_key(place: &Place, key: &str) -> String {
    let Place { url, option, .. } = place;
    format!("\nTry it:\n  curl {option}-H 'Authorization: Bearer {key}' {url}/api/sources\n")
}
