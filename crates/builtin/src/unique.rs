//! The tool `uuid`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static UUID: Builtin = Builtin {
    name: "uuid",
    title: "New identifiers",
    description: "Makes new identifiers that nobody else has (UUID): random ones, or ones that sort by the time they were made.",
    tags: &["identifier", "random", "guid"],
    example: r#"{"version": 7, "count": 2}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Quick(|arguments, _| uuids(&read(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// 4: random. 7: sorts by time.
    #[serde(default = "random")]
    #[schemars(extend("enum" = [4, 7]))]
    version: u8,
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    count: u8,
}

fn random() -> u8 {
    4
}

fn one() -> u8 {
    1
}

fn uuids(arguments: &Arguments) -> Given {
    let make = match arguments.version {
        4 => Uuid::new_v4,
        7 => Uuid::now_v7,
        other => return Err(format!("there are versions 4 and 7 here, not {other}")),
    };
    let uuids: Vec<String> = (0..arguments.count.min(100)).map(|_| make().to_string()).collect();
    Ok(json!({ "uuids": uuids }))
}
