//! The document reader: it turns a document into a workflow, or reports all problems with their JSON pointers.
//!
//! The reader ignores nothing. It rejects unsupported features of the DSL and unknown fields by name.

mod action;
mod attempt;
mod duration;
mod members;
mod step;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use self::members::Members;
use crate::document::Workflow;
use crate::expression::{Expression, deep};
use crate::template::Template;

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
pub struct Problem {
    /// JSON pointer to the problem.
    pub path: String,
    /// Explanation of the problem.
    pub message: String,
}

impl fmt::Display for Problem {
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
    pub problems: Vec<Problem>,
}

impl Workflow {
    /// Reads a document of the Serverless Workflow DSL 1.0.
    pub fn read(document: &Value) -> Result<Self, InvalidWorkflow> {
        // Run on a deep stack: the document nests as deep as its parser allows, and its expressions nest deeper.
        deep::now(|| Reader::default().read(document))
    }
}

/// State of reading one document.
#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
    /// The `use` section of the document.
    shared: Map<String, Value>,
    steps: usize,
}

/// The variables that expressions may mention at one position of the document, and its nesting.
#[derive(Clone, Default)]
struct Place {
    variables: Vec<Box<str>>,
    depth: usize,
    /// Number of concurrent branches of the enclosing forks.
    branches: usize,
}

impl Place {
    /// Adds variables.
    fn with(&self, names: &[&str]) -> Self {
        let mut place = self.clone();
        place.variables.extend(names.iter().map(|name| Box::from(*name)));
        place
    }
}

impl Reader {
    fn read(mut self, document: &Value) -> Result<Workflow, InvalidWorkflow> {
        let workflow = match document.to_string().len() <= LONGEST {
            true => self.workflow(document),
            false => {
                let message = format!("the document has more than {LONGEST} bytes");
                self.wrong("", message);
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

    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), message: message.into() });
    }

    fn workflow(&mut self, value: &Value) -> Option<Workflow> {
        let members = self.members("", value)?;
        let known = ["document", "input", "use", "do", "timeout", "output", "evaluate"];
        members.only(self, &known, &[("schedule", "a tool is run when it is called")]);
        self.shared = self.reusable(&members);
        self.evaluate(&members);
        let about = members.needed(self, "document").and_then(|it| self.members("/document", it));
        let about = about?;
        let known = ["dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata"];
        about.only(self, &known, &[]);
        self.version(&about);
        about.needed_text(self, "namespace");
        about.needed_text(self, "version");
        let name = about.needed_text(self, "name");
        let tags = self.tags(&about);
        let (title, summary) = (about.text(self, "title"), about.text(self, "summary"));

        let outside = Place::default().with(&["workflow", "runtime"]);
        let (input_schema, input) = self.io(&members, "input", "from", &outside, true);
        let ends = outside.with(&["context"]);
        let (output_schema, output) = self.io(&members, "output", "as", &ends, true);
        let timeout = self.timeout(&members);
        let steps = members.needed(self, "do");
        let steps = steps.and_then(|steps| self.steps("/do", steps, &outside));
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

    fn version(&mut self, about: &Members<'_>) {
        let Some(version) = about.needed_text(self, "dsl") else { return };
        if !(version == "1.0" || version.starts_with("1.0.")) {
            let message = format!("version `{version}` of the DSL is not supported, only 1.0");
            self.wrong("/document/dsl", message);
        }
    }

    fn tags(&mut self, about: &Members<'_>) -> Vec<Box<str>> {
        let Some(tags) = about.get("tags") else { return Vec::new() };
        let Some(tags) = self.members("/document/tags", tags) else { return Vec::new() };
        let names: Vec<&String> = tags.names().collect();
        let tag = |reader: &mut Self, name: &str| {
            let value = tags.needed_text(reader, name)?;
            Some(format!("{name}={value}").into())
        };
        names.into_iter().filter_map(|name| tag(self, name)).collect()
    }

    fn reusable(&mut self, members: &Members<'_>) -> Map<String, Value> {
        let Some(value) = members.get("use") else { return Map::new() };
        let Some(shared) = self.members("/use", value) else { return Map::new() };
        let elsewhere = "credentials are those of the tools' sources";
        let refused = [
            ("authentications", elsewhere),
            ("secrets", elsewhere),
            ("catalogs", "functions are the tools that were granted"),
            ("functions", "functions are the tools that were granted"),
            ("extensions", "write the tasks where they are to be run"),
        ];
        shared.only(self, &["errors", "retries", "timeouts"], &refused);
        value.as_object().cloned().unwrap_or_default()
    }

    /// Resolves a name to an entry of the `use` section.
    fn reused(&mut self, path: &str, kind: &str, name: &str) -> Option<(String, Value)> {
        let found = self.shared.get(kind).and_then(|all| all.get(name)).cloned();
        if found.is_none() {
            self.wrong(path, format!("there is no `{name}` under `/use/{kind}`"));
        }
        Some((format!("/use/{kind}/{}", members::escaped(name)), found?))
    }

    fn evaluate(&mut self, members: &Members<'_>) {
        let Some(value) = members.get("evaluate") else { return };
        let Some(evaluate) = self.members("/evaluate", value) else { return };
        evaluate.only(self, &["language", "mode"], &[]);
        for (name, only) in [("language", "jq"), ("mode", "strict")] {
            if let Some(said) = evaluate.text(self, name).filter(|said| *said != only) {
                let message = format!("`{said}` is not supported, only `{only}`");
                self.wrong(&evaluate.path_of(name), message);
            }
        }
    }

    /// Reads `input` or `output` of the document or of a step: its schema and its transformation.
    fn io(
        &mut self,
        members: &Members<'_>,
        name: &str,
        transform: &str,
        place: &Place,
        has_schema: bool,
    ) -> (Option<Value>, Option<Arc<Template>>) {
        let path = members.path_of(name);
        let Some(value) = members.get(name) else { return (None, None) };
        let Some(io) = self.members(&path, value) else { return (None, None) };
        let inside = [("schema", "only the document's own `input` and `output` have schemas")];
        match has_schema {
            true => io.only(self, &["schema", transform], &[]),
            false => io.only(self, &[transform], &inside),
        }
        let template = io.get(transform).and_then(|it| {
            let path = io.path_of(transform);
            self.transform(&path, it, place)
        });
        let schema = if has_schema { self.schema(&io) } else { None };
        (schema, template)
    }

    fn schema(&mut self, io: &Members<'_>) -> Option<Value> {
        let path = io.path_of("schema");
        let schema = self.members(&path, io.get("schema")?)?;
        schema.only(
            self,
            &["format", "document"],
            &[("resource", "write the schema as `document`, nothing is fetched")],
        );
        if let Some(format) = schema.text(self, "format")
            && format != "json"
            && !format.starts_with("json:")
        {
            let message = format!("schemas of format `{format}` are not supported, only `json`");
            self.wrong(&schema.path_of("format"), message);
        }
        let document = schema.needed(self, "document")?;
        if !document.is_object() {
            self.wrong(&schema.path_of("document"), "a JSON Schema is an object here");
            return None;
        }
        Some(document.clone())
    }

    /// Reads a transformation: an expression, or an object with expressions in it.
    fn transform(&mut self, path: &str, value: &Value, place: &Place) -> Option<Arc<Template>> {
        match value {
            Value::String(text) => self.expression(path, text, place),
            Value::Object(_) => self.template(path, value, place),
            _ => {
                self.wrong(path, "this is neither an expression nor an object");
                None
            }
        }
    }

    /// Reads a field that is an expression, with or without `${ }`.
    fn expression(&mut self, path: &str, text: &str, place: &Place) -> Option<Arc<Template>> {
        let text = inside(text).unwrap_or(text);
        self.compiled(path, text, place).map(Template::Expression).map(Arc::new)
    }

    fn compiled(&mut self, path: &str, text: &str, place: &Place) -> Option<Expression> {
        let known: Vec<&str> = place.variables.iter().map(|name| &**name).collect();
        match Expression::compile(text.trim(), &known) {
            Ok(expression) => Some(expression),
            Err(error) => {
                self.wrong(path, error.to_string());
                None
            }
        }
    }

    /// Reads a value in which strings of the form `${ … }` are expressions.
    fn template(&mut self, path: &str, value: &Value, place: &Place) -> Option<Arc<Template>> {
        self.filled(path, value, place).map(Arc::new)
    }

    fn filled(&mut self, path: &str, value: &Value, place: &Place) -> Option<Template> {
        match value {
            Value::String(text) => match inside(text) {
                Some(text) => self.compiled(path, text, place).map(Template::Expression),
                None if text.contains("${") => {
                    self.wrong(
                        path,
                        "an expression is the whole of a text: write `${ \"… \\(.name) …\" }`",
                    );
                    None
                }
                None => Some(Template::Plain(value.clone())),
            },
            Value::Array(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.filled(&format!("{path}/{at}"), item, place));
                Some(Template::List(items.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?))
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, member)| {
                    let path = format!("{path}/{}", members::escaped(name));
                    Some((name.clone(), self.filled(&path, member, place)?))
                });
                let members: Vec<_> = members.collect();
                Some(Template::Object(members.into_iter().collect::<Option<_>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(Template::Plain(value.clone())),
        }
    }
}

/// The text between `${` and `}`.
fn inside(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}')
}

#[cfg(test)]
mod tests;
