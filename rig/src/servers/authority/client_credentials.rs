//! Calls to upstreams carry a token of toolcrib's own, for client credentials.

use serde_json::json;

use super::authority_setup::{CLIENT, SECRET, check_fields, unverified_claims};
use super::oidc_provider::{OidcProvider, agent_token};
use crate::servers::foreign_server::InstalledPackages;
use crate::servers::mcp_agent::ERAS;

/// Returns the number of calls.
pub(super) async fn run(installed: &InstalledPackages) -> anyhow::Result<usize> {
    let mut provider = OidcProvider::start(installed, &["only"]).await?;
    let mut world = provider.open_setup().await?;
    let auth = json!({"kind": "client_credentials", "scopes": ["orders"]});
    world.add_source("orders", SECRET, auth.clone()).await?;
    world.add_refused_source("stranger", "another", auth).await?;

    let own = agent_token(&world).await?;
    let wanted = json!({
        "iss": world.issuer, "sub": CLIENT, "client_id": CLIENT, "scope": "orders",
        "aud": "https://orders.example.com",
    });
    for era in ERAS {
        let shown = world.forwarded_token(&own, era, "orders").await?;
        check_fields("the token", &unverified_claims(&shown)?, &wanted)?;
    }
    provider.stop().await?;
    world.stop().await
}
