//! Tools that are found and not listed (requirements A6 to A8).

use model::Visibility;
use serde_json::{Map, Value, json};
use toolcrib::{AgentView, ProvidedTool, Registry};

use crate::{crib, object};

async fn view() -> AgentView {
    let registry = Registry::new();
    let echo = |all: Map<String, Value>| async move { Value::Object(all).to_string() };
    let tool = |name| ProvidedTool::new(name, "Execute SQL queries");
    let searchable = tool("sql_query").searchable();
    registry.register_tool(searchable, echo, &["database", "sql"]).unwrap();
    let hidden = ProvidedTool { visibility: Visibility::Hidden, ..tool("sql_hidden") };
    registry.register_tool(hidden, echo, &["database"]).unwrap();
    crib(&registry).await.anyone()
}

fn names(view: &AgentView) -> Vec<String> {
    view.list().iter().map(|tool| tool.name().to_owned()).collect()
}

#[tokio::test]
async fn a_searchable_tool_is_not_listed_and_brings_the_tools_about_tools() {
    let view = view().await;
    assert_eq!(names(&view), ["tool_search", "execute_tool"]);
    let found = view.call("tool_search", object(json!({"query": "database"}))).await.unwrap();
    let found = found.result.unwrap();
    assert_eq!(found["tools"].as_array().unwrap().len(), 1, "a hidden tool is not found");
    let hit = &found["tools"][0];
    assert_eq!((&hit["name"], &hit["score"]), (&json!("sql_query"), &json!(0.85)));
    assert_eq!(hit["input_schema"]["type"], "object");
}

#[tokio::test]
async fn execute_tool_runs_what_was_found_with_arguments_or_parameters() {
    let view = view().await;
    for inner in ["arguments", "parameters"] {
        for name in ["sql_query", "sql_hidden"] {
            let wanted = object(json!({"name": name, inner: {"query": "x"}}));
            let outcome = view.call("execute_tool", wanted).await.unwrap();
            assert_eq!(json!(outcome.content[0])["text"], r#"{"query":"x"}"#);
        }
    }
    let refused = view.call("execute_tool", object(json!({"name": "nothing"}))).await.unwrap();
    assert_eq!(refused.error.unwrap().message, "Tool not found: nothing");
}

#[tokio::test]
async fn searchable_tools_of_one_request_bring_them_too() {
    let crib = crib(&Registry::new()).await;
    assert!(crib.anyone().find("tool_search").is_err());
    let own = Registry::new();
    let mine = ProvidedTool::new("mine", "Only mine").searchable();
    own.register_tool(mine, || async { "mine" }, &[]).unwrap();
    let view = crib.anyone().with_provider(std::sync::Arc::new(own));
    assert_eq!(names(&view), ["tool_search", "execute_tool"]);
    assert_eq!(view.search("mine", 10).await[0].score, 1.0);
    assert!(crib.anyone().search("mine", 10).await.is_empty());
}
