//! The tool `regex_extract`.

use std::time::{Duration, Instant};

use regex::{Captures, Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static REGEX_EXTRACT: BuiltinTool = BuiltinTool {
    name: "regex_extract",
    title: "Extract by a regular expression",
    description: "Finds what a regular expression matches in a text, with its groups by number or name. The expression runs in linear time; there is no look-around and there are no back-references.",
    tags: &["regex", "pattern", "match"],
    example: r#"{"text": "order 4711, order 4712", "pattern": "order (?<id>[0-9]+)"}"#,
    uses_network: false,
    input: arguments_schema::<RegexExtractArguments>,
    work: BuiltinWork::Expensive(|arguments| extract_matches(&parse_arguments(arguments)?)),
};

/// Longest text and longest pattern, in bytes.
const TEXT: usize = 256 << 10;
const PATTERN: usize = 1_000;
/// Limit of text length times compiled pattern size, in bytes: a search takes time proportional to it, a second or
/// two at the limit. A long text therefore allows only smaller patterns.
const MAX_SEARCH_WORK: usize = 1 << 34;
const MAX_COMPILED_SIZE: usize = 1 << 20;
const MAX_MATCHES: usize = 1_000;
/// Limits on the time and output of all matches together: nested groups can repeat the text many times.
const MAX_TOTAL_TIME: Duration = Duration::from_millis(500);
const MAX_OUTPUT: usize = 1 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct RegexExtractArguments {
    /// Where to look.
    text: String,
    /// What to look for.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many matches at most.
    #[serde(default = "default_max_matches")]
    #[schemars(range(min = 1, max = 1000))]
    max_matches: usize,
}

fn default_max_matches() -> usize {
    100
}

fn extract_matches(arguments: &RegexExtractArguments) -> BuiltinResult {
    let RegexExtractArguments { text, pattern, ignore_case, max_matches } = arguments;
    if TEXT < text.len() || PATTERN < pattern.len() {
        return Err(format!("a text has at most {TEXT} bytes and a pattern {PATTERN}"));
    }
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(*ignore_case)
        .size_limit(MAX_COMPILED_SIZE.min(MAX_SEARCH_WORK / text.len().max(1)))
        .dfa_size_limit(MAX_COMPILED_SIZE)
        .build()
        .map_err(|error| format!("the pattern cannot be used: {error}"))?;
    let (start, most) = (Instant::now(), (*max_matches).clamp(1, MAX_MATCHES));
    let (mut found, mut told, mut is_all) = (Vec::new(), 0, true);
    for captures in regex.captures_iter(text) {
        if found.len() == most {
            is_all = false;
            break;
        }
        told += captures.iter().flatten().map(|group| group.len()).sum::<usize>();
        found.push(format_match(&regex, &captures));
        if MAX_TOTAL_TIME < start.elapsed() || MAX_OUTPUT < told {
            is_all = false;
            break;
        }
    }
    Ok(json!({ "matches": found, "all": is_all }))
}

fn format_match(regex: &Regex, captures: &Captures<'_>) -> Value {
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
