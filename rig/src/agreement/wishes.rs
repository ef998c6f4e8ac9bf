//! Applies changes to a world, and decides which changes are refused.
//!
//! Written from the requirements S6, S7, S9, S10, G1, G3, G5 and T1.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{
    Group, GroupWish, LabelWish, Manifest, Policy, PolicyWish, Rules, Selector, Source,
    SourceProfile, SourceWish, Tool, ToolWish, Wish, World,
};

/// A refresh that removes a larger share of the tools is refused unless forced (S6).
const SHRINK_LIMIT_PERCENT: usize = 50;

/// The rules forbid the change; the world stays unchanged.
#[derive(Debug, PartialEq)]
pub(super) struct Refused;

type Outcome = Result<(), Refused>;

impl World {
    pub(super) fn apply(&mut self, wish: &Wish) -> Outcome {
        match wish {
            Wish::Label(id, wish) => self.apply_to_label(id, wish),
            Wish::Source(id, wish) => self.apply_to_source(id, wish),
            Wish::Tool(id, wish) => self.apply_to_tool(id, wish),
            Wish::Group(id, wish) => self.apply_to_group(id, wish),
            Wish::Policy(id, wish) => self.apply_to_policy(id, wish),
        }
    }

    fn apply_to_label(&mut self, id: &str, wish: &LabelWish) -> Outcome {
        match wish {
            LabelWish::Create => only_if(self.labels.insert(id.to_owned())),
            LabelWish::Rename(_) => only_if(self.labels.contains(id)),
            LabelWish::Delete => {
                only_if(self.labels.remove(id))?;
                for tool in self.tools.values_mut() {
                    tool.labels.remove(id);
                }
                Ok(())
            }
        }
    }

    fn apply_to_source(&mut self, id: &str, wish: &SourceWish) -> Outcome {
        if let SourceWish::Register(profile) = wish {
            return self.register(id, profile);
        }
        let source = self.sources.get_mut(id).ok_or(Refused)?;
        match wish {
            SourceWish::Register(_) => {}
            SourceWish::Update(profile) => source.profile = profile.clone(),
            SourceWish::Enable => source.is_enabled = true,
            SourceWish::Disable => source.is_enabled = false,
            SourceWish::Remove => {
                self.sources.remove(id);
                self.tools.retain(|_, tool| tool.source != id);
            }
            SourceWish::Ingest { tools, force } => return self.ingest(id, tools, *force),
        }
        Ok(())
    }

    fn register(&mut self, id: &str, profile: &SourceProfile) -> Outcome {
        only_if(!self.sources.contains_key(id))?;
        let source = Source { profile: profile.clone(), is_enabled: true, inventory: None };
        self.sources.insert(id.to_owned(), source);
        Ok(())
    }

    fn ingest(
        &mut self,
        source_id: &str,
        found: &BTreeMap<String, Manifest>,
        force: bool,
    ) -> Outcome {
        let source = self.sources.get_mut(source_id).ok_or(Refused)?;
        if !force && source.inventory.as_ref() == Some(found) {
            return Ok(());
        }
        let is_reviewed = source.profile.is_reviewed;
        let ids: BTreeSet<String> = found.keys().map(|key| Self::tool_id(source_id, key)).collect();
        let active = |tool: &Tool| tool.source == source_id && tool.is_active;
        let known = self.tools.values().filter(|tool| active(tool)).count();
        let gone = self.tools.iter().filter(|(id, tool)| active(tool) && !ids.contains(*id));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        let shrinks = gone.len() == known || known * SHRINK_LIMIT_PERCENT < gone.len() * 100;
        if !force && !gone.is_empty() && shrinks {
            return Err(Refused);
        }
        source.inventory = Some(found.clone());
        for id in gone {
            self.tools.entry(id).and_modify(|tool| tool.is_active = false);
        }
        for (key, manifest) in found {
            match self.tools.get_mut(&Self::tool_id(source_id, key)) {
                Some(tool) => tool.seen_again(manifest, is_reviewed),
                None => {
                    let tool = Tool::seen(source_id, manifest, is_reviewed);
                    self.tools.insert(Self::tool_id(source_id, key), tool);
                }
            }
        }
        Ok(())
    }

    fn apply_to_tool(&mut self, id: &str, wish: &ToolWish) -> Outcome {
        let tool = self.tools.get_mut(id).ok_or(Refused)?;
        match wish {
            ToolWish::Enable => {
                only_if(tool.is_active)?;
                tool.is_enabled = true;
            }
            ToolWish::Disable => tool.is_enabled = false,
            ToolWish::Override { name, visibility } => {
                tool.name.clone_from(name);
                tool.visibility = *visibility;
            }
            ToolWish::Label(labels) => {
                only_if(labels.is_subset(&self.labels))?;
                tool.labels.clone_from(labels);
            }
            ToolWish::Approve => tool.approved = Some(tool.latest.clone()),
            // The approved version stays, so the world does not change; but a version must be pending.
            ToolWish::Reject => only_if(tool.approved.as_ref() != Some(&tool.latest))?,
            ToolWish::Remove => drop(self.tools.remove(id)),
        }
        Ok(())
    }

    fn apply_to_group(&mut self, id: &str, wish: &GroupWish) -> Outcome {
        let selectors = match wish {
            GroupWish::Create(group) => &group.selectors[..],
            GroupWish::ReplaceSelectors(selectors) => selectors,
            _ => &[],
        };
        only_if(selectors.iter().all(says_something))?;
        if let GroupWish::Create(group) = wish {
            only_if(!self.groups.contains_key(id) && group.can_match())?;
            self.groups.insert(id.to_owned(), Group { is_active: true, ..group.clone() });
            return Ok(());
        }
        let is_granted = self.policies.values().any(|policy| policy.rules.groups.contains(id));
        let group = self.groups.get_mut(id).ok_or(Refused)?;
        if *wish == GroupWish::Delete {
            only_if(!is_granted)?;
            self.groups.remove(id);
            return Ok(());
        }
        let mut changed = group.clone();
        changed.apply(wish);
        if matches!(wish, GroupWish::Update { .. } | GroupWish::ReplaceSelectors(_)) {
            only_if(changed.can_match())?;
        }
        *group = changed;
        Ok(())
    }

    fn apply_to_policy(&mut self, id: &str, wish: &PolicyWish) -> Outcome {
        if let PolicyWish::Define(rules) | PolicyWish::Update(rules) = wish {
            only_if(self.allows(rules))?;
        }
        if let PolicyWish::Define(rules) = wish {
            only_if(!self.policies.contains_key(id))?;
            let policy = Policy { is_active: true, rules: rules.clone() };
            self.policies.insert(id.to_owned(), policy);
            return Ok(());
        }
        let policy = self.policies.get_mut(id).ok_or(Refused)?;
        match wish {
            PolicyWish::Define(_) => {}
            PolicyWish::Update(rules) => policy.rules = rules.clone(),
            PolicyWish::Activate => policy.is_active = true,
            PolicyWish::Deactivate => policy.is_active = false,
            PolicyWish::Delete => drop(self.policies.remove(id)),
        }
        Ok(())
    }

    /// A policy without a matcher would apply to everyone; one without a group would grant nothing, unless it makes
    /// admins.
    fn allows(&self, rules: &Rules) -> bool {
        let is_known = |group: &String| self.groups.contains_key(group);
        !rules.matchers.is_empty()
            && (!rules.groups.is_empty() || rules.admin)
            && rules.groups.iter().all(is_known)
    }
}

impl Tool {
    fn seen(source: &str, manifest: &Manifest, is_reviewed: bool) -> Self {
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
    fn seen_again(&mut self, manifest: &Manifest, is_reviewed: bool) {
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

impl Group {
    /// A group whose selectors must all match cannot select both tools and prompts: no entry is both.
    fn can_match(&self) -> bool {
        let kind = |selector: &Selector| selector.kind.clone().unwrap_or_else(|| "tool".to_owned());
        self.any || self.selectors.iter().map(kind).collect::<BTreeSet<_>>().len() < 2
    }

    fn apply(&mut self, wish: &GroupWish) {
        match wish {
            GroupWish::Create(_) | GroupWish::Delete => {}
            GroupWish::Update { any, visibility } => {
                (self.any, self.visibility) = (*any, *visibility);
            }
            GroupWish::ReplaceSelectors(selectors) => self.selectors.clone_from(selectors),
            GroupWish::AddTools(tools) => self.tools.extend(tools.iter().cloned()),
            GroupWish::RemoveTools(tools) => self.tools.retain(|tool| !tools.contains(tool)),
            GroupWish::ReplaceTools(tools) => self.tools.clone_from(tools),
            GroupWish::ExcludeTools(tools) => self.excluded.extend(tools.iter().cloned()),
            GroupWish::IncludeTools(tools) => self.excluded.retain(|tool| !tools.contains(tool)),
            GroupWish::Activate => self.is_active = true,
            GroupWish::Deactivate => self.is_active = false,
        }
    }
}

fn only_if(holds: bool) -> Outcome {
    if holds { Ok(()) } else { Err(Refused) }
}

#[cfg(test)]
mod tests;

/// True if the selector has a condition. Without one it would select everything, most likely by mistake.
fn says_something(selector: &Selector) -> bool {
    let Selector {
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
