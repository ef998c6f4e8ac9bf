//! The crate as an embedder uses it: tools registered in code, and what agents see of them. Each test covers a
//! behaviour of the requirements L1 to L3, A6 to A8, B2, B3 and B5.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod concurrency;
mod failures;
mod openapi;
mod prompts;
mod providers;
mod resources;
mod running;
mod scores;
mod searching;
#[path = "../../../upstream/tests/support/upstream.rs"]
mod server;
mod tools;

use model::{Content, ToolResult};
use serde_json::{Map, Value};
use toolcrib::{Registry, Toolcrib};

/// The map of a JSON object.
fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The first text content of a result.
fn text(result: &ToolResult) -> &str {
    match result.content.first() {
        Some(Content::Text { text }) => text,
        other => panic!("there is no text: {other:?}"),
    }
}

async fn crib(registry: &Registry) -> Toolcrib {
    Toolcrib::from_registry(registry.clone()).await.unwrap()
}
