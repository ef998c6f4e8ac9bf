//! A parsed, checked and compiled template: a sequence of literals and expressions.

use std::collections::HashSet;

use minijinja::{Error, Expression};
use model::TEMPLATE_LIMIT;

use super::TemplateError;
use super::direct_expression::DirectExpression;
use super::encoded_piece::{EncodedPiece, TemplatePosition};
use super::template_context::{ARGUMENTS_VARIABLE, TemplateContext};
use super::template_functions::{TEMPLATE_ENGINE, is_known_name};
use super::template_scan::{TemplateSpan, split_spans};

/// The maximum length of an expression in an error, in characters.
const EXCERPT_CHARS: usize = 80;

pub(super) struct CompiledTemplate {
    pub(super) parts: Vec<CompiledPart>,
}

pub(super) enum CompiledPart {
    Literal(Box<str>),
    Expression(TemplateExpression),
}

/// A compiled expression in its position.
pub(super) struct TemplateExpression {
    source: Box<str>,
    names: HashSet<String>,
    evaluation: ExpressionEvaluation,
}

/// How an expression is evaluated. The engine's compiled form takes 8 KB; only tools ready to be called have one.
enum ExpressionEvaluation {
    Direct(DirectExpression),
    Engine(Box<Expression<'static, 'static>>),
}

impl CompiledTemplate {
    pub(super) fn compile(template: &str, place: TemplatePosition) -> Result<Self, TemplateError> {
        if TEMPLATE_LIMIT < template.len() {
            return Err(TemplateError::TooLong { limit: TEMPLATE_LIMIT });
        }
        let mut stretches: Vec<CompiledPart> = Vec::new();
        for span in split_spans(template)? {
            let next = match span {
                TemplateSpan::Literal(literal) => CompiledPart::Literal(literal.into()),
                TemplateSpan::Expression(source) => compile_expression(source, place)?,
            };
            match (stretches.last_mut(), next) {
                (Some(CompiledPart::Literal(text)), CompiledPart::Literal(more)) => {
                    *text = [&**text, &*more].concat().into();
                }
                (_, next) => stretches.push(next),
            }
        }
        Ok(Self { parts: stretches })
    }

    pub(super) fn expressions(&self) -> impl Iterator<Item = &TemplateExpression> {
        self.parts.iter().filter_map(|stretch| match stretch {
            CompiledPart::Expression(formula) => Some(formula),
            CompiledPart::Literal(_) => None,
        })
    }

    pub(super) fn uses_name(&self, name: &str) -> bool {
        self.expressions().any(|formula| formula.uses_name(name))
    }
}

/// Compiles an expression. One without names is a literal that needs quoting: `{{ "{" }}`.
fn compile_expression(
    source: &str,
    place: TemplatePosition,
) -> Result<CompiledPart, TemplateError> {
    let wrong = |error: Error| TemplateError::Expression {
        expression: short_excerpt(source),
        reason: short_excerpt(error.detail().unwrap_or("the engine does not say why")),
    };
    let expression = TEMPLATE_ENGINE.compile_expression(source).map_err(wrong)?;
    let names = expression.undeclared_variables(false);
    if let Some(name) = names.iter().find(|name| !is_known_name(name, place)) {
        return Err(TemplateError::UnknownName { name: short_excerpt(name) });
    }
    if names.is_empty() {
        let value = expression.eval(()).map_err(wrong)?;
        return Ok(CompiledPart::Literal(value.to_string().into()));
    }
    let way = ExpressionEvaluation::compile(source, place).map_err(wrong)?;
    Ok(CompiledPart::Expression(TemplateExpression {
        source: source.into(),
        names,
        evaluation: way,
    }))
}

impl ExpressionEvaluation {
    fn compile(source: &str, place: TemplatePosition) -> Result<Self, Error> {
        if let Some(direct) = DirectExpression::parse(source, place) {
            return Ok(Self::Direct(direct));
        }
        let placed = format!("{}({source})", place.function_name());
        Ok(Self::Engine(Box::new(TEMPLATE_ENGINE.compile_expression_owned(placed)?)))
    }
}

impl TemplateExpression {
    pub(super) fn uses_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn evaluate(
        &self,
        seen: &TemplateContext<'_>,
    ) -> Result<EncodedPiece, TemplateError> {
        let expression = match &self.evaluation {
            ExpressionEvaluation::Direct(direct) => {
                return direct
                    .evaluate(seen)
                    .map_err(|problem| self.argument_error(problem.to_owned()));
            }
            ExpressionEvaluation::Engine(expression) => expression,
        };
        let value = expression.eval(seen.engine_context()).map_err(|error| {
            self.argument_error(
                error.detail().map_or_else(|| error.kind().to_string(), short_excerpt),
            )
        })?;
        EncodedPiece::from_value(&value).cloned().ok_or_else(|| TemplateError::Expression {
            expression: short_excerpt(&self.source),
            reason: "it gives more than one value".to_owned(),
        })
    }

    fn argument_error(&self, problem: String) -> TemplateError {
        TemplateError::Argument { argument: self.argument_name(), problem }
    }

    /// The subject of an error, for a reader who sees the arguments but not the template.
    pub(super) fn argument_name(&self) -> String {
        let mut arguments =
            self.source.split(ARGUMENTS_VARIABLE).skip(1).filter_map(leading_field_name);
        match (arguments.next(), arguments.next()) {
            (Some(name), None) => format!("the argument `{}`", short_excerpt(name)),
            _ => format!("`{}`", short_excerpt(&self.source)),
        }
    }
}

/// The name in `.name` or `["name"]`.
fn leading_field_name(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix("[\"") {
        return quoted.split_once("\"]").map(|(name, _)| name);
    }
    let name = text.strip_prefix('.')?;
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

pub(super) fn short_excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS).flat_map(char::escape_debug).collect()
}
