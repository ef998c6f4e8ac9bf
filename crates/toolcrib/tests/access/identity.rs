//! Authentication: valid API keys, and requests without a credential only if anonymous access is enabled.

use catalog::api_key::ApiKeyCommand;
use jiff::SignedDuration;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use toolcrib::{
    AuthMethod, AuthenticationError, Clock as _, Command, SystemClock, Toolcrib, ToolcribOptions,
    new_api_key,
};

use crate::world::{World, from_json};

/// Creates an API key and returns the bearer token of its holder.
async fn create_key(world: &World, id: &str, mut profile: Value) -> String {
    profile["name"] = json!(id);
    let (key, create) = new_api_key(&id.parse().unwrap(), from_json(profile));
    world.execute(Command::Key(id.parse().unwrap(), create)).await;
    key.expose_secret().to_owned()
}

async fn identify_error(crib: &Toolcrib, bearer: Option<&str>) -> String {
    crib.identify(bearer).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_key_brings_its_claims_until_it_is_revoked() {
    let world = World::with_tools(&[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("ci", json!({"team": "build"}), &["all"]).await;
    let bearer = create_key(&world, "ci", json!({"claims": {"team": "build"}})).await;
    let identity = world.crib.identify(Some(&bearer)).await.unwrap();
    assert_eq!((&*identity.agent.subject, identity.actor_name().as_str()), ("key:ci", "key:ci"));
    assert_eq!(identity.auth_method, AuthMethod::Key { id: "ci".parse().unwrap(), admin: false });
    assert_eq!(world.crib.view(&identity.agent).list().len(), 1);
    assert!(!world.crib.is_admin(&identity));
    world.execute(Command::Key("ci".parse().unwrap(), ApiKeyCommand::Revoke)).await;
    let said = "the API key is unknown, revoked or expired";
    assert_eq!(identify_error(&world.crib, Some(&bearer)).await, said);
}

#[tokio::test]
async fn a_key_with_one_changed_character_is_rejected() {
    let world = World::empty().await;
    let bearer = create_key(&world, "ci", json!({"admin": true})).await;
    assert!(world.crib.identify(Some(&bearer)).await.is_ok());
    for place in 0..bearer.len() {
        let mut other = bearer.clone().into_bytes();
        other[place] = if other[place] == b'x' { b'y' } else { b'x' };
        let other = String::from_utf8(other).unwrap();
        assert!(world.crib.identify(Some(&other)).await.is_err(), "{place}");
    }
    for other in ["tcrib_", "tcrib_ci", "tcrib_ci_", "tcrib__x", &format!("{bearer}x"), ""] {
        assert!(world.crib.identify(Some(other)).await.is_err(), "{other}");
    }
}

#[tokio::test]
async fn an_expired_key_is_rejected() {
    let world = World::empty().await;
    let hour = SignedDuration::from_hours(1);
    let [past, future] = [SystemClock.now() - hour, SystemClock.now() + hour];
    let old = create_key(&world, "old", json!({"expires_at": past})).await;
    let new = create_key(&world, "new", json!({"expires_at": future})).await;
    assert!(world.crib.identify(Some(&old)).await.is_err());
    assert!(world.crib.identify(Some(&new)).await.is_ok());
}

#[tokio::test]
async fn the_journal_never_contains_a_key() {
    let world = World::empty().await;
    let bearer = create_key(&world, "ci", json!({})).await;
    let secret = bearer.rsplit_once('_').unwrap().1;
    let events = world.crib.catalog().journal().read_after(Default::default(), 100).await.unwrap();
    assert!(!events.is_empty() && events.iter().all(|event| !event.data.contains(secret)));
}

#[tokio::test]
async fn keys_and_policies_grant_admin_access_but_never_to_anonymous_callers() {
    let world = World::empty().await;
    let is_admin = async |bearer: &str| {
        let identity = world.crib.identify(Some(bearer)).await.unwrap();
        world.crib.is_admin(&identity)
    };
    let admin = create_key(&world, "admin", json!({"admin": true})).await;
    let root = create_key(&world, "root", json!({"claims": {"role": "root"}})).await;
    assert!(is_admin(&admin).await && !is_admin(&root).await);
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "root"}]);
    let rules = from_json(json!({"name": "p", "matchers": matchers, "admin": true}));
    let define = catalog::policy::PolicyCommand::Define(rules);
    world.execute(Command::Policy("p".parse().unwrap(), define)).await;
    assert!(is_admin(&root).await);
}

#[tokio::test]
async fn a_request_without_a_credential_is_rejected_unless_anonymous_access_is_enabled() {
    let world = World::empty().await;
    let said = world.crib.identify(None).await.unwrap_err();
    assert!(matches!(said, AuthenticationError::NoCredential));
    let open =
        world.with_options(ToolcribOptions { anonymous: true, ..ToolcribOptions::default() });
    let nobody = open.identify(None).await.unwrap();
    let claims = serde_json::to_value(&*nobody.agent.claims).unwrap();
    assert_eq!(claims, json!({"anonymous": true}));
    // No policy can make an anonymous caller an admin.
    let matchers = json!([{"claim": "anonymous", "operator": "exists"}]);
    let rules = from_json(json!({"name": "p", "matchers": matchers, "admin": true}));
    let define = catalog::policy::PolicyCommand::Define(rules);
    world.execute(Command::Policy("p".parse().unwrap(), define)).await;
    assert!(!open.is_admin(&nobody));
    // An invalid credential is rejected even if anonymous access is enabled.
    assert!(open.identify(Some("tcrib_x_y")).await.is_err());
    assert!(open.identify(Some("not.a.token")).await.is_err());
}
