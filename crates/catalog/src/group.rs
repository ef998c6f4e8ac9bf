//! The aggregate `Group`: curated tools, selected + explicit − excluded.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{Exclusion, Facts, GroupId, GroupProfile, NewGroup, Selector, SelectorMode, ToolId};
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// Upper bound for the selectors of a group: each is compiled and evaluated for each tool.
const SELECTORS: usize = 100;

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub id: GroupId,
    /// Settings chosen by an admin.
    pub profile: GroupProfile,
    /// Conditions on tools. An empty list selects nothing.
    pub selectors: Vec<Selector>,
    /// Explicit tools, which belong to the group regardless of the selectors.
    pub tools: BTreeSet<ToolId>,
    /// Excluded tools with the reason; exclusion overrides selectors and explicit tools.
    pub excluded: BTreeMap<ToolId, Box<str>>,
    /// Switched on by an admin.
    pub active: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Version of its stream.
    pub version: Version,
}

/// A command for one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum GroupCommand {
    Create(Box<NewGroup>),
    /// Replace the settings.
    Update(GroupProfile),
    /// Replace everything except the switch.
    Replace(Box<NewGroup>),
    /// Replace the selectors.
    ReplaceSelectors(Vec<Selector>),
    /// Add explicit tools.
    AddTools(BTreeSet<ToolId>),
    /// Remove explicit tools.
    RemoveTools(BTreeSet<ToolId>),
    /// Replace the explicit tools.
    ReplaceTools(BTreeSet<ToolId>),
    /// Exclude tools.
    ExcludeTools(Vec<Exclusion>),
    /// Remove exclusions.
    IncludeTools(BTreeSet<ToolId>),
    /// Make its grants effective.
    Activate,
    /// Suspend its grants.
    Deactivate,
    Delete,
}

/// An event of one group. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupEvent {
    /// The group was created.
    #[serde(rename = "GroupCreated")]
    Created {
        /// Initial settings.
        profile: GroupProfile,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        selectors: Vec<Selector>,
        /// Explicit tools.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        tools: BTreeSet<ToolId>,
        /// Excluded tools, each with its reason.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        excluded: Vec<Exclusion>,
    },
    /// The name, the description or the selector mode was changed.
    #[serde(rename = "GroupUpdated")]
    Updated {
        /// New settings.
        profile: GroupProfile,
    },
    /// The selectors were replaced.
    #[serde(rename = "GroupSelectorsReplaced")]
    SelectorsReplaced { selectors: Vec<Selector> },
    /// Explicit tools were added.
    #[serde(rename = "GroupToolsAdded")]
    ToolsAdded { tools: BTreeSet<ToolId> },
    /// Explicit tools were removed.
    #[serde(rename = "GroupToolsRemoved")]
    ToolsRemoved { tools: BTreeSet<ToolId> },
    /// Tools were excluded, regardless of the selectors.
    #[serde(rename = "GroupToolsExcluded")]
    ToolsExcluded {
        /// Excluded tools, each with its reason.
        excluded: Vec<Exclusion>,
    },
    /// Exclusions were removed.
    #[serde(rename = "GroupToolsIncluded")]
    ToolsIncluded { tools: BTreeSet<ToolId> },
    /// The group was activated.
    #[serde(rename = "GroupActivated")]
    Activated {},
    /// The group was deactivated and kept.
    #[serde(rename = "GroupDeactivated")]
    Deactivated {},
    /// The group was deleted.
    #[serde(rename = "GroupDeleted")]
    Deleted {},
}

impl Group {
    /// Applies every rule about one group.
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
        // The last reason wins, as in `evolve`.
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

    /// Applies an event to the state.
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

    /// True if a tool belongs to the group, whether or not the tool is served.
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

/// Rejects too many selectors, and empty ones, which would select every tool.
fn check(selectors: &[Selector]) -> Result<(), Refusal> {
    if SELECTORS < selectors.len() {
        return Err(Refusal::TooMany { what: "selectors", limit: SELECTORS });
    }
    match selectors.iter().position(Selector::says_nothing) {
        Some(place) => Err(Refusal::SelectorSaysNothing { number: place + 1 }),
        None => Ok(()),
    }
}

/// Rejects selectors of different kinds in mode `all`: no entry has two kinds, so they could never all match.
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
