//! Splits texts into words: at every character that is neither letter nor digit, at case changes, and between letters
//! and digits; in lower case. A compound also counts as a whole: `base64` gives `base`, `64` and `base64`.
//!
//! Scripts without word separators give every two adjacent characters, which finds words of any length.

/// Length of the longest word, in characters. The rest of a longer one is ignored.
const WORD_CHARACTERS: usize = 48;

/// Calls `each` with every word of a text, in order, the parts of a compound before the whole.
pub(super) fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let (mut run, mut lower) = (Vec::new(), String::new());
    for character in text.chars().chain([' ']) {
        if character.is_alphanumeric() {
            if run.len() < WORD_CHARACTERS {
                run.push(character);
            }
        } else if !run.is_empty() {
            for_each_part(&run, &mut lower, &mut each);
            run.clear();
        }
    }
}

/// Calls `each` with every token between spaces that contains symbols, in lower case: `e-mail`, `node.js`, `c++`.
pub(super) fn for_each_symbol_word(text: &str, mut each: impl FnMut(&str)) {
    for run in text.split_whitespace() {
        let run = run.trim_start_matches(['(', '[', '{', '<', '"', '\'', '`', '*', '“', '‘']);
        let run = run.trim_end_matches([
            ')', ']', '}', '>', '"', '\'', '`', '*', '”', '’', '.', ',', ';', ':', '!', '?', '…',
        ]);
        let has_letters = run.chars().any(char::is_alphanumeric);
        let has_signs = !run.chars().all(char::is_alphanumeric);
        if has_letters && has_signs && run.chars().nth(WORD_CHARACTERS).is_none() {
            each(&run.to_lowercase());
        }
    }
}

/// The text in lower case without separators: equal for `read_file`, `readFile` and `Read file`.
pub(super) fn squash_text(text: &str) -> String {
    let kept = text.chars().filter(|character| character.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

/// Like `squash_text`, but limited to the length of a word of [`for_each_word`].
pub(super) fn squash_word(text: &str) -> String {
    let kept = text.chars().filter(|character| character.is_alphanumeric()).take(WORD_CHARACTERS);
    kept.flat_map(char::to_lowercase).collect()
}

fn for_each_part(run: &[char], lower: &mut String, each: &mut impl FnMut(&str)) {
    let mut emit = |part: &[char]| {
        lower.clear();
        for character in part {
            match character.is_ascii() {
                true => lower.push(character.to_ascii_lowercase()),
                false => lower.extend(character.to_lowercase()),
            }
        }
        each(lower);
    };
    let mut start = 0;
    for end in 1..=run.len() {
        if end < run.len() && !is_word_boundary(run, end) {
            continue;
        }
        let part = &run[start..end];
        match part.first().is_some_and(|first| is_unspaced(*first)) && 2 < part.len() {
            true => part.windows(2).for_each(&mut emit),
            false => emit(part),
        }
        if 0 < start && end == run.len() && !run.iter().any(|character| is_unspaced(*character)) {
            emit(run);
        }
        start = end;
    }
}

/// True if a word ends before this character: `read|File`, `HTTP|Server`, `base|64`, `東京|tower`.
fn is_word_boundary(run: &[char], at: usize) -> bool {
    let (before, here) = (run[at - 1], run[at]);
    let is_next_lower = run.get(at + 1).is_some_and(|next| next.is_lowercase());
    before.is_lowercase() && here.is_uppercase()
        || before.is_uppercase() && here.is_uppercase() && is_next_lower
        || before.is_numeric() != here.is_numeric()
        || is_unspaced(before) != is_unspaced(here)
}

/// True for Chinese, Japanese, Thai, Lao, Burmese and Khmer, which are written without spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn names_are_split_at_word_boundaries() {
        assert_eq!(words("read_file"), ["read", "file"]);
        assert_eq!(words("pets.list-all"), ["pets", "list", "all"]);
        assert_eq!(words("getUserID"), ["get", "user", "id", "getuserid"]);
        assert_eq!(words("HTTPServer"), ["http", "server", "httpserver"]);
        assert_eq!(words("base64"), ["base", "64", "base64"]);
        assert_eq!(words("What's up?"), ["what", "s", "up"]);
        assert!(words(" \u{0}\n.*[](){}^$ ").is_empty());
    }

    #[test]
    fn words_with_symbols_are_kept_as_written() {
        let mut signed = Vec::new();
        for_each_symbol_word("Sends an E-Mail (node.js, `C++`). Don't -- ask: \"x\"", |it| {
            signed.push(it.to_owned());
        });
        assert_eq!(signed, ["e-mail", "node.js", "c++", "don't"]);
    }

    #[test]
    fn other_scripts_are_split_into_words() {
        assert_eq!(words("Größe ÄNDERN"), ["größe", "ändern"]);
        assert_eq!(words("найти Файл"), ["найти", "файл"]);
        assert_eq!(words("天気予報"), ["天気", "気予", "予報"]);
        assert_eq!(words("東京Tower"), ["東京", "tower"]);
    }

    #[test]
    fn a_word_of_unlimited_length_is_cut() {
        assert_eq!(words(&"a".repeat(1_000_000)), ["a".repeat(WORD_CHARACTERS)]);
        assert_eq!(squash_text("Read file"), squash_text("readFile"));
    }
}
