//! Discovers the tools of one document and detects whether it is an OpenAPI specification or an http manifest.

use model::{Kind, SourceId};
use url::Url;

use crate::fetch::refuse_web_page;
use crate::openapi::{self, Address, Found, Options, Specification};
use crate::{DiscoveryError, http_manifest, text};

/// The tools of a document, and the kind of source that it would be. Takes seconds for a large document.
pub fn discover(
    source: SourceId,
    address: Address,
    bytes: Vec<u8>,
    options: &Options,
) -> Result<(Kind, Found), DiscoveryError> {
    refuse_web_page(&bytes)?;
    let specification = Specification::read(address, bytes)?;
    match openapi::discover(source.clone(), &specification, options) {
        Ok(found) => return Ok((Kind::Openapi, found)),
        Err(DiscoveryError::NotOpenapi) => {}
        Err(error) => return Err(error),
    }
    let base = options.base_url.clone().or_else(|| specification.url().map(without_tools));
    let root = text::parse(specification.text())?.to_value();
    match http_manifest::discover(source, base.as_ref(), &root) {
        Ok(found) => Ok((Kind::HttpManifest, found)),
        Err(DiscoveryError::NotAnHttpManifest { .. }) => Err(DiscoveryError::Unknown),
        Err(error) => Err(error),
    }
}

/// Removes `/tools` from the URL: an http manifest is served at `{base}/tools`.
fn without_tools(url: &Url) -> Url {
    let mut base = url.clone();
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/tools").unwrap_or(path).to_owned();
    base.set_path(&path);
    base
}
