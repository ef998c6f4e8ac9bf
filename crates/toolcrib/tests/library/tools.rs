//! `register_tool`: handlers, schemas, names, and calls in process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib::{Json, ProvidedTool, RegisterError, Registry, ToolProvider as _};

use crate::{crib, object, text};

#[derive(Deserialize, JsonSchema)]
struct Mail {
    /// Recipient email
    to: String,
    subject: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Sent {
    id: u32,
}

async fn send(mail: Mail) -> String {
    format!("sent to {} about {}", mail.to, mail.subject.unwrap_or_default())
}

fn tool(name: &str) -> ProvidedTool {
    ProvidedTool::new(name, "Send an email to a recipient")
}

#[tokio::test]
async fn register_tool_takes_an_async_fn_with_typed_arguments() {
    let registry = Registry::new();
    registry.register_tool(tool("send_email"), send, &["email", "smtp"]).unwrap();
    let known = registry.get_tool("send_email").unwrap();
    assert_eq!(
        known.input_schema,
        json!({
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "Recipient email"},
                "subject": {"type": ["string", "null"]},
            },
            "required": ["to"],
        })
    );
    assert_eq!(known.keywords, ["email".into(), "smtp".into()]);
    let result = registry.call("send_email", object(json!({"to": "a@b.c", "subject": "x"}))).await;
    assert_eq!((text(&result), result.is_error), ("sent to a@b.c about x", false));
}

#[tokio::test]
async fn register_tool_takes_a_closure_with_or_without_arguments() {
    let registry = Registry::new();
    let greeting = "hello".to_owned();
    registry
        .register_tool(tool("hello"), move || std::future::ready(greeting.clone()), &[])
        .unwrap();
    let repeats = |all: Map<String, Value>| async move { Value::Object(all).to_string() };
    let own = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    registry.register_tool(tool("repeat").with_input_schema(own.clone()), repeats, &[]).unwrap();
    assert_eq!(text(&registry.call("hello", Map::new()).await), "hello");
    assert_eq!(text(&registry.call("repeat", object(json!({"a": 1}))).await), r#"{"a":1}"#);
    assert_eq!(registry.get_tool("repeat").unwrap().input_schema, own);
}

#[tokio::test]
async fn a_typed_answer_is_structured_content_with_its_schema() {
    let registry = Registry::new();
    registry.register_tool(tool("send"), |_: Mail| async { Json(Sent { id: 7 }) }, &[]).unwrap();
    let result = registry.call("send", object(json!({"to": "a@b.c"}))).await;
    assert_eq!(result.structured_content, Some(object(json!({"id": 7}))));
    assert_eq!(text(&result), r#"{"id":7}"#);
    let promised = registry.get_tool("send").unwrap().more["outputSchema"].clone();
    assert_eq!((&promised["type"], &promised["required"]), (&json!("object"), &json!(["id"])));
}

#[tokio::test]
async fn a_second_tool_of_the_same_name_is_refused() {
    let registry = Registry::new();
    registry.register_tool(tool("who"), || async { "the first" }, &["one"]).unwrap();
    let refused = registry.register_tool(tool("who"), || async { "the second" }, &["two"]);
    assert_eq!(refused.unwrap_err().to_string(), "Tool with name 'who' already exists");
    assert_eq!(registry.list_tools().len(), 1);
    assert_eq!(registry.list_tools()[0].keywords, ["one".into()]);
    assert_eq!(text(&registry.call("who", Map::new()).await), "the first");
}

#[test]
fn a_tool_must_have_a_valid_mcp_name_and_an_object_schema() {
    let registry = Registry::new();
    let long = "x".repeat(129);
    for name in ["", "a b", "é", &long] {
        let refused = registry.register_tool(tool(name), || async {}, &[]);
        assert_eq!(refused, Err(RegisterError::InvalidName(name.into())), "{name}");
    }
    for name in ["tool_search", "execute_tool"] {
        let refused = registry.register_tool(tool(name), || async {}, &[]);
        assert_eq!(refused, Err(RegisterError::Reserved(name.into())));
    }
    let refused = registry.register_tool(tool("list"), |_: Vec<String>| async {}, &[]);
    assert_eq!(refused, Err(RegisterError::NonObjectArguments("list".into())));
    let refused =
        registry.register_tool(tool("text").with_input_schema(json!(true)), || async {}, &[]);
    assert_eq!(refused, Err(RegisterError::NonObjectArguments("text".into())));
}

#[tokio::test]
async fn registered_tools_are_listed_searched_and_called_in_process() {
    let registry = Registry::new();
    let crib = crib(&registry).await;
    assert!(crib.anonymous_view().list().is_empty());
    registry.register_tool(tool("send_email"), send, &["smtp"]).unwrap();
    let view = crib.anonymous_view();
    assert_eq!(view.list()[0].name(), "send_email");
    assert_eq!(view.search("smtp", 5).await[0].score, 0.85);
    let outcome = view.call("send_email", object(json!({"to": "a@b.c"}))).await.unwrap();
    assert_eq!(json!(outcome.content[0]), json!({"type": "text", "text": "sent to a@b.c about "}));
}
