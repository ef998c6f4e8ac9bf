//! Writes YAML as a person would: block style, short lists on one line, multi-line strings as blocks, and quotes only
//! if the value would be read differently without them.

use serde_json::{Map, Value};

/// Maximum width of a list on one line, in characters.
const MAX_FLOW_WIDTH: usize = 80;

pub(super) fn write_yaml(members: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_mapping(members, 0, &mut text);
    text
}

fn write_mapping(members: &Map<String, Value>, indent: usize, text: &mut String) {
    for (number, (name, value)) in members.iter().enumerate() {
        // The first field of an element follows the dash on the same line.
        if 0 < number || text.is_empty() || text.ends_with('\n') {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&format_scalar(name));
        text.push(':');
        write_field_value(value, indent, text);
    }
}

/// Writes the value after a colon.
fn write_field_value(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            write_mapping(members, indent + 2, text);
        }
        Value::Array(values) if !values.is_empty() => match format_flow_list(values) {
            Some(line) => text.push_str(&format!(" {line}\n")),
            None => {
                text.push('\n');
                write_list(values, indent + 2, text);
            }
        },
        other => write_leaf(other, indent, text),
    }
}

fn write_list(values: &[Value], indent: usize, text: &mut String) {
    for value in values {
        text.push_str(&" ".repeat(indent));
        text.push('-');
        match value {
            Value::Object(members) if !members.is_empty() => {
                text.push(' ');
                write_mapping(members, indent + 2, text);
            }
            other => write_field_value(other, indent, text),
        }
    }
}

/// Writes a scalar or an empty collection, after a colon or a dash.
fn write_leaf(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::String(lines) if is_block(lines) => {
            let keeps = if lines.ends_with('\n') { "|" } else { "|-" };
            text.push_str(&format!(" {keeps}\n"));
            for line in lines.lines() {
                if !line.is_empty() {
                    text.push_str(&" ".repeat(indent + 2));
                    text.push_str(line);
                }
                text.push('\n');
            }
        }
        Value::String(plain) => text.push_str(&format!(" {}\n", format_scalar(plain))),
        Value::Array(_) => text.push_str(" []\n"),
        Value::Object(_) => text.push_str(" {}\n"),
        other => text.push_str(&format!(" {other}\n")),
    }
}

fn format_flow_list(values: &[Value]) -> Option<String> {
    let shown = values.iter().map(|value| match value {
        Value::String(text) if text.contains('\n') => None,
        Value::String(text) => Some(format_scalar(text)),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    });
    let line = format!("[{}]", shown.collect::<Option<Vec<_>>>()?.join(", "));
    (line.chars().count() <= MAX_FLOW_WIDTH).then_some(line)
}

/// Whether the string can be written as a block and is read back unchanged.
fn is_block(text: &str) -> bool {
    let is_plain = |c: char| c == '\n' || !is_escaped(c);
    text.contains('\n')
        && text.chars().all(is_plain)
        && !text.ends_with("\n\n")
        && text
            .lines()
            .next()
            .is_some_and(|first| !first.is_empty() && !first.starts_with([' ', '\t']))
        && !text.lines().any(|line| line.chars().all(char::is_whitespace) && !line.is_empty())
}

/// A string on one line, with quotes if needed.
fn format_scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quote_scalar(text) }
}

/// Whether the string is read back unchanged without quotes, also by YAML 1.1 readers.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
    let mut before = 'a';
    let is_good = |c: char| {
        let fits = c.is_alphanumeric() || "_-./@+ :".contains(c);
        let is_split = before == ':' && c == ' ';
        before = c;
        fits && !is_split && !is_escaped(c)
    };
    text.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '_')
        && !text.ends_with([' ', ':'])
        && text.chars().all(is_good)
        && !is_word
}

fn quote_scalar(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_escaped(c) && (c as u32) < 0x1_0000 => {
                quoted.push_str(&format!("\\u{:04x}", c as u32));
            }
            c if is_escaped(c) => quoted.push_str(&format!("\\U{:08x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether the character is invisible, or is a line end for some readers.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
        || execution::is_hidden_char(c)
}
