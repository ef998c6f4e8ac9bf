//! The aggregate `Label`: a tag that our admin sets on tools.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use jiff::Timestamp;
use model::{LabelId, LabelProfile};
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;
use crate::source::event_if;

/// The state of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    pub id: LabelId,
    /// Settings chosen by an admin.
    pub profile: LabelProfile,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Version of its stream.
    pub version: StreamVersion,
}

/// A command for one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum LabelCommand {
    Create(LabelProfile),
    /// Replace the settings.
    Update(LabelProfile),
    /// Delete the label and remove it from all tools.
    Delete,
}

/// An event of one label. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelEvent {
    /// The label was created.
    #[serde(rename = "LabelCreated")]
    Created { profile: LabelProfile },
    /// The name, the colour or another setting was changed.
    #[serde(rename = "LabelUpdated")]
    Updated { profile: LabelProfile },
    /// The label was deleted and removed from all tools.
    #[serde(rename = "LabelDeleted")]
    Deleted {},
}

impl Label {
    /// Applies every rule about one label.
    pub fn decide(
        id: &LabelId,
        known: Option<&Self>,
        command: LabelCommand,
    ) -> Result<Vec<LabelEvent>, CommandRefusal> {
        match (known, command) {
            (None, LabelCommand::Create(profile)) => Ok(vec![LabelEvent::Created { profile }]),
            (None, LabelCommand::Update(_) | LabelCommand::Delete) => {
                Err(CommandRefusal::not_found("label", id))
            }
            (Some(_), LabelCommand::Create(_)) => Err(CommandRefusal::already_exists("label", id)),
            (Some(label), LabelCommand::Update(profile)) => {
                Ok(event_if(profile != label.profile, LabelEvent::Updated { profile }))
            }
            (Some(_), LabelCommand::Delete) => Ok(vec![LabelEvent::Deleted {}]),
        }
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &LabelId,
        event: LabelEvent,
        at: Timestamp,
        version: StreamVersion,
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
