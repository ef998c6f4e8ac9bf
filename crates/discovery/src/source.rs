//! Discovers a source over HTTP: one `match` on the kind of the source.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use model::{OpenapiSettings, Settings, SourceId, SourceProfile, SpecificationPlace};
use upstream::http::{HttpClient, Limits, Url};

use crate::fetch::{LIMITS, fetch, refuse_web_page, shown};
use crate::openapi::{self, Address, Found, Options, Specification};
use crate::{DiscoveryError, http_manifest, text};

/// Asks a source for its inventory. Changes nothing.
pub async fn discover(
    source: &SourceId,
    profile: &SourceProfile,
    client: &HttpClient,
) -> Result<Found, DiscoveryError> {
    let client = &client.allowing_texts(&profile.allow)?;
    match &profile.settings {
        Settings::Openapi(settings) => openapi(source, profile, settings, client).await,
        Settings::HttpManifest {} => http_manifest(source, profile, client).await,
        Settings::Mcp { .. } => {
            Err(DiscoveryError::NeedsConnection { kind: profile.settings.kind() })
        }
        Settings::Workflow { .. } | Settings::Builtin {} | Settings::Custom(_) => {
            Err(DiscoveryError::NothingToFetch { kind: profile.settings.kind() })
        }
    }
}

async fn openapi(
    source: &SourceId,
    profile: &SourceProfile,
    settings: &OpenapiSettings,
    client: &HttpClient,
) -> Result<Found, DiscoveryError> {
    let mut specification = match (&settings.specification, &profile.url) {
        (Some(SpecificationPlace::Text(text)), _) => {
            read(Address::Inline, text.as_bytes().to_vec()).await?
        }
        (Some(SpecificationPlace::File(path)), _) => {
            let path = path.clone();
            aside(move || Specification::open(Path::new(&*path))).await?
        }
        (Some(SpecificationPlace::Url(url)), _) | (None, Some(url)) => {
            let (address, bytes) = fetch(client, url.as_url(), LIMITS).await?;
            read(address, bytes).await?
        }
        (None, None) => return Err(DiscoveryError::NoUrl),
    };
    if settings.follow_references {
        add_references(&mut specification, client).await?;
    }
    let base = profile.url.as_ref().filter(|_| settings.specification.is_some());
    let options = Options {
        base_url: base.map(|url| url.as_url().clone()),
        describe: settings.describe,
        media_type: settings.media_type.as_deref().map(str::to_owned),
        polling: settings.polling.clone(),
    };
    let source = source.clone();
    aside(move || openapi::discover(source, &specification, &options)).await
}

async fn read(address: Address, bytes: Vec<u8>) -> Result<Specification, DiscoveryError> {
    aside(move || {
        refuse_web_page(&bytes)?;
        Specification::read(address, bytes)
    })
    .await
}

/// Fetches all documents that the specification refers to, with one deadline for all of them. A missing document (404,
/// 410) costs only the operations that need it. Any other failure may be temporary and fails the discovery, so that no
/// tool disappears because of it.
async fn add_references(
    specification: &mut Specification,
    client: &HttpClient,
) -> Result<(), DiscoveryError> {
    let start = Instant::now();
    let mut tried: HashSet<Url> = HashSet::new();
    loop {
        let missing = specification.missing().into_iter().filter(|url| !tried.contains(url));
        let missing: Vec<Url> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        for url in missing {
            let deadline = LIMITS.deadline.saturating_sub(start.elapsed());
            match fetch(client, &url, Limits { deadline, ..LIMITS }).await {
                Ok((_, bytes)) => {
                    let added =
                        refuse_web_page(&bytes).and_then(|()| specification.add(&url, bytes));
                    added.map_err(|error| DiscoveryError::Reference {
                        what: shown(&url),
                        source: Box::new(error),
                    })?;
                }
                Err(DiscoveryError::Status { status: 404 | 410, .. }) => {}
                Err(error) => return Err(error),
            }
            tried.insert(url);
        }
    }
}

async fn http_manifest(
    source: &SourceId,
    profile: &SourceProfile,
    client: &HttpClient,
) -> Result<Found, DiscoveryError> {
    let base = profile.url.as_ref().ok_or(DiscoveryError::NoUrl)?.as_url().clone();
    let mut url = base.clone();
    url.set_path(&format!("{}/tools", base.path().trim_end_matches('/')));
    let (_, bytes) = fetch(client, &url, LIMITS).await?;
    let source = source.clone();
    aside(move || {
        refuse_web_page(&bytes)?;
        http_manifest::discover(source, Some(&base), &text::read(&bytes)?)
    })
    .await
}

/// Runs work that may take seconds on the blocking pool.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DiscoveryError> + Send + 'static,
) -> Result<T, DiscoveryError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
