//! Tests of the commands and states of an API key.

use serde_json::json;

use super::*;
use crate::sample_events::{from_json, parsed, time};

fn id() -> KeyId {
    parsed("ci")
}

fn profile(name: &str) -> KeyProfile {
    from_json(json!({"name": name, "claims": {"team": "build"}}))
}

fn create() -> ApiKeyCommand {
    ApiKeyCommand::Create { profile: profile("CI"), hash: Digest::of_bytes(b"one") }
}

fn given(events: &[ApiKeyEvent]) -> Option<ApiKey> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        ApiKey::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn created() -> ApiKeyEvent {
    ApiKeyEvent::Created { profile: profile("CI"), hash: Digest::of_bytes(b"one") }
}

#[test]
fn a_key_is_created_once() {
    assert_eq!(ApiKey::decide(&id(), None, create()), Ok(vec![created()]));
    let key = given(&[created()]);
    let refusal = CommandRefusal::AlreadyExists { what: "key", id: "ci".into() };
    assert_eq!(ApiKey::decide(&id(), key.as_ref(), create()), Err(refusal));
}

#[test]
fn an_unknown_key_refuses_every_command_except_creation() {
    let refusal = CommandRefusal::NotFound { what: "key", id: "ci".into() };
    for command in
        [ApiKeyCommand::Update(profile("x")), ApiKeyCommand::Revoke, ApiKeyCommand::Delete]
    {
        assert_eq!(ApiKey::decide(&id(), None, command), Err(refusal.clone()));
    }
}

#[test]
fn a_revoked_key_stays_revoked_and_cannot_be_changed() {
    let key = given(&[created(), ApiKeyEvent::Revoked {}]);
    assert!(!key.as_ref().unwrap().is_valid_at(time(9)));
    assert_eq!(ApiKey::decide(&id(), key.as_ref(), ApiKeyCommand::Revoke), Ok(vec![]));
    let refusal = CommandRefusal::KeyIsRevoked { id: "ci".into() };
    assert_eq!(
        ApiKey::decide(&id(), key.as_ref(), ApiKeyCommand::Update(profile("x"))),
        Err(refusal)
    );
    assert!(given(&[created(), ApiKeyEvent::Revoked {}, ApiKeyEvent::Deleted {}]).is_none());
}

#[test]
fn a_key_expires_at_its_time_and_not_before() {
    let mut ending = profile("CI");
    ending.expires_at = Some(time(5));
    let key = given(&[created(), ApiKeyEvent::Updated { profile: ending }]).unwrap();
    assert!(key.is_valid_at(time(4)));
    assert!(!key.is_valid_at(time(5)));
}

#[test]
fn the_hash_is_not_part_of_the_request_digest() {
    let other = ApiKeyCommand::Create { profile: profile("CI"), hash: Digest::of_bytes(b"two") };
    assert_eq!(serde_json::to_value(create()).unwrap(), serde_json::to_value(other).unwrap());
}
