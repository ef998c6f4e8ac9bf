//! Lists: all pages, as they came, within bounds.

use serde_json::json;
use upstream::mcp::{Call, ListOf, ListWarning, McpError};

use crate::support::*;

#[tokio::test]
async fn what_is_listed_is_handed_over_as_it_came() {
    let connection = open("legacy").await;
    let listing = connection.list(ListOf::Tools, Call::default()).await.unwrap();
    let tool = r#"{"name":"echo","vendor":{"y":1,"x":[1.1]},"inputSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"$ref":"http://never.invalid/"}}}}"#;
    let listed: Vec<_> = listing.items.iter().map(|item| json!(item).to_string()).collect();
    assert_eq!(listed, [tool]);
    assert_eq!(listing.warnings, []);
}

#[tokio::test]
async fn all_pages_are_read_and_what_is_there_twice_is_told() {
    let listing = open("pages").await.list(ListOf::Tools, Call::default()).await.unwrap();
    assert_eq!(listing.items.len(), 5 * 3 + 1);
    assert_eq!(listing.beside, object(json!({"ttlMs": 5})));
    let twice = ListWarning::Twice { key: "again".into() };
    assert_eq!(listing.warnings.iter().filter(|it| **it == twice).count(), 4);
    let nameless = |it: &&ListWarning| matches!(it, ListWarning::Nameless { .. });
    assert_eq!(listing.warnings.iter().filter(nameless).count(), 10);
}

#[tokio::test]
async fn a_list_without_end_is_given_up() {
    let mut settings = settings();
    settings.limits.max_pages = 50;
    let connection = open_with("endless", &settings).await.unwrap();
    let error = connection.list(ListOf::Tools, Call::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the answer to `tools/list` has more than 50 pages, which are not read: ask for less, or have the server send less"
    );
}

#[tokio::test]
async fn a_cursor_that_comes_twice_is_found() {
    let error = open("circle").await.list(ListOf::Tools, Call::default()).await.unwrap_err();
    assert!(matches!(error, McpError::Circle { .. }), "{error}");
}

#[tokio::test]
async fn too_many_tools_are_too_many() {
    let connection = open("many").await;
    let error = connection.list(ListOf::Tools, Call::default()).await.unwrap_err();
    assert!(matches!(error, McpError::TooMuch { what: "items", .. }), "{error}");
    let mut settings = settings();
    (settings.limits.max_items, settings.limits.max_list) = (1_000_000, 1_000_000);
    let connection = open_with("many", &settings).await.unwrap();
    let error = connection.list(ListOf::Tools, Call::default()).await.unwrap_err();
    assert!(matches!(error, McpError::TooMuch { what: "bytes", .. }), "{error}");
}

#[tokio::test]
async fn so_many_tools_on_one_page_that_they_would_take_much_memory_are_not_read() {
    let connection = open("very-many").await;
    let error = connection.list(ListOf::Tools, Call::default()).await.unwrap_err();
    assert!(matches!(error, McpError::TooMuch { what: "values", .. }), "{error}");
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_a_list_is_quoted_by_number() {
    let error = open("legacy").await.list(ListOf::Prompts, Call::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the server refused `prompts/list` with -32601: see its log");
}
