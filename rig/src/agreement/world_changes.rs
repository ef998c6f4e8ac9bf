//! Applies changes to a world, and decides which changes are refused.
//!
//! Written from the requirements S6, S7, S9, S10, G1, G3, G5 and T1.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{
    GroupChange, LabelChange, PolicyChange, SourceChange, ToolChange, World, WorldChange,
    WorldGroup, WorldManifest, WorldPolicy, WorldPolicyRules, WorldSelector, WorldSource,
    WorldSourceProfile, WorldTool,
};

/// A refresh that removes a larger share of the tools is refused unless forced (S6).
const SHRINK_LIMIT_PERCENT: usize = 50;

/// The rules forbid the change; the world stays unchanged.
#[derive(Debug, PartialEq)]
pub(super) struct ChangeRefusal;

type ChangeOutcome = Result<(), ChangeRefusal>;

impl World {
    pub(super) fn apply(&mut self, wish: &WorldChange) -> ChangeOutcome {
        match wish {
            WorldChange::Label(id, wish) => self.apply_to_label(id, wish),
            WorldChange::Source(id, wish) => self.apply_to_source(id, wish),
            WorldChange::Tool(id, wish) => self.apply_to_tool(id, wish),
            WorldChange::Group(id, wish) => self.apply_to_group(id, wish),
            WorldChange::Policy(id, wish) => self.apply_to_policy(id, wish),
        }
    }

    fn apply_to_label(&mut self, id: &str, wish: &LabelChange) -> ChangeOutcome {
        match wish {
            LabelChange::Create => refuse_unless(self.labels.insert(id.to_owned())),
            LabelChange::Rename(_) => refuse_unless(self.labels.contains(id)),
            LabelChange::Delete => {
                refuse_unless(self.labels.remove(id))?;
                for tool in self.tools.values_mut() {
                    tool.labels.remove(id);
                }
                Ok(())
            }
        }
    }

    fn apply_to_source(&mut self, id: &str, wish: &SourceChange) -> ChangeOutcome {
        if let SourceChange::Register(profile) = wish {
            return self.register_source(id, profile);
        }
        let source = self.sources.get_mut(id).ok_or(ChangeRefusal)?;
        match wish {
            SourceChange::Register(_) => {}
            SourceChange::Update(profile) => source.profile = profile.clone(),
            SourceChange::Enable => source.is_enabled = true,
            SourceChange::Disable => source.is_enabled = false,
            SourceChange::Remove => {
                self.sources.remove(id);
                self.tools.retain(|_, tool| tool.source != id);
            }
            SourceChange::Ingest { tools, force } => {
                return self.ingest_inventory(id, tools, *force);
            }
        }
        Ok(())
    }

    fn register_source(&mut self, id: &str, profile: &WorldSourceProfile) -> ChangeOutcome {
        refuse_unless(!self.sources.contains_key(id))?;
        let source = WorldSource { profile: profile.clone(), is_enabled: true, inventory: None };
        self.sources.insert(id.to_owned(), source);
        Ok(())
    }

    fn ingest_inventory(
        &mut self,
        source_id: &str,
        found: &BTreeMap<String, WorldManifest>,
        force: bool,
    ) -> ChangeOutcome {
        let source = self.sources.get_mut(source_id).ok_or(ChangeRefusal)?;
        if !force && source.inventory.as_ref() == Some(found) {
            return Ok(());
        }
        let is_reviewed = source.profile.is_reviewed;
        let ids: BTreeSet<String> = found.keys().map(|key| Self::tool_id(source_id, key)).collect();
        let active = |tool: &WorldTool| tool.source == source_id && tool.is_active;
        let known = self.tools.values().filter(|tool| active(tool)).count();
        let gone = self.tools.iter().filter(|(id, tool)| active(tool) && !ids.contains(*id));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        let shrinks = gone.len() == known || known * SHRINK_LIMIT_PERCENT < gone.len() * 100;
        if !force && !gone.is_empty() && shrinks {
            return Err(ChangeRefusal);
        }
        source.inventory = Some(found.clone());
        for id in gone {
            self.tools.entry(id).and_modify(|tool| tool.is_active = false);
        }
        for (key, manifest) in found {
            match self.tools.get_mut(&Self::tool_id(source_id, key)) {
                Some(tool) => tool.rediscovered(manifest, is_reviewed),
                None => {
                    let tool = WorldTool::discovered(source_id, manifest, is_reviewed);
                    self.tools.insert(Self::tool_id(source_id, key), tool);
                }
            }
        }
        Ok(())
    }

    fn apply_to_tool(&mut self, id: &str, wish: &ToolChange) -> ChangeOutcome {
        let tool = self.tools.get_mut(id).ok_or(ChangeRefusal)?;
        match wish {
            ToolChange::Enable => {
                refuse_unless(tool.is_active)?;
                tool.is_enabled = true;
            }
            ToolChange::Disable => tool.is_enabled = false,
            ToolChange::Override { name, visibility } => {
                tool.name.clone_from(name);
                tool.visibility = *visibility;
            }
            ToolChange::Label(labels) => {
                refuse_unless(labels.is_subset(&self.labels))?;
                tool.labels.clone_from(labels);
            }
            ToolChange::Approve => tool.approved = Some(tool.latest.clone()),
            // The approved version stays, so the world does not change; but a version must be pending.
            ToolChange::Reject => refuse_unless(tool.approved.as_ref() != Some(&tool.latest))?,
            ToolChange::Remove => drop(self.tools.remove(id)),
        }
        Ok(())
    }

    fn apply_to_group(&mut self, id: &str, wish: &GroupChange) -> ChangeOutcome {
        let selectors = match wish {
            GroupChange::Create(group) => &group.selectors[..],
            GroupChange::ReplaceSelectors(selectors) => selectors,
            _ => &[],
        };
        refuse_unless(selectors.iter().all(has_condition))?;
        if let GroupChange::Create(group) = wish {
            refuse_unless(!self.groups.contains_key(id) && group.can_match())?;
            self.groups.insert(id.to_owned(), WorldGroup { is_active: true, ..group.clone() });
            return Ok(());
        }
        let is_granted = self.policies.values().any(|policy| policy.rules.groups.contains(id));
        let group = self.groups.get_mut(id).ok_or(ChangeRefusal)?;
        if *wish == GroupChange::Delete {
            refuse_unless(!is_granted)?;
            self.groups.remove(id);
            return Ok(());
        }
        let mut changed = group.clone();
        changed.apply(wish);
        if matches!(wish, GroupChange::Update { .. } | GroupChange::ReplaceSelectors(_)) {
            refuse_unless(changed.can_match())?;
        }
        *group = changed;
        Ok(())
    }

    fn apply_to_policy(&mut self, id: &str, wish: &PolicyChange) -> ChangeOutcome {
        if let PolicyChange::Define(rules) | PolicyChange::Update(rules) = wish {
            refuse_unless(self.are_valid_rules(rules))?;
        }
        if let PolicyChange::Define(rules) = wish {
            refuse_unless(!self.policies.contains_key(id))?;
            let policy = WorldPolicy { is_active: true, rules: rules.clone() };
            self.policies.insert(id.to_owned(), policy);
            return Ok(());
        }
        let policy = self.policies.get_mut(id).ok_or(ChangeRefusal)?;
        match wish {
            PolicyChange::Define(_) => {}
            PolicyChange::Update(rules) => policy.rules = rules.clone(),
            PolicyChange::Activate => policy.is_active = true,
            PolicyChange::Deactivate => policy.is_active = false,
            PolicyChange::Delete => drop(self.policies.remove(id)),
        }
        Ok(())
    }

    /// A policy without a matcher would apply to everyone; one without a group would grant nothing, unless it makes
    /// admins.
    fn are_valid_rules(&self, rules: &WorldPolicyRules) -> bool {
        let is_known = |group: &String| self.groups.contains_key(group);
        !rules.matchers.is_empty()
            && (!rules.groups.is_empty() || rules.admin)
            && rules.groups.iter().all(is_known)
    }
}

impl WorldTool {
    fn discovered(source: &str, manifest: &WorldManifest, is_reviewed: bool) -> Self {
        Self {
            source: source.to_owned(),
            latest: manifest.clone(),
            approved: (!is_reviewed).then(|| manifest.clone()),
            is_enabled: true,
            is_active: true,
            name: None,
            visibility: None,
            labels: BTreeSet::new(),
        }
    }

    /// Reactivates the tool with all settings of the admin. Only a changed version needs review again.
    fn rediscovered(&mut self, manifest: &WorldManifest, is_reviewed: bool) {
        self.is_active = true;
        if self.latest == *manifest {
            return;
        }
        self.latest = manifest.clone();
        if !is_reviewed {
            self.approved = Some(manifest.clone());
        }
    }
}

impl WorldGroup {
    /// A group whose selectors must all match cannot select both tools and prompts: no entry is both.
    fn can_match(&self) -> bool {
        let kind =
            |selector: &WorldSelector| selector.kind.clone().unwrap_or_else(|| "tool".to_owned());
        self.any || self.selectors.iter().map(kind).collect::<BTreeSet<_>>().len() < 2
    }

    fn apply(&mut self, wish: &GroupChange) {
        match wish {
            GroupChange::Create(_) | GroupChange::Delete => {}
            GroupChange::Update { any, visibility } => {
                (self.any, self.visibility) = (*any, *visibility);
            }
            GroupChange::ReplaceSelectors(selectors) => self.selectors.clone_from(selectors),
            GroupChange::AddTools(tools) => self.tools.extend(tools.iter().cloned()),
            GroupChange::RemoveTools(tools) => self.tools.retain(|tool| !tools.contains(tool)),
            GroupChange::ReplaceTools(tools) => self.tools.clone_from(tools),
            GroupChange::ExcludeTools(tools) => self.excluded.extend(tools.iter().cloned()),
            GroupChange::IncludeTools(tools) => self.excluded.retain(|tool| !tools.contains(tool)),
            GroupChange::Activate => self.is_active = true,
            GroupChange::Deactivate => self.is_active = false,
        }
    }
}

fn refuse_unless(holds: bool) -> ChangeOutcome {
    if holds { Ok(()) } else { Err(ChangeRefusal) }
}

#[cfg(test)]
mod tests;

/// True if the selector has a condition. Without one it would select everything, most likely by mistake.
fn has_condition(selector: &WorldSelector) -> bool {
    let WorldSelector {
        kind: _,
        source,
        name,
        path,
        method,
        required_tags,
        excluded_tags,
        required_labels,
    } = selector;
    let patterns = [source, name, path, method].into_iter().any(Option::is_some);
    patterns
        || [required_tags, excluded_tags, required_labels]
            .into_iter()
            .any(|words| !words.is_empty())
}
