//! The eras of the protocol: what their versions are called, and how a result is dressed in each.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use super::error::RpcError;

/// The version without sessions, where every request says everything.
pub(crate) const MODERN: &str = "2026-07-28";
/// The versions that begin with `initialize`, the newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// All of them.
pub(crate) const ALL: [&str; 5] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Whether a version has links to resources in the results of tools: they came in 2025-06-18.
pub(crate) fn knows_links(version: &str) -> bool {
    "2025-06-18" <= version
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Era {
    Modern,
    Legacy,
}

/// The member of `_meta` that says who we are.
pub(crate) const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// What the program says it is, if that is not toolcrib.
static INTRODUCED: OnceLock<Value> = OnceLock::new();

/// Tells MCP clients that this program is called so, in place of toolcrib. It holds for the whole program, from its first
/// word on: say it before anything is served. Whether it was in time.
pub fn introduce_as(name: &str, version: &str) -> bool {
    INTRODUCED.set(json!({"name": name, "title": name, "version": version})).is_ok()
}

pub(crate) fn server_info() -> Value {
    let ours =
        || json!({"name": "toolcrib", "title": "toolcrib", "version": env!("CARGO_PKG_VERSION")});
    INTRODUCED.get_or_init(ours).clone()
}

/// The beginning of a `_meta` that says who we are, as the next member of a result.
pub(crate) static SIGNED: LazyLock<String> =
    LazyLock::new(|| format!(r#","_meta":{{"{SERVER}":{}"#, server_info()));

/// Says who we are, in the `_meta` of a result.
pub(crate) fn sign(meta: &mut Map<String, Value>) {
    meta.insert(SERVER.to_owned(), server_info());
}

impl Era {
    /// The version of a header, if it is one of ours.
    pub(crate) fn of(version: &str) -> Option<Self> {
        match version {
            MODERN => Some(Self::Modern),
            version => LEGACY.contains(&version).then_some(Self::Legacy),
        }
    }

    /// An error as the era tells it: in the older one it has no status of its own.
    pub(crate) fn told(self, error: RpcError) -> RpcError {
        match self {
            Self::Modern => error,
            Self::Legacy => RpcError { status: 200, ..error },
        }
    }

    /// A result that is done, with what the era adds to it.
    pub(crate) fn complete(self, result: Map<String, Value>) -> String {
        self.dressed(result, "complete")
    }

    /// A result that says what kind it is.
    pub(crate) fn dressed(self, mut result: Map<String, Value>, kind: &str) -> String {
        if self == Self::Modern {
            result.insert("resultType".to_owned(), kind.into());
            let meta = result.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                sign(meta);
            }
        }
        Value::Object(result).to_string()
    }

    /// The same for a result that may be kept for a while: for whom and how long. Whatever depends on who asks is
    /// private, and nobody can say now for how long it will be true.
    pub(crate) fn uncached(self, mut result: Map<String, Value>) -> String {
        if self == Self::Modern {
            result.insert("ttlMs".to_owned(), 0.into());
            result.insert("cacheScope".to_owned(), "private".into());
        }
        self.complete(result)
    }

    /// What stands after the list in the result of a list.
    pub(crate) fn end_of_list(self, next: Option<&str>) -> String {
        let mut rest = Map::new();
        if let Some(next) = next {
            rest.insert("nextCursor".to_owned(), next.into());
        }
        let rest = self.uncached(rest);
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
    fn a_result_says_what_it_is_where_the_era_wants_it() {
        let result = || Map::from_iter([("a".to_owned(), json!(1))]);
        assert_eq!(Era::Legacy.complete(result()), r#"{"a":1}"#);
        let modern: Value = serde_json::from_str(&Era::Modern.uncached(result())).unwrap();
        assert_eq!(
            (&modern["resultType"], &modern["ttlMs"], &modern["cacheScope"]),
            (&json!("complete"), &json!(0), &json!("private"))
        );
        assert_eq!(modern["_meta"][SERVER]["name"], "toolcrib");
    }

    #[test]
    fn the_end_of_a_list_closes_its_result() {
        for era in [Era::Modern, Era::Legacy] {
            for next in [None, Some("abc")] {
                let text = format!(r#"{{"tools":[]{}"#, era.end_of_list(next));
                let result: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(result.get("nextCursor").and_then(Value::as_str), next);
            }
        }
    }

    #[test]
    fn every_version_has_its_era() {
        assert!(ALL.iter().all(|version| Era::of(version).is_some()));
        assert_eq!((Era::of("2026-07-29"), Era::of("")), (None, None));
    }
}
