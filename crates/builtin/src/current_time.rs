//! The tool `current_time`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static CURRENT_TIME: BuiltinTool = BuiltinTool {
    name: "current_time",
    title: "Current time",
    description: "What time it is now, in UTC or in a time zone: date, time, weekday, offset and seconds since 1970.",
    tags: &["date", "clock", "now", "timezone"],
    example: r#"{"timezone": "Europe/Vienna"}"#,
    uses_network: false,
    input: arguments_schema::<CurrentTimeArguments>,
    work: BuiltinWork::Linear(|arguments, now| current_time(&parse_arguments(arguments)?, now)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct CurrentTimeArguments {
    /// A name of the IANA time zone database, such as `Europe/Vienna`; UTC without one.
    #[serde(default)]
    #[schemars(length(max = 64))]
    timezone: Option<String>,
}

fn current_time(arguments: &CurrentTimeArguments, now: Timestamp) -> BuiltinResult {
    let name = arguments.timezone.as_deref().unwrap_or("UTC");
    let zone = TimeZone::get(name)
        .map_err(|_| format!("there is no time zone `{name}`: use a name such as Europe/Vienna"))?;
    let here = now.to_zoned(zone);
    Ok(json!({
        "time": here.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "timezone": name,
        "weekday": here.strftime("%A").to_string(),
        "utc": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "unix_seconds": now.as_second(),
    }))
}
