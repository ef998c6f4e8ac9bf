//! The first admin key: created and printed once if no other admin access exists.

use catalog::{Catalog, Command, CommandError, CommandRefusal, Snapshot};
use jiff::Timestamp;
use model::{KeyId, KeyProfile, PolicyRules};
use secrecy::SecretString;
use serde_json::json;
use toolcrib::{ChangeContext, new_api_key};

use crate::cli_error::CliError;

/// Upper bound of the ids `first-admin`, `first-admin-2` and so on that are tried.
const MAX_KEY_IDS: usize = 1000;

/// Creates an admin key if the operator requests one, or if no admin access exists.
pub(super) async fn create_first_admin_key(
    catalog: &Catalog,
    now: Timestamp,
    has_issuers: bool,
    asked: bool,
) -> Result<Option<SecretString>, CliError> {
    if !asked && has_admin(&catalog.snapshot(), now, has_issuers) {
        return Ok(None);
    }
    for number in 1..=MAX_KEY_IDS {
        // Ids are never reused: revoked and expired keys keep theirs.
        let name =
            if number == 1 { "first-admin".to_owned() } else { format!("first-admin-{number}") };
        let id: KeyId = name.parse().expect("the name is an id");
        let profile = json!({"name": "First admin", "description": "made at the start of the server", "admin": true});
        let profile: KeyProfile = serde_json::from_value(profile).expect("the profile is complete");
        let (secret, command) = new_api_key(&id, profile);
        let context = ChangeContext::by_actor("system:start");
        match catalog.execute(Command::Key(id, command), context, None).await {
            Ok(_) => return Ok(Some(secret)),
            // Another node may have created the key at the same moment.
            Err(CommandError::Refused(CommandRefusal::AlreadyExists { .. })) => {
                if !asked && has_admin(&catalog.snapshot(), now, has_issuers) {
                    return Ok(None);
                }
            }
            Err(error) => return Err(CliError::FirstAdmin(error)),
        }
    }
    Ok(None)
}

/// Whether an admin can authenticate now. A policy grants admin access only to callers with claims: by token or key.
pub(crate) fn has_admin(snapshot: &Snapshot, now: Timestamp, has_issuers: bool) -> bool {
    let mut good = snapshot.keys().filter(|key| key.is_valid_at(now));
    let mut active = snapshot.policies().filter(|policy| policy.active);
    good.any(|key| {
        let mut active = snapshot.policies().filter(|policy| policy.active);
        let matches =
            |rules: &PolicyRules| rules.makes_admins() && rules.matches(&key.profile.claims);
        key.profile.admin || active.any(|policy| matches(&policy.rules))
    }) || (has_issuers && active.any(|policy| policy.rules.makes_admins()))
}
