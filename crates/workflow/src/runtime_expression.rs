//! A runtime expression of the DSL: jq, compiled once, evaluated with limits on time, memory and stack.
//!
//! The language is that of `jaq`, without access to files, environment, input and time, and without `def`: recursive
//! definitions could request any stack depth. `jq_value` enforces the limits on time and memory.

pub(crate) mod deep_stack;
mod expression_tokens;
mod jq_functions;
mod jq_prelude;
mod jq_value;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jaq_core::data::JustLut;
use jaq_core::load::parse::Expect;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars};
use serde_json::Value;

use self::jq_value::{ExceededLimit, JqValue};

/// Maximum length of an expression, in bytes.
const LONGEST: usize = 4_000;

type JqDataType = JustLut<JqValue>;

/// A compiled expression.
pub(crate) struct RuntimeExpression {
    text: Box<str>,
    filter: Filter<JqDataType>,
    /// The variables that it mentions, in the order of the compiled filter.
    variables: Vec<Box<str>>,
}

/// Error of compiling an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidExpression {
    #[error("the expression is longer than {LONGEST} bytes")]
    TooLong,
    #[error("the expression is nested too deeply")]
    TooDeep,
    #[error("`{word}` is not supported in expressions")]
    NotSupported { word: String },
    #[error("this is not jq: expected {expected} at {at}")]
    Syntax { expected: String, at: String },
    #[error("there is no {what} `{name}` here")]
    Unknown { what: &'static str, name: String },
}

/// Error of evaluating an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("{0}")]
    Failed(String),
    #[error("it takes too much work")]
    TooMuchWork,
    #[error("its result is nested too deeply")]
    TooDeep,
}

impl fmt::Debug for RuntimeExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuntimeExpression").field(&self.text).finish()
    }
}

impl RuntimeExpression {
    /// Compiles an expression that may mention these variables, given without `$`.
    pub(crate) fn compile(text: &str, known: &[&str]) -> Result<Self, InvalidExpression> {
        if LONGEST < text.len() {
            return Err(InvalidExpression::TooLong);
        }
        let mentioned = expression_tokens::check_tokens(text)?;
        let known = known.iter().filter(|name| mentioned.variables.contains(**name));
        let variables: Vec<Box<str>> = known.map(|name| format!("${name}").into()).collect();
        let arena = Arena::default();
        let modules = Loader::new(jq_prelude::required_definitions(&mentioned.words))
            .load(&arena, File { code: text, path: () })
            .map_err(|errors| parse_error(&errors))?;
        let filter = Compiler::default()
            .with_funs(jq_functions::native_functions())
            .with_global_vars(variables.iter().map(|name| &**name))
            .compile(modules)
            .map_err(|errors| unknown_name_error(&errors))?;
        Ok(Self { text: text.into(), filter, variables })
    }

    /// The source text of the expression.
    pub(crate) fn source_text(&self) -> &str {
        &self.text
    }

    /// Whether the expression reads this variable, given without `$`.
    pub(crate) fn mentions_variable(&self, variable: &str) -> bool {
        self.variables.iter().any(|name| name.strip_prefix('$') == Some(variable))
    }

    /// The first result for an input, or null if there is no result. `variable` returns the value of a variable; `work`
    /// is the work limit and is reduced by the work done.
    pub(crate) fn evaluate<'v>(
        &self,
        input: &Value,
        variable: impl Fn(&str) -> Option<&'v Value>,
        work: &mut u64,
    ) -> Result<Value, ExpressionError> {
        jq_value::start_limits(*work);
        // Safe to unwind: nothing that is visible afterwards was modified.
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.evaluate_first(input, variable)));
        *work = jq_value::remaining_work();
        match evaluated {
            Ok(result) => result,
            Err(stopped) => Err(match stopped.downcast_ref() {
                Some(ExceededLimit::TooMuchWork) => ExpressionError::TooMuchWork,
                Some(ExceededLimit::TooDeep) => ExpressionError::TooDeep,
                None => ExpressionError::Failed("it cannot be evaluated".to_owned()),
            }),
        }
    }

    fn evaluate_first<'v>(
        &self,
        input: &Value,
        variable: impl Fn(&str) -> Option<&'v Value>,
    ) -> Result<Value, ExpressionError> {
        let value = |name: &str| variable(name).map_or(JqValue::Null, JqValue::from_json);
        let variables = self.variables.iter().filter_map(|name| name.strip_prefix('$')).map(value);
        let context = Ctx::<JqDataType>::new(&self.filter.lut, Vars::new(variables));
        let mut results = self.filter.id.run((context, JqValue::from_json(input)));
        match results.next() {
            None => Ok(Value::Null),
            Some(Ok(result)) => Ok(result.to_json()),
            Some(Err(exception)) => Err(match exception.get_err() {
                Ok(error) => ExpressionError::Failed(truncate_text(&error_text(error.into_val()))),
                Err(_) => ExpressionError::Failed("it ends in the middle".to_owned()),
            }),
        }
    }
}

fn error_text(error: JqValue) -> String {
    error.as_str().map_or_else(|| error.to_string(), str::to_owned)
}

fn unknown_name_error(errors: &jaq_core::compile::Errors<&str, ()>) -> InvalidExpression {
    let first = errors.iter().flat_map(|(_, errors)| errors).next();
    match first {
        Some((name, what)) => {
            let what = match what.as_str() {
                "filter" => "function",
                other => other,
            };
            InvalidExpression::Unknown { what, name: truncate_text(name) }
        }
        None => syntax_error("something else", ""),
    }
}

fn parse_error(errors: &jaq_core::load::Errors<&str, ()>) -> InvalidExpression {
    let Some((_, jaq_core::load::Error::Parse(errors))) = errors.first() else {
        return syntax_error("something else", "");
    };
    match errors.first() {
        Some((Expect::Just(_), at)) => syntax_error("another word or sign", at),
        Some((expected, at)) => syntax_error(expected.as_str(), at),
        None => syntax_error("something else", ""),
    }
}

fn syntax_error(expected: &str, at: &str) -> InvalidExpression {
    InvalidExpression::Syntax { expected: expected.to_owned(), at: describe_position(at) }
}

/// The position of a syntax error, as text.
fn describe_position(at: &str) -> String {
    if at.is_empty() { "the end".to_owned() } else { format!("`{}`", truncate_text(at)) }
}

/// The beginning of a text, for messages.
fn truncate_text(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut beginning: String = text.chars().take(SHOWN).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning
}

#[cfg(test)]
mod tests;
