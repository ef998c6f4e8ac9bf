//! What a server says when it has started.

use super::listen::Listen;
use crate::failure::Failure;
use crate::mcp::PATH as MCP;
use crate::names::Names;
use crate::out;

pub(super) fn greet(
    listen: &Listen,
    has_tls: bool,
    names: &Names,
    (metrics, admin_key): (Option<&Listen>, Option<&str>),
) -> Result<(), Failure> {
    let scheme = if has_tls { "https" } else { "http" };
    let (place, url, option) = match listen {
        Listen::Tcp(address) => {
            let url = format!("{scheme}://{address}");
            (url.clone(), url, String::new())
        }
        Listen::Unix(path) => {
            let option = format!("--unix-socket {} ", path.display());
            (listen.to_string(), "http://localhost".to_owned(), option)
        }
    };
    let mut text = format!(
        "toolcrib serves on {place}\n  MCP       {url}{MCP}\n  API       {url}/api\n  API docs  {url}/api/docs\n"
    );
    if let Some(place) = metrics {
        text += &match place {
            Listen::Tcp(address) => format!("  Metrics   http://{address}/metrics\n"),
            Listen::Unix(_) => format!("  Metrics   {place}\n"),
        };
    }
    if names.has_any() && matches!(listen, Listen::Tcp(_)) {
        text += "  Names     any `Host` is answered; give its own with --public-url\n";
    }
    if let Some(key) = admin_key {
        text += &format!(
            "\nA key for an admin, shown only now:\n  {key}\n\nTry it:\n  \
             curl {option}-H 'Authorization: Bearer {key}' {url}/api/sources\n"
        );
    }
    out::print(&text)
}
