//! The aggregate `Policy`: if its matchers match, it grants its groups.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use jiff::Timestamp;
use model::{PolicyId, PolicyRules};
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;
use crate::source::event_if;

/// Upper bound for the matchers of a policy: each is compiled and evaluated for each new agent.
const MATCHER_LIMIT: usize = 100;

/// The state of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub id: PolicyId,
    pub rules: PolicyRules,
    /// Switched on by an admin.
    pub active: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Version of its stream.
    pub version: StreamVersion,
}

/// A command for one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum PolicyCommand {
    Define(PolicyRules),
    /// Replace the rules.
    Update(PolicyRules),
    /// Make its grants effective.
    Activate,
    /// Suspend its grants.
    Deactivate,
    Delete,
}

/// An event of one policy. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PolicyEvent {
    /// The policy was defined.
    #[serde(rename = "PolicyDefined")]
    Defined { rules: PolicyRules },
    /// The rules were replaced.
    #[serde(rename = "PolicyUpdated")]
    Updated { rules: PolicyRules },
    /// The policy was activated.
    #[serde(rename = "PolicyActivated")]
    Activated {},
    /// The policy was deactivated and kept.
    #[serde(rename = "PolicyDeactivated")]
    Deactivated {},
    /// The policy was deleted.
    #[serde(rename = "PolicyDeleted")]
    Deleted {},
}

impl Policy {
    /// Applies every rule about one policy.
    pub fn decide(
        id: &PolicyId,
        known: Option<&Self>,
        command: PolicyCommand,
    ) -> Result<Vec<PolicyEvent>, CommandRefusal> {
        if let PolicyCommand::Define(rules) | PolicyCommand::Update(rules) = &command
            && MATCHER_LIMIT < rules.matchers().len()
        {
            return Err(CommandRefusal::TooMany { what: "matchers", limit: MATCHER_LIMIT });
        }
        let Some(policy) = known else {
            return match command {
                PolicyCommand::Define(rules) => Ok(vec![PolicyEvent::Defined { rules }]),
                _ => Err(CommandRefusal::not_found("policy", id)),
            };
        };
        match command {
            PolicyCommand::Define(_) => Err(CommandRefusal::already_exists("policy", id)),
            PolicyCommand::Update(rules) => {
                Ok(event_if(rules != policy.rules, PolicyEvent::Updated { rules }))
            }
            PolicyCommand::Activate => Ok(event_if(!policy.active, PolicyEvent::Activated {})),
            PolicyCommand::Deactivate => Ok(event_if(policy.active, PolicyEvent::Deactivated {})),
            PolicyCommand::Delete => Ok(vec![PolicyEvent::Deleted {}]),
        }
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &PolicyId,
        event: PolicyEvent,
        at: Timestamp,
        version: StreamVersion,
    ) {
        if let PolicyEvent::Defined { rules } = event {
            let (created_at, updated_at) = (at, at);
            *known =
                Some(Self { id: id.clone(), rules, active: true, created_at, updated_at, version });
            return;
        }
        let Some(policy) = known else { return };
        policy.version = version;
        policy.updated_at = at;
        match event {
            PolicyEvent::Defined { .. } => {}
            PolicyEvent::Updated { rules } => policy.rules = rules,
            PolicyEvent::Activated {} => policy.active = true,
            PolicyEvent::Deactivated {} => policy.active = false,
            PolicyEvent::Deleted {} => *known = None,
        }
    }
}

#[cfg(test)]
mod tests;
