//! Rust source as text: comments, strings and character literals blanked, test code cut.

use std::path::{Path, PathBuf};

/// The text with comments, strings and character literals turned into spaces. Line breaks stay where they are.
pub(super) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut blanked = bytes.to_vec();
    let mut position = 0;
    while position < bytes.len() {
        match end_of_literal(bytes, position) {
            Some(end) => {
                for byte in &mut blanked[position..end] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                position = end;
            }
            None => position += 1,
        }
    }
    // Only whole characters outside of literals are left, or bytes of a character that all stay.
    String::from_utf8_lossy(&blanked).into_owned()
}

/// Where the comment, string or character literal ends that starts at `start`.
fn end_of_literal(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = &bytes[start..];
    match rest {
        [b'/', b'/', ..] => Some(start + find(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(start + block_comment_length(rest)),
        [b'"', ..] => Some(start + string_length(rest)),
        [b'\'', ..] => character_length(rest).map(|length| start + length),
        [b'r' | b'b' | b'c', ..] if start == 0 || !is_word_byte(bytes[start - 1]) => {
            raw_string_length(rest).map(|length| start + length)
        }
        _ => None,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 1;
    let mut position = 2;
    while position < rest.len() && depth > 0 {
        match &rest[position..] {
            [b'/', b'*', ..] => {
                depth += 1;
                position += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                position += 2;
            }
            _ => position += 1,
        }
    }
    position
}

fn string_length(rest: &[u8]) -> usize {
    let mut position = 1;
    while position < rest.len() && rest[position] != b'"' {
        position += if rest[position] == b'\\' { 2 } else { 1 };
    }
    (position + 1).min(rest.len())
}

/// `r"…"`, `br#"…"#` and `cr"…"`; plain byte strings start at their quote.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = if rest[0] == b'r' { 1 } else { 2 };
    if rest.get(prefix - 1) != Some(&b'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let body = prefix + hashes + 1;
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    Some(find(&rest[body..], &closing).map_or(rest.len(), |at| body + at + closing.len()))
}

/// A character literal, as opposed to a lifetime or a label.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let escape = if rest.get(2) == Some(&b'\'') || rest.get(2) == Some(&b'\\') { 3 } else { 2 };
        let end = find(rest.get(escape..)?, b"'")?;
        return (end < 12).then_some(escape + end + 1);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
    let valid = text.map_or_else(|error| error.valid_up_to(), str::len);
    let character = std::str::from_utf8(&rest[1..=valid]).ok()?.chars().next()?;
    let closing = 1 + character.len_utf8();
    let is_literal = character != '\'' && character != '\n' && rest.get(closing) == Some(&b'\'');
    is_literal.then_some(closing + 1)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The end of the block whose opening brace is the first one at or after `start`.
pub(super) fn block_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (position, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return position + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// An item under `#[cfg(test)]`, `#[cfg(any(test, …))]` or `#[cfg(all(test, …))]`.
struct TestItem {
    start: usize,
    /// Behind the keyword and the name.
    name_end: usize,
    module: Option<String>,
}

fn test_items(code: &str) -> Vec<TestItem> {
    let starts = code.match_indices("#[cfg(").map(|(start, _)| start);
    starts.filter_map(|start| test_item(code, start)).collect()
}

fn test_item(code: &str, start: usize) -> Option<TestItem> {
    let condition = tail(code, start + "#[cfg(".len());
    let attribute_end = condition.find(']')?;
    let inside = head(condition, attribute_end);
    let is_test = inside == "test)"
        || inside.starts_with("any(test") && inside.ends_with("))")
        || inside.starts_with("all(test") && inside.ends_with("))");
    if !is_test {
        return None;
    }
    let mut rest = tail(condition, attribute_end + 1).trim_start();
    while rest.starts_with("#[") {
        rest = tail(rest, rest.find(']')? + 1).trim_start();
    }
    if let Some(behind) = rest.strip_prefix("pub") {
        rest = behind.trim_start();
        if rest.starts_with('(') {
            rest = tail(rest, rest.find(')')? + 1).trim_start();
        }
    }
    let keyword = word(rest);
    if !["mod", "fn", "impl", "use", "struct", "const", "static"].contains(&keyword) {
        return None;
    }
    rest = tail(rest, keyword.len()).trim_start();
    let name = word(rest);
    let name_end = code.len() - rest.len() + name.len();
    let module = (keyword == "mod").then(|| name.to_owned());
    Some(TestItem { start, name_end, module })
}

/// The text from a byte position on; empty if the position is inside of a character.
pub(super) fn tail(text: &str, start: usize) -> &str {
    text.get(start..).unwrap_or_default()
}

/// The text up to a byte position; empty if the position is inside of a character.
fn head(text: &str, end: usize) -> &str {
    text.get(..end).unwrap_or_default()
}

/// The word that a text starts with; empty if it starts with something else.
pub(super) fn word(text: &str) -> &str {
    let end = text.bytes().position(|byte| !is_word_byte(byte)).unwrap_or(text.len());
    head(text, end)
}

/// The files and folders of the modules that `file` declares for tests only.
pub(super) fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let code = blank(text);
    let folder = file.parent().unwrap_or(file);
    let stem = file.file_stem().unwrap_or_default();
    let is_root = stem == "lib" || stem == "main" || stem == "mod";
    let base = if is_root { folder.to_owned() } else { folder.join(stem) };
    let declared = test_items(&code).into_iter().filter_map(|item| {
        let name = item.module?;
        tail(&code, item.name_end).trim_start().starts_with(';').then_some(name)
    });
    declared.flat_map(|name| [base.join(format!("{name}.rs")), base.join(&name)]).collect()
}

/// For each line, whether it belongs to a test item.
pub(super) fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count() + 1];
    for item in test_items(code) {
        let brace = tail(code, item.name_end).find('{').map(|at| item.name_end + at);
        let semicolon = tail(code, item.name_end).find(';').map(|at| item.name_end + at);
        let end = match (brace, semicolon) {
            (Some(brace), Some(semicolon)) if semicolon < brace => semicolon + 1,
            (Some(brace), _) => block_end(code, brace),
            (None, Some(semicolon)) => semicolon + 1,
            (None, None) => code.len(),
        };
        let (first, last) = (line_of(code, item.start), line_of(code, end - 1));
        for line in &mut lines[first..=last] {
            *line = true;
        }
    }
    lines
}

/// The number of the line, from 0.
pub(super) fn line_of(code: &str, position: usize) -> usize {
    code.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ */ d", "a                 d"),
            (r#"f("}\"{") + 1"#, "f(      ) + 1"),
            (r###"f(r#"}"#, br"{")"###, "f(      ,      )"),
            ("x == '}' && y == '\\'' || z == 'é'", "x ==     && y ==      || z ==     "),
            ("fn f<'a>(a: &'a str) {}", "fn f<'a>(a: &'a str) {}"),
            ("'outer: loop {}", "'outer: loop {}"),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn test_items_are_cut_to_their_last_line() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n\
                    #[cfg(all(test, unix))]\nuse x;\nfn d() {}";
        let cut = [false, true, true, true, true, false, true, true, false, false];
        assert_eq!(test_lines(code), cut);
    }

    #[test]
    fn modules_in_files_of_their_own_are_found() {
        let text =
            "#[cfg(test)]\n#[path = \"x\"]\npub(crate) mod samples;\n#[cfg(test)]\nmod tests {}";
        let found = test_modules(Path::new("src/journal.rs"), text);
        assert_eq!(found, ["src/journal/samples.rs", "src/journal/samples"].map(PathBuf::from));
        let found = test_modules(Path::new("src/lib.rs"), "#[cfg(test)] mod tests;");
        assert_eq!(found, ["src/tests.rs", "src/tests"].map(PathBuf::from));
    }
}
