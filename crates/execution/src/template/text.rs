//! A parsed, checked and compiled template: a sequence of literals and expressions.

use std::collections::HashSet;

use minijinja::{Error, Expression};
use model::TEMPLATE_LIMIT;

use super::TemplateError;
use super::context::{ARGUMENTS, Seen};
use super::direct::Direct;
use super::functions::{VOCABULARY, is_known};
use super::piece::{Piece, Place};
use super::scan::{Span, spans};

/// The maximum length of an expression in an error, in characters.
const SHOWN: usize = 80;

pub(super) struct Text {
    pub(super) stretches: Vec<Stretch>,
}

pub(super) enum Stretch {
    Literal(Box<str>),
    Formula(Formula),
}

/// A compiled expression in its position.
pub(super) struct Formula {
    source: Box<str>,
    names: HashSet<String>,
    way: Way,
}

/// How an expression is evaluated. The engine's compiled form takes 8 KB; only tools ready to be called have one.
enum Way {
    Direct(Direct),
    Engine(Box<Expression<'static, 'static>>),
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

/// Compiles an expression. One without names is a literal that needs quoting: `{{ "{" }}`.
fn compile(source: &str, place: Place) -> Result<Stretch, TemplateError> {
    let wrong = |error: Error| TemplateError::Expression {
        expression: shown(source),
        reason: shown(error.detail().unwrap_or("the engine does not say why")),
    };
    let expression = VOCABULARY.compile_expression(source).map_err(wrong)?;
    let names = expression.undeclared_variables(false);
    if let Some(name) = names.iter().find(|name| !is_known(name, place)) {
        return Err(TemplateError::UnknownName { name: shown(name) });
    }
    if names.is_empty() {
        let value = expression.eval(()).map_err(wrong)?;
        return Ok(Stretch::Literal(value.to_string().into()));
    }
    let way = Way::compile(source, place).map_err(wrong)?;
    Ok(Stretch::Formula(Formula { source: source.into(), names, way }))
}

impl Way {
    fn compile(source: &str, place: Place) -> Result<Self, Error> {
        if let Some(direct) = Direct::read(source, place) {
            return Ok(Self::Direct(direct));
        }
        let placed = format!("{}({source})", place.function());
        Ok(Self::Engine(Box::new(VOCABULARY.compile_expression_owned(placed)?)))
    }
}

impl Formula {
    pub(super) fn uses(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn evaluate(&self, seen: &Seen<'_>) -> Result<Piece, TemplateError> {
        let expression = match &self.way {
            Way::Direct(direct) => {
                return direct.evaluate(seen).map_err(|problem| self.refused(problem.to_owned()));
            }
            Way::Engine(expression) => expression,
        };
        let value = expression.eval(seen.context()).map_err(|error| {
            self.refused(error.detail().map_or_else(|| error.kind().to_string(), shown))
        })?;
        Piece::of(&value).cloned().ok_or_else(|| TemplateError::Expression {
            expression: shown(&self.source),
            reason: "it gives more than one value".to_owned(),
        })
    }

    fn refused(&self, problem: String) -> TemplateError {
        TemplateError::Argument { argument: self.argument(), problem }
    }

    /// The subject of an error, for a reader who sees the arguments but not the template.
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

pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}
