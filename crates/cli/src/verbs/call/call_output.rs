//! Output of `toolcrib call`: requests and outcomes, as text and as JSON.

use api_types::request_preview::{RequestPreview, plain_lines};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use execution::escape_json;
use model::{BlobContent, Content, MediaContent, Outcome};
use serde_json::{Map, Value};

use crate::arguments::VerbOutcome;
use crate::cli_error::CliError;
use crate::output;

pub(super) fn print_request(shown: &RequestPreview, json: bool) -> Result<(), CliError> {
    match json {
        true => output::print_json(shown),
        false => output::print_text(&shown.to_text()),
    }
}

/// Prints the result to stdout. A failed call is returned as a failure: message on stderr, exit code 1.
pub(super) fn print_outcome(outcome: &Outcome, json: bool) -> Result<VerbOutcome, CliError> {
    if json {
        output::print_json(outcome)?;
    }
    if let Some(failure) = &outcome.error {
        return Err(CliError::CallFailed { message: failure.message.clone() });
    }
    if !json {
        output::print_text(&outcome_text(outcome))?;
    }
    Ok(VerbOutcome::Success)
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    if let Some(result) = &outcome.result {
        let pretty = serde_json::to_string_pretty(result).expect("a value is JSON");
        parts.push(escape_json(&pretty));
    }
    // Servers repeat the structured result, or its main field, as text for clients without structured output.
    let says_it_again = |content: &&Content| match (content, &outcome.result) {
        (Content::Text { text }, Some(result)) => {
            let mut members = result.as_object().into_iter().flat_map(Map::values);
            serde_json::from_str::<Value>(text).is_ok_and(|said| {
                said == *result || (said.is_array() && members.any(|member| *member == said))
            })
        }
        _ => false,
    };
    let rest = outcome.content.iter().filter(|content| !says_it_again(content));
    parts.extend(rest.map(content_text));
    parts.join("\n")
}

fn content_text(content: &Content) -> String {
    let bytes = |base64: &str, kind: &str| {
        let length = BASE64_STANDARD.decode(base64).map_or(0, |bytes| bytes.len());
        format!(
            "({length} bytes of {}; --json has them in Base64)",
            output::escape_for_terminal(kind)
        )
    };
    match content {
        Content::Text { text } => plain_lines(text),
        Content::Image(MediaContent { data, mime_type })
        | Content::Audio(MediaContent { data, mime_type }) => bytes(data, mime_type),
        Content::Resource { resource: BlobContent { mime_type, blob, .. } } => {
            bytes(blob, mime_type)
        }
        Content::Other(value) => escape_json(&value.to_string()),
    }
}
