//! The tool `current_time`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static CURRENT_TIME: Builtin = Builtin {
    name: "current_time",
    title: "Current time",
    description: "What time it is now, in UTC or in a time zone: date, time, weekday, offset and seconds since 1970.",
    tags: &["date", "clock", "now", "timezone"],
    example: r#"{"timezone": "Europe/Vienna"}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Quick(|arguments, now| current_time(&read(arguments)?, now)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A name of the IANA time zone database, such as `Europe/Vienna`; UTC without one.
    #[serde(default)]
    #[schemars(length(max = 64))]
    timezone: Option<String>,
}

fn current_time(arguments: &Arguments, now: Timestamp) -> Given {
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
