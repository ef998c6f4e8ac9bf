//! The tool `calculate`: exact arithmetic with fractions of arbitrary-length integers, up to a limit.

mod exact_number;
mod expression_parser;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::exact_number::format_number;
use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static CALCULATE: BuiltinTool = BuiltinTool {
    name: "calculate",
    title: "Calculate",
    description: "Calculates an expression exactly: + - * / % ^ and parentheses, abs, floor, ceil, round, sqrt, min, max, the constants pi and e. 0.1 + 0.2 is 0.3, and large numbers keep all their digits.",
    tags: &["math", "arithmetic", "sum", "add", "numbers"],
    example: r#"{"expression": "(12.50 * 3 - 2) / 4"}"#,
    uses_network: false,
    input: arguments_schema::<CalculateArguments>,
    work: BuiltinWork::Expensive(|arguments| calculate(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct CalculateArguments {
    /// Such as `round(100 / 3, 2)`.
    #[schemars(length(min = 1, max = 1000))]
    expression: String,
}

fn calculate(arguments: &CalculateArguments) -> BuiltinResult {
    let number = expression_parser::evaluate_expression(&arguments.expression)?;
    let (result, fraction) = format_number(&number);
    let mut given = json!({ "result": result, "exact": number.is_exact && fraction.is_none() });
    if let Some(fraction) = fraction.filter(|_| number.is_exact) {
        given["fraction"] = fraction.into();
    }
    Ok(given)
}

#[cfg(test)]
mod tests;
