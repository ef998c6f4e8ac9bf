//! The eras of the protocol: their version numbers, and the form of results in each.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use super::error_response::RpcErrorResponse;

/// The version without sessions: every request is self-contained.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";
/// The versions that begin with `initialize`, newest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] =
    ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// All supported versions, newest first.
pub(crate) const ALL_VERSIONS: [&str; 5] =
    [MODERN_VERSION, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Whether a version has resource links in tool results; they exist since 2025-06-18.
pub(crate) fn supports_resource_links(version: &str) -> bool {
    "2025-06-18" <= version
}

/// The generation of the protocol that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProtocolEra {
    Modern,
    Legacy,
}

/// The `_meta` key of the server's name and version.
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The server info of an embedding program, if it set one.
static CUSTOM_SERVER_INFO: OnceLock<Value> = OnceLock::new();

/// Sets the name and version that MCP clients see, instead of toolcrib. It applies to the whole process; set it before
/// serving anything. Returns false if the server info was already in use.
pub fn introduce_as(name: &str, version: &str) -> bool {
    CUSTOM_SERVER_INFO.set(json!({"name": name, "title": name, "version": version})).is_ok()
}

pub(crate) fn server_info() -> Value {
    let ours =
        || json!({"name": "toolcrib", "title": "toolcrib", "version": env!("CARGO_PKG_VERSION")});
    CUSTOM_SERVER_INFO.get_or_init(ours).clone()
}

/// The beginning of a `_meta` with the server info, as the next field of a result.
pub(crate) static SERVER_INFO_META: LazyLock<String> =
    LazyLock::new(|| format!(r#","_meta":{{"{SERVER}":{}"#, server_info()));

/// Adds the server info to the `_meta` of a result.
pub(crate) fn insert_server_info(meta: &mut Map<String, Value>) {
    meta.insert(SERVER.to_owned(), server_info());
}

impl ProtocolEra {
    /// The era of a version, if the version is supported.
    pub(crate) fn from_version(version: &str) -> Option<Self> {
        match version {
            MODERN_VERSION => Some(Self::Modern),
            version => LEGACY_VERSIONS.contains(&version).then_some(Self::Legacy),
        }
    }

    /// Adapts an error to the era: legacy errors have no status of their own.
    pub(crate) fn adapt_error(self, error: RpcErrorResponse) -> RpcErrorResponse {
        match self {
            Self::Modern => error,
            Self::Legacy => RpcErrorResponse { status: 200, ..error },
        }
    }

    /// A complete result, with the fields that the era adds.
    pub(crate) fn complete_result(self, result: Map<String, Value>) -> String {
        self.typed_result(result, "complete")
    }

    /// A result with its `resultType`.
    pub(crate) fn typed_result(self, mut result: Map<String, Value>, kind: &str) -> String {
        if self == Self::Modern {
            result.insert("resultType".to_owned(), kind.into());
            let meta = result.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                insert_server_info(meta);
            }
        }
        Value::Object(result).to_string()
    }

    /// A complete result with caching hints. Results depend on the caller, so they are private, and their lifetime is
    /// unknown, so they must not be cached.
    pub(crate) fn uncached_result(self, mut result: Map<String, Value>) -> String {
        if self == Self::Modern {
            result.insert("ttlMs".to_owned(), 0.into());
            result.insert("cacheScope".to_owned(), "private".into());
        }
        self.complete_result(result)
    }

    /// The part of a list result that follows the list.
    pub(crate) fn end_of_list(self, next: Option<&str>) -> String {
        let mut rest = Map::new();
        if let Some(next) = next {
            rest.insert("nextCursor".to_owned(), next.into());
        }
        let rest = self.uncached_result(rest);
        match rest.as_str() {
            "{}" => "}".to_owned(),
            rest => format!(",{}", rest.trim_start_matches('{')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modern_results_state_their_type() {
        let result = || Map::from_iter([("a".to_owned(), json!(1))]);
        assert_eq!(ProtocolEra::Legacy.complete_result(result()), r#"{"a":1}"#);
        let modern: Value =
            serde_json::from_str(&ProtocolEra::Modern.uncached_result(result())).unwrap();
        assert_eq!(
            (&modern["resultType"], &modern["ttlMs"], &modern["cacheScope"]),
            (&json!("complete"), &json!(0), &json!("private"))
        );
        assert_eq!(modern["_meta"][SERVER]["name"], "toolcrib");
    }

    #[test]
    fn the_end_of_a_list_closes_its_result() {
        for era in [ProtocolEra::Modern, ProtocolEra::Legacy] {
            for next in [None, Some("abc")] {
                let text = format!(r#"{{"tools":[]{}"#, era.end_of_list(next));
                let result: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(result.get("nextCursor").and_then(Value::as_str), next);
            }
        }
    }

    #[test]
    fn every_version_has_its_era() {
        assert!(ALL_VERSIONS.iter().all(|version| ProtocolEra::from_version(version).is_some()));
        assert_eq!(
            (ProtocolEra::from_version("2026-07-29"), ProtocolEra::from_version("")),
            (None, None)
        );
    }
}
