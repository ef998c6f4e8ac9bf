//! Discovers a source over HTTP: one `match` on the kind of the source.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use json::document_text;
use model::{OpenapiSettings, SourceId, SourceProfile, SourceSettings, SpecificationLocation};
use upstream::http::{ExchangeLimits, HttpClient, Url};

use crate::document_fetch::{DOCUMENT_LIMITS, fetch_document, reject_web_page, url_without_query};
use crate::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};
use crate::{DiscoveryError, http_manifest, openapi};

/// Asks a source for its inventory. Changes nothing.
pub async fn discover_source(
    source: &SourceId,
    profile: &SourceProfile,
    client: &HttpClient,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let client = &client.with_allowed_texts(&profile.allow)?;
    match &profile.settings {
        SourceSettings::Openapi(settings) => {
            discover_openapi_source(source, profile, settings, client).await
        }
        SourceSettings::HttpManifest {} => {
            discover_http_manifest_source(source, profile, client).await
        }
        SourceSettings::Mcp { .. } => {
            Err(DiscoveryError::NeedsConnection { kind: profile.settings.kind() })
        }
        SourceSettings::Workflow { .. }
        | SourceSettings::Builtin {}
        | SourceSettings::Custom(_) => {
            Err(DiscoveryError::NothingToFetch { kind: profile.settings.kind() })
        }
    }
}

async fn discover_openapi_source(
    source: &SourceId,
    profile: &SourceProfile,
    settings: &OpenapiSettings,
    client: &HttpClient,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let mut specification = match (&settings.specification, &profile.url) {
        (Some(SpecificationLocation::Text(text)), _) => {
            read_specification(SpecificationAddress::Inline, text.as_bytes().to_vec()).await?
        }
        (Some(SpecificationLocation::File(path)), _) => {
            let path = path.clone();
            run_blocking(move || OpenApiSpecification::open_file(Path::new(&*path))).await?
        }
        (Some(SpecificationLocation::Url(url)), _) | (None, Some(url)) => {
            let (address, bytes) = fetch_document(client, url.as_url(), DOCUMENT_LIMITS).await?;
            read_specification(address, bytes).await?
        }
        (None, None) => return Err(DiscoveryError::NoUrl),
    };
    if settings.follow_references {
        fetch_references(&mut specification, client).await?;
    }
    let base = profile.url.as_ref().filter(|_| settings.specification.is_some());
    let options = SpecOptions {
        base_url: base.map(|url| url.as_url().clone()),
        describe: settings.describe,
        media_type: settings.media_type.as_deref().map(str::to_owned),
        polling: settings.polling.clone(),
    };
    let source = source.clone();
    run_blocking(move || openapi::discover_openapi(source, &specification, &options)).await
}

async fn read_specification(
    address: SpecificationAddress,
    bytes: Vec<u8>,
) -> Result<OpenApiSpecification, DiscoveryError> {
    run_blocking(move || {
        reject_web_page(&bytes)?;
        OpenApiSpecification::from_bytes(address, bytes)
    })
    .await
}

/// Fetches all documents that the specification refers to, with one deadline for all of them. A missing document (404,
/// 410) costs only the operations that need it. Any other failure may be temporary and fails the discovery, so that no
/// tool disappears because of it.
async fn fetch_references(
    specification: &mut OpenApiSpecification,
    client: &HttpClient,
) -> Result<(), DiscoveryError> {
    let start = Instant::now();
    let mut tried: HashSet<Url> = HashSet::new();
    loop {
        let missing =
            specification.missing_documents().into_iter().filter(|url| !tried.contains(url));
        let missing: Vec<Url> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        for url in missing {
            let deadline = DOCUMENT_LIMITS.deadline.saturating_sub(start.elapsed());
            match fetch_document(client, &url, ExchangeLimits { deadline, ..DOCUMENT_LIMITS }).await
            {
                Ok((_, bytes)) => {
                    let added = reject_web_page(&bytes)
                        .and_then(|()| specification.add_document(&url, bytes));
                    added.map_err(|error| DiscoveryError::UnusableReference {
                        what: url_without_query(&url),
                        source: Box::new(error),
                    })?;
                }
                Err(DiscoveryError::UnexpectedStatus { status: 404 | 410, .. }) => {}
                Err(error) => return Err(error),
            }
            tried.insert(url);
        }
    }
}

async fn discover_http_manifest_source(
    source: &SourceId,
    profile: &SourceProfile,
    client: &HttpClient,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let base = profile.url.as_ref().ok_or(DiscoveryError::NoUrl)?.as_url().clone();
    let mut url = base.clone();
    url.set_path(&format!("{}/tools", base.path().trim_end_matches('/')));
    let (_, bytes) = fetch_document(client, &url, DOCUMENT_LIMITS).await?;
    let source = source.clone();
    run_blocking(move || {
        reject_web_page(&bytes)?;
        http_manifest::discover_http_manifest(
            source,
            Some(&base),
            &document_text::read_document(&bytes)?,
        )
    })
    .await
}

/// Runs work that may take seconds on the blocking pool.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiscoveryError> + Send + 'static,
) -> Result<T, DiscoveryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
