//! Writes TOML: an array of tables for each section, and one line for each field of an element.

use serde_json::{Map, Value};

/// `None` if a value contains null, which TOML cannot express.
pub(super) fn write_toml(sections: &Map<String, Value>) -> Option<String> {
    let (mut empty, mut text) = (String::new(), String::new());
    for (name, section) in sections {
        let elements = section.as_array()?;
        if elements.is_empty() {
            empty += &format!("{name} = []\n");
        }
        for element in elements {
            text += &format!("\n[[{name}]]\n");
            for (name, value) in element.as_object()? {
                text += &format!("{} = {}\n", format_key(name), format_value(value, true)?);
            }
        }
    }
    Some(empty + &text)
}

fn format_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        false => quote_string(name),
    }
}

fn format_value(value: &Value, may_have_lines: bool) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) if may_have_lines && text.contains('\n') => multi_line_string(text),
        Value::String(text) => quote_string(text),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(values) => {
            let values = values.iter().map(|value| format_value(value, may_have_lines));
            format!("[{}]", values.collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                Some(format!("{} = {}", format_key(name), format_value(value, may_have_lines)?))
            });
            format!("{{ {} }}", members.collect::<Option<Vec<_>>>()?.join(", "))
        }
    })
}

/// A multi-line string; TOML ignores a newline directly after the opening quotes.
fn multi_line_string(text: &str) -> String {
    let escaped: Vec<String> = text.split('\n').map(escape_string).collect();
    format!("\"\"\"\n{}\"\"\"", escaped.join("\n"))
}

fn quote_string(text: &str) -> String {
    format!("\"{}\"", escape_string(text))
}

fn escape_string(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            c if c.is_control() || execution::is_hidden_char(c) => match c as u32 {
                short @ 0..0x1_0000 => escaped.push_str(&format!("\\u{short:04x}")),
                long => escaped.push_str(&format!("\\U{long:08x}")),
            },
            c => escaped.push(c),
        }
    }
    escaped
}
