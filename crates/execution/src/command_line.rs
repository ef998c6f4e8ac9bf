//! Renders the arguments of a call into the command line of a program (requirement B2).
//!
//! No shell parses the line, so nothing needs escaping. Options remain a risk: a value could start with `-` where the
//! program expects a file or a word. Such a value is rejected, unless the command allows it.

use model::placeholder::{TemplatePart, is_plain_name, split_template};
use model::{CallFailure, CustomCommand, ErrorCode};
use serde_json::{Map, Value};

/// The maximum length of one argument, and of the whole line, in bytes; below the limits of operating systems.
const MAX_ARGUMENT_BYTES: usize = 120 * 1024;
const MAX_LINE_BYTES: usize = 1 << 20;

/// The parsed command line of a program.
#[derive(Debug)]
pub struct CommandLine {
    arguments: Vec<Vec<CommandLinePart>>,
    allow_dashes: bool,
}

#[derive(Debug)]
enum CommandLinePart {
    Text(Box<str>),
    Value(Box<str>),
}

impl CommandLine {
    /// Compiles a command line. Placeholders are plain names and names that the input schema declares.
    pub fn compile(command: &CustomCommand, input_schema: &Value) -> Self {
        let is_name =
            |name: &str| is_plain_name(name) || input_schema["properties"].get(name).is_some();
        let stretch = |part: TemplatePart<'_>| match part {
            TemplatePart::Text(text) => CommandLinePart::Text(text.into()),
            TemplatePart::Name(name) => CommandLinePart::Value(name.into()),
        };
        let arguments = command.run.arguments.iter();
        let arguments =
            arguments.map(|text| split_template(text, is_name).into_iter().map(stretch).collect());
        let arguments = arguments.collect();
        Self { arguments, allow_dashes: command.allow_dashes }
    }

    /// The command line for these arguments. An argument with a placeholder that has no value is omitted completely.
    pub fn render(&self, arguments: &Map<String, Value>) -> Result<Vec<String>, CallFailure> {
        let mut line = Vec::with_capacity(self.arguments.len());
        for stretches in &self.arguments {
            line.extend(self.render_argument(stretches, arguments)?);
        }
        if MAX_LINE_BYTES < line.iter().map(String::len).sum() {
            return Err(validation_failure("the arguments are too long for a command line"));
        }
        Ok(line)
    }

    fn render_argument(
        &self,
        stretches: &[CommandLinePart],
        arguments: &Map<String, Value>,
    ) -> Result<Option<String>, CallFailure> {
        let mut text = String::new();
        for stretch in stretches {
            let name = match stretch {
                CommandLinePart::Text(fixed) => {
                    text.push_str(fixed);
                    continue;
                }
                CommandLinePart::Value(name) => name,
            };
            let Some(value) = arguments.get(&**name).and_then(value_text) else { return Ok(None) };
            let begins = text.bytes().all(|byte| byte == b'-');
            if !self.allow_dashes && begins && value.starts_with('-') {
                let why = "begins with `-`, which the program would take for an option";
                return Err(validation_failure(format!("the argument `{name}` {why}")));
            }
            if value.contains('\0') {
                let why = "has a zero character, which no command line can have";
                return Err(validation_failure(format!("the argument `{name}` {why}")));
            }
            if MAX_ARGUMENT_BYTES < text.len() + value.len() {
                return Err(validation_failure(format!("the argument `{name}` is too long")));
            }
            text.push_str(&value);
        }
        Ok(Some(text))
    }
}

/// A string unchanged, other values as JSON, null as missing.
fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

fn validation_failure(why: impl Into<String>) -> CallFailure {
    CallFailure::new(ErrorCode::ValidationError, why, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    fn line(
        template: &[&str],
        allow_dashes: bool,
        arguments: &Value,
    ) -> Result<Vec<String>, String> {
        let command = json!({"program": "p", "arguments": template, "allow_dashes": allow_dashes});
        let command = serde_json::from_value(command).unwrap();
        let schema = json!({"properties": {"odd name": {}}});
        let line = CommandLine::compile(&command, &schema);
        line.render(arguments.as_object().unwrap()).map_err(|failure| failure.message)
    }

    #[test]
    fn a_value_stays_within_its_argument() {
        let template = ["log", "--author={{who}}", "{{n}}", "{{odd name}}", "{{ who }}"];
        let given = json!({"who": "a b; rm -rf / $(id) `id` \"'\n", "n": 3, "odd name": ["x"]});
        let author = "--author=a b; rm -rf / $(id) `id` \"'\n";
        let expected = ["log", author, "3", "[\"x\"]", "{{ who }}"];
        assert_eq!(line(&template, false, &given).unwrap(), expected);
    }

    #[test]
    fn an_argument_without_a_value_is_omitted() {
        let template = ["a", "--limit={{limit}}", "{{who}}"];
        assert_eq!(line(&template, false, &json!({"who": null})).unwrap(), ["a"]);
    }

    #[test]
    fn a_value_does_not_become_an_option_unless_that_is_allowed() {
        for (template, value) in [("{{x}}", "--help"), ("{{x}}", "-1"), ("-{{x}}", "-help")] {
            let refused = line(&[template], false, &json!({"x": value})).unwrap_err();
            assert!(refused.starts_with("the argument `x` begins with `-`"), "{refused}");
            assert!(line(&[template], true, &json!({"x": value})).is_ok());
        }
        let number = line(&["{{x}}"], false, &json!({"x": -1})).unwrap_err();
        assert!(number.contains("begins with `-`"), "{number}");
        let twice = line(&["{{x}}{{y}}"], false, &json!({"x": "", "y": "-f"})).unwrap_err();
        assert!(twice.contains("the argument `y`"), "{twice}");
        assert_eq!(line(&["--x={{x}}"], false, &json!({"x": "-1"})).unwrap(), ["--x=-1"]);
    }

    #[test]
    fn values_that_no_command_line_can_hold_are_rejected() {
        assert!(line(&["{{x}}"], false, &json!({"x": "a\0b"})).unwrap_err().contains("zero"));
        let long = "x".repeat(MAX_ARGUMENT_BYTES + 1);
        assert!(line(&["{{x}}"], false, &json!({"x": long})).unwrap_err().contains("too long"));
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        let many = ["{{x}}"; 9];
        assert!(line(&many, false, &json!({"x": long})).unwrap_err().contains("too long"));
    }

    proptest! {
        #[test]
        fn no_value_adds_an_argument_or_an_option(value in any::<String>()) {
            if let Ok(line) = line(&["{{x}}", "a{{x}}b"], false, &json!({"x": value})) {
                prop_assert_eq!(line.len(), 2);
                prop_assert!(!line[0].starts_with('-'));
                prop_assert_eq!(&line[1], &format!("a{value}b"));
            }
        }
    }
}
