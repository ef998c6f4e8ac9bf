//! Reads one declared tool, which sends a request, returns a fixed answer or runs a command.

use std::collections::BTreeSet;

use model::placeholder::is_plain_name;
use model::{CustomCommand, CustomTool, CustomWork, Execution, FixedAnswer, Schema};
use serde_json::{Map, Value, json};

use super::{
    CustomDeclaration, CustomSettingsReader, DeclarationHead, build_manifest, content_check,
    placeholder_names,
};
use crate::openapi::method_annotations;

/// The maximum length of a tool name that every model accepts, in bytes.
const MAX_TOOL_NAME_BYTES: usize = 64;

impl CustomSettingsReader<'_> {
    pub(super) fn read_tool(&mut self, number: usize, tool: &CustomTool) {
        let at = format!("tools[{number}]");
        let before = self.problems.len();
        let name = &*tool.name;
        if !is_plain_name(name) || MAX_TOOL_NAME_BYTES < name.len() {
            let why =
                format!("is to have 1 to {MAX_TOOL_NAME_BYTES} letters, digits, `_`, `-` and `.`");
            self.report_problem(format!("{at}.name"), why);
        }
        self.reserve_key(
            &format!("{at}.name"),
            name,
            format!("Tool with name '{name}' already exists"),
        );
        let ways = [
            ("request", tool.request.is_some()),
            ("answer", tool.answer.is_some()),
            ("command", tool.command.is_some()),
        ];
        self.check_exactly_one(&at, &ways);
        let declared = declared_arguments(tool.input_schema.as_ref());
        let texts = template_texts(tool);
        let placeholders = self.collect_placeholders(&at, &texts, declared.as_ref());
        let (input, output) = self.build_schemas(&at, tool, &placeholders);
        let (method, path, execution, hints) = if let Some(request) = &tool.request {
            let is_name = |name: &str| placeholders.contains(name);
            let written = self.build_request(&format!("{at}.request"), request, &is_name);
            let is_argument = |name: &str| match &declared {
                Some(known) => known.contains(name),
                None => is_name(name),
            };
            let at = format!("{at}.request.polling");
            let polling = self.build_polling(&at, request, &is_argument);
            let Some((path, written)) = written else { return };
            let execution = match polling {
                Some(polling) => Execution::AsyncPoll { request: written, polling },
                None => Execution::SyncHttp(written),
            };
            (request.method.clone(), Some(path), execution, method_annotations(&request.method))
        } else {
            let Some(work) = self.read_work(&at, tool) else { return };
            let hints = match &work {
                CustomWork::Answer(_) => method_annotations("GET"),
                _ => std::collections::BTreeMap::new(),
            };
            ("POST".into(), None, Execution::Custom { does: Some(Box::new(work)) }, hints)
        };
        let (Some(input_schema), true) = (input, before == self.problems.len()) else { return };
        let (title, key) = (tool.title.as_deref(), name.to_owned());
        let head = DeclarationHead { at, key, name, title, description: &tool.description };
        let mut manifest = build_manifest(&head, execution, &[]);
        manifest.method = method;
        manifest.path = path.unwrap_or(manifest.path);
        manifest.tags = tool.tags.clone();
        (manifest.input_schema, manifest.output_schema) = (input_schema, output);
        manifest.extra = match &tool.annotations {
            Some(said) => [("annotations".into(), (&json!(said)).into())].into(),
            None => hints,
        };
        self.declared.push(CustomDeclaration { at: head.at, key: head.key, manifest });
    }

    /// How a tool that sends no request is executed.
    fn read_work(&mut self, at: &str, tool: &CustomTool) -> Option<CustomWork> {
        match (&tool.answer, &tool.command) {
            (Some(answer), _) => {
                self.check_answer(&format!("{at}.answer"), answer);
                Some(CustomWork::Answer(answer.clone()))
            }
            (None, Some(command)) => {
                self.check_command(&format!("{at}.command"), command);
                Some(CustomWork::Command(command.clone()))
            }
            (None, None) => None,
        }
    }

    fn check_answer(&mut self, at: &str, answer: &FixedAnswer) {
        match answer {
            FixedAnswer::Text(text) => self.check_length(&format!("{at}.text"), text),
            FixedAnswer::Json(value) => {
                self.check_length(&format!("{at}.json"), &value.to_string())
            }
            FixedAnswer::Content(all) => {
                self.check_length(&format!("{at}.content"), &json!(all).to_string());
                for (number, one) in all.iter().enumerate() {
                    if let Some((member, why)) = content_check::find_content_problem(one) {
                        self.report_problem(format!("{at}.content[{number}].{member}"), why);
                    }
                }
            }
        }
    }

    fn check_command(&mut self, at: &str, command: &CustomCommand) {
        for problem in command.run.find_problems() {
            self.report_problem(format!("{at}.{}", problem.member), problem.why);
        }
        if !placeholder_names(&command.run.program, &is_plain_name).is_empty() {
            let why = "has a placeholder: which program is run is not for arguments to say";
            self.report_problem(format!("{at}.program"), why);
        }
        if command.run.directory.as_ref().is_some_and(|folder| !folder.starts_with('/')) {
            self.report_problem(format!("{at}.directory"), "is to be an absolute path");
        }
        let long = command.run.arguments.iter().position(|it| model::TEMPLATE_LIMIT < it.len());
        if let Some(number) = long {
            self.report_problem(format!("{at}.arguments[{number}]"), "is too long");
        }
    }

    /// Collects the names of all placeholders. Reports names that the schema does not declare: most are misspelt.
    fn collect_placeholders<'t>(
        &mut self,
        at: &str,
        texts: &[(String, &'t str)],
        declared: Option<&BTreeSet<&str>>,
    ) -> BTreeSet<&'t str> {
        let mut all = BTreeSet::new();
        let is_declared = |name: &str| declared.is_some_and(|known| known.contains(name));
        for (member, text) in texts {
            for name in placeholder_names(text, &|name| is_plain_name(name) || is_declared(name)) {
                if declared.is_some() && !is_declared(name) {
                    let why =
                        format!("has `{{{{{name}}}}}`, which is no property of `input_schema`");
                    self.report_problem(format!("{at}.{member}"), why);
                }
                all.insert(name);
            }
        }
        all
    }

    fn build_schemas(
        &mut self,
        at: &str,
        tool: &CustomTool,
        placeholders: &BTreeSet<&str>,
    ) -> (Option<Schema>, Option<Schema>) {
        let takes_any = tool.command.as_ref().is_some_and(|command| command.stdin);
        let input = match &tool.input_schema {
            Some(said) => self.object_schema(&format!("{at}.input_schema"), said),
            None if takes_any && placeholders.is_empty() => json!({"type": "object"}),
            None => {
                let text = |name: &&str| ((*name).to_owned(), json!({"type": "string"}));
                let properties: Map<_, _> = placeholders.iter().map(text).collect();
                json!({"type": "object", "properties": properties, "required": placeholders})
            }
        };
        let output = tool.output_schema.as_ref();
        let output = output.map(|said| self.object_schema(&format!("{at}.output_schema"), said));
        (Schema::new(input).ok(), output.and_then(|output| Schema::new(output).ok()))
    }

    /// A schema of type `object`, which MCP requires for arguments and results.
    fn object_schema(&mut self, at: &str, said: &Map<String, Value>) -> Value {
        let mut schema = said.clone();
        let kind = schema.entry("type").or_insert_with(|| "object".into());
        if *kind != "object" {
            self.report_problem(
                format!("{at}.type"),
                "is to be `object`: arguments and results are objects",
            );
        }
        Value::Object(schema)
    }
}

/// The argument names that a schema declares, if there is a schema.
fn declared_arguments(schema: Option<&Map<String, Value>>) -> Option<BTreeSet<&str>> {
    let properties = schema?.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
    Some(names.collect())
}

/// Every text of the tool that may contain placeholders, with its field path.
fn template_texts(tool: &CustomTool) -> Vec<(String, &str)> {
    let mut texts: Vec<(String, &str)> = Vec::new();
    if let Some(request) = &tool.request {
        super::request_settings::collect_request_texts(request, &mut texts);
    }
    if let Some(command) = &tool.command {
        let arguments = command.run.arguments.iter().enumerate();
        texts.extend(
            arguments.map(|(number, text)| (format!("command.arguments[{number}]"), &**text)),
        );
    }
    texts
}
