//! The entries of sections: an id, an optional switch, and the body that the admin API takes.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use catalog::tool::Amendment;
use discovery::text::element;
use model::{Claims, GroupId, LabelId, NewGroup, ToolId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mistake::{Mistake, Mistakes};
use crate::admin::groups::GroupBody;
use crate::admin::tools::Patch;
use crate::body;

/// A declared entity.
#[derive(Debug)]
pub(crate) struct Entry<Id, T> {
    /// The field path, such as `groups[0]`.
    pub(crate) field: String,
    pub(crate) id: Id,
    /// Enabled or active, as the admin declares it; `None` keeps the current state.
    pub(crate) switch: Option<bool>,
    /// The body of the entity.
    pub(crate) rest: T,
}

/// A declared group.
pub(crate) type GroupEntry = Entry<GroupId, NewGroup>;

/// The declared overrides of a tool. Omitted fields keep their current values.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) field: String,
    pub(crate) id: ToolId,
    pub(crate) is_enabled: Option<bool>,
    pub(crate) labels: Option<BTreeSet<LabelId>>,
    pub(crate) amendment: Amendment,
}

/// An identity whose tools a plan compares.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) claims: Arc<Claims>,
}

/// Takes a field out of an entry and parses it; `None` if it is omitted or invalid.
fn take<T: DeserializeOwned>(
    value: &mut Value,
    (field, name): (&str, &str),
    mistakes: &mut Mistakes,
) -> Option<T> {
    let taken = value.as_object_mut()?.shift_remove(name).filter(|value| !value.is_null())?;
    match serde_json::from_value(taken) {
        Ok(read) => Some(read),
        Err(error) => {
            mistakes.push(Mistake::new(format!("{field}.{name}"), error.to_string()));
            None
        }
    }
}

fn rest<T: DeserializeOwned>(value: &Value, field: &str, mistakes: &mut Mistakes) -> Option<T> {
    match body::read(value) {
        Ok(read) => Some(read),
        Err(problem) => {
            mistakes.extend(Mistake::all_of(problem, field));
            None
        }
    }
}

/// Reports an id that occurs twice.
fn only_once<Id: Clone + Eq + Hash>(
    known: &mut HashSet<Id>,
    id: &Id,
    field: &str,
    mistakes: &mut Mistakes,
) {
    if !known.insert(id.clone()) {
        let message = "was there before: remove one of them";
        mistakes.push(Mistake::new(format!("{field}.id"), message));
    }
}

impl<Id: DeserializeOwned + Clone + Eq + Hash, T: DeserializeOwned> Entry<Id, T> {
    /// Parses a section, and appends its problems to `mistakes`.
    pub(super) fn read_all(
        section: &str,
        values: Vec<Value>,
        switch_name: &str,
        mistakes: &mut Mistakes,
    ) -> Vec<Self> {
        let (mut known, mut entries) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = element(section, number);
            let id: Option<Id> = take(&mut value, (&field, "id"), mistakes);
            let switch = take(&mut value, (&field, switch_name), mistakes);
            let rest = rest(&value, &field, mistakes);
            let (Some(id), Some(rest)) = (id, rest) else { continue };
            only_once(&mut known, &id, &field, mistakes);
            entries.push(Self { field, id, switch, rest });
        }
        entries
    }
}

impl From<Entry<GroupId, GroupBody>> for GroupEntry {
    fn from(entry: Entry<GroupId, GroupBody>) -> Self {
        let Entry { field, id, switch, rest } = entry;
        Self { field, rest: rest.under(id.clone()), id, switch }
    }
}

impl ToolEntry {
    pub(super) fn read_all(values: Vec<Value>, mistakes: &mut Mistakes) -> Vec<Self> {
        let (mut known, mut entries) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = element("tools", number);
            let id: Option<ToolId> = take(&mut value, (&field, "id"), mistakes);
            let is_enabled = take(&mut value, (&field, "is_enabled"), mistakes);
            let labels = take(&mut value, (&field, "labels"), mistakes);
            let patch: Option<Patch> = rest(&value, &field, mistakes);
            let (Some(id), Some(patch)) = (id, patch) else { continue };
            only_once(&mut known, &id, &field, mistakes);
            match patch.amendment() {
                Ok(amendment) => entries.push(Self { field, id, is_enabled, labels, amendment }),
                Err(problem) => mistakes.extend(Mistake::all_of(problem, &field)),
            }
        }
        entries
    }
}

impl Identity {
    pub(super) fn read_all(values: Vec<Value>, mistakes: &mut Mistakes) -> Vec<Self> {
        let (mut known, mut identities) = (HashSet::new(), Vec::with_capacity(values.len()));
        for (number, mut value) in values.into_iter().enumerate() {
            let field = element("identities", number);
            let name: Option<String> = take(&mut value, (&field, "name"), mistakes);
            let claims = take(&mut value, (&field, "claims"), mistakes);
            let (Some(name), Some(claims)) = (name, claims) else { continue };
            if !known.insert(name.clone()) {
                let message = "was there before: name them apart";
                mistakes.push(Mistake::new(format!("{field}.name"), message));
            }
            identities.push(Self { name, claims: Arc::new(claims) });
        }
        identities
    }
}
