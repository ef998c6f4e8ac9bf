//! Undoes obfuscated spelling: replaces look-alike letters, accents, and digits that stand for letters.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// A text after de-obfuscation.
pub(super) struct DeobfuscatedText {
    pub(super) text: String,
    /// The index of each character in the original text.
    positions: Vec<usize>,
}

impl DeobfuscatedText {
    /// `None` if nothing changes.
    pub(super) fn from_normalized(lowered: &str) -> Option<Self> {
        if lowered.is_ascii() && !lowered.bytes().any(|byte| letter_for(byte.into()).is_some()) {
            return None;
        }
        let letters = lowered.chars().enumerate();
        let letters = letters.filter(|(_, letter)| !is_combining_mark(*letter));
        let mut letters: Vec<(usize, char)> =
            letters.map(|(place, letter)| (place, base_letter(latin_look_alike(letter)))).collect();
        for word in letters.split_mut(|(_, letter)| letter.is_whitespace()) {
            replace_leet_digits(word);
        }
        let (places, text): (Vec<usize>, String) = letters.into_iter().unzip();
        (text != lowered).then_some(Self { text, positions: places })
    }

    /// The original index of a character.
    pub(super) fn original_index(&self, letter: usize) -> usize {
        self.positions.get(letter).copied().unwrap_or_default()
    }
}

/// Turns `1gn0r3` into `ignore`. Digits only at the end of a word are left unchanged: they are usually numbers.
fn replace_leet_digits(word: &mut [(usize, char)]) {
    let is_letter = |(_, letter): &(usize, char)| letter.is_ascii_alphabetic();
    let Some(last) = word.iter().rposition(is_letter) else { return };
    if 2 * word.iter().filter(|it| is_letter(it)).count() <= word.len() {
        return;
    }
    let has_within = word.iter().take(last).any(|(_, letter)| letter_for(*letter).is_some());
    for (_, letter) in word.iter_mut().filter(|_| has_within) {
        *letter = letter_for(*letter).unwrap_or(*letter);
    }
}

fn letter_for(digit: char) -> Option<char> {
    Some(match digit {
        '0' => 'o',
        '1' | '!' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        _ => return None,
    })
}

/// The base letter: `e` for `é` and for `ᵉ`.
fn base_letter(letter: char) -> char {
    let mut first = match letter {
        _ if letter.is_ascii() => return letter,
        'ø' => Some('o'),
        'đ' => Some('d'),
        'ħ' => Some('h'),
        'ł' => Some('l'),
        'ŧ' => Some('t'),
        _ => None,
    };
    decompose_compatible(letter, |part| first = first.or(Some(part)));
    first.filter(char::is_ascii).map_or(letter, |first| first.to_ascii_lowercase())
}

/// The Latin letter that a character looks like.
pub(super) fn latin_look_alike(letter: char) -> char {
    const ALIKE: &[(char, char)] = &[
        ('а', 'a'),
        ('е', 'e'),
        ('о', 'o'),
        ('р', 'p'),
        ('с', 'c'),
        ('х', 'x'),
        ('у', 'y'),
        ('і', 'i'),
        ('ѕ', 's'),
        ('ј', 'j'),
        ('һ', 'h'),
        ('ԁ', 'd'),
        ('ո', 'n'),
        ('ν', 'v'),
        ('ο', 'o'),
        ('α', 'a'),
        ('ι', 'i'),
        ('ρ', 'p'),
        ('τ', 't'),
        ('ε', 'e'),
        ('κ', 'k'),
        ('ѵ', 'v'),
        ('ɡ', 'g'),
        ('ı', 'i'),
        ('м', 'm'),
        ('т', 't'),
        ('к', 'k'),
        ('в', 'b'),
        ('н', 'h'),
        ('ʏ', 'y'),
        ('ɴ', 'n'),
        ('ʀ', 'r'),
        ('ʙ', 'b'),
        ('ᴄ', 'c'),
        ('ᴅ', 'd'),
        ('ᴇ', 'e'),
        ('ꜰ', 'f'),
        ('ɢ', 'g'),
        ('ʜ', 'h'),
        ('ɪ', 'i'),
        ('ᴊ', 'j'),
        ('ᴋ', 'k'),
        ('ʟ', 'l'),
        ('ᴍ', 'm'),
        ('ᴏ', 'o'),
        ('ᴘ', 'p'),
        ('ꜱ', 's'),
        ('ᴛ', 't'),
        ('ᴜ', 'u'),
        ('ᴠ', 'v'),
        ('ᴡ', 'w'),
        ('ᴢ', 'z'),
        ('ᴀ', 'a'),
        ('υ', 'u'),
        ('σ', 'o'),
        ('η', 'n'),
        ('γ', 'y'),
        ('χ', 'x'),
        ('ω', 'w'),
        ('ս', 'u'),
        ('օ', 'o'),
        ('հ', 'h'),
        ('ց', 'g'),
        ('ԛ', 'q'),
        ('ԝ', 'w'),
        ('ɑ', 'a'),
        ('ɩ', 'i'),
        ('ӏ', 'l'),
        ('ⅼ', 'l'),
    ];
    let code = u32::from(letter);
    let latin = |place: u32| char::from_u32(u32::from('a') + place % 26).unwrap_or(letter);
    match code {
        0xff01..=0xff5e => {
            char::from_u32(code - 0xfee0).map_or(letter, |ascii| ascii.to_ascii_lowercase())
        }
        // Mathematical alphanumeric symbols: alternating upper-case and lower-case alphabets.
        0x1d400..=0x1d6a3 => latin(code - 0x1d400),
        0x1f110..=0x1f129 => latin(code - 0x1f110),
        0x1f130..=0x1f149 => latin(code - 0x1f130),
        0x1f150..=0x1f169 => latin(code - 0x1f150),
        0x1f170..=0x1f189 => latin(code - 0x1f170),
        0x1f1e6..=0x1f1ff => latin(code - 0x1f1e6),
        0x24b6..=0x24e9 => latin(code - 0x24b6),
        _ => ALIKE.iter().find(|(from, _)| *from == letter).map_or(letter, |(_, to)| *to),
    }
}
