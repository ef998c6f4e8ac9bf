//! Texts of tools as agents read them: without invisible characters; and the check for names that shadow other tools.

use catalog::source::SourceCommand;
use catalog::tool::{ReviewState, ToolCommand};
use model::{Execution, Inventory, Manifest, RawJson, Schema, Severity};
use serde_json::{Value, json};
use toolcrib::{Command, tool_findings};

use crate::world::{World, from_json, manifest};

const URL: &str = "https://api.example";

/// A world in which the staff have all tools, prompts and resources of one source. Quarantined ones are approved as
/// well.
async fn world_of(manifests: Vec<Manifest>) -> World {
    let world = World::empty().await;
    let profile = json!({"name": "odd", "url": URL, "settings": {"kind": "mcp"}});
    let register = SourceCommand::Register(from_json(profile));
    world.execute(Command::Source("odd".parse().unwrap(), register)).await;
    let keyed = manifests.into_iter().enumerate().map(|(at, one)| (format!("t{at}"), one));
    let inventory = Inventory::new("odd".parse().unwrap(), keyed).unwrap();
    world.execute(Command::Ingest { inventory: Box::new(inventory), force: false }).await;
    let snapshot = world.crib.catalog().snapshot();
    for tool in snapshot.tools().map(|entry| &entry.tool) {
        if tool.review == ReviewState::Waiting {
            let (fingerprint, despite_findings) = (tool.fingerprint, true);
            let approve = ToolCommand::Approve { fingerprint, despite_findings };
            world.execute(Command::Tool(tool.id.clone(), approve)).await;
        }
    }
    let kinds =
        json!([{"name": "*"}, {"kind": "prompt", "name": "*"}, {"kind": "resource", "name": "*"}]);
    let mut group = json!({"selectors": kinds});
    group["profile"] = json!({"name": "all", "selector_mode": "any"});
    group["id"] = json!("all");
    let create = catalog::group::GroupCommand::Create(Box::new(from_json(group)));
    world.execute(Command::Group("all".parse().unwrap(), create)).await;
    world.policy("staff", json!({"role": "staff"}), &["all"]).await;
    world
}

fn mcp(name: &str) -> Manifest {
    Manifest { execution: Execution::McpCall, ..manifest(URL, name) }
}

fn staff() -> Value {
    json!({"role": "staff"})
}

#[tokio::test]
async fn invisible_characters_are_removed_for_agents_but_kept_in_the_catalog() {
    let schema = json!({"type": "object", "properties": {
        "size\u{200b}": {"enum": ["s\u{200b}", "m"], "description": "the\u{200b} size\u{1b}[0m"},
        "code": {"pattern": "^[\u{0}-\u{7f}]$", "default": "x\u{202e}"}}});
    let annotations = RawJson::from(&json!({"title": "Get\u{e0041} it", "readOnlyHint": true}));
    let odd = Manifest {
        title: Some("A\u{202e} title".into()),
        description: "Gets\u{e0067} a\u{200b} pet.\r\n\tTabs 👩‍🚀 and می‌خواهم stay.\rEnd".into(),
        input_schema: Schema::new(schema.clone()).unwrap(),
        output_schema: Some(Schema::new(json!({"description": "out\u{9b}"})).unwrap()),
        extra: [("annotations".into(), annotations)].into(),
        ..mcp("get_pet")
    };
    let world = world_of(vec![odd]).await;
    let view = world.view(staff());
    let tool = view.find("get_pet").unwrap();
    assert_eq!(tool.description(), "Gets a pet.\r\n\tTabs 👩‍🚀 and می‌خواهم stay.\nEnd");
    assert_eq!(tool.extra_fields()["title"], "A title");
    assert_eq!(
        tool.extra_fields()["annotations"],
        json!({"title": "Get it", "readOnlyHint": true})
    );
    assert_eq!(tool.output_schema(), Some(json!({"description": "out"})));
    let expected = json!({"type": "object", "properties": {
        "size\u{200b}": {"enum": ["s\u{200b}", "m"], "description": "the size[0m"},
        "code": {"pattern": r"^[\u0000-\u007f]$", "default": "x"}}});
    assert_eq!(tool.input_schema(), expected);
    let entry = tool.catalog_entry().unwrap();
    assert!(entry.tool.description().contains('\u{e0067}'));
    assert_eq!(entry.input_schema.as_ref().unwrap().to_value(), schema);
}

#[tokio::test]
async fn a_name_with_invisible_characters_gets_a_distinct_visible_name() {
    let world = world_of(vec![mcp("get_pet\u{200b}"), mcp("get_pet")]).await;
    let view = world.view(staff());
    let list = view.list();
    let names: Vec<&str> = list.iter().map(|tool| tool.name()).collect();
    let odd = names.iter().find(|name| **name != "get_pet").unwrap();
    assert!(names.contains(&"get_pet") && odd.starts_with("odd__get_pet__"), "{names:?}");
    assert!(odd.is_ascii());
    // The portable name still refers to the tool with the original upstream name.
    let entry = view.find(odd).unwrap();
    assert_eq!(entry.catalog_entry().unwrap().tool.name(), "get_pet\u{200b}");
}

#[tokio::test]
async fn prompts_and_resources_are_cleaned_in_the_same_way() {
    let arguments = RawJson::from(&json!([{"name": "a\u{200b}", "description": "b\u{200b}"}]));
    let prompt = Manifest {
        description: "A\u{200b} prompt".into(),
        extra: [("arguments".into(), arguments)].into(),
        execution: Execution::McpPrompt,
        ..mcp("ask\u{200b}")
    };
    let resource = Manifest {
        title: Some("T\u{200b}".into()),
        description: "R\u{1b}".into(),
        execution: Execution::McpResource { uri: "file:///a".into() },
        ..mcp("N\u{200b}")
    };
    let world = world_of(vec![prompt, resource]).await;
    let view = world.view(staff());
    let prompt = &view.prompts()[0];
    assert!(prompt.key.starts_with("odd__ask__") && prompt.key.is_ascii(), "{}", prompt.key);
    assert_eq!(prompt.fields["description"], "A prompt");
    assert_eq!(prompt.fields["arguments"], json!([{"name": "a\u{200b}", "description": "b"}]));
    let resource = Value::Object(view.resources()[0].fields.clone());
    let expected = json!({"uri": "file:///a", "name": "N", "title": "T", "description": "R"});
    assert_eq!(resource, expected);
}

#[tokio::test]
async fn an_overlong_description_is_cut() {
    let long = Manifest { description: "word ".repeat(200_000).into(), ..mcp("long") };
    let world = world_of(vec![long]).await;
    let tool = world.view(staff()).find("long").unwrap();
    assert!(tool.description().len() <= 16 * 1024);
    assert!(tool.description().ends_with("… [cut: 1000000 bytes in all]"));
}

#[tokio::test]
async fn a_shadowed_name_is_reported_but_not_quarantined() {
    let world = World::with_tools(&[
        ("mail", &["send_email", "read_email"]),
        ("evil", &["send_email", "tool_search", "other"]),
    ])
    .await;
    let snapshot = world.crib.catalog().snapshot();
    let found = |id: &str| {
        let entry = snapshot.tool(&id.parse().unwrap()).unwrap();
        assert_eq!(entry.tool.review, ReviewState::Approved);
        let found = tool_findings(&snapshot, &entry.tool).into_iter();
        found.map(|finding| (finding.check.to_string(), finding.severity)).collect::<Vec<_>>()
    };
    let shadows = |severity| vec![("name.shadows".to_owned(), severity)];
    assert_eq!(found("evil:send_email"), shadows(Severity::Note));
    assert_eq!(found("evil:tool_search"), shadows(Severity::Warning));
    for id in ["mail:send_email", "mail:read_email", "evil:other"] {
        assert_eq!(found(id), []);
    }
    let remove = Command::Source("mail".parse().unwrap(), SourceCommand::Remove);
    world.execute(remove).await;
    let snapshot = world.crib.catalog().snapshot();
    let entry = snapshot.tool(&"evil:send_email".parse().unwrap()).unwrap();
    assert_eq!(tool_findings(&snapshot, &entry.tool), []);
}
