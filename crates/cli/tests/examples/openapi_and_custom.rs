//! Tests of `examples/openapi_and_custom.rs`: an API and a program's own tools, prompts and resources at one endpoint.

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{Agent, openapi_and_custom, text};

/// The example's MCP endpoint, with its API on a separate port.
async fn app() -> Router {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, openapi_and_custom::pizzeria_api()).into_future());
    openapi_and_custom::mcp_app(api.parse().unwrap()).await.unwrap()
}

async fn call(agent: &Agent<'_>, name: &str, arguments: Value) -> Value {
    agent.ask("tools/call", json!({"name": name, "arguments": arguments})).await
}

#[tokio::test]
async fn one_list_contains_the_tools_of_the_api_and_of_the_program() {
    let app = app().await;
    let agent = Agent { app: &app, user: "" };
    let mut names = agent.list().await;
    names.sort_unstable();
    assert_eq!(names, ["get_order", "list_pizzas", "place_order", "split_bill"]);
    let listed = agent.ask("tools/list", json!({})).await;
    let orders = listed["tools"].as_array().unwrap().iter();
    let order = orders.into_iter().find(|tool| tool["name"] == "place_order").unwrap();
    assert_eq!(order["description"], "Order pizzas");
    assert_eq!(order["inputSchema"]["required"], json!(["address", "pizzas"]));
    assert_eq!(order["outputSchema"]["required"], json!(["id", "status"]));
}

#[tokio::test]
async fn operations_of_the_api_are_called_with_its_credential() {
    let app = app().await;
    let agent = Agent { app: &app, user: "" };
    let menu = call(&agent, "list_pizzas", json!({"vegetarian": true})).await;
    assert_eq!(text(&menu), r#"[{"name":"Margherita","price":8}]"#);
    let wanted = json!({"address": "Via Roma 1", "pizzas": [{"name": "Margherita"}]});
    let order = call(&agent, "place_order", wanted).await;
    assert_eq!(order["structuredContent"]["status"], "received", "{order}");
    let id = &order["structuredContent"]["id"];
    let looked = call(&agent, "get_order", json!({"order_id": id})).await;
    assert_eq!(looked["structuredContent"], json!({"id": id, "status": "baking"}));
}

#[tokio::test]
async fn api_errors_have_a_code_and_arguments_are_validated_first() {
    let app = app().await;
    let agent = Agent { app: &app, user: "" };
    let missing = call(&agent, "get_order", json!({"order_id": 1_000_000})).await;
    assert_eq!(missing["isError"], true);
    assert_eq!(missing["_meta"]["toolcrib/code"], "upstream_error");
    assert!(text(&missing).contains("no such order"), "{missing}");
    let wrong = call(&agent, "place_order", json!({"pizzas": []})).await;
    assert_eq!(wrong["_meta"]["toolcrib/code"], "validation_error");
    assert!(text(&wrong).contains("address"), "{wrong}");
}

#[tokio::test]
async fn the_tool_of_the_program_works_and_its_error_reaches_the_model() {
    let app = app().await;
    let agent = Agent { app: &app, user: "" };
    let split = call(&agent, "split_bill", json!({"cents": 1000, "guests": 3})).await;
    assert_eq!(split["structuredContent"], json!({"cents": [334, 333, 333]}));
    let failed = call(&agent, "split_bill", json!({"cents": 1000, "guests": 0})).await;
    assert_eq!(
        (text(&failed), &failed["isError"]),
        ("Error: there must be 1 to 100 guests", &json!(true))
    );
}

#[tokio::test]
async fn the_prompt_and_resources_of_the_program_are_served() {
    let app = app().await;
    let agent = Agent { app: &app, user: "" };
    let wanted = json!({"name": "plan_party", "arguments": {"guests": "12"}});
    let prompt = agent.ask("prompts/get", wanted).await;
    let words = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(words.starts_with("Plan pizza for 12 guests. Wishes: . Look at"), "{words}");
    let read = |uri: &'static str| agent.ask("resources/read", json!({"uri": uri}));
    let rules = read("pizzeria://rules").await;
    assert_eq!(rules["contents"][0]["text"], "Half a pizza for children. No pineapple after ten.");
    let receipt = read("pizzeria://receipts/7").await;
    assert_eq!(receipt["contents"][0]["text"], "Order 7: thank you!");
    let templates = agent.ask("resources/templates/list", json!({})).await;
    let template = &templates["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "pizzeria://receipts/{order}");
    let told = agent.ask("server/discover", json!({})).await;
    let told: Vec<&String> = told["capabilities"].as_object().unwrap().keys().collect();
    for capability in ["tools", "prompts", "resources"] {
        assert!(told.iter().any(|it| *it == capability), "{told:?}");
    }
}
