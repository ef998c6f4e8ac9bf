//! Classifies invisible characters, and control characters that affect the display.
//!
//! The same character can be legitimate: joiners in Persian and Indic words and in emoji, direction marks in
//! right-to-left text, variation selectors after a base character, tags in flags. The neighbouring characters decide.

/// Why a character must not be displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InvisibleKind {
    /// A terminal control character, or the start of an escape sequence.
    TerminalControl,
    /// Any other control character.
    Control,
    /// A Unicode tag: ASCII that models read and people do not see.
    Tag,
    /// Overrides the display order of text.
    Override,
    /// Embeds or isolates text of a different direction.
    Embedding,
    /// A direction mark in text without right-to-left characters.
    DirectionMark,
    /// A zero-width character.
    ZeroWidth,
    /// A zero-width character that word processors and old files leave behind.
    Leftover,
    /// A variation selector without a base character.
    VariationSelector,
    /// A private-use character, without a standard meaning.
    PrivateUse,
}

/// The characters of a text, each with the reason not to display it, if any.
pub(crate) fn classify_characters(
    text: &str,
) -> impl Iterator<Item = (char, Option<InvisibleKind>)> + '_ {
    let runs_left = text.chars().any(is_right_to_left);
    let mut rest = text.chars();
    // The last visible character, and the number of remaining tags of a flag.
    let (mut before, mut of_flag) = (None, 0_usize);
    std::iter::from_fn(move || {
        let character = rest.next()?;
        if 0 < of_flag {
            of_flag -= 1;
            return Some((character, None));
        }
        if character == BLACK_FLAG {
            of_flag = flag_tags(rest.clone());
        }
        let why = classify_character(before, character, rest.clone().next(), runs_left);
        if why.is_none() {
            before = Some(character);
        }
        Some((character, why))
    })
}

const BLACK_FLAG: char = '\u{1f3f4}';

/// Length of the tag sequence that turns a black flag into a region's flag: three to five characters and the end tag.
fn flag_tags(rest: impl Iterator<Item = char>) -> usize {
    let tags: Vec<char> = rest.take(6).collect();
    let end = tags.iter().position(|tag| *tag == '\u{e007f}').unwrap_or_default();
    let is_word =
        |tag: &char| matches!(*tag, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    match 3 <= end && tags.iter().take(end).all(is_word) {
        true => end + 1,
        false => 0,
    }
}

fn classify_character(
    before: Option<char>,
    character: char,
    after: Option<char>,
    runs_left: bool,
) -> Option<InvisibleKind> {
    let why = match character {
        ' '..='~' | '\n' | '\t' => return None,
        '\r' if after == Some('\n') => return None,
        '\0'..='\u{8}' | '\u{e}'..='\u{1f}' | '\u{90}' | '\u{9b}' | '\u{9d}' => {
            InvisibleKind::TerminalControl
        }
        '\u{e0000}'..='\u{e007f}' => InvisibleKind::Tag,
        '\u{202d}' | '\u{202e}' => InvisibleKind::Override,
        '\u{202a}'..='\u{202c}' | '\u{2066}'..='\u{2069}' => InvisibleKind::Embedding,
        '\u{61c}' | '\u{200e}' | '\u{200f}' if runs_left => return None,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => InvisibleKind::DirectionMark,
        '\u{200c}' | '\u{200d}' if is_joiner_expected(before, after) => return None,
        '\u{200b}' if [before, after].into_iter().flatten().any(is_unspaced_script) => return None,
        '\u{ad}' | '\u{34f}' => InvisibleKind::Leftover,
        '\u{feff}' if before.is_none() => InvisibleKind::Leftover,
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' => {
            InvisibleKind::ZeroWidth
        }
        '\u{feff}' | '\u{180e}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => {
            InvisibleKind::ZeroWidth
        }
        '\u{17b4}' | '\u{17b5}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' => {
            InvisibleKind::ZeroWidth
        }
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            match before.is_some_and(takes_variation_selector) {
                true => return None,
                false => InvisibleKind::VariationSelector,
            }
        }
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => InvisibleKind::PrivateUse,
        '\u{fdd0}'..='\u{fdef}' => InvisibleKind::ZeroWidth,
        _ if character.is_control() => InvisibleKind::Control,
        _ if 0xfffe <= u32::from(character) & 0xffff => InvisibleKind::ZeroWidth,
        _ => return None,
    };
    Some(why)
}

/// Whether the character is Hebrew, Arabic or of a related script.
pub(super) fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{60f}' | '\u{620}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Whether a joiner is legitimate: in a script that joins letters, or between parts of an emoji.
fn is_joiner_expected(before: Option<char>, after: Option<char>) -> bool {
    let is_script = |c: char| {
        matches!(c, '\u{620}'..='\u{109f}' | '\u{1780}'..='\u{1cff}' | '\u{a800}'..='\u{abff}'
            | '\u{fb50}'..='\u{fdcf}' | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{11fff}')
    };
    let is_emoji = |c: char| matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2190}'..='\u{2bff}' | '\u{3030}'..='\u{303d}');
    before.is_some_and(is_script)
        || (before.is_some_and(|c| is_emoji(c) || c == '\u{fe0f}') && after.is_some_and(is_emoji))
}

/// Whether the script marks line-break opportunities with zero-width spaces: Thai, Lao, Burmese, Khmer.
fn is_unspaced_script(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// Whether a variation selector may follow this character; a selector may not follow a selector.
fn takes_variation_selector(character: char) -> bool {
    match character {
        '0'..='9' | '#' | '*' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => false,
        _ => !character.is_ascii() && !character.is_whitespace(),
    }
}

/// A text on one line with invisible characters escaped.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (character, why) in classify_characters(text) {
        match character {
            '\n' | '\r' | '\t' => plain.push(' '),
            _ if why.is_some() => plain.extend(character.escape_unicode()),
            _ => plain.push(character),
        }
    }
    plain
}
