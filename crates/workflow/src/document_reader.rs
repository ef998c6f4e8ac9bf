//! The document reader: it turns a document into a workflow, or reports all problems with their JSON pointers.
//!
//! The reader ignores nothing. It rejects unsupported features of the DSL and unknown fields by name.

mod read_action;
mod read_duration;
mod read_steps;
mod read_try;
mod workflow_object;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use self::workflow_object::WorkflowObject;
use crate::runtime_expression::{RuntimeExpression, deep_stack};
use crate::value_template::ValueTemplate;
use crate::workflow_document::Workflow;

/// Maximum number of steps in a document, and maximum nesting depth of steps.
const MOST_STEPS: usize = 500;
const DEEPEST_STEPS: usize = 16;
/// Maximum number of branches that run concurrently.
const MOST_BRANCHES: usize = 64;
/// Maximum document size, in bytes of JSON.
const LONGEST: usize = 256 << 10;
/// A longer list would help no reader.
const MOST_PROBLEMS: usize = 20;

/// One problem in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// JSON pointer to the problem.
    pub path: String,
    /// Explanation of the problem.
    pub message: String,
}

impl fmt::Display for DocumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

/// All problems of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidWorkflow {
    /// At least one problem.
    pub problems: Vec<DocumentProblem>,
}

impl Workflow {
    /// Reads a document of the Serverless Workflow DSL 1.0.
    pub fn from_document(document: &Value) -> Result<Self, InvalidWorkflow> {
        // Run on a deep stack: the document nests as deep as its parser allows, and its expressions nest deeper.
        deep_stack::run_on_new_thread(|| DocumentReader::default().read_document(document))
    }
}

/// State of reading one document.
#[derive(Default)]
struct DocumentReader {
    problems: Vec<DocumentProblem>,
    /// The `use` section of the document.
    shared: Map<String, Value>,
    steps: usize,
}

/// The variables that expressions may mention at one position of the document, and its nesting.
#[derive(Clone, Default)]
struct DocumentScope {
    variables: Vec<Box<str>>,
    depth: usize,
    /// Number of concurrent branches of the enclosing forks.
    branches: usize,
}

impl DocumentScope {
    /// Adds variables.
    fn with_variables(&self, names: &[&str]) -> Self {
        let mut place = self.clone();
        place.variables.extend(names.iter().map(|name| Box::from(*name)));
        place
    }
}

impl DocumentReader {
    fn read_document(mut self, document: &Value) -> Result<Workflow, InvalidWorkflow> {
        let workflow = match document.to_string().len() <= LONGEST {
            true => self.read_workflow(document),
            false => {
                let message = format!("the document has more than {LONGEST} bytes");
                self.report_problem("", message);
                None
            }
        };
        match workflow {
            Some(workflow) if self.problems.is_empty() => Ok(workflow),
            _ => {
                self.problems.truncate(MOST_PROBLEMS);
                Err(InvalidWorkflow { problems: self.problems })
            }
        }
    }

    fn report_problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(DocumentProblem { path: path.to_owned(), message: message.into() });
    }

    fn read_workflow(&mut self, value: &Value) -> Option<Workflow> {
        let members = self.read_object("", value)?;
        let known = ["document", "input", "use", "do", "timeout", "output", "evaluate"];
        members.reject_unknown_fields(
            self,
            &known,
            &[("schedule", "a tool is run when it is called")],
        );
        self.shared = self.read_use_section(&members);
        self.check_evaluate(&members);
        let about = members
            .require_field(self, "document")
            .and_then(|it| self.read_object("/document", it));
        let about = about?;
        let known = ["dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata"];
        about.reject_unknown_fields(self, &known, &[]);
        self.check_dsl_version(&about);
        about.require_text(self, "namespace");
        about.require_text(self, "version");
        let name = about.require_text(self, "name");
        let tags = self.read_tags(&about);
        let (title, summary) = (about.get_text(self, "title"), about.get_text(self, "summary"));

        let outside = DocumentScope::default().with_variables(&["workflow", "runtime"]);
        let (input_schema, input) =
            self.read_input_output(&members, "input", "from", &outside, true);
        let ends = outside.with_variables(&["context"]);
        let (output_schema, output) = self.read_input_output(&members, "output", "as", &ends, true);
        let timeout = self.read_timeout(&members);
        let steps = members.require_field(self, "do");
        let steps = steps.and_then(|steps| self.read_steps("/do", steps, &outside));
        Some(Workflow {
            name: name?.into(),
            title: title.map(Into::into),
            summary: summary.map(Into::into),
            tags,
            input_schema,
            output_schema,
            input,
            output,
            timeout,
            steps: steps?,
            definition: Arc::new(value.clone()),
        })
    }

    fn check_dsl_version(&mut self, about: &WorkflowObject<'_>) {
        let Some(version) = about.require_text(self, "dsl") else { return };
        if !(version == "1.0" || version.starts_with("1.0.")) {
            let message = format!("version `{version}` of the DSL is not supported, only 1.0");
            self.report_problem("/document/dsl", message);
        }
    }

    fn read_tags(&mut self, about: &WorkflowObject<'_>) -> Vec<Box<str>> {
        let Some(tags) = about.get("tags") else { return Vec::new() };
        let Some(tags) = self.read_object("/document/tags", tags) else { return Vec::new() };
        let names: Vec<&String> = tags.field_names().collect();
        let tag = |reader: &mut Self, name: &str| {
            let value = tags.require_text(reader, name)?;
            Some(format!("{name}={value}").into())
        };
        names.into_iter().filter_map(|name| tag(self, name)).collect()
    }

    fn read_use_section(&mut self, members: &WorkflowObject<'_>) -> Map<String, Value> {
        let Some(value) = members.get("use") else { return Map::new() };
        let Some(shared) = self.read_object("/use", value) else { return Map::new() };
        let elsewhere = "credentials are those of the tools' sources";
        let refused = [
            ("authentications", elsewhere),
            ("secrets", elsewhere),
            ("catalogs", "functions are the tools that were granted"),
            ("functions", "functions are the tools that were granted"),
            ("extensions", "write the tasks where they are to be run"),
        ];
        shared.reject_unknown_fields(self, &["errors", "retries", "timeouts"], &refused);
        value.as_object().cloned().unwrap_or_default()
    }

    /// Resolves a name to an entry of the `use` section.
    fn resolve_reference(&mut self, path: &str, kind: &str, name: &str) -> Option<(String, Value)> {
        let found = self.shared.get(kind).and_then(|all| all.get(name)).cloned();
        if found.is_none() {
            self.report_problem(path, format!("there is no `{name}` under `/use/{kind}`"));
        }
        Some((format!("/use/{kind}/{}", workflow_object::escape_pointer_segment(name)), found?))
    }

    fn check_evaluate(&mut self, members: &WorkflowObject<'_>) {
        let Some(value) = members.get("evaluate") else { return };
        let Some(evaluate) = self.read_object("/evaluate", value) else { return };
        evaluate.reject_unknown_fields(self, &["language", "mode"], &[]);
        for (name, only) in [("language", "jq"), ("mode", "strict")] {
            if let Some(said) = evaluate.get_text(self, name).filter(|said| *said != only) {
                let message = format!("`{said}` is not supported, only `{only}`");
                self.report_problem(&evaluate.field_path(name), message);
            }
        }
    }

    /// Reads `input` or `output` of the document or of a step: its schema and its transformation.
    fn read_input_output(
        &mut self,
        members: &WorkflowObject<'_>,
        name: &str,
        transform: &str,
        place: &DocumentScope,
        has_schema: bool,
    ) -> (Option<Value>, Option<Arc<ValueTemplate>>) {
        let path = members.field_path(name);
        let Some(value) = members.get(name) else { return (None, None) };
        let Some(io) = self.read_object(&path, value) else { return (None, None) };
        let inside = [("schema", "only the document's own `input` and `output` have schemas")];
        match has_schema {
            true => io.reject_unknown_fields(self, &["schema", transform], &[]),
            false => io.reject_unknown_fields(self, &[transform], &inside),
        }
        let template = io.get(transform).and_then(|it| {
            let path = io.field_path(transform);
            self.read_transform(&path, it, place)
        });
        let schema = if has_schema { self.read_schema(&io) } else { None };
        (schema, template)
    }

    fn read_schema(&mut self, io: &WorkflowObject<'_>) -> Option<Value> {
        let path = io.field_path("schema");
        let schema = self.read_object(&path, io.get("schema")?)?;
        schema.reject_unknown_fields(
            self,
            &["format", "document"],
            &[("resource", "write the schema as `document`, nothing is fetched")],
        );
        if let Some(format) = schema.get_text(self, "format")
            && format != "json"
            && !format.starts_with("json:")
        {
            let message = format!("schemas of format `{format}` are not supported, only `json`");
            self.report_problem(&schema.field_path("format"), message);
        }
        let document = schema.require_field(self, "document")?;
        if !document.is_object() {
            self.report_problem(&schema.field_path("document"), "a JSON Schema is an object here");
            return None;
        }
        Some(document.clone())
    }

    /// Reads a transformation: an expression, or an object with expressions in it.
    fn read_transform(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<Arc<ValueTemplate>> {
        match value {
            Value::String(text) => self.read_expression(path, text, place),
            Value::Object(_) => self.read_template(path, value, place),
            _ => {
                self.report_problem(path, "this is neither an expression nor an object");
                None
            }
        }
    }

    /// Reads a field that is an expression, with or without `${ }`.
    fn read_expression(
        &mut self,
        path: &str,
        text: &str,
        place: &DocumentScope,
    ) -> Option<Arc<ValueTemplate>> {
        let text = strip_delimiters(text).unwrap_or(text);
        self.compile_expression(path, text, place).map(ValueTemplate::Expression).map(Arc::new)
    }

    fn compile_expression(
        &mut self,
        path: &str,
        text: &str,
        place: &DocumentScope,
    ) -> Option<RuntimeExpression> {
        let known: Vec<&str> = place.variables.iter().map(|name| &**name).collect();
        match RuntimeExpression::compile(text.trim(), &known) {
            Ok(expression) => Some(expression),
            Err(error) => {
                self.report_problem(path, error.to_string());
                None
            }
        }
    }

    /// Reads a value in which strings of the form `${ … }` are expressions.
    fn read_template(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<Arc<ValueTemplate>> {
        self.build_template(path, value, place).map(Arc::new)
    }

    fn build_template(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<ValueTemplate> {
        match value {
            Value::String(text) => match strip_delimiters(text) {
                Some(text) => {
                    self.compile_expression(path, text, place).map(ValueTemplate::Expression)
                }
                None if text.contains("${") => {
                    self.report_problem(
                        path,
                        "an expression is the whole of a text: write `${ \"… \\(.name) …\" }`",
                    );
                    None
                }
                None => Some(ValueTemplate::Plain(value.clone())),
            },
            Value::Array(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.build_template(&format!("{path}/{at}"), item, place));
                Some(ValueTemplate::List(
                    items.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?,
                ))
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    let path = format!("{path}/{}", workflow_object::escape_pointer_segment(name));
                    Some((name.clone(), self.build_template(&path, member, place)?))
                });
                let members: Vec<_> = members.collect();
                Some(ValueTemplate::Object(members.into_iter().collect::<Option<_>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                Some(ValueTemplate::Plain(value.clone()))
            }
        }
    }
}

/// The text between `${` and `}`.
fn strip_delimiters(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}')
}

#[cfg(test)]
mod tests;
