//! An authorization server rotates its keys while toolcrib runs: tokens of a new key are accepted, those of a removed
//! or unknown key are refused.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::authority_setup::AuthoritySetup;
use super::oidc_provider::{AGENT, OidcProvider, agent_token};
use crate::servers::foreign_server::InstalledPackages;

/// An admin may request a refresh of the keys once per second.
const KEY_REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the number of calls, which is zero.
pub(super) async fn run(installed: &InstalledPackages) -> anyhow::Result<usize> {
    let mut provider = OidcProvider::start(installed, &["first"]).await?;
    let world = provider.open_setup().await?;
    let first = agent_token(&world).await?;
    wait_for_subject(&world, &first, Some(AGENT)).await?;

    provider.restart(&["second", "first"]).await?;
    let second = agent_token(&world).await?;
    wait_for_subject(&world, &second, Some(AGENT)).await?;
    wait_for_subject(&world, &first, Some(AGENT)).await?;

    // The token names the same issuer, but the key is not in its key set when toolcrib fetches it.
    provider.restart(&["unknown"]).await?;
    let unknown = agent_token(&world).await?;
    provider.restart(&["second"]).await?;
    wait_for_subject(&world, &first, None).await?;
    wait_for_subject(&world, &unknown, None).await?;
    wait_for_subject(&world, &second, Some(AGENT)).await?;
    provider.stop().await?;
    world.stop().await
}

/// Refreshes the keys as an admin, until the token is accepted for this subject, or refused. toolcrib also refreshes
/// them by itself for an unknown key, but not within 30 seconds of the last refresh.
async fn wait_for_subject(
    world: &AuthoritySetup,
    token: &str,
    wanted: Option<&str>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + KEY_REFRESH_TIMEOUT;
    loop {
        let subject = world.recognized_subject(token).await?;
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
