//! Targets of `discover` and `call`: an API or an MCP server that is read without a server of ours, from a file, a URL,
//! standard input or a program.

pub(crate) mod server;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use discovery::openapi::{Address, Found, Options};
use discovery::text::MAX_BYTES;
use model::{Kind, SourceId, SourceUrl};
use upstream::egress::{Allowed, Egress};
use upstream::http::{HttpClient, Limits, Origin, Shown};
use upstream::limits::{LimitError, read_file};
use upstream::mcp::Connection;

use crate::cli::target::{self as options, Describe};
use crate::failure::Failure;
use crate::{out, progress};

/// A target that was read.
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// The origin that may receive credentials; `None` if the user named the API by an option or in a file.
    pub(crate) origin: Option<Origin>,
    pub(crate) found: Found,
    /// The connection, if the target is an MCP server.
    pub(crate) connection: Option<Connection>,
}

/// Detects the kind of the target, and reads its tools.
pub(crate) async fn read(options: &options::Target) -> Result<Target, Failure> {
    if !options.command.is_empty() {
        return server::of_command(options).await;
    }
    let target = options.target.as_deref().unwrap_or_default();
    if !is_url(target) {
        return described(options, target).await;
    }
    // An MCP server is recognised by its path; otherwise it is tried last, if the URL has no document.
    if server::is_likely(url(target)?.as_url()) {
        return server::at(options, target).await;
    }
    let error = match described(options, target).await {
        Err(error) if error.may_be_no_document() => error,
        read => return read,
    };
    match server::at(options, target).await {
        Ok(found) => Ok(found),
        // Report the error of the most likely kind.
        Err(_) => {
            match described(options, &format!("{}/tools", target.trim_end_matches('/'))).await {
                Ok(target) => Ok(target),
                Err(_) => Err(error),
            }
        }
    }
}

/// Reads the target's document, and converts it to tools.
async fn described(options: &options::Target, target: &str) -> Result<Target, Failure> {
    let reading = Options {
        base_url: options.base_url.as_deref().map(base_url).transpose()?,
        describe: match options.describe {
            Describe::Summary => model::Describe::Summary,
            Describe::Description => model::Describe::Description,
            Describe::Both => model::Describe::Both,
        },
        media_type: options.media_type.clone(),
        ..Options::default()
    };
    let source = source_id(target);
    let (address, bytes) = document(options, target).await?;
    let chosen = options.base_url.is_some() || !is_url(target);
    let origin = if chosen { None } else { Some(url(target)?.as_url().origin()) };
    let discovered = tokio::task::spawn_blocking(move || {
        discovery::discover_document(source, address, bytes, &reading)
    });
    let discovered = progress::during("reading the specification", discovered).await;
    let discovered = discovered.expect("reading a document does not panic");
    let (kind, found) =
        discovered.map_err(|source| Failure::NoTools { target: shown(target), source })?;
    Ok(Target { kind, origin, found, connection: None })
}

/// The document and its address.
async fn document(options: &options::Target, target: &str) -> Result<(Address, Vec<u8>), Failure> {
    if target == "-" {
        return Ok((Address::Inline, from_stdin(MAX_BYTES as u64).await?));
    }
    if !is_url(target) {
        let path = PathBuf::from(target);
        let bytes = from_file(&path, MAX_BYTES as u64)?;
        return Ok((Address::File(path), bytes));
    }
    let url = url(target)?;
    let headers = server::headers(&options.headers, options.bearer.as_deref()).await?;
    let shown = Shown { origin: url.as_url().origin(), headers, query: None };
    let client = client(options).showing(shown);
    let fetched = discovery::fetch(&client, url.as_url(), limits(options, discovery::LIMITS));
    Ok(progress::during("fetching the specification", fetched).await?)
}

pub(crate) fn is_url(target: &str) -> bool {
    target.contains("://")
}

fn url(target: &str) -> Result<SourceUrl, Failure> {
    target.parse().map_err(Failure::TargetUrl)
}

/// An HTTP client for addresses that the options allow or the user typed. The egress guard applies to addresses that
/// specifications and upstreams name.
pub(crate) fn client(options: &options::Target) -> HttpClient {
    let typed = [&options.target, &options.base_url].into_iter().flatten();
    let allowed = typed.filter_map(|text| typed_origin(text)).collect();
    HttpClient::new(Egress { allow_private: options.allow_private, allowed })
}

/// The host and port of a URL that the user typed; both are trusted.
pub(crate) fn typed_origin(text: &str) -> Option<Allowed> {
    let url = text.parse::<SourceUrl>().ok()?;
    let (host, port) = (url.as_url().host_str()?, url.as_url().port_or_known_default()?);
    format!("{host}:{port}").parse().ok()
}

/// Whether a URL is probably an MCP endpoint.
pub(crate) fn is_server(url: &SourceUrl) -> bool {
    server::is_likely(url.as_url())
}

pub(crate) fn limits(options: &options::Target, usual: Limits) -> Limits {
    let deadline = options.timeout.map_or(usual.deadline, Duration::from_secs);
    Limits { deadline, ..usual }
}

/// Warns once per run, because `--allow-private` may be left on by mistake.
pub(crate) fn warn(options: &options::Target) {
    if options.allow_private {
        out::note("warning: --allow-private is on: private and loopback addresses are reached too");
    }
}

pub(crate) fn from_file(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    read_file(path, limit).map_err(|error| match error {
        LimitError::Io(source) => Failure::Read { path: path.to_owned(), source },
        other => Failure::Read { path: path.to_owned(), source: io::Error::other(other) },
    })
}

pub(crate) async fn from_stdin(limit: u64) -> Result<Vec<u8>, Failure> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = read.await.expect("reading does not panic").map_err(Failure::Stdin)?;
    match limit < bytes.len() as u64 {
        true => Err(Failure::Stdin(io::Error::other(LimitError::TooLarge { limit }))),
        false => Ok(bytes),
    }
}

fn base_url(text: &str) -> Result<upstream::http::Url, Failure> {
    let url: SourceUrl = text.parse().map_err(Failure::BaseUrl)?;
    Ok(url.as_url().clone())
}

/// The target without the query of a URL, which may hold secrets.
pub(crate) fn shown(target: &str) -> String {
    match (target, target.split_once(['?', '#'])) {
        ("-", _) => "standard input".to_owned(),
        (target, Some((before, _))) if is_url(target) => before.to_owned(),
        (target, _) => target.to_owned(),
    }
}

/// The proposed source id of a target: `pizzeria` for `examples/pizzeria.yaml`.
pub(crate) fn source_id(target: &str) -> SourceId {
    let name = match target.parse::<SourceUrl>() {
        Ok(url) => url.as_url().host_str().unwrap_or_default().to_owned(),
        Err(_) => {
            let stem = Path::new(target).file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        }
    };
    let id = SourceId::from_name(&name);
    id.unwrap_or_else(|_| "target".parse().expect("this is a slug"))
}
