//! The precomputed names equal the names that agents are shown.

use std::sync::Arc;

use access::Grant;
use catalog::journal::MemoryJournal;
use catalog::{Catalog, Command, Snapshot};
use model::{Execution, Inventory, Manifest, Schema, ToolId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::SnapshotNameForms;
use crate::toolset::Toolset;
use crate::{ChangeContext, SystemClock};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Two sources with conflicting tool names: one tool's plain name is the qualified name of another source's tool, and
/// two tools of one source share a name.
async fn clashing() -> Arc<Snapshot> {
    let journal = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
    let catalog = Catalog::open(journal).await.unwrap();
    let execute = async |command| {
        catalog.execute(command, ChangeContext::by_actor("ada"), None).await.unwrap();
    };
    for (source, tools) in
        [("a", &["get", "put", "list"][..]), ("b", &["get", "a__get", "tool_search"])]
    {
        let profile = json!({"name": source, "settings": {"kind": "openapi"}});
        let register = catalog::source::SourceCommand::Register(read(profile));
        execute(Command::Source(source.parse().unwrap(), register)).await;
        let manifests = tools.iter().map(|name| ((*name).to_owned(), manifest(name)));
        let inventory = Box::new(Inventory::new(source.parse().unwrap(), manifests).unwrap());
        execute(Command::Ingest { inventory, force: false }).await;
    }
    let renamed = read(json!({"name": "put"}));
    let list: ToolId = "a:list".parse().unwrap();
    execute(Command::Tool(list, catalog::tool::ToolCommand::Override(renamed))).await;
    for (number, selector) in ["a:*", "*:get", "*:a__get", "a:put", "*"].iter().enumerate() {
        let (source, name) = selector.split_once(':').unwrap_or(("*", "*"));
        let id = format!("group-{number}");
        let selectors = json!([{"source": source, "name": name}]);
        let new = json!({"id": id, "profile": {"name": id}, "selectors": selectors});
        let create = catalog::group::GroupCommand::Create(Box::new(read(new)));
        execute(Command::Group(id.parse().unwrap(), create)).await;
    }
    catalog.snapshot()
}

fn manifest(name: &str) -> Manifest {
    Manifest {
        name: name.into(),
        title: None,
        description: "".into(),
        method: "GET".into(),
        path: "/".into(),
        tags: Vec::new(),
        input_schema: Schema::new(json!({"type": "object"})).unwrap(),
        output_schema: None,
        execution: Execution::McpCall,
        deprecated: false,
        security: None,
        extra: Default::default(),
    }
}

#[tokio::test]
async fn precomputed_names_equal_the_names_shown_to_agents() {
    let snapshot = clashing().await;
    let forms = SnapshotNameForms::from_snapshot(&snapshot);
    let mut names = std::collections::BTreeSet::new();
    for groups in 1_u32..32 {
        let granted = (0..5).filter(|number| groups & (1 << number) != 0);
        let granted = granted.map(|number| format!("group-{number}").parse().unwrap()).collect();
        let toolset = Toolset::resolve(&snapshot, Grant { groups: granted, ..Grant::default() });
        for slot in toolset.tools().iter() {
            let entry = snapshot.tool_at(slot).unwrap();
            let shown = toolset.name_for_agent(&snapshot, entry);
            assert_eq!(forms.tool_forms(slot).unwrap().name_among(toolset.tools()), &*shown);
            names.insert(shown);
        }
    }
    assert_eq!(names.len(), 8, "names clash: {names:?}");
}
