//! YAML that a person would write: block style, short lists on one line, long texts line by line, and quotes only where
//! something else would be read without them.

use serde_json::{Map, Value};

/// The longest list that stands on one line, in characters.
const LINE: usize = 80;

pub(super) fn write(members: &Map<String, Value>) -> String {
    let mut text = String::new();
    mapping(members, 0, &mut text);
    text
}

fn mapping(members: &Map<String, Value>, indent: usize, text: &mut String) {
    for (number, (name, value)) in members.iter().enumerate() {
        // The first member of an element stands behind its dash.
        if 0 < number || text.is_empty() || text.ends_with('\n') {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&scalar(name));
        text.push(':');
        member(value, indent, text);
    }
}

/// What stands behind a colon.
fn member(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            mapping(members, indent + 2, text);
        }
        Value::Array(values) if !values.is_empty() => match on_one_line(values) {
            Some(line) => text.push_str(&format!(" {line}\n")),
            None => {
                text.push('\n');
                list(values, indent + 2, text);
            }
        },
        other => simple(other, indent, text),
    }
}

fn list(values: &[Value], indent: usize, text: &mut String) {
    for value in values {
        text.push_str(&" ".repeat(indent));
        text.push('-');
        match value {
            Value::Object(members) if !members.is_empty() => {
                text.push(' ');
                mapping(members, indent + 2, text);
            }
            other => member(other, indent, text),
        }
    }
}

/// A value without members, behind a colon or a dash.
fn simple(value: &Value, indent: usize, text: &mut String) {
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
        Value::String(plain) => text.push_str(&format!(" {}\n", scalar(plain))),
        Value::Array(_) => text.push_str(" []\n"),
        Value::Object(_) => text.push_str(" {}\n"),
        other => text.push_str(&format!(" {other}\n")),
    }
}

fn on_one_line(values: &[Value]) -> Option<String> {
    let shown = values.iter().map(|value| match value {
        Value::String(text) if text.contains('\n') => None,
        Value::String(text) => Some(scalar(text)),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    });
    let line = format!("[{}]", shown.collect::<Option<Vec<_>>>()?.join(", "));
    (line.chars().count() <= LINE).then_some(line)
}

/// Whether a text can be written line by line and read back the same.
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

/// A text on one line.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether nothing but this text would be read without quotes, by readers of YAML 1.1 too.
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

fn quoted(text: &str) -> String {
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

/// What is not to be seen, or ends a line for some readers.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
        || execution::is_hidden(c)
}
