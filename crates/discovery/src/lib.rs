//! Discovery: source → inventory. Asking changes nothing; what cannot be used is a warning, never a silent loss.

pub mod http_manifest;

/// Why a source gave no inventory at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The document is something else.
    #[error(
        "this is not an http manifest: expected `{{\"tools\": […]}}` or a list of tools, found {found}"
    )]
    NotAnHttpManifest {
        /// What it is.
        found: &'static str,
    },
}
