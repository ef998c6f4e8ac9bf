//! The aggregate for an API key: created once, seldom changed, revoked permanently.
//!
//! The catalog knows only the hash of a key. `decide` contains every rule; `evolve` only records events that already
//! happened, so old events always replay.

use jiff::Timestamp;
use model::{Digest, KeyId, KeyProfile};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// The state of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Also part of the key string itself.
    pub id: KeyId,
    /// Settings chosen by an admin.
    pub profile: KeyProfile,
    /// Hash of the key as its holder presents it.
    pub hash: Digest,
    pub revoked: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Version of its stream.
    pub version: Version,
}

/// A command for one API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum KeyCommand {
    /// Accept a new key.
    Create {
        profile: KeyProfile,
        /// Hash of the key. Each attempt generates a new key, so the hash is not part of the request digest.
        #[serde(skip)]
        hash: Digest,
    },
    /// Replace the settings.
    Update(KeyProfile),
    /// Stop accepting the key.
    Revoke,
    /// Delete the key.
    Delete,
}

/// An event of one API key. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyEvent {
    /// The key was created. The key itself was shown once and is not stored.
    #[serde(rename = "KeyCreated")]
    Created {
        /// Initial settings.
        profile: KeyProfile,
        /// Hash that presented keys are compared with.
        hash: Digest,
    },
    /// The name, the claims, the rights or the expiry time was changed.
    #[serde(rename = "KeyUpdated")]
    Updated {
        /// New settings.
        profile: KeyProfile,
    },
    /// The key was revoked: it is no longer accepted.
    #[serde(rename = "KeyRevoked")]
    Revoked {},
    /// The key was deleted.
    #[serde(rename = "KeyDeleted")]
    Deleted {},
}

impl Key {
    /// Applies every rule about one key.
    pub fn decide(
        id: &KeyId,
        known: Option<&Self>,
        command: KeyCommand,
    ) -> Result<Vec<KeyEvent>, Refusal> {
        let Some(key) = known else {
            return match command {
                KeyCommand::Create { profile, hash } => {
                    Ok(vec![KeyEvent::Created { profile, hash }])
                }
                KeyCommand::Update(_) | KeyCommand::Revoke | KeyCommand::Delete => {
                    Err(Refusal::not_found("key", id))
                }
            };
        };
        match command {
            KeyCommand::Create { .. } => Err(Refusal::already_exists("key", id)),
            KeyCommand::Update(_) if key.revoked => {
                Err(Refusal::KeyIsRevoked { id: id.to_string() })
            }
            KeyCommand::Update(profile) => {
                Ok(only_if(profile != key.profile, KeyEvent::Updated { profile }))
            }
            KeyCommand::Revoke => Ok(only_if(!key.revoked, KeyEvent::Revoked {})),
            KeyCommand::Delete => Ok(vec![KeyEvent::Deleted {}]),
        }
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &KeyId,
        event: KeyEvent,
        at: Timestamp,
        version: Version,
    ) {
        if let KeyEvent::Created { profile, hash } = event {
            let (created_at, updated_at) = (at, at);
            let id = id.clone();
            *known =
                Some(Self { id, profile, hash, revoked: false, created_at, updated_at, version });
            return;
        }
        let Some(key) = known else { return };
        (key.version, key.updated_at) = (version, at);
        match event {
            KeyEvent::Created { .. } => {}
            KeyEvent::Updated { profile } => key.profile = profile,
            KeyEvent::Revoked {} => key.revoked = true,
            KeyEvent::Deleted {} => *known = None,
        }
    }

    /// True if the key is accepted at this time.
    pub fn is_good_at(&self, now: Timestamp) -> bool {
        !self.revoked && self.profile.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests;
