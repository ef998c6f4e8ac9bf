//! `toolcrib export`: the catalog as a configuration file. Fields with default values are omitted; the same catalog
//! always yields the same bytes.

mod default_fields;
mod toml_writer;
mod yaml_writer;

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolcrib::Snapshot;

pub(crate) use self::default_fields::without_defaults;
use super::declared_objects::{DeclaredKind, declared_objects};
use crate::config_error::ConfigError;

/// How a configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Yaml,
    Toml,
}

const TITLE: &str = "# A configuration of toolcrib, as `toolcrib export` writes it and `toolcrib apply` reads it.\n";

/// The file that declares a catalog.
pub fn write_config(snapshot: &Snapshot, format: ExportFormat) -> Result<String, ConfigError> {
    let mut sections = Map::new();
    for kind in DeclaredKind::ALL {
        sections.insert(kind.section_name().to_owned(), Value::Array(Vec::new()));
    }
    for ((kind, _), body) in declared_objects(snapshot) {
        let body = Value::Object(without_defaults(kind, body));
        if let Some(Value::Array(section)) = sections.get_mut(kind.section_name()) {
            section.push(body);
        }
    }
    let text = match format {
        ExportFormat::Yaml => yaml_writer::write_yaml(&sections),
        ExportFormat::Toml => toml_writer::write_toml(&sections).ok_or(ConfigError::NotToml)?,
    };
    Ok(format!("{TITLE}{}{text}", secrets_comment(snapshot)))
}

/// A comment that lists the secrets to which the sources refer.
fn secrets_comment(snapshot: &Snapshot) -> String {
    let found = snapshot.sources().flat_map(|entry| entry.source.profile.secret_refs());
    let found: BTreeSet<String> = found.map(ToString::to_string).collect();
    if found.is_empty() {
        return String::new();
    }
    let mut text = "# These secrets have to be there before its tools can be called:\n".to_owned();
    for secret in found {
        let secret = execution::escape_for_terminal(&secret);
        text += &match secret.strip_prefix("sealed:") {
            Some(name) => format!("#   {secret} (toolcrib secret set {name})\n"),
            None => format!("#   {secret}\n"),
        };
    }
    text
}

#[cfg(test)]
mod tests;
