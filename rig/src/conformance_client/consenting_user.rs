//! A user who consents to everything, and our OAuth client registration.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oauth::{
    ClientSigningKey, ConsentCallback, InMemoryOAuthStore, OAuthFlow, OAuthLimits, OAuthSettings,
    RegisteredClient,
};
use serde_json::Value;
use upstream::http::header::LOCATION;
use upstream::http::{ExchangeLimits, HttpClient, UpstreamRequest, Url};

/// URL of the client metadata document that the suite expects.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// No server listens there: the code is read from the redirect itself.
const REDIRECT_URI: &str = "http://localhost:9/callback";

/// OAuth settings, with the client that the suite has registered, if any.
pub(super) fn oauth_settings(
    client: &HttpClient,
    context: &Value,
) -> anyhow::Result<OAuthSettings> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let registered = text("client_id").map(|id| RegisteredClient {
        issuer: text("issuer"),
        id,
        secret: text("client_secret"),
        key: text("private_key_pem").and_then(|pem| ClientSigningKey::from_pem(&pem)),
    });
    let acts_for_itself =
        context["name"].as_str().is_some_and(|it| it.contains("/client-credentials"));
    let flow = match acts_for_itself {
        true => OAuthFlow::ClientCredentials,
        false => OAuthFlow::AuthorizationCode {
            redirect: REDIRECT_URI.parse()?,
            consent: consent_callback(client.clone()),
        },
    };
    Ok(OAuthSettings {
        principal: "somebody".to_owned(),
        client_name: "toolcrib".to_owned(),
        flow,
        registered_client: registered,
        client_metadata_url: Some(METADATA_URL.parse()?),
        store: Arc::new(InMemoryOAuthStore::default()),
        now: unix_seconds,
        trusts_plain_http: false,
        limits: OAuthLimits::default(),
    })
}

/// Follows the URL as a browser would, up to the redirect back to us.
fn consent_callback(client: HttpClient) -> ConsentCallback {
    Arc::new(move |url| {
        let client = client.clone();
        Box::pin(async move {
            let answer = client
                .send(UpstreamRequest::get(url.clone()), ExchangeLimits::default())
                .await
                .ok()?;
            let back: Url = url.join(answer.headers.get(LOCATION)?.to_str().ok()?).ok()?;
            back.query().map(str::to_owned)
        })
    })
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}
