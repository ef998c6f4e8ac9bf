//! Arguments for the call log: with likely secrets redacted, and of bounded length.

use model::secret::is_for_secret;
use serde_json::{Map, Value};

use crate::secrets::Secrets;

/// The most bytes to record of the arguments of a call.
const LIMIT: usize = 4 << 10;

/// The arguments as JSON, truncated if they are too long.
pub(super) fn arguments(arguments: &Map<String, Value>, secrets: Option<&Secrets>) -> Box<str> {
    let mut text = String::new();
    object(arguments, secrets, &mut text);
    if LIMIT < text.len() {
        text.truncate(text.floor_char_boundary(LIMIT - "…".len()));
        text.push('…');
    }
    text.into()
}

fn object(members: &Map<String, Value>, secrets: Option<&Secrets>, to: &mut String) {
    to.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if LIMIT < to.len() {
            return;
        }
        if 0 < index {
            to.push(',');
        }
        scalar(&Value::from(cut(name)), to);
        to.push(':');
        match is_for_secret(name) {
            true => to.push_str("\"[redacted]\""),
            false => any(value, secrets, to),
        }
    }
    to.push('}');
}

fn any(value: &Value, secrets: Option<&Secrets>, to: &mut String) {
    match value {
        Value::Object(members) => object(members, secrets, to),
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                if LIMIT < to.len() {
                    return;
                }
                if 0 < index {
                    to.push(',');
                }
                any(item, secrets, to);
            }
            to.push(']');
        }
        Value::String(text) => {
            // Redact before truncating: half a secret would not be recognised.
            let text = match secrets {
                Some(secrets) if text.len() <= 16 * LIMIT => secrets.redact(text),
                Some(_) => format!("[{} bytes]", text.len()),
                None => cut(text).to_owned(),
            };
            scalar(&Value::from(cut(&text)), to);
        }
        plain => scalar(plain, to),
    }
}

fn scalar(value: &Value, to: &mut String) {
    to.push_str(&value.to_string());
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LIMIT)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> String {
        let Value::Object(members) = value else { panic!("an object") };
        arguments(&members, None).into()
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
            assert!(text.len() <= LIMIT && text.ends_with('…'), "{}", text.len());
        }
    }
}
