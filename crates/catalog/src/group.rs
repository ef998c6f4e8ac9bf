//! A group: curated tools, selected + explicit − excluded.
//!
//! `decide` holds every rule; `evolve` only records what already happened, so old events always replay.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{Exclusion, Facts, GroupId, GroupProfile, NewGroup, Selector, SelectorMode, ToolId};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// The most selectors of a group: each is compiled and judges every tool.
const SELECTORS: usize = 100;

/// What is known of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// For ever.
    pub id: GroupId,
    /// What an admin says of it.
    pub profile: GroupProfile,
    /// Conditions on tools; none selects nothing.
    pub selectors: Vec<Selector>,
    /// Tools that belong to it whatever the selectors say.
    pub tools: BTreeSet<ToolId>,
    /// Tools that do not belong to it whatever else is said, and why.
    pub excluded: BTreeMap<ToolId, Box<str>>,
    /// The admin's switch.
    pub active: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Of its stream.
    pub version: Version,
}

/// A wish concerning a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum GroupCommand {
    /// Make it.
    Create(Box<NewGroup>),
    /// Change what is said of it.
    Update(GroupProfile),
    /// Be exactly like this; the switch stays as it is.
    Replace(Box<NewGroup>),
    /// Have exactly these selectors.
    ReplaceSelectors(Vec<Selector>),
    /// Add explicit tools.
    AddTools(BTreeSet<ToolId>),
    /// Remove explicit tools.
    RemoveTools(BTreeSet<ToolId>),
    /// Have exactly these explicit tools.
    ReplaceTools(BTreeSet<ToolId>),
    /// Keep tools out.
    ExcludeTools(Vec<Exclusion>),
    /// No longer keep tools out.
    IncludeTools(BTreeSet<ToolId>),
    /// Let policies grant it.
    Activate,
    /// Let no policy grant it.
    Deactivate,
    /// Forget it.
    Delete,
}

/// What happened to a group. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupEvent {
    /// It was made.
    #[serde(rename = "GroupCreated")]
    Created {
        /// What it is now.
        profile: GroupProfile,
        /// The selectors.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        selectors: Vec<Selector>,
        /// The tools.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        tools: BTreeSet<ToolId>,
        /// What is kept out, each with its reason.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        excluded: Vec<Exclusion>,
    },
    /// Its name, description or the way its selectors count was changed.
    #[serde(rename = "GroupUpdated")]
    Updated {
        /// What it is now.
        profile: GroupProfile,
    },
    /// Its selectors were replaced by these.
    #[serde(rename = "GroupSelectorsReplaced")]
    SelectorsReplaced {
        /// The selectors.
        selectors: Vec<Selector>,
    },
    /// Tools were named explicitly.
    #[serde(rename = "GroupToolsAdded")]
    ToolsAdded {
        /// The tools.
        tools: BTreeSet<ToolId>,
    },
    /// Tools are no longer named explicitly.
    #[serde(rename = "GroupToolsRemoved")]
    ToolsRemoved {
        /// The tools.
        tools: BTreeSet<ToolId>,
    },
    /// Tools were kept out, whatever its selectors say.
    #[serde(rename = "GroupToolsExcluded")]
    ToolsExcluded {
        /// What is kept out, each with its reason.
        excluded: Vec<Exclusion>,
    },
    /// Tools are no longer kept out.
    #[serde(rename = "GroupToolsIncluded")]
    ToolsIncluded {
        /// The tools.
        tools: BTreeSet<ToolId>,
    },
    /// It counts again.
    #[serde(rename = "GroupActivated")]
    Activated {},
    /// It counts no longer, and is kept.
    #[serde(rename = "GroupDeactivated")]
    Deactivated {},
    /// It was forgotten.
    #[serde(rename = "GroupDeleted")]
    Deleted {},
}

impl Group {
    /// Every rule about one group.
    pub fn decide(
        id: &GroupId,
        known: Option<&Self>,
        command: GroupCommand,
    ) -> Result<Vec<GroupEvent>, Refusal> {
        match (&command, known) {
            (GroupCommand::ReplaceSelectors(selectors), group) => {
                check(selectors)?;
                group.map_or(Ok(()), |group| check_mode(group.profile.selector_mode, selectors))?;
            }
            (GroupCommand::Create(new) | GroupCommand::Replace(new), _) => {
                check(&new.selectors)?;
                check_mode(new.profile.selector_mode, &new.selectors)?;
            }
            (GroupCommand::Update(new), Some(group))
                if new.selector_mode != group.profile.selector_mode =>
            {
                check_mode(new.selector_mode, &group.selectors)?;
            }
            _ => {}
        }
        let Some(group) = known else {
            return match command {
                GroupCommand::Create(new) => {
                    let NewGroup { profile, selectors, tools, excluded, .. } = *new;
                    Ok(vec![GroupEvent::Created { profile, selectors, tools, excluded }])
                }
                _ => Err(Refusal::not_found("group", id)),
            };
        };
        let events = match command {
            GroupCommand::Create(_) => return Err(Refusal::already_exists("group", id)),
            GroupCommand::Update(profile) => group.update(profile),
            GroupCommand::ReplaceSelectors(selectors) => group.replace_selectors(selectors),
            GroupCommand::Replace(new) => group.replace(*new),
            GroupCommand::AddTools(tools) => group.add(&tools),
            GroupCommand::RemoveTools(tools) => group.remove(&tools),
            GroupCommand::ReplaceTools(tools) => group.replace_tools(&tools),
            GroupCommand::ExcludeTools(excluded) => group.exclude(excluded),
            GroupCommand::IncludeTools(tools) => group.include(tools),
            GroupCommand::Activate => only_if(!group.active, GroupEvent::Activated {}),
            GroupCommand::Deactivate => only_if(group.active, GroupEvent::Deactivated {}),
            GroupCommand::Delete => vec![GroupEvent::Deleted {}],
        };
        Ok(events)
    }

    fn update(&self, profile: GroupProfile) -> Vec<GroupEvent> {
        only_if(profile != self.profile, GroupEvent::Updated { profile })
    }

    fn replace(&self, new: NewGroup) -> Vec<GroupEvent> {
        let kept: BTreeSet<_> = new.excluded.iter().map(|entry| entry.tool.clone()).collect();
        let included = self.excluded.keys().filter(|tool| !kept.contains(*tool)).cloned().collect();
        [
            self.update(new.profile),
            self.replace_selectors(new.selectors),
            self.replace_tools(&new.tools),
            self.include(included),
            self.exclude(new.excluded),
        ]
        .concat()
    }

    fn replace_selectors(&self, selectors: Vec<Selector>) -> Vec<GroupEvent> {
        only_if(selectors != self.selectors, GroupEvent::SelectorsReplaced { selectors })
    }

    fn replace_tools(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let gone = self.tools.difference(tools).cloned().collect();
        [self.remove(&gone), self.add(tools)].concat()
    }

    fn exclude(&self, excluded: Vec<Exclusion>) -> Vec<GroupEvent> {
        // The last reason counts, as it does in `evolve`.
        let wanted: BTreeMap<_, _> =
            excluded.into_iter().map(|entry| (entry.tool, entry.reason)).collect();
        let is_new = |(tool, reason): &(ToolId, Box<str>)| self.excluded.get(tool) != Some(reason);
        let excluded: Vec<_> = wanted
            .into_iter()
            .filter(is_new)
            .map(|(tool, reason)| Exclusion { tool, reason })
            .collect();
        only_if(!excluded.is_empty(), GroupEvent::ToolsExcluded { excluded })
    }

    fn include(&self, tools: BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> =
            tools.into_iter().filter(|tool| self.excluded.contains_key(tool)).collect();
        only_if(!tools.is_empty(), GroupEvent::ToolsIncluded { tools })
    }

    fn add(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> = tools.difference(&self.tools).cloned().collect();
        only_if(!tools.is_empty(), GroupEvent::ToolsAdded { tools })
    }

    fn remove(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> = tools.intersection(&self.tools).cloned().collect();
        only_if(!tools.is_empty(), GroupEvent::ToolsRemoved { tools })
    }

    /// Records what happened.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &GroupId,
        event: GroupEvent,
        at: Timestamp,
        version: Version,
    ) {
        if let GroupEvent::Created { profile, selectors, tools, excluded } = event {
            let excluded = excluded.into_iter().map(|entry| (entry.tool, entry.reason)).collect();
            let (id, created_at, updated_at) = (id.clone(), at, at);
            let group = Self {
                id,
                profile,
                selectors,
                tools,
                excluded,
                active: true,
                created_at,
                updated_at,
                version,
            };
            *known = Some(group);
            return;
        }
        let Some(group) = known else { return };
        group.version = version;
        group.updated_at = at;
        match event {
            GroupEvent::Created { .. } => {}
            GroupEvent::Updated { profile } => group.profile = profile,
            GroupEvent::SelectorsReplaced { selectors } => group.selectors = selectors,
            GroupEvent::ToolsAdded { tools } => group.tools.extend(tools),
            GroupEvent::ToolsRemoved { tools } => group.tools.retain(|tool| !tools.contains(tool)),
            GroupEvent::ToolsExcluded { excluded } => {
                group.excluded.extend(excluded.into_iter().map(|entry| (entry.tool, entry.reason)));
            }
            GroupEvent::ToolsIncluded { tools } => {
                group.excluded.retain(|tool, _| !tools.contains(tool))
            }
            GroupEvent::Activated {} => group.active = true,
            GroupEvent::Deactivated {} => group.active = false,
            GroupEvent::Deleted {} => *known = None,
        }
    }

    /// Whether a tool belongs to the group. Whether it may be served is another question.
    pub fn includes(&self, tool: &ToolId, facts: &Facts<'_>) -> bool {
        if self.excluded.contains_key(tool) {
            return false;
        }
        if self.tools.contains(tool) {
            return true;
        }
        let mut verdicts = self.selectors.iter().map(|selector| selector.matches(facts));
        match self.profile.selector_mode {
            SelectorMode::All => !self.selectors.is_empty() && verdicts.all(|matches| matches),
            SelectorMode::Any => verdicts.any(|matches| matches),
        }
    }
}

/// Selectors that could be meant.
fn check(selectors: &[Selector]) -> Result<(), Refusal> {
    if SELECTORS < selectors.len() {
        return Err(Refusal::TooMany { what: "selectors", limit: SELECTORS });
    }
    match selectors.iter().position(Selector::says_nothing) {
        Some(place) => Err(Refusal::SelectorSaysNothing { number: place + 1 }),
        None => Ok(()),
    }
}

/// Nothing is of two kinds: such selectors cannot all match, whatever there is.
fn check_mode(mode: SelectorMode, selectors: &[Selector]) -> Result<(), Refusal> {
    let kinds: BTreeSet<_> = selectors.iter().map(|selector| selector.kind).collect();
    match mode == SelectorMode::All && 1 < kinds.len() {
        true => Err(Refusal::KindsExcludeEachOther),
        false => Ok(()),
    }
}

mod verdict;

pub use verdict::{DecidedBy, Membership, SelectorVerdict};

#[cfg(test)]
mod tests;
