//! The entries of sections: an id, an optional switch, and the body that the admin API takes.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use api_types::group_body::GroupBody;
use api_types::tool_patch::ToolPatch;
use api_types::value_reader::deserialize_value;
use catalog::tool::ToolOverrideChange;
use json::document_text::item_path;
use model::{Claims, GroupId, LabelId, NewGroup, ToolId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config_problem::{ConfigProblem, ConfigProblems};

/// A declared entity.
#[derive(Debug)]
pub struct EntityDeclaration<Id, T> {
    /// The field path, such as `groups[0]`.
    pub field: String,
    pub id: Id,
    /// Enabled or active, as the admin declares it; `None` keeps the current state.
    pub(crate) switch: Option<bool>,
    /// The body of the entity.
    pub body: T,
}

/// A declared group.
pub(crate) type GroupDeclaration = EntityDeclaration<GroupId, NewGroup>;

/// The declared overrides of a tool. Omitted fields keep their current values.
#[derive(Debug)]
pub(crate) struct ToolDeclaration {
    pub(crate) field: String,
    pub(crate) id: ToolId,
    pub(crate) is_enabled: Option<bool>,
    pub(crate) labels: Option<BTreeSet<LabelId>>,
    pub(crate) amendment: ToolOverrideChange,
}

/// An identity whose tools a plan compares.
#[derive(Clone, Debug)]
pub struct PlanIdentity {
    pub name: String,
    pub claims: Arc<Claims>,
}

/// Takes a field out of an entry and parses it; `None` if it is omitted or invalid.
fn take_field<T: DeserializeOwned>(
    value: &mut Value,
    (field, name): (&str, &str),
    mistakes: &mut ConfigProblems,
) -> Option<T> {
    let taken = value.as_object_mut()?.shift_remove(name).filter(|value| !value.is_null())?;
    match serde_json::from_value(taken) {
        Ok(read) => Some(read),
        Err(error) => {
            mistakes.push(ConfigProblem::new(format!("{field}.{name}"), error.to_string()));
            None
        }
    }
}

fn parse_body<T: DeserializeOwned>(
    value: &Value,
    field: &str,
    mistakes: &mut ConfigProblems,
) -> Option<T> {
    match deserialize_value(value) {
        Ok(read) => Some(read),
        Err(problem) => {
            mistakes.extend(ConfigProblem::from_problem(problem, field));
            None
        }
    }
}

/// Reports an id that occurs twice.
fn check_unique_id<Id: Clone + Eq + Hash>(
    known: &mut HashSet<Id>,
    id: &Id,
    field: &str,
    mistakes: &mut ConfigProblems,
) {
    if !known.insert(id.clone()) {
        let message = "was there before: remove one of them";
        mistakes.push(ConfigProblem::new(format!("{field}.id"), message));
    }
}

impl<Id: DeserializeOwned + Clone + Eq + Hash, T: DeserializeOwned> EntityDeclaration<Id, T> {
    /// Parses a section, and appends its problems to `mistakes`.
    pub(super) fn parse_section(
        section: &str,
        values: Vec<Value>,
        switch_name: &str,
        mistakes: &mut ConfigProblems,
    ) -> Vec<Self> {
        let (mut known, mut entries) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = item_path(section, number);
            let id: Option<Id> = take_field(&mut value, (&field, "id"), mistakes);
            let switch = take_field(&mut value, (&field, switch_name), mistakes);
            let rest = parse_body(&value, &field, mistakes);
            let (Some(id), Some(rest)) = (id, rest) else { continue };
            check_unique_id(&mut known, &id, &field, mistakes);
            entries.push(Self { field, id, switch, body: rest });
        }
        entries
    }
}

impl From<EntityDeclaration<GroupId, GroupBody>> for GroupDeclaration {
    fn from(entry: EntityDeclaration<GroupId, GroupBody>) -> Self {
        let EntityDeclaration { field, id, switch, body: rest } = entry;
        Self { field, body: rest.into_new_group(id.clone()), id, switch }
    }
}

impl ToolDeclaration {
    pub(super) fn parse_section(values: Vec<Value>, mistakes: &mut ConfigProblems) -> Vec<Self> {
        let (mut known, mut entries) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = item_path("tools", number);
            let id: Option<ToolId> = take_field(&mut value, (&field, "id"), mistakes);
            let is_enabled = take_field(&mut value, (&field, "is_enabled"), mistakes);
            let labels = take_field(&mut value, (&field, "labels"), mistakes);
            let patch: Option<ToolPatch> = parse_body(&value, &field, mistakes);
            let (Some(id), Some(patch)) = (id, patch) else { continue };
            check_unique_id(&mut known, &id, &field, mistakes);
            match patch.into_amendment() {
                Ok(amendment) => entries.push(Self { field, id, is_enabled, labels, amendment }),
                Err(problem) => mistakes.extend(ConfigProblem::from_problem(problem, &field)),
            }
        }
        entries
    }
}

impl PlanIdentity {
    pub(super) fn parse_section(values: Vec<Value>, mistakes: &mut ConfigProblems) -> Vec<Self> {
        let (mut known, mut identities) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = item_path("identities", number);
            let name: Option<String> = take_field(&mut value, (&field, "name"), mistakes);
            let claims = take_field(&mut value, (&field, "claims"), mistakes);
            let (Some(name), Some(claims)) = (name, claims) else { continue };
            if !known.insert(name.clone()) {
                let message = "was there before: name them apart";
                mistakes.push(ConfigProblem::new(format!("{field}.name"), message));
            }
            identities.push(Self { name, claims: Arc::new(claims) });
        }
        identities
    }
}
