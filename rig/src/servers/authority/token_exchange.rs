//! Two users sign in, and calls of their agents to upstreams carry tokens that toolcrib got in exchange for theirs.

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;
use url::Url;

use super::authority_setup::{
    AuthoritySetup, CLIENT, SECRET, access_token, check_fields, unverified_claims,
};
use super::{parse_listening_url, program_path};
use crate::child_program::ChildProgram;
use crate::servers::foreign_server::InstalledPackages;
use crate::servers::mcp_agent::ERAS;

/// Redirect URI for the users. No server listens there: the test reads the URL.
const REDIRECT_URI: &str = "https://toolcrib.example.com/back";
/// The audience of the exchanged tokens. It may introspect them.
const API_AUDIENCE: &str = "orders";

/// Returns the number of calls.
pub(super) async fn run(installed: &InstalledPackages) -> anyhow::Result<usize> {
    let mut python = Command::new(installed.python.join("bin/python"));
    python.arg(program_path("authority-idpyoidc.py"));
    let (mut authority, issuer) = ChildProgram::start(&python, parse_listening_url).await?;
    // The headers of its tokens do not mark them as access tokens.
    let settings = json!({"audience": CLIENT, "token_type": "any"});
    let mut world = AuthoritySetup::open(&issuer, settings).await?;
    let auth = |audience: &str| json!({"kind": "token_exchange", "audience": audience, "scopes": ["orders"]});
    world.add_source("orders", SECRET, auth(API_AUDIENCE)).await?;
    world.add_source("elsewhere", SECRET, auth("elsewhere")).await?;
    world.add_source("stranger", "another", auth(API_AUDIENCE)).await?;

    let ada = sign_in(&world, "ada").await?;
    let bob = sign_in(&world, "bob").await?;
    let both = [subject_of(&ada)?, subject_of(&bob)?];
    ensure!(both[0] != both[1], "both users are {}", both[0]);
    // Alternate between the users, so that a wrongly cached token would reach the upstream.
    for era in ERAS {
        for own in [&ada, &bob] {
            let shown = world.forwarded_token(own, era, "orders").await?;
            check_issued_for(&world, &shown, &subject_of(own)?).await?;
        }
    }
    world.expect_refusal(&ada, "elsewhere", "invalid_target").await?;
    world.expect_refusal(&ada, "stranger", "invalid_client").await?;
    authority.stop(Signal::TERM).await?;
    world.stop().await
}

/// Checks with the authorization server that it issued this token, for which subject and audience.
async fn check_issued_for(
    world: &AuthoritySetup,
    shown: &str,
    subject: &Value,
) -> anyhow::Result<()> {
    let said = world.post_form("introspection", API_AUDIENCE, &[("token", shown)]).await?;
    let wanted = json!({
        "active": true, "iss": world.issuer, "sub": subject, "aud": [API_AUDIENCE], "scope": "orders",
        "client_id": CLIENT,
    });
    check_fields("what is said of the token", &said, &wanted)?;
    let wanted =
        json!({"iss": world.issuer, "sub": subject, "aud": [API_AUDIENCE], "scope": "orders"});
    check_fields("the token", &unverified_claims(shown)?, &wanted)
}

/// Signs in with name and password, for a code and then a token (RFC 6749, section 4.1).
async fn sign_in(world: &AuthoritySetup, user: &str) -> anyhow::Result<String> {
    let query = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", REDIRECT_URI),
        ("scope", "openid orders"),
        ("state", user),
        ("nonce", user),
    ];
    let asked = Url::parse_with_params(&format!("{}/authorization", world.issuer), query)?;
    let back = world.sign_in_redirect(&asked, user).await?;
    let code = back.query_pairs().find(|(name, _)| name == "code");
    let (_, code) = code.with_context(|| format!("there is no code in `{back}`"))?;
    let form =
        [("grant_type", "authorization_code"), ("redirect_uri", REDIRECT_URI), ("code", &code)];
    access_token(&world.post_form("token", CLIENT, &form).await?)
}

fn subject_of(token: &str) -> anyhow::Result<Value> {
    Ok(unverified_claims(token)?["sub"].take())
}
