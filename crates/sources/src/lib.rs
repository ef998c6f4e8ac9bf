//! Discovery reads the tools of a source and returns its inventory. It changes nothing; every entry that cannot be used
//! becomes a warning.

pub mod custom;
pub mod custom_settings;
mod document_fetch;
mod document_kind;
pub mod http_manifest;
pub mod mcp;
pub mod openapi;
mod polling_settings;
mod source_discovery;
pub mod workflow_documents;

use limits::bounded_read::BoundedReadError;
use mcp_client::McpError;
use model::{InventoryError, SourceKind};
use upstream::egress::InvalidDestination;
use upstream::http::HttpError;

pub use self::document_fetch::{DOCUMENT_LIMITS, fetch_document};
pub use self::document_kind::discover_document;
pub use self::openapi::DiscoveredInventory;
pub use self::polling_settings::polling_problem;
pub use self::source_discovery::discover_source;
pub use json::document_text::DocumentError;

/// Why discovery of a source returned no inventory.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The document is not an http manifest.
    #[error(
        "this is not an http manifest: expected `{{\"tools\": […]}}` or a list of tools, found {found}"
    )]
    NotAnHttpManifest {
        /// The shape that the document has.
        found: &'static str,
    },
    /// The document is neither valid JSON nor valid YAML.
    #[error(transparent)]
    InvalidText(#[from] DocumentError),
    /// The document is valid JSON or YAML, but not an OpenAPI specification.
    #[error(
        "this is not an OpenAPI specification: it has neither `openapi`, `swagger` nor `paths`"
    )]
    NotOpenapi,
    /// The document is neither an OpenAPI specification nor an http manifest.
    #[error(
        "this is neither an OpenAPI specification (no `openapi`, `swagger` or `paths`) nor an http manifest (no `tools`)"
    )]
    UnknownDocument,
    /// The URL serves an HTML page, most likely documentation or a login form.
    #[error("this is a web page, not a specification: give the address of the document itself")]
    WebPage,
    /// The specification has an unsupported version.
    #[error("version {version} is not known: OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0 are read")]
    UnknownVersion {
        /// The version as the specification states it.
        version: String,
    },
    /// The file cannot be read.
    #[error("`{what}` cannot be read")]
    Unreadable {
        /// Path of the file.
        what: String,
        source: BoundedReadError,
    },
    /// The specification exceeds the limit on its size or on its number of documents.
    #[error(
        "the specification has more than {megabytes} MiB or refers to more than {documents} documents"
    )]
    TooLarge {
        /// The size limit, in MiB.
        megabytes: u64,
        /// The limit on the number of documents.
        documents: usize,
    },
    /// The manifests do not form a valid inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The request for the document failed.
    #[error("`{what}` cannot be fetched")]
    FetchFailed {
        /// The URL without its query.
        what: String,
        source: HttpError,
    },
    /// The response has a status other than 200, so it does not hold the whole document.
    #[error(
        "`{what}` cannot be fetched: the answer has status {status}, and only 200 has the whole document"
    )]
    UnexpectedStatus {
        /// The URL without its query.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// The specification refers to a document that cannot be used.
    #[error("`{what}`, which the specification refers to, cannot be used")]
    UnusableReference {
        /// The URL without its query.
        what: String,
        source: Box<Self>,
    },
    /// The source has neither a `url` nor a `specification`.
    #[error("the source has no `url`: give one, or a `specification` in its settings")]
    NoUrl,
    /// The source's list of allowed addresses cannot be parsed.
    #[error(transparent)]
    InvalidAllowList(#[from] InvalidDestination),
    /// Listing the tools of the MCP server failed.
    #[error(transparent)]
    McpListFailed(#[from] McpError),
    /// Sources of this kind are discovered over a connection that the caller opens.
    #[error("sources of kind `{kind}` are asked over a connection")]
    NeedsConnection {
        /// The kind of the source.
        kind: SourceKind,
    },
    /// Tools of this kind are declared in the settings, so there is nothing to fetch.
    #[error("sources of kind `{kind}` have nothing to fetch: their tools are declared")]
    NothingToFetch {
        /// The kind of the source.
        kind: SourceKind,
    },
}

impl DiscoveryError {
    /// The stable error code (requirement S11).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. }
            | Self::FetchFailed { .. }
            | Self::UnexpectedStatus { .. }
            | Self::NoUrl
            | Self::InvalidAllowList(_) => "spec_fetch_failed",
            Self::UnusableReference { source, .. } => source.code(),
            Self::NotAnHttpManifest { .. }
            | Self::InvalidText(_)
            | Self::NotOpenapi
            | Self::UnknownDocument
            | Self::WebPage
            | Self::UnknownVersion { .. }
            | Self::TooLarge { .. }
            | Self::Inventory(_) => "spec_parse_failed",
            Self::McpListFailed(_) => "mcp_list_failed",
            Self::NeedsConnection { .. } | Self::NothingToFetch { .. } => "kind_not_discovered",
        }
    }
}
