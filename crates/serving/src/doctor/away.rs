//! Checks of remote systems: each issuer and upstream receives one request, all concurrently.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catalog::CataloguedSource;
use catalog::source::Source;
use futures_util::future::join_all;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use model::{Auth, Health, Settings, SourceUrl, SpecificationPlace};
use toolcrib::{Authenticator, IssuerConfig, Secrets, Snapshot, SystemClock, Timing};
use upstream::egress::{Allowed, Egress, EgressError};
use upstream::http::header::{DATE, HeaderMap};
use upstream::http::{HttpClient, HttpError, Limits, Method, Request, Url};
use upstream::mcp::oauth::{Grants, OAuthLimits};
use upstream::stdio::Program;

use super::Finding;
use crate::{config, destinations, progress};

/// Timeout of each request.
const WITHIN: Duration = Duration::from_secs(10);
/// Maximum response size; only the head is used.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of hosts probed for one source. Most sources have one.
const MAX_DESTINATIONS: usize = 16;
/// Maximum clock difference; beyond it, valid tokens are rejected.
const IN_STEP: SignedDuration = SignedDuration::from_secs(60);

/// Checks that the keys of every issuer can be read.
pub(super) async fn issuers(issuers: Vec<IssuerConfig>, secrets: &Secrets) -> Vec<Finding> {
    if issuers.is_empty() {
        return Vec::new();
    }
    let client = client();
    let (clock, timing) = (Arc::new(SystemClock), Timing::default());
    let authenticator = Authenticator::new(issuers, &client, secrets, clock, timing).await;
    let states = match authenticator {
        Ok(authenticator) => progress::during("asking issuers", authenticator.refresh_keys()).await,
        Err(error) => {
            let advice = "a server with this configuration does not start: mend it";
            return vec![Finding::problem("issuers", model::sentence(&error), advice)];
        }
    };
    let found = states.into_iter().map(|state| {
        let finding = match (state.last_error, state.keys) {
            (Some(error), _) => {
                let advice = "its tokens are refused until its keys can be read: is its address right, and open?";
                Finding::problem("issuer", error, advice)
            }
            (None, 0) => {
                let advice = "its tokens are refused: it must publish a key for one of its algorithms";
                Finding::problem("issuer", "none of its keys can be used", advice)
            }
            (None, keys) => Finding::ok("issuer", format!("{keys} of its keys can be used")),
        };
        finding.of(state.issuer)
    });
    found.collect()
}

/// Checks that every enabled source is healthy and reachable.
pub(super) async fn upstreams(
    snapshot: &Snapshot,
    now: Timestamp,
    is_offline: bool,
) -> Vec<Finding> {
    let client = client();
    let sources = snapshot.sources().filter(|entry| entry.source.enabled);
    let asked = sources.map(|entry| upstream(snapshot, entry, &client, now, is_offline));
    let found = progress::during("asking sources", join_all(asked)).await;
    found.into_iter().flatten().collect()
}

async fn upstream(
    snapshot: &Snapshot,
    entry: &CataloguedSource,
    client: &HttpClient,
    now: Timestamp,
    is_offline: bool,
) -> Vec<Finding> {
    let source = &entry.source;
    let mut findings = Vec::new();
    if let Some(error) = &source.last_sync_error {
        let says = format!("the last refresh failed: {}", error.message);
        let advice = format!(
            "its tools stay as they were; it is tried again, or now: toolcrib source refresh {}",
            source.id
        );
        findings.push(match source.health {
            Health::Unhealthy => Finding::problem("source", says, advice),
            Health::Unknown | Health::Healthy | Health::Degraded => {
                Finding::warning("source", says, advice)
            }
        });
    }
    let place = match &source.profile.settings {
        Settings::Mcp { command: Some(command), .. } => Place::Program(&command.program),
        Settings::Openapi(openapi) => match (&openapi.specification, &source.profile.url) {
            (Some(SpecificationPlace::File(path)), _) => Place::File(Path::new(&**path)),
            (Some(SpecificationPlace::Url(url)), _) => Place::Url(url.as_url()),
            (Some(SpecificationPlace::Text(_)), Some(url)) | (None, Some(url)) => {
                Place::Url(url.as_url())
            }
            (Some(SpecificationPlace::Text(_)) | None, None) => Place::Here,
        },
        Settings::Mcp { command: None, .. } | Settings::HttpManifest {} => {
            source.profile.url.as_ref().map_or(Place::Here, |url| Place::Url(url.as_url()))
        }
        Settings::Workflow { .. } | Settings::Builtin {} | Settings::Custom(_) => Place::Here,
    };
    let mut called = destinations::of_source(snapshot, &source.id);
    findings.extend(match place {
        Place::Url(url) => {
            called.retain(|root| root.origin() != url.origin());
            called.insert(url.clone());
            Vec::new()
        }
        Place::Program(program) => vec![found(program)],
        Place::File(path) => vec![readable(path)],
        Place::Here => Vec::new(),
    });
    match client.allowing_texts(&source.profile.allow) {
        Ok(client) => {
            let shut = called.iter().filter_map(|url| Some((url, client.check_url(url).err()?)));
            findings.extend(shut.map(|(url, error)| refused(source, url, &error)));
            if !is_offline {
                called.retain(|url| client.check_url(url).is_ok());
                let asked = called.iter().take(MAX_DESTINATIONS);
                let asked = asked.map(|url| reached(&client, source, url, now));
                findings.extend(join_all(asked).await.into_iter().flatten());
                findings.extend(giver_of_tokens(&client, source).await);
            }
        }
        Err(error) => {
            findings.push(Finding::problem("source", error.to_string(), "mend its `allow`"));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("source", "nothing is known against it"));
    }
    findings.into_iter().map(|finding| finding.of(source.id.to_string())).collect()
}

/// What to probe for a source.
enum Place<'a> {
    Url(&'a Url),
    Program(&'a str),
    File(&'a Path),
    /// Nothing to probe: the source has no upstream.
    Here,
}

/// The finding for a URL that the egress guard rejects.
fn refused(source: &Source, url: &Url, error: &EgressError) -> Finding {
    let place = destinations::written(url);
    let (says, advice) = match error {
        EgressError::Forbidden { .. } => {
            let mut allow: Vec<&str> = source.profile.allow.iter().map(|it| &**it).collect();
            allow.push(&place);
            let (id, allow) = (&source.id, serde_json::json!(allow));
            let says =
                format!("its calls are refused: `{place}` is, or leads to, no public address");
            (says, format!("if that is meant: toolcrib source edit {id} allow='{allow}'"))
        }
        error => (format!("its calls are refused: {error}"), "change the source".to_owned()),
    };
    Finding::problem("source", says, advice)
}

async fn reached(client: &HttpClient, source: &Source, url: &Url, now: Timestamp) -> Vec<Finding> {
    let request =
        Request { method: Method::HEAD, url: url.clone(), headers: HeaderMap::new(), body: None };
    let limits = Limits { deadline: WITHIN, max_bytes: MAX_BYTES };
    let answer = match client.send(request, limits).await {
        Ok(answer) => answer,
        Err(HttpError::Refused(error)) => return vec![refused(source, url, &error)],
        Err(error) => {
            let advice = "its tools cannot be called now: look there, and at the network between";
            return vec![Finding::problem("source", model::sentence(&error), advice)];
        }
    };
    let origin = url.origin().ascii_serialization();
    let mut findings = vec![match answer.status {
        status @ 500.. => {
            let says = format!("{origin} is there, and answers with status {status}");
            Finding::warning("source", says, "calls may fail: look there")
        }
        _ => Finding::ok("source", format!("{origin} is there")),
    }];
    let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp());
    if let Some(there) = date.filter(|there| IN_STEP < there.duration_since(now).abs()) {
        let says = format!("it is {there:.0} there, and {now:.0} here");
        let advice = "one of the clocks is wrong: set it (NTP), or tokens are refused";
        findings.push(Finding::warning("clock", says, advice));
    }
    findings
}

/// Checks the token endpoint of the source's OAuth client, as far as possible without requesting a token.
async fn giver_of_tokens(client: &HttpClient, source: &Source) -> Option<Finding> {
    let giver = match &source.profile.auth {
        Auth::ClientCredentials { client, .. } | Auth::TokenExchange { client, .. } => client,
        Auth::McpEnterprise { identity_provider, .. } => identity_provider,
        Auth::None
        | Auth::ApiKey { .. }
        | Auth::Basic { .. }
        | Auth::Bearer { .. }
        | Auth::McpOauth { .. } => return None,
    };
    let url = giver.token_url.as_ref().map(SourceUrl::as_url);
    let issuer = giver.issuer.as_deref().unwrap_or_default();
    let to = url.cloned().or_else(|| issuer.parse().ok());
    let allowed = source.profile.allow.iter().filter_map(|text| text.parse::<Allowed>().ok());
    let trusts_plain_http = to.is_some_and(|url| allowed.into_iter().any(|it| it.names(&url)));
    let grants =
        Grants { client: client.clone(), limits: OAuthLimits::default(), trusts_plain_http };
    let place = match url {
        Some(url) => grants.place(url),
        None => grants.find(issuer).await,
    };
    let error = place.err()?;
    let advice =
        "its calls have no token until then: mend its `auth`, or look at the authorization server";
    Some(Finding::problem("source", format!("of its tokens: {}", model::sentence(&error)), advice))
}

fn found(program: &str) -> Finding {
    let search_path = config::programs(true).search_path;
    match (Program { search_path, ..Program::new(program) }).find() {
        Ok(_) => Finding::ok("source", format!("`{program}` is there")),
        Err(error) => {
            let advice =
                "install it, or name it by an absolute path; a server may have another PATH";
            Finding::problem("source", format!("`{program}`: {error}"), advice)
        }
    }
}

fn readable(path: &Path) -> Finding {
    match std::fs::File::open(path) {
        Ok(_) => Finding::ok("source", format!("`{}` can be read", path.display())),
        Err(error) => {
            let advice = "its tools stay as they were: put the file back, or change the source";
            Finding::problem("source", format!("`{}`: {error}", path.display()), advice)
        }
    }
}

fn client() -> HttpClient {
    HttpClient::new(Egress { allow_private: false, allowed: Vec::new() })
}
