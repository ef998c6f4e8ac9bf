//! A template, taken apart and checked: literal text and expressions in turn.
//!
//! Expressions are kept as text. The engine's compiled form takes 8 KB for each, which is too much to keep for the tools
//! of a large catalog, and compiling one again takes a few microseconds.

use minijinja::{Error, Value};
use model::TEMPLATE_LIMIT;

use super::TemplateError;
use super::context::ARGUMENTS;
use super::functions::{VOCABULARY, is_known};
use super::piece::{Piece, Place};
use super::scan::{Span, spans};

/// How much of an expression an error repeats, in characters.
const SHOWN: usize = 80;

pub(super) struct Text {
    pub(super) stretches: Vec<Stretch>,
}

pub(super) enum Stretch {
    Literal(Box<str>),
    Formula(Formula),
}

/// An expression in its place.
pub(super) struct Formula {
    source: Box<str>,
    place: Place,
}

impl Text {
    pub(super) fn compile(template: &str, place: Place) -> Result<Self, TemplateError> {
        if TEMPLATE_LIMIT < template.len() {
            return Err(TemplateError::TooLong { limit: TEMPLATE_LIMIT });
        }
        let mut stretches: Vec<Stretch> = Vec::new();
        for span in spans(template)? {
            let next = match span {
                Span::Literal(literal) => Stretch::Literal(literal.into()),
                Span::Expression(source) => compile(source, place)?,
            };
            match (stretches.last_mut(), next) {
                (Some(Stretch::Literal(text)), Stretch::Literal(more)) => {
                    *text = [&**text, &*more].concat().into();
                }
                (_, next) => stretches.push(next),
            }
        }
        Ok(Self { stretches })
    }

    pub(super) fn formulas(&self) -> impl Iterator<Item = &Formula> {
        self.stretches.iter().filter_map(|stretch| match stretch {
            Stretch::Formula(formula) => Some(formula),
            Stretch::Literal(_) => None,
        })
    }

    pub(super) fn uses(&self, name: &str) -> bool {
        self.formulas().any(|formula| formula.uses(name))
    }
}

/// An expression without names is text that could not be written as it is: `{{ "{" }}`.
fn compile(source: &str, place: Place) -> Result<Stretch, TemplateError> {
    let wrong = |error: Error| TemplateError::Expression {
        expression: shown(source),
        reason: shown(error.detail().unwrap_or("the engine does not say why")),
    };
    let expression = VOCABULARY.compile_expression(source).map_err(wrong)?;
    let names = expression.undeclared_variables(false);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(TemplateError::UnknownName { name: shown(name) });
    }
    if names.is_empty() {
        let value = expression.eval(()).map_err(wrong)?;
        return Ok(Stretch::Literal(value.to_string().into()));
    }
    Ok(Stretch::Formula(Formula { source: source.into(), place }))
}

impl Formula {
    pub(super) fn uses(&self, name: &str) -> bool {
        let expression = VOCABULARY.compile_expression(&self.source);
        expression.is_ok_and(|expression| expression.undeclared_variables(false).contains(name))
    }

    pub(super) fn evaluate(&self, context: &Value) -> Result<Piece, TemplateError> {
        let placed = format!("{}({})", self.place.function(), self.source);
        let value = VOCABULARY
            .compile_expression(&placed)
            .and_then(|expression| expression.eval(context))
            .map_err(|error| self.refused(&error))?;
        Piece::of(&value).cloned().ok_or_else(|| TemplateError::Expression {
            expression: shown(&self.source),
            reason: "it gives more than one value".to_owned(),
        })
    }

    fn refused(&self, error: &Error) -> TemplateError {
        let problem = error.detail().map_or_else(|| error.kind().to_string(), shown);
        TemplateError::Argument { argument: self.argument(), problem }
    }

    /// What an error is about, for somebody who sees the arguments and not the template.
    pub(super) fn argument(&self) -> String {
        let mut arguments = self.source.split(ARGUMENTS).skip(1).filter_map(member);
        match (arguments.next(), arguments.next()) {
            (Some(name), None) => format!("the argument `{}`", shown(name)),
            _ => format!("`{}`", shown(&self.source)),
        }
    }
}

/// The name in `.name` or `["name"]`.
fn member(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix("[\"") {
        return quoted.split_once("\"]").map(|(name, _)| name);
    }
    let name = text.strip_prefix('.')?;
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}
