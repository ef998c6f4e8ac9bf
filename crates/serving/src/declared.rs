//! What a configuration file declares: sources, labels, tools, groups and policies as they are to be, in the words of the
//! admin API; and how a server is to behave.
//!
//! A file is held against its schema first, then read piece by piece, so that all that is wrong is said at once, each with
//! its line. Nothing here looks at a catalog or changes one.

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

/// Specifications and workflows may stand in it.
pub(crate) const LIMIT: u64 = 16 << 20;

/// The members of a file that are about the catalog; the others are for the server.
const SECTIONS: [&str; 6] = ["sources", "labels", "tools", "groups", "policies", "identities"];

/// What a file declares.
pub(crate) struct Declared {
    /// Whose mistakes are told with their lines.
    pub(crate) document: Document,
    /// A section that is left out says nothing; an empty one says that there is to be nothing.
    pub(crate) sources: Option<Vec<Entry<SourceId, SourceProfile>>>,
    pub(crate) labels: Option<Vec<Entry<LabelId, LabelProfile>>>,
    pub(crate) tools: Option<Vec<ToolEntry>>,
    pub(crate) groups: Option<Vec<GroupEntry>>,
    pub(crate) policies: Option<Vec<Entry<PolicyId, PolicyRules>>>,
    /// Whose tools a plan compares.
    pub(crate) identities: Vec<Identity>,
    /// How a server is to behave.
    pub(crate) server: Value,
}

impl Declared {
    #[cfg(test)]
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::read_noting(path, &mut Files::default())
    }

    /// Reads a file, or says all that is wrong with it. It is noted, and so are those that it refers to and that were read
    /// with it.
    pub(crate) fn read_noting(path: &Path, files: &mut Files) -> Result<Self, Failure> {
        Self::read_whole(path, files).map(|(declared, _)| declared)
    }

    /// The same, and what it says of the catalog, to be sent elsewhere.
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

    /// The sections of a file that somebody else has read, or all that is wrong with them. Nothing is read for it here.
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
        // For editors.
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

    /// What a profile must not say, although it can be read: the rules of the admin API.
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
