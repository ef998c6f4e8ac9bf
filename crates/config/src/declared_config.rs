//! The declarative configuration file: the desired sources, labels, tools, groups and policies, with the field names of
//! the admin API; and the settings of a server.
//!
//! A file is validated against its schema first and then parsed section by section, so that all problems are reported
//! at once, each with its line. Nothing here reads or changes a catalog.

pub mod config_document;
pub mod config_export;
pub mod config_problem;
pub mod config_schema;
pub(crate) mod declared_commands;
pub(crate) mod declared_objects;
mod relative_paths;
pub mod section_entries;

use std::path::Path;

use api_types::group_body::GroupBody;
use api_types::{schema_check, source_checks};
use model::{GroupId, LabelId, LabelProfile, PolicyId, PolicyRules, SourceId, SourceProfile};
use serde_json::{Map, Value};

use self::config_document::ConfigDocument;
use self::config_problem::{ConfigProblem, ConfigProblems};
use self::section_entries::{EntityDeclaration, GroupDeclaration, PlanIdentity, ToolDeclaration};
use crate::config_error::{ConfigError, read_limited_file};
use crate::file_stamp::FileStamps;
use crate::server_settings::ServerSettings;

/// Size limit of a file; it may contain whole specifications and workflows.
pub const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// The fields of a file that concern the catalog; the others are server settings.
const CATALOG_SECTIONS: [&str; 6] =
    ["sources", "labels", "tools", "groups", "policies", "identities"];

/// The content of a configuration file.
pub struct DeclaredConfig {
    /// The file, for the positions of problems.
    pub document: ConfigDocument,
    /// An omitted section (`None`) declares nothing; an empty one declares that no such entity exists.
    pub sources: Option<Vec<EntityDeclaration<SourceId, SourceProfile>>>,
    pub(crate) labels: Option<Vec<EntityDeclaration<LabelId, LabelProfile>>>,
    pub(crate) tools: Option<Vec<ToolDeclaration>>,
    pub(crate) groups: Option<Vec<GroupDeclaration>>,
    pub(crate) policies: Option<Vec<EntityDeclaration<PolicyId, PolicyRules>>>,
    /// The identities whose tools a plan compares.
    pub identities: Vec<PlanIdentity>,
    /// The server settings, not parsed yet.
    pub(crate) server: Value,
}

impl DeclaredConfig {
    #[cfg(test)]
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::read_with_stamps(path, &mut FileStamps::default())
    }

    /// Reads a file, or reports all its problems. Records the stamps of the file and of all files that it refers to and
    /// that are read with it.
    pub(crate) fn read_with_stamps(
        path: &Path,
        files: &mut FileStamps,
    ) -> Result<Self, ConfigError> {
        Self::parse_file(path, files).map(|(declared, _)| declared)
    }

    /// Reads a file, and also returns its catalog sections, to send them to a server.
    pub fn read_with_sections(path: &Path) -> Result<(Self, Value), ConfigError> {
        Self::parse_file(path, &mut FileStamps::default())
    }

    fn parse_file(path: &Path, files: &mut FileStamps) -> Result<(Self, Value), ConfigError> {
        files.record_file(path);
        let bytes = read_limited_file(path, MAX_CONFIG_BYTES)?;
        let (document, mut value) = ConfigDocument::parse_bytes(path, bytes)?;
        let wrong = schema_check::schema_errors(
            config_schema::config_schemas(),
            config_schema::config_shape(),
            &value,
        );
        if !wrong.is_empty() {
            return Err(document.to_failure(wrong.into_iter().map(ConfigProblem::from).collect()));
        }
        let mut mistakes = ConfigProblems::default();
        relative_paths::resolve_paths(&mut value, document.path(), files, &mut mistakes);
        let sections = CATALOG_SECTIONS.iter().filter_map(|name| Some((*name, value.get(*name)?)));
        let sections = sections.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let refuse =
            |(document, mistakes): (ConfigDocument, ConfigProblems)| document.to_failure(mistakes);
        let declared = Self::from_value(document, value, mistakes).map_err(refuse)?;
        Ok((declared, Value::Object(sections)))
    }

    /// Parses sections that a client has read from its file, or reports all their problems. Reads no files.
    pub fn from_sections(value: Value) -> Result<Self, ConfigProblems> {
        let wrong = schema_check::schema_errors(
            config_schema::config_schemas(),
            config_schema::config_shape(),
            &value,
        );
        let mut mistakes: ConfigProblems = wrong.into_iter().map(ConfigProblem::from).collect();
        let others = value.as_object().into_iter().flat_map(Map::keys);
        let others = others.filter(|name| !CATALOG_SECTIONS.contains(&name.as_str()));
        let message = "is for a server that starts, `toolcrib serve --config`: leave it away here";
        mistakes.extend(others.map(|name| ConfigProblem::new(name, message)));
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let read = Self::from_value(ConfigDocument::without_file(), value, mistakes);
        read.map_err(|(_, mistakes)| mistakes)
    }

    fn from_value(
        document: ConfigDocument,
        value: Value,
        mut mistakes: ConfigProblems,
    ) -> Result<Self, (ConfigDocument, ConfigProblems)> {
        let mut members = match value {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let mut section = |name: &str| match members.shift_remove(name) {
            Some(Value::Array(elements)) => Some(elements),
            _ => None,
        };
        let [sources, labels, tools, groups, policies, identities] =
            CATALOG_SECTIONS.map(&mut section);
        // `$schema` is only for editors.
        members.shift_remove("$schema");
        let server = Value::Object(members);
        let read = &mut mistakes;
        let declared = Self {
            sources: sources.map(|values| {
                EntityDeclaration::parse_section("sources", values, "is_enabled", read)
            }),
            labels: labels
                .map(|values| EntityDeclaration::parse_section("labels", values, "", read)),
            tools: tools.map(|values| ToolDeclaration::parse_section(values, read)),
            groups: groups.map(|values| {
                let read: Vec<EntityDeclaration<GroupId, GroupBody>> =
                    EntityDeclaration::parse_section("groups", values, "is_active", read);
                read.into_iter().map(GroupDeclaration::from).collect()
            }),
            policies: policies.map(|values| {
                EntityDeclaration::parse_section("policies", values, "is_active", read)
            }),
            identities: identities
                .map_or_else(Vec::new, |values| PlanIdentity::parse_section(values, read)),
            server,
            document,
        };
        declared.check_sources(&mut mistakes);
        mistakes.extend(ServerSettings::find_error(&declared.server));
        match mistakes.is_empty() {
            true => Ok(declared),
            false => Err((declared.document, mistakes)),
        }
    }

    /// Applies the rules of the admin API to the source profiles.
    fn check_sources(&self, mistakes: &mut ConfigProblems) {
        for EntityDeclaration { field, id, body: profile, .. } in self.sources.iter().flatten() {
            let wrong = source_checks::profile_errors(profile).into_iter();
            let wrong = wrong.chain(source_checks::workflow_error(id, profile));
            let wrong = wrong.chain(source_checks::custom_source_errors(id, profile));
            mistakes.extend(wrong.map(|error| ConfigProblem::from(error).under_field(field)));
        }
    }
}

#[cfg(test)]
mod tests;
