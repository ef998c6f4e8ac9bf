//! The startup message of a server.

use api_types::server_names::ServerNames;
use endpoint::protected_resource::MCP_PATH as MCP;
use http_api::console::CONSOLE_PATH as CONSOLE;
use server::listen_address::ListenAddress;

use crate::cli_error::CliError;
use crate::output;

/// The URL of a server, and how clients reach it.
pub(super) struct ServerLocation {
    display_text: String,
    pub(super) url: String,
    /// The option that `curl` needs to connect; empty for TCP.
    curl_option: String,
    /// False for a Unix socket: clients that take only a URL cannot connect to it.
    pub(super) has_port: bool,
}

impl ServerLocation {
    pub(super) fn from_address(listen: &ListenAddress, has_tls: bool) -> Self {
        match listen {
            ListenAddress::Tcp(address) => {
                let url = format!("{}://{address}", if has_tls { "https" } else { "http" });
                Self { display_text: url.clone(), url, curl_option: String::new(), has_port: true }
            }
            ListenAddress::Unix(path) => Self {
                display_text: listen.to_string(),
                url: "http://localhost".to_owned(),
                curl_option: format!("--unix-socket {} ", path.display()),
                has_port: false,
            },
        }
    }

    pub(super) fn mcp_url(&self) -> String {
        format!("{}{MCP}", self.url)
    }
}

/// Prints the URLs of all endpoints, followed by `more`.
pub(super) fn print_startup_message(
    place: &ServerLocation,
    names: &ServerNames,
    metrics: Option<&ListenAddress>,
    more: &str,
) -> Result<(), CliError> {
    let ServerLocation { display_text: shown, url, .. } = place;
    let mut text = format!(
        "toolcrib serves on {shown}\n  MCP       {}\n  API       {url}/api\n  API docs  {url}/api/docs\n",
        place.mcp_url()
    );
    if place.has_port {
        text += &format!("  Console   {url}{CONSOLE}\n");
    }
    if let Some(place) = metrics {
        text += &match place {
            ListenAddress::Tcp(address) => format!("  Metrics   http://{address}/metrics\n"),
            ListenAddress::Unix(_) => format!("  Metrics   {place}\n"),
        };
    }
    if names.accepts_any_host() && place.has_port {
        text += "  Names     any `Host` is answered; give its own with --public-url\n";
    }
    output::print_text(&(text + more))
}

/// The new admin key with a console link. Browsers do not send the part after `#` to the server.
pub(super) fn admin_key_text(place: &ServerLocation, key: &str) -> String {
    format!("\nA key for an admin, shown only now:\n  {key}\n{}", console_text(place, key))
}

/// A console link that signs the browser in.
pub(super) fn console_text(place: &ServerLocation, key: &str) -> String {
    match place.has_port {
        true => format!("\nThe console, signed in:\n  {}{CONSOLE}#key={key}\n", place.url),
        false => String::new(),
    }
}

/// An example request with the key.
pub(super) fn example_request_text(place: &ServerLocation, key: &str) -> String {
    let ServerLocation { url, curl_option: option, .. } = place;
    format!("\nTry it:\n  curl {option}-H 'Authorization: Bearer {key}' {url}/api/sources\n")
}
