//! An API key: made once, changed seldom, revoked for good.
//!
//! Only the hash of a key is known. `decide` holds every rule; `evolve` only records what already happened, so old
//! events always replay.

use jiff::Timestamp;
use model::{Digest, KeyId, KeyProfile};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// For ever; part of the key.
    pub id: KeyId,
    /// What an admin says of it.
    pub profile: KeyProfile,
    /// Of the key as its holder presents it.
    pub hash: Digest,
    /// Whether it was taken back.
    pub revoked: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Of its stream.
    pub version: Version,
}

/// A wish concerning a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum KeyCommand {
    /// Accept it.
    Create {
        /// What is said of it.
        profile: KeyProfile,
        /// Of the key. Another one each time, so it does not make another request.
        #[serde(skip)]
        hash: Digest,
    },
    /// Change what is said of it.
    Update(KeyProfile),
    /// Accept it no longer.
    Revoke,
    /// Forget it.
    Delete,
}

/// What happened to a key. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyEvent {
    /// It was made; the key itself was shown once and is kept nowhere.
    #[serde(rename = "KeyCreated")]
    Created {
        /// What it is now.
        profile: KeyProfile,
        /// The hash that a shown key is compared with.
        hash: Digest,
    },
    /// Its name, claims, rights or time of expiry was changed.
    #[serde(rename = "KeyUpdated")]
    Updated {
        /// What it is now.
        profile: KeyProfile,
    },
    /// It opens nothing any more.
    #[serde(rename = "KeyRevoked")]
    Revoked {},
    /// It was forgotten.
    #[serde(rename = "KeyDeleted")]
    Deleted {},
}

impl Key {
    /// Every rule about one key.
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

    /// Records what happened.
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

    /// Whether it opens anything at this time.
    pub fn is_good_at(&self, now: Timestamp) -> bool {
        !self.revoked && self.profile.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests;
