//! The aggregate `Group`: curated tools, selected + explicit − excluded.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{
    GroupExclusion, GroupId, GroupProfile, NewGroup, Selector, SelectorMode, SelectorTarget, ToolId,
};
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;
use crate::source::event_if;

/// Upper bound for the selectors of a group: each is compiled and evaluated for each tool.
const SELECTOR_LIMIT: usize = 100;

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
    pub version: StreamVersion,
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
    ExcludeTools(Vec<GroupExclusion>),
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
        profile: GroupProfile,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        selectors: Vec<Selector>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        tools: BTreeSet<ToolId>,
        /// Excluded tools, each with its reason.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        excluded: Vec<GroupExclusion>,
    },
    /// The name, the description or the selector mode was changed.
    #[serde(rename = "GroupUpdated")]
    Updated { profile: GroupProfile },
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
        excluded: Vec<GroupExclusion>,
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
    ) -> Result<Vec<GroupEvent>, CommandRefusal> {
        match (&command, known) {
            (GroupCommand::ReplaceSelectors(selectors), group) => {
                check_selectors(selectors)?;
                group.map_or(Ok(()), |group| {
                    check_selector_mode(group.profile.selector_mode, selectors)
                })?;
            }
            (GroupCommand::Create(new) | GroupCommand::Replace(new), _) => {
                check_selectors(&new.selectors)?;
                check_selector_mode(new.profile.selector_mode, &new.selectors)?;
            }
            (GroupCommand::Update(new), Some(group))
                if new.selector_mode != group.profile.selector_mode =>
            {
                check_selector_mode(new.selector_mode, &group.selectors)?;
            }
            _ => {}
        }
        let Some(group) = known else {
            return match command {
                GroupCommand::Create(new) => {
                    let NewGroup { profile, selectors, tools, excluded, .. } = *new;
                    Ok(vec![GroupEvent::Created { profile, selectors, tools, excluded }])
                }
                _ => Err(CommandRefusal::not_found("group", id)),
            };
        };
        let events = match command {
            GroupCommand::Create(_) => return Err(CommandRefusal::already_exists("group", id)),
            GroupCommand::Update(profile) => group.update_profile(profile),
            GroupCommand::ReplaceSelectors(selectors) => group.replace_selectors(selectors),
            GroupCommand::Replace(new) => group.replace_group(*new),
            GroupCommand::AddTools(tools) => group.add_tools(&tools),
            GroupCommand::RemoveTools(tools) => group.remove_tools(&tools),
            GroupCommand::ReplaceTools(tools) => group.replace_tools(&tools),
            GroupCommand::ExcludeTools(excluded) => group.exclude_tools(excluded),
            GroupCommand::IncludeTools(tools) => group.include_tools(tools),
            GroupCommand::Activate => event_if(!group.active, GroupEvent::Activated {}),
            GroupCommand::Deactivate => event_if(group.active, GroupEvent::Deactivated {}),
            GroupCommand::Delete => vec![GroupEvent::Deleted {}],
        };
        Ok(events)
    }

    fn update_profile(&self, profile: GroupProfile) -> Vec<GroupEvent> {
        event_if(profile != self.profile, GroupEvent::Updated { profile })
    }

    fn replace_group(&self, new: NewGroup) -> Vec<GroupEvent> {
        let kept: BTreeSet<_> = new.excluded.iter().map(|entry| entry.tool.clone()).collect();
        let included = self.excluded.keys().filter(|tool| !kept.contains(*tool)).cloned().collect();
        [
            self.update_profile(new.profile),
            self.replace_selectors(new.selectors),
            self.replace_tools(&new.tools),
            self.include_tools(included),
            self.exclude_tools(new.excluded),
        ]
        .concat()
    }

    fn replace_selectors(&self, selectors: Vec<Selector>) -> Vec<GroupEvent> {
        event_if(selectors != self.selectors, GroupEvent::SelectorsReplaced { selectors })
    }

    fn replace_tools(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let gone = self.tools.difference(tools).cloned().collect();
        [self.remove_tools(&gone), self.add_tools(tools)].concat()
    }

    fn exclude_tools(&self, excluded: Vec<GroupExclusion>) -> Vec<GroupEvent> {
        // The last reason wins, as in `evolve`.
        let wanted: BTreeMap<_, _> =
            excluded.into_iter().map(|entry| (entry.tool, entry.reason)).collect();
        let is_new = |(tool, reason): &(ToolId, Box<str>)| self.excluded.get(tool) != Some(reason);
        let excluded: Vec<_> = wanted
            .into_iter()
            .filter(is_new)
            .map(|(tool, reason)| GroupExclusion { tool, reason })
            .collect();
        event_if(!excluded.is_empty(), GroupEvent::ToolsExcluded { excluded })
    }

    fn include_tools(&self, tools: BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> =
            tools.into_iter().filter(|tool| self.excluded.contains_key(tool)).collect();
        event_if(!tools.is_empty(), GroupEvent::ToolsIncluded { tools })
    }

    fn add_tools(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> = tools.difference(&self.tools).cloned().collect();
        event_if(!tools.is_empty(), GroupEvent::ToolsAdded { tools })
    }

    fn remove_tools(&self, tools: &BTreeSet<ToolId>) -> Vec<GroupEvent> {
        let tools: BTreeSet<_> = tools.intersection(&self.tools).cloned().collect();
        event_if(!tools.is_empty(), GroupEvent::ToolsRemoved { tools })
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &GroupId,
        event: GroupEvent,
        at: Timestamp,
        version: StreamVersion,
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
    pub fn contains_tool(&self, tool: &ToolId, facts: &SelectorTarget<'_>) -> bool {
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
fn check_selectors(selectors: &[Selector]) -> Result<(), CommandRefusal> {
    if SELECTOR_LIMIT < selectors.len() {
        return Err(CommandRefusal::TooMany { what: "selectors", limit: SELECTOR_LIMIT });
    }
    match selectors.iter().position(Selector::is_unconditional) {
        Some(place) => Err(CommandRefusal::SelectorSaysNothing { number: place + 1 }),
        None => Ok(()),
    }
}

/// Rejects selectors of different kinds in mode `all`: no entry has two kinds, so they could never all match.
fn check_selector_mode(mode: SelectorMode, selectors: &[Selector]) -> Result<(), CommandRefusal> {
    let kinds: BTreeSet<_> = selectors.iter().map(|selector| selector.kind).collect();
    match mode == SelectorMode::All && 1 < kinds.len() {
        true => Err(CommandRefusal::KindsExcludeEachOther),
        false => Ok(()),
    }
}

mod membership;

pub use membership::{DecidedBy, GroupMembership, SelectorVerdict};

#[cfg(test)]
mod tests;
