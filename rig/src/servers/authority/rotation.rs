//! An authorization server rotates its keys while toolcrib runs: tokens of a new key are accepted, those of a removed
//! or unknown key are refused.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::oidc_provider::{AGENT, OidcProvider, agents_token};
use super::world::World;
use crate::servers::server::Installed;

/// An admin may request a refresh of the keys once per second.
const FETCH: Duration = Duration::from_secs(10);

/// Returns the number of calls, which is zero.
pub(super) async fn run(installed: &Installed) -> anyhow::Result<usize> {
    let mut provider = OidcProvider::start(installed, &["first"]).await?;
    let world = provider.world().await?;
    let first = agents_token(&world).await?;
    wait_for(&world, &first, Some(AGENT)).await?;

    provider.again(&["second", "first"]).await?;
    let second = agents_token(&world).await?;
    wait_for(&world, &second, Some(AGENT)).await?;
    wait_for(&world, &first, Some(AGENT)).await?;

    // The token names the same issuer, but the key is not in its key set when toolcrib fetches it.
    provider.again(&["unknown"]).await?;
    let unknown = agents_token(&world).await?;
    provider.again(&["second"]).await?;
    wait_for(&world, &first, None).await?;
    wait_for(&world, &unknown, None).await?;
    wait_for(&world, &second, Some(AGENT)).await?;
    provider.end().await?;
    world.end().await
}

/// Refreshes the keys as an admin, until the token is accepted for this subject, or refused. toolcrib also refreshes
/// them by itself for an unknown key, but not within 30 seconds of the last refresh.
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
