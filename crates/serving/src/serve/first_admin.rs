//! The first admin: where nobody could administer, a key is made and shown once.

use catalog::{Catalog, Command, CommandError, Refusal, Snapshot};
use jiff::Timestamp;
use model::{KeyId, KeyProfile};
use secrecy::SecretString;
use serde_json::json;
use toolcrib::{Context, new_key};

use crate::failure::Failure;

/// More keys than anybody loses.
const ATTEMPTS: usize = 1000;

/// Makes an admin key if there is no good one, and no policy that makes admins.
pub(super) async fn make(
    catalog: &Catalog,
    now: Timestamp,
) -> Result<Option<SecretString>, Failure> {
    if has_admin(&catalog.snapshot(), now) {
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
            Err(CommandError::Refused(Refusal::AlreadyExists { .. })) => {}
            Err(error) => return Err(Failure::FirstAdmin(error)),
        }
    }
    Ok(None)
}

fn has_admin(snapshot: &Snapshot, now: Timestamp) -> bool {
    snapshot.keys().any(|key| key.profile.admin && key.is_good_at(now))
        || snapshot.policies().any(|policy| policy.active && policy.rules.makes_admins())
}
