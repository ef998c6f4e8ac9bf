//! The view of an agent: its own tools under unique names, and no trace of other tools.

use std::sync::Arc;

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use model::{CallStatus, Content, ToolResult, Visibility};
use serde_json::{Map, Value, json};
use toolcrib::{
    CallContext, Command, ProvidedTool, ProviderError, Registry, ToolCallFuture, ToolLookupError,
    ToolProvider, ToolcribOptions, ViewedTool,
};

use crate::server::{Upstream, answer};
use crate::world::{World, agent, from_json};

fn names(tools: &[ViewedTool]) -> Vec<&str> {
    tools.iter().map(ViewedTool::name).collect()
}

#[tokio::test]
async fn an_agent_sees_the_tools_of_its_groups_and_no_others() {
    let world = World::with_tools(&[("pets", &["get_pet", "add_pet"]), ("bills", &["pay"])]).await;
    world.group("readers", json!({"selectors": [{"name": "get_*"}]})).await;
    world.policy("staff", json!({"role": "staff"}), &["readers"]).await;
    let staff = world.view(json!({"role": "staff", "iat": 7}));
    assert_eq!(names(&staff.list()), ["get_pet"]);
    assert!(staff.find("get_pet").is_ok());
    assert!(world.view(json!({"role": "guest"})).list().is_empty());
    assert!(world.view(json!({})).list().is_empty());
}

#[tokio::test]
async fn an_unknown_tool_and_one_that_is_not_granted_look_the_same() {
    let world = World::with_tools(&[("pets", &["get_pet", "add_pet"])]).await;
    world.group("readers", json!({"tools": ["pets:get_pet"]})).await;
    world.policy("staff", json!({"role": "staff"}), &["readers"]).await;
    let view = world.view(json!({"role": "staff"}));
    for name in ["add_pet", "no_pet", "pets__add_pet", "GET_PET", "get_pet ", "get_pet\u{200b}"] {
        let same = ToolLookupError::NoSuchTool { name: name.into() };
        assert_eq!(view.find(name).err(), Some(same), "{name}");
    }
    for id in ["pets:add_pet", "pets:no_pet", "bills:pay"] {
        let same = ToolLookupError::NoSuchTool { name: id.into() };
        assert_eq!(view.find_by_id(&id.parse().unwrap()).err(), Some(same), "{id}");
        let called = view.call_by_id(&id.parse().unwrap(), Map::new()).await;
        assert_eq!(called.unwrap_err().to_string(), format!("Tool not found: {id}"));
    }
    assert!(view.search("add", 10).await.is_empty());
}

#[tokio::test]
async fn equal_names_of_two_sources_are_disambiguated_for_agents_that_have_both() {
    let world =
        World::with_tools(&[("github", &["search", "merge"]), ("gitlab", &["search"])]).await;
    world.group("both", json!({"selectors": [{"name": "*"}]})).await;
    world.group("one", json!({"selectors": [{"source": "github"}]})).await;
    world.policy("both", json!({"role": "both"}), &["both"]).await;
    world.policy("one", json!({"role": "one"}), &["one"]).await;
    let one = world.view(json!({"role": "one"}));
    assert_eq!(names(&one.list()), ["merge", "search"]);
    assert_eq!(one.find("github__search").unwrap().name(), "search");
    let both = world.view(json!({"role": "both"}));
    assert_eq!(names(&both.list()), ["merge", "github__search", "gitlab__search"]);
    let Err(ToolLookupError::Ambiguous { names, .. }) = both.find("search") else {
        panic!("it is ambiguous")
    };
    assert_eq!(names, ["github__search", "gitlab__search"]);
    assert_eq!(both.find("gitlab__search").unwrap().id().unwrap().as_str(), "gitlab:search");
    assert_eq!(both.find("github__merge").unwrap().name(), "merge");
}

#[tokio::test]
async fn two_tools_of_one_source_renamed_to_one_name_are_disambiguated() {
    let world = World::with_tools(&[("pets", &["a", "b"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    for id in ["pets:a", "pets:b"] {
        world.rename(id, "same").await;
    }
    let view = world.view(json!({"role": "x"}));
    let list = view.list();
    assert_eq!(list.len(), 2);
    for tool in &list {
        assert!(tool.name().starts_with("pets__same_"), "{}", tool.name());
        assert_eq!(view.find(tool.name()).unwrap().id(), tool.id());
    }
    assert_ne!(list[0].name(), list[1].name());
}

#[tokio::test]
async fn disabling_any_involved_entity_stops_a_tool_at_once() {
    let world = World::with_tools(&[("pets", &["get_pet"])]).await;
    world.group("all", json!({"tools": ["pets:get_pet"]})).await;
    world.policy("p", json!({"role": "x"}), &["all"]).await;
    let count = || world.view(json!({"role": "x"})).list().len();
    let tool = |command| Command::Tool("pets:get_pet".parse().unwrap(), command);
    let source = |command| Command::Source("pets".parse().unwrap(), command);
    let group = |command| Command::Group("all".parse().unwrap(), command);
    let policy = |command| Command::Policy("p".parse().unwrap(), command);
    let exclusion = serde_json::from_value(json!([{"tool": "pets:get_pet"}])).unwrap();
    let switches = [
        (tool(ToolCommand::Disable), tool(ToolCommand::Enable)),
        (source(SourceCommand::Disable), source(SourceCommand::Enable)),
        (group(GroupCommand::Deactivate), group(GroupCommand::Activate)),
        (policy(PolicyCommand::Deactivate), policy(PolicyCommand::Activate)),
        (
            group(GroupCommand::ExcludeTools(exclusion)),
            group(GroupCommand::IncludeTools(["pets:get_pet".parse().unwrap()].into())),
        ),
    ];
    for (off, on) in switches {
        assert_eq!(count(), 1, "before {off:?}");
        world.execute(off.clone()).await;
        assert_eq!(count(), 0, "after {off:?}");
        world.execute(on).await;
    }
    assert_eq!(count(), 1);
}

#[tokio::test]
async fn visibility_can_be_set_per_source_per_group_or_per_tool() {
    let world = World::with_tools(&[("pets", &["a"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let shown = || names(&world.view(json!({"role": "x"})).list()).join(" ");
    let by_search = "tool_search execute_tool";
    assert_eq!(shown(), "a");
    let quiet = json!({"name": "pets", "url": "https://api.example", "settings": {"kind": "openapi"}, "visibility": "searchable"});
    let update = SourceCommand::Update(from_json(quiet));
    world.execute(Command::Source("pets".parse().unwrap(), update)).await;
    assert_eq!(shown(), by_search);
    world.group("loud", json!({"visibility": "listed", "selectors": [{"name": "*"}]})).await;
    world.policy("loud", json!({"role": "x"}), &["loud"]).await;
    assert_eq!(shown(), "a");
    world.set_visibility("pets:a", Visibility::Searchable).await;
    assert_eq!(shown(), by_search);
}

#[tokio::test]
async fn the_visibility_of_a_tool_overrides_its_groups_and_those_its_source() {
    let world = World::with_tools(&[("pets", &["a", "b", "c"])]).await;
    world.group("quiet", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.group("loud", json!({"visibility": "listed", "tools": ["pets:b"]})).await;
    world.policy("quiet", json!({"role": "x"}), &["quiet"]).await;
    world.policy("loud", json!({"team": "y"}), &["loud"]).await;
    world.set_visibility("pets:c", Visibility::Hidden).await;
    let view = world.view(json!({"role": "x", "team": "y"}));
    assert_eq!(names(&view.list()), ["tool_search", "execute_tool", "b"]);
    let found: Vec<_> =
        view.search("", 10).await.into_iter().map(|hit| hit.tool.name().to_owned()).collect();
    assert_eq!(found, ["a", "b"]);
    assert_eq!(view.visibility_of(&view.find("c").unwrap()), Visibility::Hidden);
    assert_eq!(names(&world.view(json!({"team": "y"})).list()), ["b"]);
}

#[tokio::test]
async fn a_granted_tool_is_called_at_its_upstream() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, br#"{"name":"Rex"}"#));
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let outcome = world.view(json!({"role": "x"})).call("get_pet", Map::new()).await.unwrap();
    assert_eq!(outcome.status, CallStatus::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Some(json!({"name": "Rex"})));
    let refused = world.view(json!({"role": "y"})).call("get_pet", Map::new()).await;
    assert_eq!(refused.unwrap_err().to_string(), "Tool not found: get_pet");
    assert_eq!(upstream.requests().len(), 1);
}

/// A provider with a tool that repeats its arguments, and one whose name is also in the catalog.
struct EchoProvider;

impl ToolProvider for EchoProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        let tool = |name: &str| ProvidedTool {
            name: name.into(),
            description: "Says it again".into(),
            input_schema: json!({"type": "object"}),
            keywords: vec!["parrot".into()],
            ..ProvidedTool::default()
        };
        vec![Arc::new(tool("echo")), Arc::new(tool("get_pet")), Arc::new(tool("echo"))]
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        Box::pin(async move {
            if name != "echo" {
                return Err(ProviderError::ToolNotFound { name: name.into() });
            }
            let text = Value::Object(arguments).to_string();
            let (content, meta) = (vec![Content::Text { text }], Map::new());
            Ok(ToolResult { content, structured_content: None, is_error: false, meta })
        })
    }
}

#[tokio::test]
async fn a_provider_adds_tools_for_one_request_and_shadows_none() {
    let world = World::with_tools(&[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let view = world.view(json!({"role": "x"})).with_provider(Arc::new(EchoProvider));
    assert_eq!(names(&view.list()), ["get_pet", "echo"]);
    assert!(view.find("get_pet").unwrap().id().is_some());
    assert_eq!(view.search("parrot", 5).await.len(), 1);
    let arguments = Map::from_iter([("a".to_owned(), json!(1))]);
    let outcome = view.call("echo", arguments).await.unwrap();
    assert_eq!(outcome.content, [Content::Text { text: r#"{"a":1}"#.into() }]);
    assert_eq!(names(&world.view(json!({"role": "x"})).list()), ["get_pet"]);
}

#[tokio::test]
async fn registered_tools_are_listed_after_the_tools_of_sources() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, br#"{"name":"Rex"}"#));
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let registry = Registry::new();
    for name in ["get_pet", "feed_pet"] {
        let tool = ProvidedTool::new(name, "Registered");
        registry.register_tool(tool, || async { "registered" }, &[]).unwrap();
    }
    let crib = world.with_options(ToolcribOptions { registry, ..ToolcribOptions::default() });
    let view = crib.view(&agent(json!({"role": "x"})));
    assert_eq!(names(&view.list()), ["get_pet", "feed_pet"]);
    let outcome = view.call("get_pet", Map::new()).await.unwrap();
    assert_eq!(outcome.result, Some(json!({"name": "Rex"})));
    // An agent without a grant for the tool of the source gets the registered one.
    let outcome = crib.view(&agent(json!({}))).call("get_pet", Map::new()).await.unwrap();
    assert_eq!(outcome.content, [Content::Text { text: "registered".into() }]);
}

#[tokio::test]
async fn unlisted_tools_are_found_by_tool_search_and_called_by_execute_tool() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, br#"{"name":"Rex"}"#));
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let view = world.view(json!({"role": "x"}));
    assert_eq!(names(&view.list()), ["tool_search", "execute_tool"]);
    let object = |value: Value| value.as_object().unwrap().clone();
    let found = view.call("tool_search", object(json!({"query": "pet"}))).await.unwrap();
    let found = &found.result.unwrap()["tools"];
    assert_eq!((&found[0]["name"], &found[0]["score"]), (&json!("get_pet"), &json!(0.8)));
    for inner in ["arguments", "parameters"] {
        let wanted = object(json!({"name": "get_pet", inner: {}}));
        let outcome = view.call("execute_tool", wanted).await.unwrap();
        assert_eq!(outcome.result, Some(json!({"name": "Rex"})));
        assert_eq!(outcome.tool_id.as_str(), "pets:get_pet");
    }
    for (name, code) in [("buy_pet", "not_granted"), ("execute_tool", "builtin_error")] {
        let refused = view.call("execute_tool", object(json!({"name": name}))).await.unwrap();
        assert_eq!(json!(refused.error.unwrap().code), json!(code));
    }
    let missing = view.call("tool_search", Map::new()).await.unwrap().error.unwrap();
    assert!(missing.message.contains("query"), "{}", missing.message);
    // An agent without any searchable tool does not get the search tools.
    let nobody = world.view(json!({"role": "y"}));
    assert_eq!(
        nobody.call("tool_search", Map::new()).await.unwrap_err().to_string(),
        "Tool not found: tool_search"
    );
}

#[tokio::test]
async fn a_view_can_be_narrowed_to_one_group_of_the_agent() {
    let world = World::with_tools(&[("pets", &["a", "b", "c"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.group("one", json!({"tools": ["pets:b"]})).await;
    world.group("other", json!({"tools": ["pets:c"]})).await;
    world.policy("x", json!({"role": "x"}), &["all", "one"]).await;
    let narrowed =
        |group: &str| world.view(json!({"role": "x"})).narrow_to_group(&group.parse().unwrap());
    let view = narrowed("one").unwrap();
    assert_eq!(names(&view.list()), ["b"]);
    assert!(view.find("a").is_err());
    assert!(narrowed("other").is_none() && narrowed("missing").is_none());
    assert_eq!(narrowed("one").unwrap().stamp(), view.stamp());
    assert_ne!(world.view(json!({"role": "x"})).stamp(), view.stamp());
}
