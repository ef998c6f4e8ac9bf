//! Reads the settings of a source of kind `custom`. They become manifests (requirements B2, B3), or a list of all
//! problems, each with its field path.
//!
//! This module writes templates, in which only `{{name}}` has a meaning. Whether a template is usable is checked when
//! it is compiled.

mod content_check;
mod prompt_settings;
mod request_settings;
mod resource_settings;
mod tool_settings;
mod uri_template;

use std::collections::HashSet;

use model::placeholder::TemplatePart;
use model::{
    CustomSettings, CustomWork, Execution, Manifest, PromptArgument, RawJson, Schema, SourceId,
    SourceUrl, ToolId, placeholder,
};
use serde_json::json;
use url::Url;

pub use self::uri_template::match_uri_template as values_of_uri;

/// The maximum number of tools, prompts and resources of one source.
const MAX_DECLARATIONS: usize = 1_000;
/// The maximum length of a text or blob, in bytes. Longer content belongs in a file.
const TEXT_LIMIT: usize = 1 << 20;
/// The maximum length of a name other than a tool's, in bytes.
const NAME_LIMIT: usize = 128;
/// The maximum number of completion values for one argument.
const VALUES_LIMIT: usize = 1_000;

/// One tool, prompt or resource that an admin declared.
#[derive(Clone, Debug)]
pub struct CustomDeclaration {
    /// The field path in the settings: `tools[0]`.
    pub at: String,
    /// The key within the source.
    pub key: String,
    /// The manifest that the declaration describes.
    pub manifest: Manifest,
}

/// One problem in the settings of a custom source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomProblem {
    /// The field path in the settings: `tools[0].request.url`.
    pub at: String,
    /// The problem, and how to fix it.
    pub why: String,
}

/// Reads the settings and returns their declarations, or all problems. Paths are relative to `base`.
pub fn read_custom_settings(
    source: &SourceId,
    base: Option<&SourceUrl>,
    settings: &CustomSettings,
) -> Result<Vec<CustomDeclaration>, Vec<CustomProblem>> {
    let base = base.map(SourceUrl::as_url);
    let mut reader = CustomSettingsReader {
        source,
        base,
        taken_keys: HashSet::new(),
        problems: Vec::new(),
        declared: Vec::new(),
    };
    let CustomSettings { tools, prompts, resources, resource_templates } = settings;
    if MAX_DECLARATIONS < tools.len() + prompts.len() + resources.len() + resource_templates.len() {
        let why = format!(
            "has more than {MAX_DECLARATIONS} tools, prompts and resources: make two sources of it"
        );
        return Err(vec![CustomProblem { at: String::new(), why }]);
    }
    tools.iter().enumerate().for_each(|(number, tool)| reader.read_tool(number, tool));
    prompts.iter().enumerate().for_each(|(number, prompt)| reader.read_prompt(number, prompt));
    resources.iter().enumerate().for_each(|(number, it)| reader.read_resource(number, it));
    resource_templates
        .iter()
        .enumerate()
        .for_each(|(number, it)| reader.read_resource_template(number, it));
    if reader.problems.is_empty() { Ok(reader.declared) } else { Err(reader.problems) }
}

struct CustomSettingsReader<'a> {
    source: &'a SourceId,
    base: Option<&'a Url>,
    taken_keys: HashSet<String>,
    problems: Vec<CustomProblem>,
    declared: Vec<CustomDeclaration>,
}

/// The fields that every declaration has.
struct DeclarationHead<'a> {
    at: String,
    key: String,
    name: &'a str,
    title: Option<&'a str>,
    description: &'a str,
}

impl CustomSettingsReader<'_> {
    fn report_problem(&mut self, at: impl Into<String>, why: impl Into<String>) {
        self.problems.push(CustomProblem { at: at.into(), why: why.into() });
    }

    /// Reserves a key; reports a problem if it is taken or invalid.
    fn reserve_key(&mut self, at: &str, key: &str, twice: String) {
        if !self.taken_keys.insert(key.to_owned()) {
            self.report_problem(at, twice);
        } else if let Err(error) = ToolId::new(self.source, key) {
            self.report_problem(at, error.rule);
        }
    }

    fn check_name(&mut self, at: &str, name: &str) {
        if name.trim().is_empty() || NAME_LIMIT < name.len() || name.chars().any(char::is_control) {
            self.report_problem(
                at,
                format!("is to have 1 to {NAME_LIMIT} bytes that can be printed"),
            );
        }
    }

    fn check_length(&mut self, at: &str, text: &str) {
        if TEXT_LIMIT < text.len() {
            self.report_problem(
                at,
                format!("is longer than {TEXT_LIMIT} bytes: keep it in a file"),
            );
        }
    }

    /// Checks the values that completion proposes to a user.
    fn check_values(&mut self, at: &str, values: &[Box<str>]) {
        if VALUES_LIMIT < values.len() {
            self.report_problem(at, format!("has more than {VALUES_LIMIT} values"));
        }
        for (number, value) in values.iter().enumerate() {
            self.check_name(&format!("{at}[{number}]"), value);
        }
    }

    /// Reports a problem unless exactly one of several fields is set.
    fn check_exactly_one(&mut self, at: &str, given: &[(&str, bool)]) {
        let names: Vec<_> = given.iter().map(|(name, _)| format!("`{name}`")).collect();
        let count = given.iter().filter(|(_, is_given)| *is_given).count();
        if count != 1 {
            let names = names.join(", ");
            let but = if count == 0 { "none is" } else { "several are" };
            self.report_problem(at, format!("is to have one of {names}, and {but} given"));
        }
    }

    fn add_declaration(
        &mut self,
        head: DeclarationHead<'_>,
        work: CustomWork,
        extra: &[(&str, serde_json::Value)],
    ) {
        let does = Some(Box::new(work));
        let manifest = build_manifest(&head, Execution::Custom { does }, extra);
        self.declared.push(CustomDeclaration { at: head.at, key: head.key, manifest });
    }
}

fn build_manifest(
    head: &DeclarationHead<'_>,
    execution: Execution,
    extra: &[(&str, serde_json::Value)],
) -> Manifest {
    let extra = extra.iter().map(|(name, value)| ((*name).into(), RawJson::from(value)));
    Manifest {
        name: head.name.into(),
        title: head.title.map(Into::into),
        description: head.description.into(),
        method: "POST".into(),
        path: format!("/custom/{}", head.key).into(),
        tags: Vec::new(),
        input_schema: Schema::new(json!({"type": "object"})).expect("this is an object"),
        output_schema: None,
        execution,
        deprecated: false,
        security: None,
        extra: extra.collect(),
    }
}

/// The names of the placeholders in a text.
fn placeholder_names<'a>(text: &'a str, is_name: &impl Fn(&str) -> bool) -> Vec<&'a str> {
    let parts = placeholder::split_template(text, is_name).into_iter();
    let names = parts.filter_map(|part| match part {
        TemplatePart::Name(name) => Some(name),
        TemplatePart::Text(_) => None,
    });
    names.collect()
}

/// The arguments of a prompt as `prompts/list` of MCP returns them.
fn prompt_arguments_json(arguments: &[PromptArgument]) -> serde_json::Value {
    let bare =
        |argument: &PromptArgument| PromptArgument { values: Vec::new(), ..argument.clone() };
    arguments.iter().map(|argument| json!(bare(argument))).collect()
}

#[cfg(test)]
mod tests;
