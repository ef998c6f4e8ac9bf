//! The declarative configuration file: the desired sources, labels, tools, groups and policies, with the field names of
//! the admin API; and the settings of a server.
//!
//! A file is validated against its schema first and then parsed section by section, so that all problems are reported
//! at once, each with its line. Nothing here reads or changes a catalog.

pub(crate) mod document;
pub(crate) mod entry;
pub(crate) mod mistake;
pub(crate) mod objects;
mod paths;
pub(crate) mod schema;
pub(crate) mod wishes;
pub(crate) mod written;

use std::path::Path;

use model::{GroupId, LabelId, LabelProfile, PolicyId, PolicyRules, SourceId, SourceProfile};
use serde_json::{Map, Value};

use self::document::Document;
use self::entry::{Entry, GroupEntry, Identity, ToolEntry};
use self::mistake::{Mistake, Mistakes};
use crate::admin::groups::GroupBody;
use crate::admin::sources;
use crate::body::check;
use crate::failure::Failure;
use crate::serve::settings::Settings;
use crate::target;
use crate::trace::Files;

/// Size limit of a file; it may contain whole specifications and workflows.
pub(crate) const LIMIT: u64 = 16 << 20;

/// The fields of a file that concern the catalog; the others are server settings.
const SECTIONS: [&str; 6] = ["sources", "labels", "tools", "groups", "policies", "identities"];

/// The content of a configuration file.
pub(crate) struct Declared {
    /// The file, for the positions of problems.
    pub(crate) document: Document,
    /// An omitted section (`None`) declares nothing; an empty one declares that no such entity exists.
    pub(crate) sources: Option<Vec<Entry<SourceId, SourceProfile>>>,
    pub(crate) labels: Option<Vec<Entry<LabelId, LabelProfile>>>,
    pub(crate) tools: Option<Vec<ToolEntry>>,
    pub(crate) groups: Option<Vec<GroupEntry>>,
    pub(crate) policies: Option<Vec<Entry<PolicyId, PolicyRules>>>,
    /// The identities whose tools a plan compares.
    pub(crate) identities: Vec<Identity>,
    /// The server settings, not parsed yet.
    pub(crate) server: Value,
}

impl Declared {
    #[cfg(test)]
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_noting(path, &mut Files::default())
    }

    /// Reads a file, or reports all its problems. Records the stamps of the file and of all files that it refers to and
    /// that are read with it.
    pub(crate) fn read_noting(path: &Path, files: &mut Files) -> Result<Self, Failure> {
        Self::read_whole(path, files).map(|(declared, _)| declared)
    }

    /// Reads a file, and also returns its catalog sections, to send them to a server.
    pub(crate) fn read_to_send(path: &Path) -> Result<(Self, Value), Failure> {
        Self::read_whole(path, &mut Files::default())
    }

    fn read_whole(path: &Path, files: &mut Files) -> Result<(Self, Value), Failure> {
        files.note(path);
        let bytes = target::from_file(path, LIMIT)?;
        let (document, mut value) = Document::read(path, bytes)?;
        let wrong = check::all(schema::schemas(), schema::shape(), &value);
        if !wrong.is_empty() {
            return Err(document.refuse(wrong.into_iter().map(Mistake::from).collect()));
        }
        let mut mistakes = Mistakes::default();
        paths::settle(&mut value, document.path(), files, &mut mistakes);
        let sections = SECTIONS.iter().filter_map(|name| Some((*name, value.get(*name)?)));
        let sections = sections.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let refuse = |(document, mistakes): (Document, Mistakes)| document.refuse(mistakes);
        let declared = Self::of(document, value, mistakes).map_err(refuse)?;
        Ok((declared, Value::Object(sections)))
    }

    /// Parses sections that a client has read from its file, or reports all their problems. Reads no files.
    pub(crate) fn of_sections(value: Value) -> Result<Self, Mistakes> {
        let wrong = check::all(schema::schemas(), schema::shape(), &value);
        let mut mistakes: Mistakes = wrong.into_iter().map(Mistake::from).collect();
        let others = value.as_object().into_iter().flat_map(Map::keys);
        let others = others.filter(|name| !SECTIONS.contains(&name.as_str()));
        let message = "is for a server that starts, `toolcrib serve --config`: leave it away here";
        mistakes.extend(others.map(|name| Mistake::new(name, message)));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let read = Self::of(Document::nowhere(), value, mistakes);
        read.map_err(|(_, mistakes)| mistakes)
    }

    fn of(
        document: Document,
        value: Value,
        mut mistakes: Mistakes,
    ) -> Result<Self, (Document, Mistakes)> {
        let mut members = match value {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let mut section = |name: &str| match members.shift_remove(name) {
            Some(Value::Array(elements)) => Some(elements),
            _ => None,
        };
        let [sources, labels, tools, groups, policies, identities] = SECTIONS.map(&mut section);
        // `$schema` is only for editors.
        members.shift_remove("$schema");
        let server = Value::Object(members);
        let read = &mut mistakes;
        let declared = Self {
            sources: sources.map(|values| Entry::read_all("sources", values, "is_enabled", read)),
            labels: labels.map(|values| Entry::read_all("labels", values, "", read)),
            tools: tools.map(|values| ToolEntry::read_all(values, read)),
            groups: groups.map(|values| {
                let read: Vec<Entry<GroupId, GroupBody>> =
                    Entry::read_all("groups", values, "is_active", read);
                read.into_iter().map(GroupEntry::from).collect()
            }),
            policies: policies.map(|values| Entry::read_all("policies", values, "is_active", read)),
            identities: identities.map_or_else(Vec::new, |values| Identity::read_all(values, read)),
            server,
            document,
        };
        declared.check_sources(&mut mistakes);
        mistakes.extend(Settings::mistake(&declared.server));
        match mistakes.is_empty() {
            true => Ok(declared),
            false => Err((declared.document, mistakes)),
        }
    }

    /// Applies the rules of the admin API to the source profiles.
    fn check_sources(&self, mistakes: &mut Mistakes) {
        for Entry { field, id, rest: profile, .. } in self.sources.iter().flatten() {
            let wrong = sources::problems(profile).into_iter();
            let wrong = wrong.chain(sources::workflow_problems(id, profile));
            let wrong = wrong.chain(sources::custom_problems(id, profile));
            mistakes.extend(wrong.map(|error| Mistake::from(error).under(field)));
        }
    }
}

#[cfg(test)]
mod tests;
