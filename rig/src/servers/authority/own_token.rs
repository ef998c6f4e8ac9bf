//! Calls to upstreams carry a token of toolcrib's own, for client credentials.

use serde_json::json;

use super::oidc_provider::{OidcProvider, agents_token};
use super::world::{CLIENT, SECRET, check, claims};
use crate::servers::agent::ERAS;
use crate::servers::server::Installed;

/// Returns the number of calls.
pub(super) async fn run(installed: &Installed) -> anyhow::Result<usize> {
    let mut provider = OidcProvider::start(installed, &["only"]).await?;
    let mut world = provider.world().await?;
    let auth = json!({"kind": "client_credentials", "scopes": ["orders"]});
    world.add("orders", SECRET, auth.clone()).await?;
    world.add_refused("stranger", "another", auth).await?;

    let own = agents_token(&world).await?;
    let wanted = json!({
        "iss": world.issuer, "sub": CLIENT, "client_id": CLIENT, "scope": "orders",
        "aud": "https://orders.example.com",
    });
    for era in ERAS {
        let shown = world.shown(&own, era, "orders").await?;
        check("the token", &claims(&shown)?, &wanted)?;
    }
    provider.end().await?;
    world.end().await
}
