//! Tools that are searchable but not listed (requirements A6 to A8).

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
    registry.register_tool(ProvidedTool::new("sql_listed", "Listed"), echo, &[]).unwrap();
    crib(&registry).await.anonymous_view()
}

fn names(view: &AgentView) -> Vec<String> {
    view.list().iter().map(|tool| tool.name().to_owned()).collect()
}

#[tokio::test]
async fn a_searchable_tool_is_found_but_not_listed() {
    let view = view().await;
    assert!(!names(&view).contains(&"sql_query".to_owned()));
    let hits = tool_search_hits(&view, json!({"query": "database"})).await;
    assert_eq!((&hits[0]["name"], &hits[0]["score"]), (&json!("sql_query"), &json!(0.85)));
}

#[tokio::test]
async fn a_hidden_tool_is_neither_listed_nor_found() {
    let view = view().await;
    assert!(!names(&view).contains(&"sql_hidden".to_owned()));
    for query in ["sql_hidden", "database", ""] {
        let hits = tool_search_hits(&view, json!({"query": query})).await;
        assert!(hits.iter().all(|hit| hit["name"] != "sql_hidden"), "{query}: {hits:?}");
    }
}

#[tokio::test]
async fn tool_search_and_execute_tool_are_listed_if_any_tool_is_searchable() {
    let registry = Registry::new();
    let crib = crib(&registry).await;
    let tool = |name| ProvidedTool::new(name, "Says hello");
    registry.register_tool(tool("hello"), || async { "hello" }, &[]).unwrap();
    assert_eq!(names(&crib.anonymous_view()), ["hello"]);
    registry.register_tool(tool("hi").searchable(), || async { "hi" }, &[]).unwrap();
    assert_eq!(names(&crib.anonymous_view()), ["tool_search", "execute_tool", "hello"]);
}

async fn execute_tool_text(view: &AgentView, wanted: Value) -> Value {
    let outcome = view.call("execute_tool", object(wanted)).await.unwrap();
    json!(outcome.content[0])["text"].take()
}

#[tokio::test]
async fn execute_tool_runs_every_granted_tool() {
    let view = view().await;
    for name in ["sql_query", "sql_hidden", "sql_listed"] {
        let wanted = json!({"name": name, "arguments": {"query": "x"}});
        assert_eq!(execute_tool_text(&view, wanted).await, r#"{"query":"x"}"#);
    }
}

#[tokio::test]
async fn execute_tool_accepts_parameters_as_an_alias_of_arguments() {
    let wanted = json!({"name": "sql_query", "parameters": {"query": "x"}});
    assert_eq!(execute_tool_text(&view().await, wanted).await, r#"{"query":"x"}"#);
}

#[tokio::test]
async fn execute_tool_gives_an_error_for_an_unknown_tool() {
    let view = view().await;
    let refused = view.call("execute_tool", object(json!({"name": "nothing"}))).await.unwrap();
    assert_eq!(refused.error.unwrap().message, "Tool not found: nothing");
}

#[tokio::test]
async fn searchable_tools_of_a_request_provider_list_them_too() {
    let crib = crib(&Registry::new()).await;
    assert!(crib.anonymous_view().find("tool_search").is_err());
    let own = Registry::new();
    let mine = ProvidedTool::new("mine", "Only mine").searchable();
    own.register_tool(mine, || async { "mine" }, &[]).unwrap();
    let view = crib.anonymous_view().with_provider(std::sync::Arc::new(own));
    assert_eq!(names(&view), ["tool_search", "execute_tool"]);
    assert_eq!(view.search("mine", 10).await[0].score, 1.0);
    assert!(crib.anonymous_view().search("mine", 10).await.is_empty());
}

/// A view with this many tools that all match `page`.
async fn view_with_pages(count: usize) -> AgentView {
    let registry = Registry::new();
    for number in 0..count {
        let tool = ProvidedTool::new(format!("page_{number}"), "Turns a page").searchable();
        registry.register_tool(tool, || async { "turned" }, &[]).unwrap();
    }
    crib(&registry).await.anonymous_view()
}

async fn tool_search_hits(view: &AgentView, wanted: Value) -> Vec<Value> {
    let outcome = view.call("tool_search", object(wanted)).await.unwrap();
    outcome.result.unwrap()["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn tool_search_returns_ten_hits_by_default() {
    let view = view_with_pages(20).await;
    assert_eq!(tool_search_hits(&view, json!({"query": "page"})).await.len(), 10);
    assert_eq!(tool_search_hits(&view, json!({"query": "page", "max_results": 3})).await.len(), 3);
    assert_eq!(
        tool_search_hits(&view, json!({"query": "page", "max_results": 15})).await.len(),
        15
    );
}

#[tokio::test]
async fn tool_search_returns_at_most_a_hundred_hits() {
    let view = view_with_pages(120).await;
    assert_eq!(
        tool_search_hits(&view, json!({"query": "page", "max_results": 100})).await.len(),
        100
    );
    assert_eq!(
        tool_search_hits(&view, json!({"query": "page", "max_results": 1_000})).await.len(),
        100
    );
}

#[tokio::test]
async fn an_empty_query_returns_all_tools() {
    let view = view_with_pages(5).await;
    let mut names: Vec<_> = tool_search_hits(&view, json!({"query": ""})).await;
    names.sort_unstable_by_key(|hit| hit["name"].to_string());
    let names: Vec<_> = names.iter().map(|hit| hit["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["page_0", "page_1", "page_2", "page_3", "page_4"]);
}

#[tokio::test]
async fn hits_are_complete_and_the_best_comes_first() {
    let registry = Registry::new();
    let described = |name: &str, description: &str| {
        let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        ProvidedTool::new(name, description).with_input_schema(schema).searchable()
    };
    for (name, description, keywords) in [
        ("post_letter", "Brings an email to the post", &[][..]),
        ("send", "Sends something", &["email"]),
        ("email", "Sends it", &[]),
        ("email_draft", "Writes it down", &[]),
    ] {
        let takes = |_: Map<String, Value>| async { "done" };
        registry.register_tool(described(name, description), takes, keywords).unwrap();
    }
    let hits =
        tool_search_hits(&crib(&registry).await.anonymous_view(), json!({"query": "email"})).await;
    let rows: Vec<_> = hits
        .iter()
        .map(|hit| (hit["name"].as_str().unwrap(), hit["score"].as_f64().unwrap()))
        .collect();
    assert_eq!(rows, [("email", 1.0), ("email_draft", 0.9), ("send", 0.85), ("post_letter", 0.6)]);
    assert_eq!(hits[0]["description"], "Sends it");
    assert_eq!(hits[0]["input_schema"]["properties"]["to"]["type"], "string");
}

#[tokio::test]
async fn tools_of_a_request_provider_are_found_and_executed_by_that_request_only() {
    let crib = crib(&Registry::new()).await;
    let own = Registry::new();
    let mine = ProvidedTool::new("mine", "Only mine").searchable();
    own.register_tool(mine, || async { "mine" }, &[]).unwrap();
    let view = crib.anonymous_view().with_provider(std::sync::Arc::new(own));
    let wanted = || object(json!({"name": "mine"}));
    let outcome = view.call("execute_tool", wanted()).await.unwrap();
    assert_eq!(json!(outcome.content[0])["text"], "mine");
    let missing = crib.anonymous_view().search_only().call("execute_tool", wanted()).await.unwrap();
    assert_eq!(missing.error.unwrap().message, "Tool not found: mine");
}
