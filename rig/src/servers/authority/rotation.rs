//! An authorization server changes its keys, and toolcrib goes on: a new key is taken, an old one goes, and what is signed
//! with an unknown one is refused.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::oidc_provider::{AGENT, OidcProvider, agents_token};
use super::world::World;
use crate::servers::server::Installed;

/// An admin may have keys fetched once a second.
const FETCH: Duration = Duration::from_secs(10);

/// No tool is called.
pub(super) async fn run(installed: &Installed) -> anyhow::Result<usize> {
    let mut provider = OidcProvider::start(installed, &["first"]).await?;
    let world = provider.world().await?;
    let first = agents_token(&world).await?;
    wait_for(&world, &first, Some(AGENT)).await?;

    provider.again(&["second", "first"]).await?;
    let second = agents_token(&world).await?;
    wait_for(&world, &second, Some(AGENT)).await?;
    wait_for(&world, &first, Some(AGENT)).await?;

    // The token says the same issuer, which does not have this key when its keys are fetched.
    provider.again(&["unknown"]).await?;
    let unknown = agents_token(&world).await?;
    provider.again(&["second"]).await?;
    wait_for(&world, &first, None).await?;
    wait_for(&world, &unknown, None).await?;
    wait_for(&world, &second, Some(AGENT)).await?;
    provider.end().await?;
    world.end().await
}

/// An admin has keys fetched until a token is taken for somebody's, or refused. For a key that it does not know, toolcrib
/// does so by itself, but not within 30 seconds of the last time.
async fn wait_for(world: &World, token: &str, wanted: Option<&str>) -> anyhow::Result<()> {
    let deadline = Instant::now() + FETCH;
    loop {
        let subject = world.subject(token).await?;
        if subject.as_deref() == wanted {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the token is of {subject:?}, and must be of {wanted:?}"
        );
        let issuers = world.served.admin.post("issuers/refresh-keys", json!({})).await?;
        let error = &issuers["data"][0]["last_error"];
        ensure!(error.is_null(), "the keys were not fetched: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
