//! The `WordPiece` tokenizer of BERT: cleans a text, splits it at spaces and punctuation, then into the longest known
//! pieces. Special tokens in a text, such as `[SEP]`, are treated as ordinary text.

use std::collections::HashMap;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use crate::InvalidModel;
use crate::bert_config::BertConfig;
use crate::model_folder::ModelFolder;

/// The index of a piece in the vocabulary.
pub(crate) type TokenId = u32;

const TOKENIZER_FILE: &str = "tokenizer.json";
const VOCABULARY_FILE: &str = "vocab.txt";
const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
const MAX_FILE_SIZE: u64 = 64 << 20;
/// Longer words, in characters, become the unknown token.
const MAX_WORD_LENGTH: usize = 100;
/// Prefix of a piece that continues a word.
const CONTINUATION_PREFIX: &str = "##";

#[derive(Debug)]
pub(crate) struct WordPieceTokenizer {
    pieces: HashMap<String, TokenId>,
    style: NormalizationOptions,
    first: TokenId,
    last: TokenId,
    unknown: TokenId,
    most_tokens: usize,
}

/// How a text is normalised.
#[derive(Clone, Copy, Debug)]
struct NormalizationOptions {
    lowercase: bool,
    strip_accents: bool,
    splits_chinese: bool,
}

#[derive(Deserialize)]
struct TokenizerFile {
    normalizer: NormalizerConfig,
    pre_tokenizer: ComponentType,
    model: WordPieceConfig,
}

#[derive(Deserialize)]
struct ComponentType {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct NormalizerConfig {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "default_true")]
    handle_chinese_chars: bool,
    #[serde(default)]
    strip_accents: Option<bool>,
    #[serde(default = "default_true")]
    lowercase: bool,
}

#[derive(Deserialize)]
struct WordPieceConfig {
    /// Absent in older files.
    #[serde(rename = "type")]
    kind: Option<String>,
    continuing_subword_prefix: String,
    vocab: HashMap<String, TokenId>,
}

/// The configuration file next to a plain vocabulary list.
#[derive(Deserialize)]
struct TokenizerConfig {
    #[serde(default = "default_true")]
    do_lower_case: bool,
    #[serde(default)]
    strip_accents: Option<bool>,
    #[serde(default = "default_true")]
    tokenize_chinese_chars: bool,
}

fn default_true() -> bool {
    true
}

impl WordPieceTokenizer {
    pub(crate) fn read_tokenizer(
        folder: &mut ModelFolder,
        shape: &BertConfig,
    ) -> Result<Self, InvalidModel> {
        let (file, pieces, style) = match folder.has_file(TOKENIZER_FILE) {
            true => Self::read_tokenizer_file(folder)?,
            false => Self::read_vocabulary_list(folder)?,
        };
        if pieces.values().any(|token| shape.vocab_size <= *token as usize) {
            return Err(folder.unusable_file(file, "it has more pieces than the model"));
        }
        let piece = |text: &str| {
            let why = || folder.unusable_file(file, format!("it has no piece `{text}`"));
            pieces.get(text).copied().ok_or_else(why)
        };
        let (first, last, unknown) = (piece("[CLS]")?, piece("[SEP]")?, piece("[UNK]")?);
        Ok(Self { first, last, unknown, pieces, style, most_tokens: shape.most_tokens })
    }

    fn read_tokenizer_file(folder: &mut ModelFolder) -> Result<LoadedVocabulary, InvalidModel> {
        let TokenizerFile { normalizer, pre_tokenizer, model } =
            folder.read_json(TOKENIZER_FILE, MAX_FILE_SIZE)?;
        let is_word_piece = model.kind.as_deref().is_none_or(|kind| kind == "WordPiece")
            && model.continuing_subword_prefix == CONTINUATION_PREFIX
            && normalizer.kind == "BertNormalizer"
            && pre_tokenizer.kind == "BertPreTokenizer";
        if !is_word_piece {
            return Err(folder
                .unusable_file(TOKENIZER_FILE, "it splits texts in another way than BERT does"));
        }
        let style = NormalizationOptions {
            lowercase: normalizer.lowercase,
            strip_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
            splits_chinese: normalizer.handle_chinese_chars,
        };
        Ok((TOKENIZER_FILE, model.vocab, style))
    }

    fn read_vocabulary_list(folder: &mut ModelFolder) -> Result<LoadedVocabulary, InvalidModel> {
        let list = folder.read_bytes(VOCABULARY_FILE, MAX_FILE_SIZE)?;
        let list = String::from_utf8(list)
            .map_err(|_| folder.unusable_file(VOCABULARY_FILE, "it is not written in UTF-8"))?;
        let pieces = list.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
        let config: TokenizerConfig = match folder.has_file(TOKENIZER_CONFIG_FILE) {
            true => folder.read_json(TOKENIZER_CONFIG_FILE, MAX_FILE_SIZE)?,
            false => TokenizerConfig {
                do_lower_case: true,
                strip_accents: None,
                tokenize_chinese_chars: true,
            },
        };
        let style = NormalizationOptions {
            lowercase: config.do_lower_case,
            strip_accents: config.strip_accents.unwrap_or(config.do_lower_case),
            splits_chinese: config.tokenize_chinese_chars,
        };
        Ok((VOCABULARY_FILE, pieces, style))
    }

    /// The tokens of a text, between `[CLS]` and `[SEP]`.
    pub(crate) fn tokenize_text(&self, text: &str) -> Vec<TokenId> {
        let most = self.most_tokens - 1;
        let mut tokens = vec![self.first];
        let cleaned = self.style.normalize_text(text);
        for word in cleaned.split(' ').flat_map(|run| run.split_inclusive(is_punctuation)) {
            // A punctuation character is a separate word; `split_inclusive` leaves it at the end of the part.
            let sign = word.chars().next_back().filter(|last| is_punctuation(*last));
            let (before, sign) = match sign {
                Some(sign) => word.split_at(word.len() - sign.len_utf8()),
                None => (word, ""),
            };
            for word in [before, sign].into_iter().filter(|word| !word.is_empty()) {
                if most <= tokens.len() {
                    break;
                }
                self.push_pieces(word, &mut tokens);
            }
        }
        tokens.truncate(most);
        tokens.push(self.last);
        tokens
    }

    /// Splits a word greedily into the longest pieces; a word with an unknown piece becomes the unknown token.
    fn push_pieces(&self, word: &str, tokens: &mut Vec<TokenId>) {
        let known = tokens.len();
        let mut rest = word;
        if word.chars().nth(MAX_WORD_LENGTH).is_some() {
            rest = "";
            tokens.push(self.unknown);
        }
        while !rest.is_empty() {
            let begins = if known == tokens.len() { "" } else { CONTINUATION_PREFIX };
            let ends = rest.char_indices().map(|(at, it)| at + it.len_utf8()).rev();
            let longest = ends.map(|end| rest.split_at(end)).find_map(|(piece, rest)| {
                Some((*self.pieces.get(&format!("{begins}{piece}"))?, rest))
            });
            let Some((token, after)) = longest else {
                tokens.truncate(known);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            rest = after;
        }
    }
}

type LoadedVocabulary = (&'static str, HashMap<String, TokenId>, NormalizationOptions);

impl NormalizationOptions {
    /// Removes control characters, normalises white space, and separates Chinese characters by spaces.
    fn normalize_text(self, text: &str) -> String {
        let mut cleaned = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '\t' | '\n' | '\r' => cleaned.push(' '),
                '\0' | '\u{fffd}' => {}
                _ if character.is_whitespace() => cleaned.push(' '),
                _ if character.general_category_group() == GeneralCategoryGroup::Other => {}
                _ if self.splits_chinese && is_chinese(character) => {
                    cleaned.extend([' ', character, ' ']);
                }
                _ => cleaned.push(character),
            }
        }
        if self.strip_accents {
            let is_mark = |it: &char| it.general_category() != GeneralCategory::NonspacingMark;
            cleaned = cleaned.nfd().filter(is_mark).collect();
        }
        match self.lowercase {
            true => cleaned.chars().flat_map(char::to_lowercase).collect(),
            false => cleaned,
        }
    }
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

fn is_chinese(character: char) -> bool {
    matches!(character,
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}
