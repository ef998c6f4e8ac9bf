//! The tool `calculate`: exact arithmetic with fractions of arbitrary-length integers, up to a limit.

mod number;
mod parse;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::number::shown;
use crate::{Builtin, Given, Work, read, schema};

pub(crate) static CALCULATE: Builtin = Builtin {
    name: "calculate",
    title: "Calculate",
    description: "Calculates an expression exactly: + - * / % ^ and parentheses, abs, floor, ceil, round, sqrt, min, max, the constants pi and e. 0.1 + 0.2 is 0.3, and large numbers keep all their digits.",
    tags: &["math", "arithmetic", "sum", "add", "numbers"],
    example: r#"{"expression": "(12.50 * 3 - 2) / 4"}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Long(|arguments| calculate(&read(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as `round(100 / 3, 2)`.
    #[schemars(length(min = 1, max = 1000))]
    expression: String,
}

fn calculate(arguments: &Arguments) -> Given {
    let number = parse::value(&arguments.expression)?;
    let (result, fraction) = shown(&number);
    let mut given = json!({ "result": result, "exact": number.is_exact && fraction.is_none() });
    if let Some(fraction) = fraction.filter(|_| number.is_exact) {
        given["fraction"] = fraction.into();
    }
    Ok(given)
}

#[cfg(test)]
mod tests;
