//! Discovery: source → inventory. Asking changes nothing; what cannot be used is a warning, never a silent loss.

pub mod custom;
mod document;
mod fetch;
pub mod http_manifest;
pub mod mcp;
pub mod openapi;
mod polling;
mod source;
pub mod text;

use model::{InventoryError, Kind};
use upstream::egress::InvalidAllowed;
use upstream::http::HttpError;
use upstream::limits::LimitError;
use upstream::mcp::McpError;

pub use self::document::discover as discover_document;
pub use self::fetch::{LIMITS, fetch};
pub use self::openapi::Found;
pub use self::polling::problem as polling_problem;
pub use self::source::discover;
pub use self::text::TextError;

/// Why a source gave no inventory at all.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The document is something else.
    #[error(
        "this is not an http manifest: expected `{{\"tools\": […]}}` or a list of tools, found {found}"
    )]
    NotAnHttpManifest {
        /// What it is.
        found: &'static str,
    },
    /// Neither JSON nor YAML.
    #[error(transparent)]
    Text(#[from] TextError),
    /// JSON or YAML of something else.
    #[error(
        "this is not an OpenAPI specification: it has neither `openapi`, `swagger` nor `paths`"
    )]
    NotOpenapi,
    /// Neither of the documents we know.
    #[error(
        "this is neither an OpenAPI specification (no `openapi`, `swagger` or `paths`) nor an http manifest (no `tools`)"
    )]
    Unknown,
    /// Most likely the documentation, or a page to log in.
    #[error("this is a web page, not a specification: give the address of the document itself")]
    WebPage,
    /// A version that is not known.
    #[error("version {version} is not known: OpenAPI 3.0, 3.1, 3.2 and Swagger 2.0 are read")]
    UnknownVersion {
        /// As it stands in the specification.
        version: String,
    },
    /// A file that cannot be read.
    #[error("`{what}` cannot be read")]
    Unreadable {
        /// Its path.
        what: String,
        /// Why.
        source: LimitError,
    },
    /// More than is taken in.
    #[error(
        "the specification has more than {megabytes} MiB or refers to more than {documents} documents"
    )]
    TooLarge {
        /// The limit on the size.
        megabytes: u64,
        /// The limit on their number.
        documents: usize,
    },
    /// The tools do not make an inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// No answer.
    #[error("`{what}` cannot be fetched")]
    Fetch {
        /// Its address, without a query.
        what: String,
        /// Why.
        source: HttpError,
    },
    /// An answer without the whole document.
    #[error(
        "`{what}` cannot be fetched: the answer has status {status}, and only 200 has the whole document"
    )]
    Status {
        /// Its address, without a query.
        what: String,
        /// The status.
        status: u16,
    },
    /// A document the specification refers to.
    #[error("`{what}`, which the specification refers to, cannot be used")]
    Reference {
        /// Its address, without a query.
        what: String,
        /// Why.
        source: Box<Self>,
    },
    /// Nowhere to look.
    #[error("the source has no `url`: give one, or a `specification` in its settings")]
    NoUrl,
    /// What the source allows cannot be read.
    #[error(transparent)]
    Allow(#[from] InvalidAllowed),
    /// An MCP server that does not say what it offers.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// A kind that is asked over a connection, which whoever asks has to open.
    #[error("sources of kind `{kind}` are asked over a connection")]
    NeedsConnection {
        /// The kind.
        kind: Kind,
    },
    /// A kind whose tools are said, not found.
    #[error("sources of kind `{kind}` have nothing to fetch: their tools are declared")]
    NothingToFetch {
        /// The kind.
        kind: Kind,
    },
}

impl DiscoveryError {
    /// One stable word (requirement S11).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. }
            | Self::Fetch { .. }
            | Self::Status { .. }
            | Self::NoUrl
            | Self::Allow(_) => "spec_fetch_failed",
            Self::Reference { source, .. } => source.code(),
            Self::NotAnHttpManifest { .. }
            | Self::Text(_)
            | Self::NotOpenapi
            | Self::Unknown
            | Self::WebPage
            | Self::UnknownVersion { .. }
            | Self::TooLarge { .. }
            | Self::Inventory(_) => "spec_parse_failed",
            Self::Mcp(_) => "mcp_list_failed",
            Self::NeedsConnection { .. } | Self::NothingToFetch { .. } => "kind_not_discovered",
        }
    }
}
