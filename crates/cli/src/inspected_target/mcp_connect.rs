//! MCP targets: a server at a URL, or a program that is started for one command.

use std::ffi::OsString;
use std::time::Duration;

use mcp_client::{ConnectionSettings, McpConnection, McpLimits, McpTarget as Server};
use model::{SecretRef, SourceKind};
use secrecy::ExposeSecret as _;
use toolcrib::{JournalLocation, SecretStore, SystemClock};
use upstream::http::Url;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::stdio::{ProgramSpec, StderrTail};

use super::{InspectedTarget, parse_target_url, propose_source_id, target_http_client};
use crate::arguments::target_options as options;
use crate::cli_error::CliError;
use crate::{environment, output, progress};

/// How many bytes of a program's stderr are kept, and how many of its last lines are printed if it fails.
const MAX_STDERR_BYTES: usize = 64 << 10;
pub(crate) const PRINTED_STDERR_LINES: usize = 10;

/// Whether the path of a URL looks like that of an MCP endpoint.
pub(super) fn has_mcp_path(url: &Url) -> bool {
    let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
    matches!(last, Some("mcp" | "sse"))
}

/// Connects to the MCP server at a URL.
pub(super) async fn connect_to_url(
    options: &options::TargetOptions,
    target: &str,
) -> Result<InspectedTarget, CliError> {
    let url = parse_target_url(target)?.as_url().clone();
    let origin = Some(url.origin());
    let headers = resolve_headers(&options.headers, options.bearer.as_deref()).await?;
    let server = Server::Http { client: target_http_client(options), url, headers };
    Ok(InspectedTarget { origin, ..connect_and_discover(options, &server, target).await? })
}

/// Starts a program, and connects to it.
pub(super) async fn connect_to_program(
    options: &options::TargetOptions,
) -> Result<InspectedTarget, CliError> {
    let Some((command, arguments)) = options.command.split_first() else {
        return Err(CliError::CommandMissing);
    };
    let host = environment::supervised_program_host(true);
    let stderr = StderrTail::new(MAX_STDERR_BYTES);
    let program = ProgramSpec {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: environment::minimal_environment(),
        working_directory: std::env::current_dir().ok(),
        search_path: host.search_path,
        binder: host.bound_by,
        stderr: Some(stderr.clone()),
        ..ProgramSpec::new(command)
    };
    let asked = connect_and_discover(options, &Server::Program(program), command).await;
    if asked.is_err() {
        // The stderr of the program usually contains the reason.
        for line in stderr.last_lines(PRINTED_STDERR_LINES).lines() {
            output::print_note(&format!("| {line}"));
        }
    }
    asked
}

async fn connect_and_discover(
    options: &options::TargetOptions,
    server: &Server,
    name: &str,
) -> Result<InspectedTarget, CliError> {
    let mut limits = McpLimits::default();
    limits.open_deadline = options.timeout.map_or(limits.open_deadline, Duration::from_secs);
    let settings = ConnectionSettings { limits, listens: false, ..ConnectionSettings::default() };
    let asked = async {
        let connection = McpConnection::open(server, &settings).await.map_err(CliError::Mcp)?;
        let found = sources::mcp::discover_mcp(&propose_source_id(name), &connection).await?;
        Ok::<_, CliError>((connection, found))
    };
    let (connection, found) = progress::show_while("asking the MCP server", asked).await?;
    Ok(InspectedTarget { kind: SourceKind::Mcp, origin: None, found, connection: Some(connection) })
}

/// Resolves `NAME=REF` options and a bearer token into headers. Errors do not repeat an invalid reference: it may be
/// the secret itself.
pub(super) async fn resolve_headers(
    given: &[String],
    bearer: Option<&str>,
) -> Result<HeaderMap, CliError> {
    let mut headers = HeaderMap::new();
    if given.is_empty() && bearer.is_none() {
        return Ok(headers);
    }
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let secrets = SecretStore::new(journal, None, SystemClock, environment::secret_variable);
    if let Some(reference) = bearer {
        let reference: SecretRef = reference.parse().map_err(|_| CliError::BearerOption)?;
        let token = secrets.read_secret(&reference).await?;
        let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret().trim()));
        let mut value = value.map_err(|_| CliError::BearerOption)?;
        value.set_sensitive(true);
        headers.append(AUTHORIZATION, value);
    }
    for text in given {
        let (name, reference) = text.split_once('=').ok_or(CliError::HeaderOption)?;
        let reference: SecretRef = reference.parse().map_err(|_| CliError::HeaderOption)?;
        let value = secrets.read_secret(&reference).await?;
        let name = HeaderName::try_from(name).map_err(|_| CliError::HeaderOption)?;
        let mut value =
            HeaderValue::try_from(value.expose_secret()).map_err(|_| CliError::HeaderOption)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}
