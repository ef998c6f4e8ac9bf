//! The agent's token reaches only the authorization server that exchanges it; no output or log contains a secret.

use std::io;
use std::sync::{Arc, Mutex};

use model::header_names::may_be_forwarded;
use serde_json::json;
use toolcrib::RequestCredentials;
use upstream::http::header::HeaderMap;

use crate::world::{World, agent, token_of};

const SECRET: &str = "canary-client-secret-77a0";
const TOKEN: &str = "canary-fixed-token-31c4";

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_upstream_sees_the_agent_token_and_no_output_contains_a_secret() {
    let heard = LogBuffer::default();
    let log = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || log.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    let world = World::new().await;
    world.authority.with_state(|known| known.secret = SECRET.to_owned());
    for (name, value) in [("SECRET", SECRET), ("TOKEN", TOKEN)] {
        world.environment.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }
    let key = |location: &str| json!({"kind": "api_key", "location": location, "name": "k", "value": "env:TOKEN"});
    let modes = [
        json!({"kind": "none"}),
        key("header"),
        key("query"),
        key("cookie"),
        json!({"kind": "basic", "username": "me", "password": "env:TOKEN"}),
        json!({"kind": "bearer", "token": "env:TOKEN"}),
        world.client_credentials_auth(),
        world.exchange_auth(&json!({})),
    ];
    // An endpoint passes all headers of the agent's request, including its credentials.
    let own = token_of("ada");
    let mut headers = HeaderMap::new();
    for name in ["authorization", "cookie", "proxy-authorization", "x-forwarded-authorization"] {
        headers.insert(name, format!("Bearer {own}").parse().unwrap());
    }
    let all: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
    assert!(!all.iter().any(|name| may_be_forwarded(name)));
    let came = RequestCredentials::with_token(&own).with_headers(Arc::new(headers.clone()));
    let mut said = vec![format!("{came:?}")];
    for settings in [None, Some(json!({"kind": "http_manifest"}))] {
        let world_of_kind = match settings {
            None => None,
            Some(_) => Some(World::new().await),
        };
        let world = world_of_kind.as_ref().unwrap_or(&world);
        world.authority.with_state(|known| known.secret = SECRET.to_owned());
        for (name, value) in [("SECRET", SECRET), ("TOKEN", TOKEN)] {
            world.environment.lock().unwrap().insert(name.to_owned(), value.to_owned());
        }
        for auth in &modes {
            let mut profile = json!({"auth": auth, "forward_headers": all});
            if let Some(settings) = &settings {
                profile["settings"] = settings.clone();
            }
            said.push(format!("{:?}", world.register(&profile).await));
            for came in [
                &came,
                &RequestCredentials::default(),
                &RequestCredentials::with_token("canary-odd"),
            ] {
                let view = world.crib.view(&agent("ada")).with_request_credentials(came);
                if let Ok(outcome) = view.call("look", serde_json::Map::new()).await {
                    said.push(format!("{outcome:?}"));
                }
            }
            world.authority.with_state(|known| known.refuses = Some((503, json!({})).into()));
            world.advance_clock(1_000);
            said.push(format!("{:?}", world.call("ada", "look").await));
            world.authority.with_state(|known| known.refuses = None);
            world.advance_clock(2);
        }
        assert!(8 < world.upstream.received_requests().len());
        for asked in world.upstream.received_requests() {
            assert!(!asked.text().contains(&own), "{asked:?}");
            assert!(!asked.text().contains(SECRET), "{asked:?}");
        }
        toolcrib::export_journal(&**world.crib.catalog().journal(), |line| {
            said.push(format!("{line:?}"));
            Ok(())
        })
        .await
        .unwrap();
    }
    said.push(String::from_utf8_lossy(&heard.0.lock().unwrap()).into_owned());
    for text in said {
        for secret in [&*own, SECRET, TOKEN, "canary-odd", "for.api.of"] {
            assert!(!text.contains(secret), "`{secret}` stands in {text}");
        }
    }
}
