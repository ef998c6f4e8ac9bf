//! What is counted in one file: types, functions, comments, and the modules that it uses.

use std::collections::BTreeSet;
use std::path::Path;

use crate::style::cycles::used_modules;
use crate::style::source_text::{blank, block_end, is_word_byte, line_of, tail, test_lines, word};

/// Phrases of comments that hide the actor or the thing. A phrase ends at a word boundary unless it ends with a space.
const IDIOMS: [&str; 19] = [
    "whoever",
    "nobody",
    "somebody",
    "those that",
    "those who",
    "those whose",
    "what it",
    "what is",
    "what was",
    "what they",
    "what comes",
    "what came",
    "for ever",
    "in vain",
    "is none",
    "anew",
    "held against",
    "so much ",
    "so many ",
];

const PARTICIPLES: &str = "Given Held Kept Shown Said Told Known Found Seen Done Begun Made Taken Heard Spoken Felt Sent \
    Got Set Read Written Met Left Put Bound Drawn Gone Run Hidden";

#[derive(Default)]
pub(super) struct FileFigures {
    pub(super) lines: usize,
    pub(super) types: Vec<String>,
    pub(super) functions: Vec<Function>,
    pub(super) comment_words: usize,
    pub(super) idiom_words: usize,
    pub(super) used_modules: BTreeSet<String>,
}

pub(super) struct Function {
    pub(super) name: String,
    /// From the signature to the closing brace; `None` for a declaration without a body.
    pub(super) lines: Option<usize>,
}

/// Counts in the production code of a file: items for tests only are cut first.
pub(super) fn measure_file(text: &str) -> FileFigures {
    let code = blank(text);
    let is_test = test_lines(&code);
    let keep = |source: &str| -> String {
        let lines = source.lines().enumerate();
        lines
            .map(|(number, line)| if is_test[number] { "\n".into() } else { format!("{line}\n") })
            .collect()
    };
    let production = keep(&code);
    let mut figures = FileFigures {
        lines: text.lines().count() - is_test.iter().filter(|is_test| **is_test).count(),
        types: production.lines().filter_map(type_name).collect(),
        functions: functions(&production),
        used_modules: used_modules(&production),
        ..FileFigures::default()
    };
    for comment in keep(text).lines().filter_map(comment_of) {
        figures.comment_words += comment.split_whitespace().count();
        figures.idiom_words += idioms(comment);
    }
    figures
}

/// Everything behind the first `//`, `///` or `//!` of a line.
fn comment_of(line: &str) -> Option<&str> {
    let comment = tail(line, line.find("//")? + 2);
    Some(comment.strip_prefix(['/', '!']).unwrap_or(comment))
}

fn idioms(comment: &str) -> usize {
    let comment = format!("{} ", comment.to_lowercase());
    IDIOMS.iter().map(|idiom| count_words(&comment, idiom)).sum()
}

fn count_words(text: &str, phrase: &str) -> usize {
    let found = text.match_indices(phrase);
    // `whoever's` and `nobodies` differ: a phrase may go on with a letter only where it is a whole word itself.
    found
        .filter(|(start, _)| *start == 0 || !is_word_byte(text.as_bytes()[start - 1]))
        .filter(|(start, _)| {
            let next = text.as_bytes().get(start + phrase.len());
            !phrase.starts_with("what") || next.is_none_or(|byte| !is_word_byte(*byte))
        })
        .count()
}

fn type_name(line: &str) -> Option<String> {
    let mut rest = line.trim_start_matches([' ', '\t']);
    if let Some(behind) = rest.strip_prefix("pub") {
        rest = behind;
        if rest.starts_with('(') {
            rest = tail(rest, rest.find(')')? + 1);
        }
        rest = rest.strip_prefix(' ')?;
    }
    let keyword = word(rest);
    if !["struct", "enum", "trait"].contains(&keyword) {
        return None;
    }
    let name = word(tail(rest, keyword.len()).trim_start());
    name.starts_with(|first: char| first.is_ascii_uppercase()).then(|| name.to_owned())
}

fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for (start, _) in code.match_indices("fn") {
        let is_keyword = start == 0 || !is_word_byte(code.as_bytes()[start - 1]);
        let rest = tail(code, start + 2);
        let name = word(rest.trim_start());
        if is_keyword
            && rest.starts_with(char::is_whitespace)
            && !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
        {
            let lines = body_start(code, start)
                .map(|body| line_of(code, block_end(code, body) - 1) - line_of(code, start) + 1);
            functions.push(Function { name: name.to_owned(), lines });
        }
    }
    functions
}

fn body_start(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (position, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(position),
            _ => {}
        }
    }
    None
}

/// Whether a name has no second word.
pub(super) fn is_one_word_type(name: &str) -> bool {
    let bytes = name.as_bytes();
    !bytes.windows(2).any(|pair| {
        (pair[0].is_ascii_lowercase() || pair[0].is_ascii_digit()) && pair[1].is_ascii_uppercase()
    })
}

/// Whether a name is one participle, such as `Kept` or `Asked`.
pub(super) fn is_participle(name: &str) -> bool {
    let is_regular = name.ends_with("ed")
        && !name.ends_with("eed")
        && name.len() >= 5
        && name.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
    is_regular || PARTICIPLES.split_whitespace().any(|participle| participle == name)
}

pub(super) fn is_test_path(path: &Path) -> bool {
    let folders = ["tests", "benches", "examples", "test", "testdata", "test_util", "ui"];
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    path.components().any(|part| {
        part.as_os_str().to_str().is_some_and(|part| folders.contains(&part) || part == "tests.rs")
    }) || stem.split('_').any(|word| word == "test" || word == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_functions_and_comments_of_production_code_are_counted() {
        let text = "//! A cache. Whoever asks gets what is kept.\n\npub(crate) struct Kept<T>(T);\n\
                    impl<T> Kept<T> {\n    fn get(&self) -> &T {\n        &self.0 // so many of them\n    }\n}\n\
                    trait Keeps { fn keep_all(&self); }\n\
                    #[cfg(test)]\nmod tests {\n    struct Other; // nobody\n    fn other() {}\n}\n";
        let figures = measure_file(text);
        assert_eq!(figures.types, ["Kept", "Keeps"]);
        let functions: Vec<_> =
            figures.functions.iter().map(|one| (one.name.as_str(), one.lines)).collect();
        assert_eq!(functions, [("get", Some(3)), ("keep_all", None)]);
        assert_eq!((figures.lines, figures.comment_words, figures.idiom_words), (9, 12, 3));
    }

    #[test]
    fn participles_and_single_words_are_told_from_names() {
        assert!(["Kept", "Asked", "Seen"].iter().all(|name| is_participle(name)));
        assert!(
            !["Feed", "Seed", "Red", "TokenExpired", "Tool"].iter().any(|name| is_participle(name))
        );
        assert!(is_one_word_type("Tool") && is_one_word_type("URL"));
        assert!(!is_one_word_type("ToolTable") && !is_one_word_type("Http2Stream"));
    }

    #[test]
    fn test_files_are_known_by_their_path() {
        for path in ["tests/a.rs", "src/a/tests.rs", "src/a/tests/b.rs", "src/test_world.rs"] {
            assert!(is_test_path(Path::new(path)), "{path}");
        }
        for path in ["src/a.rs", "src/attest.rs", "src/contest/a.rs"] {
            assert!(!is_test_path(Path::new(path)), "{path}");
        }
    }
}
