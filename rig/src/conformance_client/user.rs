//! A user who consents to everything, and our OAuth client registration.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use toolcrib::upstream::http::header::LOCATION;
use toolcrib::upstream::http::{HttpClient, Limits, Request, Url};
use toolcrib::upstream::mcp::oauth::{
    Consent, Flow, InMemory, OAuth, OAuthLimits, Registered, SigningKey,
};

/// URL of the client metadata document that the suite expects.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// No server listens there: the code is read from the redirect itself.
const REDIRECT: &str = "http://localhost:9/callback";

/// OAuth settings, with the client that the suite has registered, if any.
pub(super) fn oauth(client: &HttpClient, context: &Value) -> anyhow::Result<OAuth> {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let registered = text("client_id").map(|id| Registered {
        issuer: text("issuer"),
        id,
        secret: text("client_secret"),
        key: text("private_key_pem").and_then(|pem| SigningKey::from_pem(&pem)),
    });
    let acts_for_itself =
        context["name"].as_str().is_some_and(|it| it.contains("/client-credentials"));
    let flow = match acts_for_itself {
        true => Flow::ClientCredentials,
        false => Flow::Code { redirect: REDIRECT.parse()?, consent: consent(client.clone()) },
    };
    Ok(OAuth {
        principal: "somebody".to_owned(),
        name: "toolcrib".to_owned(),
        flow,
        registered,
        metadata_url: Some(METADATA_URL.parse()?),
        store: Arc::new(InMemory::default()),
        now: seconds,
        trusts_plain_http: false,
        limits: OAuthLimits::default(),
    })
}

/// Follows the URL as a browser would, up to the redirect back to us.
fn consent(client: HttpClient) -> Consent {
    Arc::new(move |url| {
        let client = client.clone();
        Box::pin(async move {
            let answer = client.send(Request::get(url.clone()), Limits::default()).await.ok()?;
            let back: Url = url.join(answer.headers.get(LOCATION)?.to_str().ok()?).ok()?;
            back.query().map(str::to_owned)
        })
    })
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}
