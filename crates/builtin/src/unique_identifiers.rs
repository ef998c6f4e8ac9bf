//! The tool `uuid`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static UUID: BuiltinTool = BuiltinTool {
    name: "uuid",
    title: "New identifiers",
    description: "Makes new identifiers that nobody else has (UUID): random ones, or ones that sort by the time they were made.",
    tags: &["identifier", "random", "guid"],
    example: r#"{"version": 7, "count": 2}"#,
    uses_network: false,
    input: arguments_schema::<UuidArguments>,
    work: BuiltinWork::Linear(|arguments, _| generate_uuids(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct UuidArguments {
    /// 4: random. 7: sorts by time.
    #[serde(default = "default_version")]
    #[schemars(extend("enum" = [4, 7]))]
    version: u8,
    /// How many.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = 100))]
    count: u8,
}

fn default_version() -> u8 {
    4
}

fn default_count() -> u8 {
    1
}

fn generate_uuids(arguments: &UuidArguments) -> BuiltinResult {
    let make = match arguments.version {
        4 => Uuid::new_v4,
        7 => Uuid::now_v7,
        other => return Err(format!("there are versions 4 and 7 here, not {other}")),
    };
    let uuids: Vec<String> = (0..arguments.count.min(100)).map(|_| make().to_string()).collect();
    Ok(json!({ "uuids": uuids }))
}
