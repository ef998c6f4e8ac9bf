//! The meta tools `tool_search` and `execute_tool`: how an agent reaches tools that are not in its list (requirements
//! A6 to A8).
//!
//! This module is isolated, so that it can follow a future MCP standard for tool search.

mod tool_search;

use std::sync::LazyLock;

use execution::{ArgumentValidator, UndeclaredArguments};
use serde_json::{Map, Value, json};

use crate::meta_tool::MetaTool;

pub(super) use tool_search::run_tool_search;

/// Default and maximum number of search results.
const DEFAULT_RESULTS: u64 = 10;
const MAX_RESULTS: u64 = 100;

impl MetaTool {
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Search => {
                "Find tools that are not in the list: say in a few words what you want to do. Each hit has \
                 a name, a description and the schema of its arguments; call it with execute_tool."
            }
            Self::Execute => "Call a tool by the name that tool_search found, with its arguments.",
        }
    }

    /// The argument schema, compiled once.
    pub(super) fn argument_schema(self) -> &'static ArgumentValidator {
        static SEARCH: LazyLock<ArgumentValidator> =
            LazyLock::new(|| MetaTool::Search.compile_schema());
        static EXECUTE: LazyLock<ArgumentValidator> =
            LazyLock::new(|| MetaTool::Execute.compile_schema());
        match self {
            Self::Search => &SEARCH,
            Self::Execute => &EXECUTE,
        }
    }

    fn compile_schema(self) -> ArgumentValidator {
        ArgumentValidator::compile(&self.input_schema(), UndeclaredArguments::Sent)
    }

    pub(crate) fn input_schema(self) -> Value {
        match self {
            Self::Search => json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What the tool is to do; empty lists all"},
                    "max_results": {
                        "type": "integer", "minimum": 1, "default": DEFAULT_RESULTS,
                        "description": "How many tools at most; never more than 100",
                    },
                    "detail": {
                        "type": "string", "enum": ["names", "summary", "full"], "default": "full",
                        "description": "How much of each: only names, the first sentence too, or all",
                    },
                    "kinds": {
                        "type": "array", "items": {"enum": ["tools", "prompts", "resources"]},
                        "default": ["tools"],
                        "description": "What to look for; prompts and resources only if they are named",
                    },
                    "max_tokens": {
                        "type": "integer", "minimum": 1,
                        "description": "How long the answer may be; the worse a hit, the less is said of it",
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
            Self::Execute => json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the tool"},
                    "arguments": {"type": "object", "description": "Its arguments, as its schema says"},
                    "parameters": {"type": "object", "description": "The same as `arguments`"},
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
        }
    }
}

/// Parses the arguments of `execute_tool`: the name of the tool, and its arguments.
pub(super) fn parse_execute_arguments(
    mut arguments: Map<String, Value>,
) -> (String, Map<String, Value>) {
    let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut object = |member: &str| match arguments.remove(member) {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    };
    let inner = object("arguments").or_else(|| object("parameters"));
    (name, inner.unwrap_or_default())
}
