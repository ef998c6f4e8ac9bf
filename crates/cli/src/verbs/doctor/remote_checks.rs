//! Checks of remote systems: each issuer and upstream receives one request, all concurrently.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catalog::CataloguedSource;
use catalog::source::Source;
use futures_util::future::join_all;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use model::{SourceHealth, SourceSettings, SourceUrl, SpecificationLocation, UpstreamAuth};
use oauth::{GrantClient, OAuthLimits};
use toolcrib::{Authenticator, IssuerConfig, KeyTiming, SecretStore, Snapshot, SystemClock};
use upstream::egress::{AllowedDestination, EgressError, EgressPolicy};
use upstream::http::header::{DATE, HeaderMap};
use upstream::http::{ExchangeLimits, HttpClient, HttpError, Method, UpstreamRequest, Url};
use upstream::stdio::ProgramSpec;

use super::DoctorFinding;
use crate::{destinations, environment, progress};

/// Timeout of each request.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum response size; only the head is used.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of hosts probed for one source. Most sources have one.
const MAX_DESTINATIONS: usize = 16;
/// Maximum clock difference; beyond it, valid tokens are rejected.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// Checks that the keys of every issuer can be read.
pub(super) async fn check_issuers(
    issuers: Vec<IssuerConfig>,
    secrets: &SecretStore,
) -> Vec<DoctorFinding> {
    if issuers.is_empty() {
        return Vec::new();
    }
    let client = probe_client();
    let (clock, timing) = (Arc::new(SystemClock), KeyTiming::default());
    let authenticator = Authenticator::new(issuers, &client, secrets, clock, timing).await;
    let states = match authenticator {
        Ok(authenticator) => {
            progress::show_while("asking issuers", authenticator.refresh_keys()).await
        }
        Err(error) => {
            let advice = "a server with this configuration does not start: mend it";
            return vec![DoctorFinding::problem(
                "issuers",
                model::format_error_chain(&error),
                advice,
            )];
        }
    };
    let found = states.into_iter().map(|state| {
        let finding = match (state.last_error, state.keys) {
            (Some(error), _) => {
                let advice = "its tokens are refused until its keys can be read: is its address right, and open?";
                DoctorFinding::problem("issuer", error, advice)
            }
            (None, 0) => {
                let advice = "its tokens are refused: it must publish a key for one of its algorithms";
                DoctorFinding::problem("issuer", "none of its keys can be used", advice)
            }
            (None, keys) => DoctorFinding::ok("issuer", format!("{keys} of its keys can be used")),
        };
        finding.with_object(state.issuer)
    });
    found.collect()
}

/// Checks that every enabled source is healthy and reachable.
pub(super) async fn check_upstreams(
    snapshot: &Snapshot,
    now: Timestamp,
    is_offline: bool,
) -> Vec<DoctorFinding> {
    let client = probe_client();
    let sources = snapshot.sources().filter(|entry| entry.source.enabled);
    let asked = sources.map(|entry| check_upstream(snapshot, entry, &client, now, is_offline));
    let found = progress::show_while("asking sources", join_all(asked)).await;
    found.into_iter().flatten().collect()
}

async fn check_upstream(
    snapshot: &Snapshot,
    entry: &CataloguedSource,
    client: &HttpClient,
    now: Timestamp,
    is_offline: bool,
) -> Vec<DoctorFinding> {
    let source = &entry.source;
    let mut findings = Vec::new();
    if let Some(error) = &source.last_sync_error {
        let says = format!("the last refresh failed: {}", error.message);
        let advice = format!(
            "its tools stay as they were; it is tried again, or now: toolcrib source refresh {}",
            source.id
        );
        findings.push(match source.health {
            SourceHealth::Unhealthy => DoctorFinding::problem("source", says, advice),
            SourceHealth::Unknown | SourceHealth::Healthy | SourceHealth::Degraded => {
                DoctorFinding::warning("source", says, advice)
            }
        });
    }
    let place = match &source.profile.settings {
        SourceSettings::Mcp { command: Some(command), .. } => {
            ProbeTarget::Program(&command.program)
        }
        SourceSettings::Openapi(openapi) => match (&openapi.specification, &source.profile.url) {
            (Some(SpecificationLocation::File(path)), _) => ProbeTarget::File(Path::new(&**path)),
            (Some(SpecificationLocation::Url(url)), _) => ProbeTarget::Url(url.as_url()),
            (Some(SpecificationLocation::Text(_)), Some(url)) | (None, Some(url)) => {
                ProbeTarget::Url(url.as_url())
            }
            (Some(SpecificationLocation::Text(_)) | None, None) => ProbeTarget::Nothing,
        },
        SourceSettings::Mcp { command: None, .. } | SourceSettings::HttpManifest {} => source
            .profile
            .url
            .as_ref()
            .map_or(ProbeTarget::Nothing, |url| ProbeTarget::Url(url.as_url())),
        SourceSettings::Workflow { .. }
        | SourceSettings::Builtin {}
        | SourceSettings::Custom(_) => ProbeTarget::Nothing,
    };
    let mut called = destinations::source_destinations(snapshot, &source.id);
    findings.extend(match place {
        ProbeTarget::Url(url) => {
            called.retain(|root| root.origin() != url.origin());
            called.insert(url.clone());
            Vec::new()
        }
        ProbeTarget::Program(program) => vec![check_program(program)],
        ProbeTarget::File(path) => vec![check_file(path)],
        ProbeTarget::Nothing => Vec::new(),
    });
    match client.with_allowed_texts(&source.profile.allow) {
        Ok(client) => {
            let shut = called.iter().filter_map(|url| Some((url, client.check_url(url).err()?)));
            findings.extend(shut.map(|(url, error)| egress_finding(source, url, &error)));
            if !is_offline {
                called.retain(|url| client.check_url(url).is_ok());
                let asked = called.iter().take(MAX_DESTINATIONS);
                let asked = asked.map(|url| probe_url(&client, source, url, now));
                findings.extend(join_all(asked).await.into_iter().flatten());
                findings.extend(check_token_endpoint(&client, source).await);
            }
        }
        Err(error) => {
            findings.push(DoctorFinding::problem("source", error.to_string(), "mend its `allow`"));
        }
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::ok("source", "nothing is known against it"));
    }
    findings.into_iter().map(|finding| finding.with_object(source.id.to_string())).collect()
}

/// What to probe for a source.
enum ProbeTarget<'a> {
    Url(&'a Url),
    Program(&'a str),
    File(&'a Path),
    /// Nothing to probe: the source has no upstream.
    Nothing,
}

/// The finding for a URL that the egress guard rejects.
fn egress_finding(source: &Source, url: &Url, error: &EgressError) -> DoctorFinding {
    let place = destinations::host_and_port(url);
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
    DoctorFinding::problem("source", says, advice)
}

async fn probe_url(
    client: &HttpClient,
    source: &Source,
    url: &Url,
    now: Timestamp,
) -> Vec<DoctorFinding> {
    let request = UpstreamRequest {
        method: Method::HEAD,
        url: url.clone(),
        headers: HeaderMap::new(),
        body: None,
    };
    let limits = ExchangeLimits { deadline: PROBE_TIMEOUT, max_bytes: MAX_BYTES };
    let answer = match client.send(request, limits).await {
        Ok(answer) => answer,
        Err(HttpError::EgressDenied(error)) => return vec![egress_finding(source, url, &error)],
        Err(error) => {
            let advice = "its tools cannot be called now: look there, and at the network between";
            return vec![DoctorFinding::problem(
                "source",
                model::format_error_chain(&error),
                advice,
            )];
        }
    };
    let origin = url.origin().ascii_serialization();
    let mut findings = vec![match answer.status {
        status @ 500.. => {
            let says = format!("{origin} is there, and answers with status {status}");
            DoctorFinding::warning("source", says, "calls may fail: look there")
        }
        _ => DoctorFinding::ok("source", format!("{origin} is there")),
    }];
    let date = answer.headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp());
    if let Some(there) = date.filter(|there| MAX_CLOCK_SKEW < there.duration_since(now).abs()) {
        let says = format!("it is {there:.0} there, and {now:.0} here");
        let advice = "one of the clocks is wrong: set it (NTP), or tokens are refused";
        findings.push(DoctorFinding::warning("clock", says, advice));
    }
    findings
}

/// Checks the token endpoint of the source's OAuth client, as far as possible without requesting a token.
async fn check_token_endpoint(client: &HttpClient, source: &Source) -> Option<DoctorFinding> {
    let giver = match &source.profile.auth {
        UpstreamAuth::ClientCredentials { client, .. }
        | UpstreamAuth::TokenExchange { client, .. } => client,
        UpstreamAuth::McpEnterprise { identity_provider, .. } => identity_provider,
        UpstreamAuth::None
        | UpstreamAuth::ApiKey { .. }
        | UpstreamAuth::Basic { .. }
        | UpstreamAuth::Bearer { .. }
        | UpstreamAuth::McpOauth { .. } => return None,
    };
    let url = giver.token_url.as_ref().map(SourceUrl::as_url);
    let issuer = giver.issuer.as_deref().unwrap_or_default();
    let to = url.cloned().or_else(|| issuer.parse().ok());
    let allowed =
        source.profile.allow.iter().filter_map(|text| text.parse::<AllowedDestination>().ok());
    let trusts_plain_http =
        to.is_some_and(|url| allowed.into_iter().any(|it| it.matches_url(&url)));
    let grants =
        GrantClient { client: client.clone(), limits: OAuthLimits::default(), trusts_plain_http };
    let place = match url {
        Some(url) => grants.token_endpoint(url),
        None => grants.discover_endpoint(issuer).await,
    };
    let error = place.err()?;
    let advice =
        "its calls have no token until then: mend its `auth`, or look at the authorization server";
    Some(DoctorFinding::problem(
        "source",
        format!("of its tokens: {}", model::format_error_chain(&error)),
        advice,
    ))
}

fn check_program(program: &str) -> DoctorFinding {
    let search_path = environment::supervised_program_host(true).search_path;
    match (ProgramSpec { search_path, ..ProgramSpec::new(program) }).resolve_path() {
        Ok(_) => DoctorFinding::ok("source", format!("`{program}` is there")),
        Err(error) => {
            let advice =
                "install it, or name it by an absolute path; a server may have another PATH";
            DoctorFinding::problem("source", format!("`{program}`: {error}"), advice)
        }
    }
}

fn check_file(path: &Path) -> DoctorFinding {
    match std::fs::File::open(path) {
        Ok(_) => DoctorFinding::ok("source", format!("`{}` can be read", path.display())),
        Err(error) => {
            let advice = "its tools stay as they were: put the file back, or change the source";
            DoctorFinding::problem("source", format!("`{}`: {error}", path.display()), advice)
        }
    }
}

fn probe_client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() })
}
