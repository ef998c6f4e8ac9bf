//! The `_meta` object of requests: progress token and trace context, and client details in the modern era.

use serde_json::{Map, Value, json};

use super::settings::{Call, Settings};

/// The modern protocol version.
pub(crate) const MODERN: &str = "2026-07-28";
/// The older protocol versions, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const TOKEN: &str = "progressToken";

/// Adds `_meta` to the parameters. A progress token of the caller is replaced by the id of the call, because two
/// callers may have chosen the same token.
pub(crate) fn add(
    params: &mut Map<String, Value>,
    id: u64,
    is_modern: bool,
    settings: &Settings,
    call: &Call,
) {
    let mut meta = match params.swap_remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.shift_remove(TOKEN);
    if is_modern {
        let capabilities = call.capabilities.as_ref().unwrap_or(&settings.capabilities);
        meta.insert(PROTOCOL_VERSION.to_owned(), json!(MODERN));
        meta.insert(CLIENT.to_owned(), Value::Object(settings.client.clone()));
        meta.insert(CAPABILITIES.to_owned(), Value::Object(capabilities.clone()));
        if let Some(level) = &call.log_level {
            meta.insert(LOG_LEVEL.to_owned(), json!(level));
        }
    }
    if let Some(trace) = &call.trace {
        meta.insert("traceparent".to_owned(), trace.parent().into());
        meta.extend(trace.state().map(|state| ("tracestate".to_owned(), state.into())));
    }
    if call.heard.is_some() {
        meta.insert(TOKEN.to_owned(), json!(id));
    }
    if !meta.is_empty() {
        params.insert("_meta".to_owned(), Value::Object(meta));
    }
}

/// The parameters of `initialize`.
pub(crate) fn introduction(settings: &Settings) -> Map<String, Value> {
    let [newest, ..] = LEGACY;
    Map::from_iter([
        ("protocolVersion".to_owned(), json!(newest)),
        ("capabilities".to_owned(), Value::Object(settings.capabilities.clone())),
        ("clientInfo".to_owned(), Value::Object(settings.client.clone())),
    ])
}

/// The protocol version that a server chose, if this client supports it.
pub(crate) fn chosen(result: &Map<String, Value>) -> Result<&'static str, super::McpError> {
    let offered = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let known = LEGACY.into_iter().find(|version| *version == offered);
    known.ok_or_else(|| super::McpError::Version { offered: offered.chars().take(20).collect() })
}
