//! Values of a document that may contain expressions: evaluation replaces the expressions and keeps the rest.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::runtime_expression::{ExpressionError, RuntimeExpression};

/// A value that may contain expressions.
#[derive(Debug)]
pub(crate) enum ValueTemplate {
    Plain(Value),
    Expression(RuntimeExpression),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// The input and variables that an expression can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpressionScope {
    /// The value of `.`.
    pub(crate) input: Arc<Value>,
    pub(crate) variables: Vec<(Box<str>, Arc<Value>)>,
}

impl ExpressionScope {
    fn find_variable(&self, name: &str) -> Option<&Value> {
        // An inner variable shadows an outer one of the same name.
        let found = self.variables.iter().rev().find(|(known, _)| **known == *name);
        found.map(|(_, value)| &**value)
    }
}

impl ValueTemplate {
    pub(crate) fn evaluate(
        &self,
        scope: &ExpressionScope,
        work: &mut u64,
    ) -> Result<Value, ExpressionError> {
        match self {
            Self::Plain(value) => Ok(value.clone()),
            Self::Expression(expression) => {
                expression.evaluate(&scope.input, |name| scope.find_variable(name), work)
            }
            Self::List(items) => items.iter().map(|item| item.evaluate(scope, work)).collect(),
            Self::Object(members) => {
                let mut object = Map::new();
                for (name, member) in members {
                    object.insert(name.clone(), member.evaluate(scope, work)?);
                }
                Ok(Value::Object(object))
            }
        }
    }

    /// Whether any expression in the template reads this variable.
    pub(crate) fn mentions_variable(&self, variable: &str) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Expression(expression) => expression.mentions_variable(variable),
            Self::List(items) => items.iter().any(|item| item.mentions_variable(variable)),
            Self::Object(members) => {
                members.iter().any(|(_, member)| member.mentions_variable(variable))
            }
        }
    }

    /// A short text for plans.
    pub(crate) fn to_summary(&self) -> String {
        match self {
            Self::Plain(value) => value.to_string(),
            Self::Expression(expression) => expression.source_text().to_owned(),
            Self::List(_) => "[…]".to_owned(),
            Self::Object(members) => {
                let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                format!("{{{}}}", names.join(", "))
            }
        }
    }
}
