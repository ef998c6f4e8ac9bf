//! Settings of a source of kind `custom`: tools, prompts and resources that an admin defines by hand (requirements B2,
//! B3). This is the unchecked form; the crate `sources` parses it and reports every problem.

mod custom_work;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::custom_work::{CustomHolds, CustomWork};
use crate::{PollingSettings, StdioCommand};

/// What a source of kind `custom` offers. In its texts, `{{name}}` stands for an argument and nothing else means anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CustomSettings {
    /// Tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<CustomTool>,
    /// Prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<CustomPrompt>,
    /// Resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<CustomResource>,
    /// Resources whose addresses are alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<CustomResourceTemplate>,
}

/// A tool. It answers in one of three ways: `request`, `answer` or `command`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomTool {
    /// What agents call it.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What it does, for the model that chooses.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Further words; selectors see them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Box<str>>,
    /// The JSON Schema of its arguments. Without one, each placeholder is a text that must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Map<String, Value>>,
    /// The JSON Schema of its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// MCP annotations, such as `{"readOnlyHint": true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    /// It sends a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CustomRequest>,
    /// It always answers the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<FixedAnswer>,
    /// It runs a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CustomCommand>,
}

/// A request over HTTP. Every value is encoded for the place where its placeholder stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomRequest {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    #[serde(default = "default_request_method", skip_serializing_if = "is_default_request_method")]
    pub method: Box<str>,
    /// A whole address, or a path below the `url` of the source. Placeholders stand in its path.
    pub url: Box<str>,
    /// The query. A pair whose argument is not given is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<Box<str>, Box<str>>,
    /// Headers. One whose argument is not given is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<Box<str>, Box<str>>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<CustomBody>,
    /// How work is followed that goes on after the answer; its result is then that of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling: Option<PollingSettings>,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomBody {
    /// JSON. A text that is nothing but a placeholder becomes the value as it is; a member without a value is left out.
    Json(Value),
    /// Pairs, as a form on a page sends them.
    Form(BTreeMap<Box<str>, Box<str>>),
    /// Plain text.
    Text(Box<str>),
}

fn default_request_method() -> Box<str> {
    "GET".into()
}

fn is_default_request_method(method: &str) -> bool {
    method == "GET"
}

/// An answer that is always the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixedAnswer {
    /// A text.
    Text(Box<str>),
    /// JSON.
    Json(Value),
    /// Content in the shapes of MCP.
    Content(Vec<Map<String, Value>>),
}

/// A program that is run for each call. No shell reads its arguments, and a value stays within the one it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomCommand {
    /// What is run; its `arguments` may have placeholders. One without a value is left out as a whole.
    #[serde(flatten)]
    pub run: StdioCommand,
    /// Whether it gets all arguments of the call as JSON on its standard input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// Whether a value may make an argument begin with `-`, which most programs take for an option.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_dashes: bool,
    /// What it says on its standard output.
    #[serde(default, skip_serializing_if = "CommandOutput::is_default")]
    pub output: CommandOutput,
}

/// What a program says on its standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutput {
    /// Text.
    #[default]
    Text,
    /// JSON: the result of the call.
    Json,
}

impl CommandOutput {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A prompt: a `template` that the user says, or several `messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomPrompt {
    /// What it is called.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// What is filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// One text of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<str>>,
    /// What is said in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<CustomMessage>,
}

/// What is filled into a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptArgument {
    /// Its name: `{{name}}` stands for it.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What it is.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Whether it must be given; otherwise it is empty if it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What is proposed to whoever types it; anything else is good too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

/// One message of a prompt: a `text`, or `content`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomMessage {
    /// Who says it.
    pub role: MessageRole,
    /// A text, which may have placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<str>>,
    /// Content in one of the shapes of MCP, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
}

/// Who says a message of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// A resource: `text`, `blob`, `file` or `url` say what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomResource {
    /// Its address.
    pub uri: Box<str>,
    /// What it is called.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What it is.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// `text/markdown`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Box<str>>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<str>>,
    /// Bytes, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Box<str>>,
    /// A file below a folder that the server may read (`--resource-folder`), as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Box<str>>,
    /// An address on the web, or a path below the `url` of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Box<str>>,
}

/// Resources whose addresses are alike. What stands for `{name}` in an address stands for `{{name}}` in what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomResourceTemplate {
    /// Their addresses, with `{name}` for what differs (RFC 6570, level 1).
    pub uri_template: Box<str>,
    /// What they are called.
    pub name: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// What they are.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// `text/markdown`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<Box<str>>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<str>>,
    /// Files below a folder that the server may read (`--resource-folder`), as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Box<str>>,
    /// Addresses on the web, or paths below the `url` of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Box<str>>,
    /// What is proposed to whoever types an address, by the names in it; anything else is good too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<Box<str>, Vec<Box<str>>>,
}

impl CustomSettings {
    /// Whether no tool, prompt or resource is defined.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a tool runs a command.
    pub fn runs_programs(&self) -> bool {
        self.tools.iter().any(|tool| tool.command.is_some())
    }

    /// The files that resources read, with the field path of each.
    pub fn referenced_files(&self) -> impl Iterator<Item = (String, &str)> {
        let resources = self.resources.iter().map(|one| one.file.as_deref()).enumerate();
        let resources = resources.map(|(number, file)| ("resources", number, file));
        let templates = self.resource_templates.iter().map(|one| one.file.as_deref()).enumerate();
        let templates = templates.map(|(number, file)| ("resource_templates", number, file));
        resources.chain(templates).filter_map(|(list, number, file)| {
            file.map(|file| (format!("{list}[{number}].file"), file))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::SourceSettings;

    #[test]
    fn empty_settings_serialise_to_the_kind_alone() {
        let settings: SourceSettings = serde_json::from_value(json!({"kind": "custom"})).unwrap();
        assert_eq!(settings, SourceSettings::Custom(CustomSettings::default()));
        assert_eq!(serde_json::to_value(settings).unwrap(), json!({"kind": "custom"}));
    }

    #[test]
    fn settings_survive_serialisation() {
        let written = json!({
            "kind": "custom",
            "tools": [
                {"name": "a", "tags": ["x"], "input_schema": {"type": "object", "minProperties": 1},
                    "request": {"method": "POST", "url": "/a/{{b}}", "query": {"q": "{{q}}"},
                        "headers": {"X-A": "1"}, "body": {"json": {"n": 1.5, "deep": [null, "{{b}}"]}},
                        "polling": {"status_path": "state", "completed": ["done"]}}},
                {"name": "b", "answer": {"content": [{"type": "text", "text": "hi"}]}},
                {"name": "c", "command": {"program": "date", "arguments": ["-d", "{{d}}"],
                    "environment": {"TZ": "env:ZONE"}, "stdin": true, "output": "json"}},
            ],
            "prompts": [{"name": "p", "arguments": [{"name": "x", "required": true}],
                "messages": [{"role": "assistant", "text": "{{x}}"}]}],
            "resources": [{"uri": "a:b", "name": "r", "mime_type": "text/plain", "file": "/srv/a"}],
            "resource_templates": [{"uri_template": "a:{b}", "name": "t", "text": "{{b}}"}],
        });
        let settings: SourceSettings = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&settings).unwrap(), written);
        let SourceSettings::Custom(custom) = settings else { panic!("it is custom") };
        assert!(custom.runs_programs() && !custom.is_empty());
        let files: Vec<_> = custom.referenced_files().collect();
        assert_eq!(files, [("resources[0].file".to_owned(), "/srv/a")]);
    }
}
