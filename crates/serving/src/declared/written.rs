//! `toolcrib export`: the catalog as a configuration file. Fields with default values are omitted; the same catalog
//! always yields the same bytes.

mod toml;
mod usual;
mod yaml;

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toolcrib::{JournalPlace, Snapshot};

pub(crate) use self::usual::left_out;
use super::objects::{Kind, objects};
use crate::cli::Ended;
use crate::cli::plan::ExportConfig;
use crate::failure::Failure;
use crate::journal::show::snapshot;
use crate::out;

/// How a configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Yaml,
    Toml,
}

const TITLE: &str = "# A configuration of toolcrib, as `toolcrib export` writes it and `toolcrib apply` reads it.\n";

pub(crate) async fn export(place: &JournalPlace, given: &ExportConfig) -> Result<Ended, Failure> {
    let snapshot = snapshot(place, None).await?;
    out::print(&write(&snapshot, given.format)?)?;
    Ok(Ended::Fine)
}

/// The file that declares a catalog.
pub(crate) fn write(snapshot: &Snapshot, format: Format) -> Result<String, Failure> {
    let mut sections = Map::new();
    for kind in Kind::ALL {
        sections.insert(kind.section().to_owned(), Value::Array(Vec::new()));
    }
    for ((kind, _), body) in objects(snapshot) {
        let body = Value::Object(left_out(kind, body));
        if let Some(Value::Array(section)) = sections.get_mut(kind.section()) {
            section.push(body);
        }
    }
    let text = match format {
        Format::Yaml => yaml::write(&sections),
        Format::Toml => toml::write(&sections).ok_or(Failure::NotToml)?,
    };
    Ok(format!("{TITLE}{}{text}", secrets(snapshot)))
}

/// A comment that lists the secrets to which the sources refer.
fn secrets(snapshot: &Snapshot) -> String {
    let found = snapshot.sources().flat_map(|entry| entry.source.profile.secrets());
    let found: BTreeSet<String> = found.map(ToString::to_string).collect();
    if found.is_empty() {
        return String::new();
    }
    let mut text = "# These secrets have to be there before its tools can be called:\n".to_owned();
    for secret in found {
        let secret = out::plain(&secret);
        text += &match secret.strip_prefix("sealed:") {
            Some(name) => format!("#   {secret} (toolcrib secret set {name})\n"),
            None => format!("#   {secret}\n"),
        };
    }
    text
}

#[cfg(test)]
mod tests;
