//! The `_meta` object of requests: progress token and trace context, and client details in the modern era.

use serde_json::{Map, Value, json};

use super::connection_settings::{ConnectionSettings, McpCallOptions};

/// The modern protocol version.
pub(crate) const MODERN: &str = "2026-07-28";
/// The older protocol versions, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";

/// Adds `_meta` to the parameters. A progress token of the caller is replaced by the id of the call, because two
/// callers may have chosen the same token.
pub(crate) fn add_meta(
    params: &mut Map<String, Value>,
    id: u64,
    is_modern: bool,
    settings: &ConnectionSettings,
    call: &McpCallOptions,
) {
    let mut meta = match params.swap_remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.shift_remove(PROGRESS_TOKEN);
    if is_modern {
        let capabilities = call.capabilities.as_ref().unwrap_or(&settings.capabilities);
        meta.insert(PROTOCOL_VERSION.to_owned(), json!(MODERN));
        meta.insert(CLIENT_INFO.to_owned(), Value::Object(settings.client_info.clone()));
        meta.insert(CAPABILITIES.to_owned(), Value::Object(capabilities.clone()));
        if let Some(level) = &call.log_level {
            meta.insert(LOG_LEVEL.to_owned(), json!(level));
        }
    }
    if let Some(trace) = &call.trace {
        meta.insert("traceparent".to_owned(), trace.to_traceparent().into());
        meta.extend(trace.tracestate().map(|state| ("tracestate".to_owned(), state.into())));
    }
    if call.notifications.is_some() {
        meta.insert(PROGRESS_TOKEN.to_owned(), json!(id));
    }
    if !meta.is_empty() {
        params.insert("_meta".to_owned(), Value::Object(meta));
    }
}

/// The parameters of `initialize`.
pub(crate) fn initialize_params(settings: &ConnectionSettings) -> Map<String, Value> {
    let [newest, ..] = LEGACY;
    Map::from_iter([
        ("protocolVersion".to_owned(), json!(newest)),
        ("capabilities".to_owned(), Value::Object(settings.capabilities.clone())),
        ("clientInfo".to_owned(), Value::Object(settings.client_info.clone())),
    ])
}

/// The protocol version that a server chose, if this client supports it.
pub(crate) fn negotiated_version(
    result: &Map<String, Value>,
) -> Result<&'static str, super::McpError> {
    let offered = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let known = LEGACY.into_iter().find(|version| *version == offered);
    known.ok_or_else(|| super::McpError::UnsupportedVersion {
        offered: offered.chars().take(20).collect(),
    })
}
