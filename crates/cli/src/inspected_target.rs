//! Targets of `discover` and `call`: an API or an MCP server that is read without a server of ours, from a file, a URL,
//! standard input or a program.

pub(crate) mod mcp_connect;

use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::config_error::read_limited_file;
use json::document_text::MAX_BYTES;
use limits::bounded_read::BoundedReadError;
use mcp_client::McpConnection;
use model::{SourceId, SourceKind, SourceUrl};
use sources::openapi::{DiscoveredInventory, SpecOptions, SpecificationAddress};
use upstream::egress::{AllowedDestination, EgressPolicy};
use upstream::http::{ExchangeLimits, HttpClient, Origin, OriginCredential};

use crate::arguments::target_options as options;
use crate::arguments::target_options::DescribeChoice;
use crate::cli_error::CliError;
use crate::{output, progress};

/// A target that was read.
pub(crate) struct InspectedTarget {
    pub(crate) kind: SourceKind,
    /// The origin that may receive credentials; `None` if the user named the API by an option or in a file.
    pub(crate) origin: Option<Origin>,
    pub(crate) found: DiscoveredInventory,
    /// The connection, if the target is an MCP server.
    pub(crate) connection: Option<McpConnection>,
}

/// Detects the kind of the target, and reads its tools.
pub(crate) async fn inspect_target(
    options: &options::TargetOptions,
) -> Result<InspectedTarget, CliError> {
    if !options.command.is_empty() {
        return mcp_connect::connect_to_program(options).await;
    }
    let target = options.target.as_deref().unwrap_or_default();
    if !crate::shell_text::is_url(target) {
        return read_document_target(options, target).await;
    }
    // An MCP server is recognised by its path; otherwise it is tried last, if the URL has no document.
    if mcp_connect::has_mcp_path(parse_target_url(target)?.as_url()) {
        return mcp_connect::connect_to_url(options, target).await;
    }
    let error = match read_document_target(options, target).await {
        Err(error) if error.may_be_no_document() => error,
        read => return read,
    };
    match mcp_connect::connect_to_url(options, target).await {
        Ok(found) => Ok(found),
        // Report the error of the most likely kind.
        Err(_) => {
            match read_document_target(options, &format!("{}/tools", target.trim_end_matches('/')))
                .await
            {
                Ok(target) => Ok(target),
                Err(_) => Err(error),
            }
        }
    }
}

/// Reads the target's document, and converts it to tools.
async fn read_document_target(
    options: &options::TargetOptions,
    target: &str,
) -> Result<InspectedTarget, CliError> {
    let reading = SpecOptions {
        base_url: options.base_url.as_deref().map(parse_base_url).transpose()?,
        describe: match options.describe {
            DescribeChoice::Summary => model::OperationDescription::Summary,
            DescribeChoice::Description => model::OperationDescription::Description,
            DescribeChoice::Both => model::OperationDescription::Both,
        },
        media_type: options.media_type.clone(),
        ..SpecOptions::default()
    };
    let source = propose_source_id(target);
    let (address, bytes) = fetch_document(options, target).await?;
    let chosen = options.base_url.is_some() || !crate::shell_text::is_url(target);
    let origin = if chosen { None } else { Some(parse_target_url(target)?.as_url().origin()) };
    let discovered = tokio::task::spawn_blocking(move || {
        sources::discover_document(source, address, bytes, &reading)
    });
    let discovered = progress::show_while("reading the specification", discovered).await;
    let discovered = discovered.expect("reading a document does not panic");
    let (kind, found) = discovered.map_err(|source| CliError::NoTools {
        target: crate::shell_text::display_target(target),
        source,
    })?;
    Ok(InspectedTarget { kind, origin, found, connection: None })
}

/// The document and its address.
async fn fetch_document(
    options: &options::TargetOptions,
    target: &str,
) -> Result<(SpecificationAddress, Vec<u8>), CliError> {
    if target == "-" {
        return Ok((SpecificationAddress::Inline, read_stdin(MAX_BYTES as u64).await?));
    }
    if !crate::shell_text::is_url(target) {
        let path = PathBuf::from(target);
        let bytes = read_limited_file(&path, MAX_BYTES as u64)?;
        return Ok((SpecificationAddress::File(path), bytes));
    }
    let url = parse_target_url(target)?;
    let headers = mcp_connect::resolve_headers(&options.headers, options.bearer.as_deref()).await?;
    let shown = OriginCredential { origin: url.as_url().origin(), headers, query: None };
    let client = target_http_client(options).with_credential(shown);
    let fetched = sources::fetch_document(
        &client,
        url.as_url(),
        http_limits(options, sources::DOCUMENT_LIMITS),
    );
    Ok(progress::show_while("fetching the specification", fetched).await?)
}

fn parse_target_url(target: &str) -> Result<SourceUrl, CliError> {
    target.parse().map_err(CliError::TargetUrl)
}

/// An HTTP client for addresses that the options allow or the user typed. The egress guard applies to addresses that
/// specifications and upstreams name.
pub(crate) fn target_http_client(options: &options::TargetOptions) -> HttpClient {
    let typed = [&options.target, &options.base_url].into_iter().flatten();
    let allowed = typed.filter_map(|text| allowed_by_user(text)).collect();
    HttpClient::new(EgressPolicy { allow_private: options.allow_private, allowed })
}

/// The host and port of a URL that the user typed; both are trusted.
pub(crate) fn allowed_by_user(text: &str) -> Option<AllowedDestination> {
    let url = text.parse::<SourceUrl>().ok()?;
    let (host, port) = (url.as_url().host_str()?, url.as_url().port_or_known_default()?);
    format!("{host}:{port}").parse().ok()
}

/// Whether a URL is probably an MCP endpoint.
pub(crate) fn is_likely_mcp_url(url: &SourceUrl) -> bool {
    mcp_connect::has_mcp_path(url.as_url())
}

pub(crate) fn http_limits(
    options: &options::TargetOptions,
    usual: ExchangeLimits,
) -> ExchangeLimits {
    let deadline = options.timeout.map_or(usual.deadline, Duration::from_secs);
    ExchangeLimits { deadline, ..usual }
}

/// Warns once per run, because `--allow-private` may be left on by mistake.
pub(crate) fn warn_allow_private(options: &options::TargetOptions) {
    if options.allow_private {
        output::print_note(
            "warning: --allow-private is on: private and loopback addresses are reached too",
        );
    }
}

pub(crate) async fn read_stdin(limit: u64) -> Result<Vec<u8>, CliError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = read.await.expect("reading does not panic").map_err(CliError::Stdin)?;
    match limit < bytes.len() as u64 {
        true => Err(CliError::Stdin(io::Error::other(BoundedReadError::TooLarge { limit }))),
        false => Ok(bytes),
    }
}

fn parse_base_url(text: &str) -> Result<upstream::http::Url, CliError> {
    let url: SourceUrl = text.parse().map_err(CliError::BaseUrl)?;
    Ok(url.as_url().clone())
}

/// The proposed source id of a target: `pizzeria` for `examples/pizzeria.yaml`.
pub(crate) fn propose_source_id(target: &str) -> SourceId {
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
