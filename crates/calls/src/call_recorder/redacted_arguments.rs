//! Arguments for the call log: with likely secrets redacted, and of bounded length.

use model::secret_ref::is_secret_name;
use serde_json::{Map, Value};

use crate::secrets::SecretStore;

/// The most bytes to record of the arguments of a call.
const MAX_ARGUMENT_BYTES: usize = 4 << 10;

/// The arguments as JSON, truncated if they are too long.
pub(super) fn redact_arguments(
    arguments: &Map<String, Value>,
    secrets: Option<&SecretStore>,
) -> Box<str> {
    let mut text = String::new();
    write_object(arguments, secrets, &mut text);
    if MAX_ARGUMENT_BYTES < text.len() {
        text.truncate(text.floor_char_boundary(MAX_ARGUMENT_BYTES - "…".len()));
        text.push('…');
    }
    text.into()
}

fn write_object(members: &Map<String, Value>, secrets: Option<&SecretStore>, to: &mut String) {
    to.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if MAX_ARGUMENT_BYTES < to.len() {
            return;
        }
        if 0 < index {
            to.push(',');
        }
        write_scalar(&Value::from(truncate_text(name)), to);
        to.push(':');
        match is_secret_name(name) {
            true => to.push_str("\"[redacted]\""),
            false => write_value(value, secrets, to),
        }
    }
    to.push('}');
}

fn write_value(value: &Value, secrets: Option<&SecretStore>, to: &mut String) {
    match value {
        Value::Object(members) => write_object(members, secrets, to),
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                if MAX_ARGUMENT_BYTES < to.len() {
                    return;
                }
                if 0 < index {
                    to.push(',');
                }
                write_value(item, secrets, to);
            }
            to.push(']');
        }
        Value::String(text) => {
            // Redact before truncating: half a secret would not be recognised.
            let text = match secrets {
                Some(secrets) if text.len() <= 16 * MAX_ARGUMENT_BYTES => secrets.redact(text),
                Some(_) => format!("[{} bytes]", text.len()),
                None => truncate_text(text).to_owned(),
            };
            write_scalar(&Value::from(truncate_text(&text)), to);
        }
        plain => write_scalar(plain, to),
    }
}

fn write_scalar(value: &Value, to: &mut String) {
    to.push_str(&value.to_string());
}

fn truncate_text(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_ARGUMENT_BYTES)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> String {
        let Value::Object(members) = value else { panic!("an object") };
        redact_arguments(&members, None).into()
    }

    #[test]
    fn likely_secrets_are_redacted() {
        let text = shown(json!({
            "user": "ada", "Password": "p1", "api-key": ["p2"], "n": 1.5,
            "deep": [{"accessToken": {"v": "p3"}, "x\"y": null}],
        }));
        assert_eq!(
            text,
            r#"{"user":"ada","Password":"[redacted]","api-key":"[redacted]","n":1.5,"deep":[{"accessToken":"[redacted]","x\"y":null}]}"#
        );
    }

    #[test]
    fn recorded_arguments_have_a_bounded_length() {
        for value in [
            json!({"a": "é".repeat(100_000)}),
            json!({"a": vec![1; 100_000]}),
            json!({"a".repeat(100_000): 1, "b": {"c": "d".repeat(9_000)}}),
        ] {
            let text = shown(value);
            assert!(text.len() <= MAX_ARGUMENT_BYTES && text.ends_with('…'), "{}", text.len());
        }
    }
}
