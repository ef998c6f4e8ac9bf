//! A value of a document that may have expressions in it: they are evaluated, the rest stands as it is.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::expression::{Expression, ExpressionError};

/// A value with expressions in it.
#[derive(Debug)]
pub(crate) enum Template {
    Plain(Value),
    Expression(Expression),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// What expressions see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// What `.` is.
    pub(crate) input: Arc<Value>,
    pub(crate) variables: Vec<(Box<str>, Arc<Value>)>,
}

impl Scope {
    fn variable(&self, name: &str) -> Option<&Value> {
        // What stands further inside hides what stands further outside.
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

    /// Whether any expression in it looks at this variable.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Expression(expression) => expression.mentions(variable),
            Self::List(items) => items.iter().any(|item| item.mentions(variable)),
            Self::Object(members) => members.iter().any(|(_, member)| member.mentions(variable)),
        }
    }

    /// In few words, for plans.
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
