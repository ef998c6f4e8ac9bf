//! Two users sign in, and calls of their agents to upstreams carry tokens that toolcrib got in exchange for theirs.

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use url::Url;

use super::world::{CLIENT, SECRET, World, check, claims, token};
use super::{place, program};
use crate::servers::agent::ERAS;
use crate::servers::server::Installed;
use crate::started::Started;

/// Redirect URI for the users. No server listens there: the test reads the URL.
const BACK: &str = "https://toolcrib.example.com/back";
/// The audience of the exchanged tokens. It may introspect them.
const API: &str = "orders";

/// Returns the number of calls.
pub(super) async fn run(installed: &Installed) -> anyhow::Result<usize> {
    let mut python = Command::new(installed.python.join("bin/python"));
    python.arg(program("authority-idpyoidc.py"));
    let (mut authority, issuer) = Started::start(&python, place).await?;
    // The headers of its tokens do not mark them as access tokens.
    let settings = json!({"audience": CLIENT, "token_type": "any"});
    let mut world = World::open(&issuer, settings).await?;
    let auth = |audience: &str| json!({"kind": "token_exchange", "audience": audience, "scopes": ["orders"]});
    world.add("orders", SECRET, auth(API)).await?;
    world.add("elsewhere", SECRET, auth("elsewhere")).await?;
    world.add("stranger", "another", auth(API)).await?;

    let ada = sign_in(&world, "ada").await?;
    let bob = sign_in(&world, "bob").await?;
    let both = [subject(&ada)?, subject(&bob)?];
    ensure!(both[0] != both[1], "both users are {}", both[0]);
    // Alternate between the users, so that a wrongly cached token would reach the upstream.
    for era in ERAS {
        for own in [&ada, &bob] {
            let shown = world.shown(own, era, "orders").await?;
            is_for(&world, &shown, &subject(own)?).await?;
        }
    }
    world.refused(&ada, "elsewhere", "invalid_target").await?;
    world.refused(&ada, "stranger", "invalid_client").await?;
    authority.end(Signal::TERM).await?;
    world.end().await
}

/// Checks with the authorization server that it issued this token, for which subject and audience.
async fn is_for(world: &World, shown: &str, subject: &Value) -> anyhow::Result<()> {
    let said = world.ask("introspection", API, &[("token", shown)]).await?;
    let wanted = json!({
        "active": true, "iss": world.issuer, "sub": subject, "aud": [API], "scope": "orders",
        "client_id": CLIENT,
    });
    check("what is said of the token", &said, &wanted)?;
    let wanted = json!({"iss": world.issuer, "sub": subject, "aud": [API], "scope": "orders"});
    check("the token", &claims(shown)?, &wanted)
}

/// Signs in with name and password, for a code and then a token (RFC 6749, section 4.1).
async fn sign_in(world: &World, user: &str) -> anyhow::Result<String> {
    let query = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", BACK),
        ("scope", "openid orders"),
        ("state", user),
        ("nonce", user),
    ];
    let asked = Url::parse_with_params(&format!("{}/authorization", world.issuer), query)?;
    let back = world.sent_back(&asked, user).await?;
    let code = back.query_pairs().find(|(name, _)| name == "code");
    let (_, code) = code.with_context(|| format!("there is no code in `{back}`"))?;
    let form = [("grant_type", "authorization_code"), ("redirect_uri", BACK), ("code", &code)];
    token(&world.ask("token", CLIENT, &form).await?)
}

fn subject(token: &str) -> anyhow::Result<Value> {
    Ok(claims(token)?["sub"].take())
}
