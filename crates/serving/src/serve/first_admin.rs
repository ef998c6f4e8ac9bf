//! The first admin: where nobody could administer, a key is made and shown once.

use catalog::{Catalog, Command, CommandError, Refusal, Snapshot};
use jiff::Timestamp;
use model::{KeyId, KeyProfile, PolicyRules};
use secrecy::SecretString;
use serde_json::json;
use toolcrib::{Context, new_key};

use crate::failure::Failure;

/// More keys than anybody loses.
const ATTEMPTS: usize = 1000;

/// Makes an admin key if it is asked for, or if nobody could administer.
pub(super) async fn make(
    catalog: &Catalog,
    now: Timestamp,
    has_issuers: bool,
    asked: bool,
) -> Result<Option<SecretString>, Failure> {
    if !asked && has_admin(&catalog.snapshot(), now, has_issuers) {
        return Ok(None);
    }
    for number in 1..=ATTEMPTS {
        // An id is for ever: keys that were revoked or have ended keep theirs.
        let name =
            if number == 1 { "first-admin".to_owned() } else { format!("first-admin-{number}") };
        let id: KeyId = name.parse().expect("the name is an id");
        let profile = json!({"name": "First admin", "description": "made at the start of the server", "admin": true});
        let profile: KeyProfile = serde_json::from_value(profile).expect("the profile is complete");
        let (secret, command) = new_key(&id, profile);
        let context = Context::by("system:start");
        match catalog.execute(Command::Key(id, command), context, None).await {
            Ok(_) => return Ok(Some(secret)),
            // Another node may have been faster.
            Err(CommandError::Refused(Refusal::AlreadyExists { .. })) => {
                if !asked && has_admin(&catalog.snapshot(), now, has_issuers) {
                    return Ok(None);
                }
            }
            Err(error) => return Err(Failure::FirstAdmin(error)),
        }
    }
    Ok(None)
}

/// A policy makes an admin only of somebody who comes with claims: a token, or a key.
pub(crate) fn has_admin(snapshot: &Snapshot, now: Timestamp, has_issuers: bool) -> bool {
    let mut good = snapshot.keys().filter(|key| key.is_good_at(now));
    let mut active = snapshot.policies().filter(|policy| policy.active);
    good.any(|key| {
        let mut active = snapshot.policies().filter(|policy| policy.active);
        let matches =
            |rules: &PolicyRules| rules.makes_admins() && rules.matches(&key.profile.claims);
        key.profile.admin || active.any(|policy| matches(&policy.rules))
    }) || (has_issuers && active.any(|policy| policy.rules.makes_admins()))
}
