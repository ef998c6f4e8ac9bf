//! The tokens of an expression, checked before parsing: the names that it mentions, and the keywords that it may not
//! use.

use std::collections::BTreeSet;

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};

use super::{InvalidExpression, syntax};

/// Maximum bracket depth and maximum number of tokens: the parser recurses as deep.
const DEEPEST: usize = 24;
const MOST: usize = 800;

/// Keywords that define or load something.
const REFUSED: [&str; 4] = ["def", "import", "include", "module"];

/// The names that an expression mentions.
#[derive(Default)]
pub(super) struct Mentioned<'a> {
    /// Variables, without `$`.
    pub(super) variables: BTreeSet<&'a str>,
    /// Words, including the names of functions.
    pub(super) words: BTreeSet<&'a str>,
    number: usize,
}

pub(super) fn check(text: &str) -> Result<Mentioned<'_>, InvalidExpression> {
    // The lexer recurses as deep as brackets nest.
    let opens = |c: &char| matches!(c, '(' | '[' | '{');
    if deepest(text, opens) {
        return Err(InvalidExpression::TooDeep);
    }
    let tokens = Lexer::new(text).lex().map_err(|errors| {
        let (expected, at) = errors.first().map_or(("token", ""), |(it, at)| (it.as_str(), *at));
        syntax(expected, at)
    })?;
    let mut mentioned = Mentioned::default();
    mentioned.look_at(&tokens)?;
    Ok(mentioned)
}

/// Whether brackets nest too deep. Brackets in string literals count, too.
fn deepest(text: &str, opens: impl Fn(&char) -> bool) -> bool {
    let mut depth = 0_usize;
    text.chars().any(|c| {
        if opens(&c) {
            depth += 1;
        } else if matches!(c, ')' | ']' | '}') {
            depth = depth.saturating_sub(1);
        }
        DEEPEST < depth
    })
}

impl<'a> Mentioned<'a> {
    fn look_at(&mut self, tokens: &[Token<&'a str>]) -> Result<(), InvalidExpression> {
        let after = tokens.iter().skip(1).map(|Token(text, _)| *text).chain([""]);
        let mut before = "";
        for (Token(text, kind), after) in tokens.iter().zip(after) {
            self.number += 1;
            if MOST < self.number {
                return Err(InvalidExpression::TooDeep);
            }
            match kind {
                // In `.def` and `{def: 1}` the word is a field name.
                Tok::Word if REFUSED.contains(text) && before != "." && after != ":" => {
                    return Err(InvalidExpression::NotSupported { word: (*text).to_owned() });
                }
                Tok::Var => {
                    self.variables.extend(text.strip_prefix('$'));
                }
                Tok::Str(parts) => {
                    for part in parts {
                        if let StrPart::Term(token) = part {
                            self.look_at(std::slice::from_ref(token))?;
                        }
                    }
                }
                Tok::Block(inside) => self.look_at(inside)?,
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
