//! `regex_extract`

use std::time::{Duration, Instant};

use regex::{Captures, Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static REGEX_EXTRACT: Builtin = Builtin {
    name: "regex_extract",
    title: "Extract by a regular expression",
    description: "Finds what a regular expression matches in a text, with its groups by number or name. The expression runs in linear time; there is no look-around and there are no back-references.",
    example: r#"{"text": "order 4711, order 4712", "pattern": "order (?<id>[0-9]+)"}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Here(|arguments, _| extract(&read(arguments)?)),
};

/// The longest text and the longest pattern, in bytes, and what a compiled one may take.
const TEXT: usize = 1 << 20;
const PATTERN: usize = 1_000;
const COMPILED: usize = 1 << 20;
const MATCHES: usize = 1_000;
/// All matches together may take longer than one of them.
const TIME: Duration = Duration::from_millis(500);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Where to look.
    text: String,
    /// What to look for.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many matches at most.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 1000))]
    max_matches: usize,
}

fn hundred() -> usize {
    100
}

fn extract(arguments: &Arguments) -> Given {
    let Arguments { text, pattern, ignore_case, max_matches } = arguments;
    if TEXT < text.len() || PATTERN < pattern.len() {
        return Err(format!("a text has at most {TEXT} bytes and a pattern {PATTERN}"));
    }
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(*ignore_case)
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .build()
        .map_err(|error| format!("the pattern cannot be used: {error}"))?;
    let (start, most) = (Instant::now(), (*max_matches).clamp(1, MATCHES));
    let (mut found, mut is_all) = (Vec::new(), true);
    for captures in regex.captures_iter(text) {
        if found.len() == most || TIME < start.elapsed() {
            is_all = false;
            break;
        }
        found.push(shown(&regex, &captures));
    }
    Ok(json!({ "matches": found, "all": is_all }))
}

fn shown(regex: &Regex, captures: &Captures<'_>) -> Value {
    let whole = captures.get(0).map_or("", |whole| whole.as_str());
    let mut groups = Map::new();
    for (number, name) in regex.capture_names().enumerate().skip(1) {
        let name = name.map_or_else(|| number.to_string(), str::to_owned);
        groups.insert(name, captures.get(number).map(|group| group.as_str()).into());
    }
    match groups.is_empty() {
        true => json!({ "match": whole }),
        false => json!({ "match": whole, "groups": groups }),
    }
}
