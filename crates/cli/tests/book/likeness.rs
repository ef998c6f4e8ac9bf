//! Compares the output of a command with the output that a page shows.
//!
//! `…` in a line stands for any part of it; a line of only `…` for any number of lines. JSON may span several lines.

/// Compares complete output.
pub(crate) fn is_like(shown: &[String], said: &str) -> bool {
    let shown = joined(shown);
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    let said: Vec<&str> = said.trim_end().lines().map(str::trim_end).collect();
    lines_are_like(without_last_blank(&shown), &said)
}

/// Compares the beginning of output that is still being written.
pub(crate) fn begins_like(shown: &[String], said: &str) -> bool {
    let mut shown = shown.to_owned();
    shown.push("…".to_owned());
    is_like(&shown, said)
}

fn without_last_blank<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    match lines {
        [lines @ .., ""] => without_last_blank(lines),
        lines => lines,
    }
}

/// Joins a line with more opening than closing brackets with the lines after it.
fn joined(shown: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in shown {
        match lines.last_mut() {
            Some(last) if last.starts_with(['{', '[']) && 0 < open_brackets(last) => *last += line,
            _ => lines.push(line.clone()),
        }
    }
    lines
}

fn open_brackets(line: &str) -> i32 {
    let worth = |character| match character {
        '{' | '[' => 1,
        '}' | ']' => -1,
        _ => 0,
    };
    line.chars().map(worth).sum()
}

fn lines_are_like(shown: &[&str], said: &[&str]) -> bool {
    match (shown, said) {
        ([], said) => said.is_empty(),
        (["…", rest @ ..], _) => {
            (0..=said.len()).any(|skipped| lines_are_like(rest, said.get(skipped..).unwrap_or(&[])))
        }
        ([line, shown @ ..], [heard, said @ ..]) => {
            line_is_like(line, heard) && lines_are_like(shown, said)
        }
        (_, []) => false,
    }
}

fn line_is_like(shown: &str, said: &str) -> bool {
    let Some((beginning, rest)) = shown.split_once('…') else {
        return shown == said;
    };
    let Some(said) = said.strip_prefix(beginning) else {
        return false;
    };
    let mut places = said.char_indices().map(|(place, _)| place).chain([said.len()]);
    places.any(|place| said.get(place..).is_some_and(|said| line_is_like(rest, said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn ellipses_stand_for_parts_of_lines_or_for_lines() {
        for (page, said) in [
            ("one\ntwo", "one\ntwo\n"),
            ("id …, at …", "id 7, at noon"),
            ("one\n…\nfour", "one\ntwo\nthree\nfour"),
            ("…\nfour", "four"),
            ("{\"a\":[1,\n2],\n\"b\":…}", "{\"a\":[1,2],\"b\":{\"c\":3}}"),
        ] {
            assert!(is_like(&shown(page), said), "{page}");
        }
        for (page, said) in [
            ("one", "one\ntwo"),
            ("one\ntwo", "one"),
            ("id …, at …", "id 7\nat noon"),
            ("one\n…\nfour", "one\ntwo"),
            ("{\"a\":1,\n\"b\":2}", "{\"a\":1,\"b\":3}"),
        ] {
            assert!(!is_like(&shown(page), said), "{page}");
        }
    }

    #[test]
    fn unfinished_output_is_compared_as_far_as_it_is_shown() {
        assert!(begins_like(&shown("one"), "one\ntwo"));
        assert!(!begins_like(&shown("one\ntwo"), "one\n"));
    }
}
