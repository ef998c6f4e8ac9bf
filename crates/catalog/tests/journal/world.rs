//! Test fixtures: sources, groups, and tools with schemas large enough to be stored as documents.

use model::{Execution, Inventory, Manifest, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::ChangeContext;
use toolcrib_catalog::source::SourceCommand;
use toolcrib_catalog::{Catalog, Command, ExecutedCommand};

/// Deserializes any type from JSON.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

pub(crate) fn register(source: &str) -> Command {
    let profile = json!({"name": source, "settings": {"kind": "openapi"}});
    Command::Source(source.parse().unwrap(), SourceCommand::Register(read(profile)))
}

/// A refresh of a source that finds these tools; a different edition number makes a tool differ.
pub(crate) fn ingest(source: &str, tools: &[(&str, u32)]) -> Command {
    Command::Ingest { inventory: Box::new(inventory(source, tools)), force: false }
}

pub(crate) fn inventory(source: &str, tools: &[(&str, u32)]) -> Inventory {
    let manifests =
        tools.iter().map(|(name, edition)| ((*name).to_owned(), manifest(name, *edition)));
    Inventory::new(source.parse().unwrap(), manifests).unwrap()
}

pub(crate) fn manifest(name: &str, edition: u32) -> Manifest {
    let about = format!("What `{name}` wants, edition {edition}. ").repeat(20);
    let schema =
        json!({"type": "object", "properties": {"what": {"type": "string", "description": about}}});
    Manifest {
        name: name.into(),
        title: None,
        description: "".into(),
        method: "GET".into(),
        path: format!("/{name}").into(),
        tags: vec![format!("edition-{edition}").into()],
        input_schema: Schema::new(schema).unwrap(),
        output_schema: None,
        execution: Execution::McpCall,
        deprecated: false,
        security: None,
        extra: Default::default(),
    }
}

pub(crate) fn create_group(id: &str, selectors: Value) -> Command {
    let new = json!({"id": id, "profile": {"name": id}, "selectors": selectors});
    Command::Group(id.parse().unwrap(), GroupCommand::Create(Box::new(read(new))))
}

/// Executes a command that must succeed.
pub(crate) async fn done(catalog: &Catalog, command: Command) -> ExecutedCommand {
    catalog.execute(command, ChangeContext::by_actor("ada"), None).await.unwrap()
}
