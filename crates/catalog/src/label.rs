//! A label: our admin's word on a tool.
//!
//! `decide` holds every rule; `evolve` only records what already happened, so old events always replay.

use jiff::Timestamp;
use model::{LabelId, LabelProfile};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// What is known of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// For ever.
    pub id: LabelId,
    /// What an admin says of it.
    pub profile: LabelProfile,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Of its stream.
    pub version: Version,
}

/// A wish concerning a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum LabelCommand {
    /// Make it.
    Create(LabelProfile),
    /// Change what is said of it.
    Update(LabelProfile),
    /// Forget it and take it off all tools.
    Delete,
}

/// What happened to a label. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelEvent {
    /// It was made.
    #[serde(rename = "LabelCreated")]
    Created {
        /// What it is now.
        profile: LabelProfile,
    },
    /// Its name, colour or the like was changed.
    #[serde(rename = "LabelUpdated")]
    Updated {
        /// What it is now.
        profile: LabelProfile,
    },
    /// It was forgotten, and every tool lost it.
    #[serde(rename = "LabelDeleted")]
    Deleted {},
}

impl Label {
    /// Every rule about one label.
    pub fn decide(
        id: &LabelId,
        known: Option<&Self>,
        command: LabelCommand,
    ) -> Result<Vec<LabelEvent>, Refusal> {
        match (known, command) {
            (None, LabelCommand::Create(profile)) => Ok(vec![LabelEvent::Created { profile }]),
            (None, LabelCommand::Update(_) | LabelCommand::Delete) => {
                Err(Refusal::not_found("label", id))
            }
            (Some(_), LabelCommand::Create(_)) => Err(Refusal::already_exists("label", id)),
            (Some(label), LabelCommand::Update(profile)) => {
                Ok(only_if(profile != label.profile, LabelEvent::Updated { profile }))
            }
            (Some(_), LabelCommand::Delete) => Ok(vec![LabelEvent::Deleted {}]),
        }
    }

    /// Records what happened.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &LabelId,
        event: LabelEvent,
        at: Timestamp,
        version: Version,
    ) {
        match (event, known.as_mut()) {
            (LabelEvent::Created { profile }, _) => {
                *known =
                    Some(Self { id: id.clone(), profile, created_at: at, updated_at: at, version });
            }
            (LabelEvent::Updated { profile }, Some(label)) => {
                (label.profile, label.updated_at, label.version) = (profile, at, version);
            }
            (LabelEvent::Deleted {}, _) => *known = None,
            (LabelEvent::Updated { .. }, None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
