//! The tool `text_statistics`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static TEXT_STATISTICS: BuiltinTool = BuiltinTool {
    name: "text_statistics",
    title: "Text statistics",
    description: "Counts the characters, words, lines, sentences and bytes of a text, and estimates its tokens.",
    tags: &["count", "words", "length"],
    example: r#"{"text": "One line.\nAnother one!"}"#,
    uses_network: false,
    input: arguments_schema::<TextStatisticsArguments>,
    work: BuiltinWork::Linear(|arguments, _| count_text(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct TextStatisticsArguments {
    /// What to count.
    text: String,
}

fn count_text(arguments: &TextStatisticsArguments) -> BuiltinResult {
    let text = arguments.text.as_str();
    let words = || text.split_whitespace();
    let ends = |word: &&str| {
        let word = word.trim_end_matches(['"', '\'', ')', ']', '»', '”', '’']);
        word.ends_with(['.', '!', '?', '…', '。', '！', '？'])
    };
    let ended = words().filter(ends).count();
    let is_open = words().last().is_some_and(|last| !ends(&last));
    Ok(json!({
        "characters": text.chars().count(),
        "words": words().filter(|word| word.contains(char::is_alphanumeric)).count(),
        "lines": text.lines().count(),
        "sentences": ended + usize::from(is_open),
        "bytes": text.len(),
        "tokens_estimated": text.len().div_ceil(4),
    }))
}
