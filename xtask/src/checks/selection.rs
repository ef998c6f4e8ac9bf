//! The steps and tests that the command line selects.

use crate::checks::STEPS;
use crate::xtask_error::XtaskError;

const FAST: [&str; 4] = ["setup", "format", "lint", "tests"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSelection {
    /// `None`: every step.
    steps: Option<Vec<String>>,
    pub(super) filters: Vec<String>,
    pub(super) options: Vec<String>,
}

impl StepSelection {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, XtaskError> {
        let mut selection = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--" => selection.options.extend(arguments.by_ref().cloned()),
                "--fast" => FAST.iter().for_each(|name| selection.add_step(name)),
                "--only" => selection.add_step(&parse_step(arguments.next())?),
                option if option.starts_with('-') => {
                    let sentence = format!(
                        "there is no option `{option}`; options for the tests go after `--`"
                    );
                    return Err(XtaskError::new(sentence));
                }
                filter => selection.filters.push(filter.to_owned()),
            }
        }
        Ok(selection)
    }

    /// `setup` is always included: it takes no time if nothing is missing.
    pub(super) fn includes(&self, step: &str) -> bool {
        let Some(steps) = &self.steps else {
            return true;
        };
        step == "setup" || steps.iter().any(|name| name == step)
    }

    pub(super) fn includes_all_tests(&self) -> bool {
        self.filters.is_empty() && self.options.is_empty()
    }

    /// The command that repeats one of the selected steps.
    pub(super) fn repeat_command(&self, step: &str) -> String {
        match step {
            "tests" => format!("cargo xtask test --only tests{}", self.test_arguments()),
            "golden files" => "cargo xtask test --only tests --only golden-files".to_owned(),
            _ => format!("cargo xtask test --only {}", step.replace(' ', "-")),
        }
    }

    fn add_step(&mut self, step: &str) {
        self.steps.get_or_insert_default().push(step.to_owned());
    }

    fn test_arguments(&self) -> String {
        let mut words = self.filters.clone();
        if !self.options.is_empty() {
            words.push("--".to_owned());
            words.extend(self.options.clone());
        }
        words.iter().map(|word| format!(" {word}")).collect()
    }
}

/// Finds a step by its name on the command line, which has dashes instead of spaces.
fn parse_step(typed: Option<&String>) -> Result<String, XtaskError> {
    let typed = typed.ok_or_else(|| XtaskError::new("`--only` needs the name of a step"))?;
    let name = typed.replace('-', " ");
    if STEPS.iter().any(|step| step.name == name) {
        return Ok(name);
    }
    Err(XtaskError::new(format!("there is no step `{typed}`; see `cargo xtask help`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<StepSelection, XtaskError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        StepSelection::parse(&words)
    }

    fn steps(line: &str) -> Vec<&'static str> {
        let selection = parse(line).unwrap();
        STEPS.iter().map(|step| step.name).filter(|name| selection.includes(name)).collect()
    }

    #[test]
    fn every_step_runs_unless_some_are_named() {
        assert_eq!(steps("").len(), STEPS.len());
        assert_eq!(steps("a_filter").len(), STEPS.len());
        assert_eq!(steps("--fast"), FAST);
        assert_eq!(steps("--only unused-dependencies"), ["setup", "unused dependencies"]);
        assert_eq!(steps("--only tests --only golden-files"), ["setup", "tests", "golden files"]);
    }

    #[test]
    fn a_failed_step_can_be_repeated_as_it_ran() {
        let selection = parse("journal --fast -- --no-capture").unwrap();
        assert_eq!(
            selection.repeat_command("tests"),
            "cargo xtask test --only tests journal -- --no-capture"
        );
        assert_eq!(selection.repeat_command("lint"), "cargo xtask test --only lint");
        for step in STEPS {
            let again = selection.repeat_command(step.name);
            assert!(
                parse(again.trim_start_matches("cargo xtask test ")).unwrap().includes(step.name)
            );
        }
    }

    #[test]
    fn mistyped_options_and_steps_are_rejected() {
        assert!(parse("--fsat").is_err());
        assert!(parse("--only").is_err());
        assert!(parse("--only lynt").is_err());
    }
}
