//! A policy: if its matchers match, it grants its groups.
//!
//! `decide` holds every rule; `evolve` only records what already happened, so old events always replay.

use jiff::Timestamp;
use model::{PolicyId, PolicyRules};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// The most matchers of a policy: each is compiled and judges every new agent.
const MATCHERS: usize = 100;

/// What is known of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// For ever.
    pub id: PolicyId,
    /// What it says.
    pub rules: PolicyRules,
    /// The admin's switch.
    pub active: bool,
    /// When it was defined.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Of its stream.
    pub version: Version,
}

/// A wish concerning a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum PolicyCommand {
    /// Make it.
    Define(PolicyRules),
    /// Change what it says.
    Update(PolicyRules),
    /// Let it grant.
    Activate,
    /// Let it grant nothing.
    Deactivate,
    /// Forget it.
    Delete,
}

/// What happened to a policy. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PolicyEvent {
    /// It was made.
    #[serde(rename = "PolicyDefined")]
    Defined {
        /// The rules.
        rules: PolicyRules,
    },
    /// Its rules were replaced by these.
    #[serde(rename = "PolicyUpdated")]
    Updated {
        /// The rules.
        rules: PolicyRules,
    },
    /// It counts again.
    #[serde(rename = "PolicyActivated")]
    Activated {},
    /// It counts no longer, and is kept.
    #[serde(rename = "PolicyDeactivated")]
    Deactivated {},
    /// It was forgotten.
    #[serde(rename = "PolicyDeleted")]
    Deleted {},
}

impl Policy {
    /// Every rule about one policy.
    pub fn decide(
        id: &PolicyId,
        known: Option<&Self>,
        command: PolicyCommand,
    ) -> Result<Vec<PolicyEvent>, Refusal> {
        if let PolicyCommand::Define(rules) | PolicyCommand::Update(rules) = &command
            && MATCHERS < rules.matchers().len()
        {
            return Err(Refusal::TooMany { what: "matchers", limit: MATCHERS });
        }
        let Some(policy) = known else {
            return match command {
                PolicyCommand::Define(rules) => Ok(vec![PolicyEvent::Defined { rules }]),
                _ => Err(Refusal::not_found("policy", id)),
            };
        };
        match command {
            PolicyCommand::Define(_) => Err(Refusal::already_exists("policy", id)),
            PolicyCommand::Update(rules) => {
                Ok(only_if(rules != policy.rules, PolicyEvent::Updated { rules }))
            }
            PolicyCommand::Activate => Ok(only_if(!policy.active, PolicyEvent::Activated {})),
            PolicyCommand::Deactivate => Ok(only_if(policy.active, PolicyEvent::Deactivated {})),
            PolicyCommand::Delete => Ok(vec![PolicyEvent::Deleted {}]),
        }
    }

    /// Records what happened.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &PolicyId,
        event: PolicyEvent,
        at: Timestamp,
        version: Version,
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
