//! Lists: all pages, unchanged items, limits.

use mcp_client::{McpCallOptions, McpError, McpItemKind, McpListWarning};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn listed_items_are_returned_unchanged() {
    let connection = open("legacy").await;
    let listing =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap();
    let tool = r#"{"name":"echo","vendor":{"y":1,"x":[1.1]},"inputSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"$ref":"http://never.invalid/"}}}}"#;
    let listed: Vec<_> = listing.items.iter().map(|item| json!(item).to_string()).collect();
    assert_eq!(listed, [tool]);
    assert_eq!(listing.warnings, []);
}

#[tokio::test]
async fn all_pages_are_read_and_duplicates_are_reported() {
    let listing = open("pages")
        .await
        .fetch_list(McpItemKind::Tools, McpCallOptions::default())
        .await
        .unwrap();
    assert_eq!(listing.items.len(), 5 * 3 + 1);
    assert_eq!(listing.extra, object(json!({"ttlMs": 5})));
    let twice = McpListWarning::Duplicate { key: "again".into() };
    assert_eq!(listing.warnings.iter().filter(|it| **it == twice).count(), 4);
    let nameless = |it: &&McpListWarning| matches!(it, McpListWarning::Unnamed { .. });
    assert_eq!(listing.warnings.iter().filter(nameless).count(), 10);
}

#[tokio::test]
async fn an_endless_list_is_aborted() {
    let mut settings = settings();
    settings.limits.max_pages = 50;
    let connection = open_with("endless", &settings).await.unwrap();
    let error =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the answer to `tools/list` has more than 50 pages, which are not read: ask for less, or have the server send less"
    );
}

#[tokio::test]
async fn a_repeated_cursor_is_an_error() {
    let error = open("circle")
        .await
        .fetch_list(McpItemKind::Tools, McpCallOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, McpError::CursorLoop { .. }), "{error}");
}

#[tokio::test]
async fn too_many_items_or_bytes_of_a_list_are_refused() {
    let connection = open("many").await;
    let error =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { what: "items", .. }), "{error}");
    let mut settings = settings();
    (settings.limits.max_items, settings.limits.max_list_bytes) = (1_000_000, 1_000_000);
    let connection = open_with("many", &settings).await.unwrap();
    let error =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { what: "bytes", .. }), "{error}");
}

#[tokio::test]
async fn a_page_with_too_many_values_is_not_parsed() {
    let connection = open("very-many").await;
    let error =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { what: "values", .. }), "{error}");
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn the_error_of_a_refused_list_has_the_code_but_not_the_message() {
    let error = open("legacy")
        .await
        .fetch_list(McpItemKind::Prompts, McpCallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the server refused `prompts/list` with -32601: see its log");
}
