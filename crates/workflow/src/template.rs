//! Values of a document that may contain expressions: evaluation replaces the expressions and keeps the rest.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::expression::{Expression, ExpressionError};

/// A value that may contain expressions.
#[derive(Debug)]
pub(crate) enum Template {
    Plain(Value),
    Expression(Expression),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// The input and variables that an expression can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// The value of `.`.
    pub(crate) input: Arc<Value>,
    pub(crate) variables: Vec<(Box<str>, Arc<Value>)>,
}

impl Scope {
    fn variable(&self, name: &str) -> Option<&Value> {
        // An inner variable shadows an outer one of the same name.
        let found = self.variables.iter().rev().find(|(known, _)| **known == *name);
        found.map(|(_, value)| &**value)
    }
}

impl Template {
    pub(crate) fn evaluate(&self, scope: &Scope, work: &mut u64) -> Result<Value, ExpressionError> {
        match self {
            Self::Plain(value) => Ok(value.clone()),
            Self::Expression(expression) => {
                expression.evaluate(&scope.input, |name| scope.variable(name), work)
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
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Expression(expression) => expression.mentions(variable),
            Self::List(items) => items.iter().any(|item| item.mentions(variable)),
            Self::Object(members) => members.iter().any(|(_, member)| member.mentions(variable)),
        }
    }

    /// A short text for plans.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Plain(value) => value.to_string(),
            Self::Expression(expression) => expression.text().to_owned(),
            Self::List(_) => "[…]".to_owned(),
            Self::Object(members) => {
                let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                format!("{{{}}}", names.join(", "))
            }
        }
    }
}
