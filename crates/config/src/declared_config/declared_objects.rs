//! The declarable entities of a catalog, in the format of a configuration file.

use std::collections::BTreeMap;
use std::fmt;

use catalog::group::Group;
use catalog::tool::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib::Snapshot;

/// What can be declared, in the order of a file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DeclaredKind")]
pub enum DeclaredKind {
    Source,
    Label,
    Tool,
    Group,
    Policy,
}

impl DeclaredKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Source, Self::Label, Self::Tool, Self::Group, Self::Policy];

    /// The field of a file that holds entities of this kind.
    pub(crate) fn section_name(self) -> &'static str {
        match self {
            Self::Source => "sources",
            Self::Label => "labels",
            Self::Tool => "tools",
            Self::Group => "groups",
            Self::Policy => "policies",
        }
    }
}

impl fmt::Display for DeclaredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Label => "label",
            Self::Tool => "tool",
            Self::Group => "group",
            Self::Policy => "policy",
        })
    }
}

/// Declarable entities by kind and id.
pub(crate) type DeclaredObjects = BTreeMap<(DeclaredKind, String), Map<String, Value>>;

/// All declarable entities of a catalog. Of tools, only the overrides by admins; tools without overrides are omitted.
pub(crate) fn declared_objects(snapshot: &Snapshot) -> DeclaredObjects {
    let mut objects = DeclaredObjects::new();
    let mut put = |kind, id: &str, body: Map<String, Value>| {
        objects.insert((kind, id.to_owned()), body);
    };
    for entry in snapshot.sources() {
        let source = &entry.source;
        let body =
            body_with_switch(source.id.as_str(), &source.profile, ("is_enabled", source.enabled));
        put(DeclaredKind::Source, source.id.as_str(), body);
    }
    for label in snapshot.labels() {
        put(
            DeclaredKind::Label,
            label.id.as_str(),
            body_with_id(label.id.as_str(), &label.profile),
        );
    }
    for entry in snapshot.tools() {
        if let Some(body) = tool_body(&entry.tool) {
            put(DeclaredKind::Tool, entry.tool.id.as_str(), body);
        }
    }
    for entry in snapshot.groups() {
        put(DeclaredKind::Group, entry.group.id.as_str(), group_body(&entry.group));
    }
    for policy in snapshot.policies() {
        let body =
            body_with_switch(policy.id.as_str(), &policy.rules, ("is_active", policy.active));
        put(DeclaredKind::Policy, policy.id.as_str(), body);
    }
    objects
}

/// The id, followed by all fields of the profile.
fn body_with_id(id: &str, said: &impl Serialize) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("id".to_owned(), id.into());
    if let Ok(Value::Object(said)) = serde_json::to_value(said) {
        body.extend(said);
    }
    body
}

fn body_with_switch(
    id: &str,
    said: &impl Serialize,
    (name, is_on): (&str, bool),
) -> Map<String, Value> {
    let mut body = body_with_id(id, said);
    body.insert(name.to_owned(), is_on.into());
    body
}

fn group_body(group: &Group) -> Map<String, Value> {
    let mut body = body_with_id(group.id.as_str(), &group.profile);
    if !group.selectors.is_empty() {
        body.insert("selectors".to_owned(), json!(group.selectors));
    }
    if !group.tools.is_empty() {
        body.insert("tools".to_owned(), json!(group.tools));
    }
    if !group.excluded.is_empty() {
        let excluded = group.excluded.iter().map(|(tool, reason)| match reason.is_empty() {
            true => json!({"tool": tool}),
            false => json!({"tool": tool, "reason": reason}),
        });
        let excluded = excluded.collect();
        body.insert("excluded".to_owned(), Value::Array(excluded));
    }
    body.insert("is_active".to_owned(), group.active.into());
    body
}

fn tool_body(tool: &Tool) -> Option<Map<String, Value>> {
    if tool.enabled && tool.labels.is_empty() && tool.overridden == Default::default() {
        return None;
    }
    let mut body = body_with_id(tool.id.as_str(), &tool.overridden);
    if !tool.labels.is_empty() {
        body.insert("labels".to_owned(), json!(tool.labels));
    }
    if !tool.enabled {
        body.insert("is_enabled".to_owned(), false.into());
    }
    Some(body)
}
