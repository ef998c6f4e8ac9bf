//! The tokens of an expression, checked before parsing: the names that it mentions, and the keywords that it may not
//! use.

use std::collections::BTreeSet;

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};

use super::{InvalidExpression, syntax_error};

/// Maximum bracket depth and maximum number of tokens: the parser recurses as deep.
const MAX_BRACKET_DEPTH: usize = 24;
const MAX_TOKENS: usize = 800;

/// Keywords that define or load something.
const REJECTED_KEYWORDS: [&str; 4] = ["def", "import", "include", "module"];

/// The names that an expression mentions.
#[derive(Default)]
pub(super) struct MentionedNames<'a> {
    pub(super) variables: BTreeSet<&'a str>,
    /// Words, including the names of functions.
    pub(super) words: BTreeSet<&'a str>,
    number: usize,
}

pub(super) fn check_tokens(text: &str) -> Result<MentionedNames<'_>, InvalidExpression> {
    // The lexer recurses as deep as brackets nest.
    let opens = |c: &char| matches!(c, '(' | '[' | '{');
    if exceeds_bracket_depth(text, opens) {
        return Err(InvalidExpression::TooDeep);
    }
    let tokens = Lexer::new(text).lex().map_err(|errors| {
        let (expected, at) = errors.first().map_or(("token", ""), |(it, at)| (it.as_str(), *at));
        syntax_error(expected, at)
    })?;
    let mut mentioned = MentionedNames::default();
    mentioned.collect_names(&tokens)?;
    Ok(mentioned)
}

/// Whether brackets nest too deep. Brackets in string literals count, too.
fn exceeds_bracket_depth(text: &str, opens: impl Fn(&char) -> bool) -> bool {
    let mut depth = 0_usize;
    text.chars().any(|c| {
        if opens(&c) {
            depth += 1;
        } else if matches!(c, ')' | ']' | '}') {
            depth = depth.saturating_sub(1);
        }
        MAX_BRACKET_DEPTH < depth
    })
}

impl<'a> MentionedNames<'a> {
    fn collect_names(&mut self, tokens: &[Token<&'a str>]) -> Result<(), InvalidExpression> {
        let after = tokens.iter().skip(1).map(|Token(text, _)| *text).chain([""]);
        let mut before = "";
        for (Token(text, kind), after) in tokens.iter().zip(after) {
            self.number += 1;
            if MAX_TOKENS < self.number {
                return Err(InvalidExpression::TooDeep);
            }
            match kind {
                // In `.def` and `{def: 1}` the word is a field name.
                Tok::Word if REJECTED_KEYWORDS.contains(text) && before != "." && after != ":" => {
                    return Err(InvalidExpression::NotSupported { word: (*text).to_owned() });
                }
                Tok::Var => {
                    self.variables.extend(text.strip_prefix('$'));
                }
                Tok::Str(parts) => {
                    for part in parts {
                        if let StrPart::Term(token) = part {
                            self.collect_names(std::slice::from_ref(token))?;
                        }
                    }
                }
                Tok::Block(inside) => self.collect_names(inside)?,
                Tok::Word | Tok::Fmt => {
                    self.words.insert(text);
                }
                Tok::Num | Tok::Sym => {}
            }
            before = text;
        }
        Ok(())
    }
}
