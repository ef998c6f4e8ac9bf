//! MCP targets: a server at a URL, or a program that is started for one command.

use std::ffi::OsString;
use std::time::Duration;

use model::{Kind, SecretRef};
use secrecy::ExposeSecret as _;
use toolcrib::{JournalPlace, Secrets, SystemClock};
use upstream::http::Url;
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::mcp::{Connection, McpLimits, Settings, Target as Server};
use upstream::stdio::{Program, Stderr};

use super::{Target, client, source_id, url};
use crate::cli::target as options;
use crate::failure::Failure;
use crate::{config, out, progress};

/// How many bytes of a program's stderr are kept, and how many of its last lines are printed if it fails.
const STDERR: usize = 64 << 10;
pub(crate) const LAST_LINES: usize = 10;

/// Whether the path of a URL looks like that of an MCP endpoint.
pub(super) fn is_likely(url: &Url) -> bool {
    let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
    matches!(last, Some("mcp" | "sse"))
}

/// Connects to the MCP server at a URL.
pub(super) async fn at(options: &options::Target, target: &str) -> Result<Target, Failure> {
    let url = url(target)?.as_url().clone();
    let origin = Some(url.origin());
    let headers = headers(&options.headers, options.bearer.as_deref()).await?;
    let server = Server::Http { client: client(options), url, headers };
    Ok(Target { origin, ..ask(options, &server, target).await? })
}

/// Starts a program, and connects to it.
pub(super) async fn of_command(options: &options::Target) -> Result<Target, Failure> {
    let Some((command, arguments)) = options.command.split_first() else {
        return Err(Failure::CommandMissing);
    };
    let host = config::programs(true);
    let stderr = Stderr::new(STDERR);
    let program = Program {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: config::little_environment(),
        folder: std::env::current_dir().ok(),
        search_path: host.search_path,
        bound_by: host.bound_by,
        stderr: Some(stderr.clone()),
        ..Program::new(command)
    };
    let asked = ask(options, &Server::Program(program), command).await;
    if asked.is_err() {
        // The stderr of the program usually contains the reason.
        for line in stderr.last_lines(LAST_LINES).lines() {
            out::note(&format!("| {line}"));
        }
    }
    asked
}

async fn ask(options: &options::Target, server: &Server, name: &str) -> Result<Target, Failure> {
    let mut limits = McpLimits::default();
    limits.opening = options.timeout.map_or(limits.opening, Duration::from_secs);
    let settings = Settings { limits, listens: false, ..Settings::default() };
    let asked = async {
        let connection = Connection::open(server, &settings).await.map_err(Failure::Mcp)?;
        let found = discovery::mcp::discover(&source_id(name), &connection).await?;
        Ok::<_, Failure>((connection, found))
    };
    let (connection, found) = progress::during("asking the MCP server", asked).await?;
    Ok(Target { kind: Kind::Mcp, origin: None, found, connection: Some(connection) })
}

/// Resolves `NAME=REF` options and a bearer token into headers. Errors do not repeat an invalid reference: it may be
/// the secret itself.
pub(super) async fn headers(given: &[String], bearer: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if given.is_empty() && bearer.is_none() {
        return Ok(headers);
    }
    let journal = JournalPlace::Memory.open(SystemClock).await?;
    let secrets = Secrets::new(journal, None, SystemClock, config::variable_of_user);
    if let Some(reference) = bearer {
        let reference: SecretRef = reference.parse().map_err(|_| Failure::BearerOption)?;
        let token = secrets.read(&reference).await?;
        let value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret().trim()));
        let mut value = value.map_err(|_| Failure::BearerOption)?;
        value.set_sensitive(true);
        headers.append(AUTHORIZATION, value);
    }
    for text in given {
        let (name, reference) = text.split_once('=').ok_or(Failure::HeaderOption)?;
        let reference: SecretRef = reference.parse().map_err(|_| Failure::HeaderOption)?;
        let value = secrets.read(&reference).await?;
        let name = HeaderName::try_from(name).map_err(|_| Failure::HeaderOption)?;
        let mut value =
            HeaderValue::try_from(value.expose_secret()).map_err(|_| Failure::HeaderOption)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}
