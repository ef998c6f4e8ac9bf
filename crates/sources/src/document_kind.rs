//! Discovers the tools of one document and detects whether it is an OpenAPI specification or an http manifest.

use json::document_text;
use model::{SourceId, SourceKind};
use url::Url;

use crate::document_fetch::reject_web_page;
use crate::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};
use crate::{DiscoveryError, http_manifest, openapi};

/// The tools of a document, and the kind of source that it would be. Takes seconds for a large document.
pub fn discover_document(
    source: SourceId,
    address: SpecificationAddress,
    bytes: Vec<u8>,
    options: &SpecOptions,
) -> Result<(SourceKind, DiscoveredInventory), DiscoveryError> {
    reject_web_page(&bytes)?;
    let specification = OpenApiSpecification::from_bytes(address, bytes)?;
    match openapi::discover_openapi(source.clone(), &specification, options) {
        Ok(found) => return Ok((SourceKind::Openapi, found)),
        Err(DiscoveryError::NotOpenapi) => {}
        Err(error) => return Err(error),
    }
    let base = options.base_url.clone().or_else(|| specification.url().map(base_of_tools_url));
    let root = document_text::parse_document(specification.root_text())?.to_value();
    match http_manifest::discover_http_manifest(source, base.as_ref(), &root) {
        Ok(found) => Ok((SourceKind::HttpManifest, found)),
        Err(DiscoveryError::NotAnHttpManifest { .. }) => Err(DiscoveryError::UnknownDocument),
        Err(error) => Err(error),
    }
}

/// Removes `/tools` from the URL: an http manifest is served at `{base}/tools`.
fn base_of_tools_url(url: &Url) -> Url {
    let mut base = url.clone();
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/tools").unwrap_or(path).to_owned();
    base.set_path(&path);
    base
}
