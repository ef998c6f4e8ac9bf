//! The aggregate for an API key: created once, seldom changed, revoked permanently.
//!
//! The catalog knows only the hash of a key. `decide` contains every rule; `evolve` only records events that already
//! happened, so old events always replay.

use jiff::Timestamp;
use model::{Digest, KeyId, KeyProfile};
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;
use crate::source::event_if;

/// The state of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
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
    pub version: StreamVersion,
}

/// A command for one API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ApiKeyCommand {
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
pub enum ApiKeyEvent {
    /// The key was created. The key itself was shown once and is not stored.
    #[serde(rename = "KeyCreated")]
    Created {
        profile: KeyProfile,
        /// Hash that presented keys are compared with.
        hash: Digest,
    },
    /// The name, the claims, the rights or the expiry time was changed.
    #[serde(rename = "KeyUpdated")]
    Updated { profile: KeyProfile },
    /// The key was revoked: it is no longer accepted.
    #[serde(rename = "KeyRevoked")]
    Revoked {},
    /// The key was deleted.
    #[serde(rename = "KeyDeleted")]
    Deleted {},
}

impl ApiKey {
    /// Applies every rule about one key.
    pub fn decide(
        id: &KeyId,
        known: Option<&Self>,
        command: ApiKeyCommand,
    ) -> Result<Vec<ApiKeyEvent>, CommandRefusal> {
        let Some(key) = known else {
            return match command {
                ApiKeyCommand::Create { profile, hash } => {
                    Ok(vec![ApiKeyEvent::Created { profile, hash }])
                }
                ApiKeyCommand::Update(_) | ApiKeyCommand::Revoke | ApiKeyCommand::Delete => {
                    Err(CommandRefusal::not_found("key", id))
                }
            };
        };
        match command {
            ApiKeyCommand::Create { .. } => Err(CommandRefusal::already_exists("key", id)),
            ApiKeyCommand::Update(_) if key.revoked => {
                Err(CommandRefusal::KeyIsRevoked { id: id.to_string() })
            }
            ApiKeyCommand::Update(profile) => {
                Ok(event_if(profile != key.profile, ApiKeyEvent::Updated { profile }))
            }
            ApiKeyCommand::Revoke => Ok(event_if(!key.revoked, ApiKeyEvent::Revoked {})),
            ApiKeyCommand::Delete => Ok(vec![ApiKeyEvent::Deleted {}]),
        }
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &KeyId,
        event: ApiKeyEvent,
        at: Timestamp,
        version: StreamVersion,
    ) {
        if let ApiKeyEvent::Created { profile, hash } = event {
            let (created_at, updated_at) = (at, at);
            let id = id.clone();
            *known =
                Some(Self { id, profile, hash, revoked: false, created_at, updated_at, version });
            return;
        }
        let Some(key) = known else { return };
        (key.version, key.updated_at) = (version, at);
        match event {
            ApiKeyEvent::Created { .. } => {}
            ApiKeyEvent::Updated { profile } => key.profile = profile,
            ApiKeyEvent::Revoked {} => key.revoked = true,
            ApiKeyEvent::Deleted {} => *known = None,
        }
    }

    /// True if the key is accepted at this time.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        !self.revoked && self.profile.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests;
