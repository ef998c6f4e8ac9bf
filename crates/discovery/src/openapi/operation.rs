//! Converts one operation to one manifest.

use std::collections::{BTreeMap, HashSet};

use model::{
    BodyEncoding, Describe, Execution, HttpRequest, Manifest, Polling, RawJson, Schema,
    TEMPLATE_LIMIT,
};
use serde_json::{Map, Value, json};
use upstream::egress::MAX_URL;

use super::address::{self, Address, path_names};
use super::body::{self, Body, Field, Shape};
use super::documents::{Dangling, Documents, Place};
use super::parameter::{self, Location, Parameter, Read};
use super::schema::Schemas;
use super::security::security;
use super::server::Servers;
use super::template::{push_expression, push_literal};
use super::{Finding, Options};
use crate::polling;
use crate::text::{Node, Object};

/// The maximum number of findings for one operation; more would tell the admin nothing new.
const FINDING_LIMIT: usize = 20;
/// Tells the model how to pass bytes in a text argument.
const BYTES: &str = "Text, or bytes as `data:<type>;base64,<data>`.";

/// The maximum number of parameters of an operation.
const PARAMETER_LIMIT: usize = 1_000;

/// An operation and its location in the specification.
#[derive(Clone, Debug)]
pub(super) struct Operation<'a> {
    pub method: &'static str,
    pub path: &'a str,
    /// The path item with its reference resolved, and the fields beside that reference.
    pub above: Vec<Place<'a>>,
    /// The operation with its reference resolved.
    pub place: Place<'a>,
    /// The location as a JSON pointer.
    pub at: String,
}

impl<'a> Operation<'a> {
    /// The objects that can describe the operation, the most specific first.
    pub(super) fn nearest(&self) -> impl Iterator<Item = Place<'a>> + '_ {
        std::iter::once(self.place).chain(self.above.iter().rev().copied())
    }

    /// The operation id, if there is one.
    pub(super) fn id(&self) -> Option<String> {
        let id = self.place.value.get("operationId").and_then(Node::scalar);
        id.filter(|id| !id.trim().is_empty())
    }

    /// Whether the operation has this id, or its tool has this name.
    pub(super) fn is_called(&self, wanted: &str, name: &str) -> bool {
        wanted == name || self.id().is_some_and(|id| id == wanted)
    }
}

/// The state that all operations of a specification share.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub documents: &'a Documents<'a>,
    pub options: &'a Options,
    pub servers: Servers,
    pub requests: Schemas<'a>,
    pub responses: Schemas<'a>,
    /// The security requirements of operations that declare none.
    pub security: Option<RawJson>,
}

/// One argument of a tool.
struct Argument {
    name: String,
    schema: Value,
    required: bool,
}

impl<'a> Converter<'a> {
    /// The manifest of an operation, and findings about omitted parts.
    pub(super) fn manifest(
        &mut self,
        operation: &Operation<'a>,
        name: &str,
    ) -> Result<(Manifest, Vec<Finding>), Finding> {
        if MAX_URL < operation.path.len() {
            let message = "the operation is left out: its path is too long to be sent";
            return Err(Finding::new("unusable_operation", &operation.at, message));
        }
        let mut findings = Vec::new();
        let broken = |dangling: Dangling| Finding::dangling(&operation.at, &dangling);
        let (parameters, body_parameters) = self.parameters(operation, &mut findings)?;
        let body = self.body(operation, &body_parameters).map_err(broken)?;
        let names = argument_names(&parameters, body.as_ref());
        let input_schema = self.input(&parameters, &names, body.as_ref()).map_err(broken)?;
        let answer = self.answer(operation);
        let output_schema = match self.output(answer.as_ref()) {
            Ok(schema) => schema,
            Err(dangling) => {
                let message = format!("`{name}` has no output schema: {}", dangling.sentence());
                findings.push(Finding::new("output_schema_dropped", &operation.at, message));
                None
            }
        };
        let request = self.request(operation, &parameters, &names, body.as_ref(), answer.as_ref());
        if let Some(why) = self.unusable(operation, &request) {
            let message = format!("the operation is left out: {why}");
            return Err(Finding::new("unusable_operation", &operation.at, message));
        }
        let mut output_schema = output_schema;
        let execution = match self.polling(operation, name, &mut findings) {
            Some(polling) => {
                // The specification describes the first response, not the result of the job.
                output_schema = None;
                Execution::AsyncPoll { request, polling }
            }
            None => Execution::SyncHttp(request),
        };
        let manifest = Manifest {
            name: name.into(),
            title: None,
            description: describe(operation, self.options.describe).into(),
            method: operation.method.into(),
            path: operation.path.into(),
            tags: tags(operation.place),
            input_schema,
            output_schema,
            execution,
            deprecated: operation.place.is_true("deprecated"),
            security: match operation.place.get("security") {
                Some(_) => security(self.documents, operation.place),
                None => self.security.clone(),
            },
            extra: annotations(operation.method),
        };
        Ok((manifest, findings))
    }

    /// How to poll a job that continues after the first response.
    fn polling(
        &self,
        operation: &Operation<'a>,
        name: &str,
        findings: &mut Vec<Finding>,
    ) -> Option<Polling> {
        let base = self.servers.base(operation);
        let mut by_admin = self.options.polling.iter();
        let read = match by_admin.find(|(wanted, _)| operation.is_called(wanted, name)) {
            Some((_, said)) => polling::templates(&base, said).map(|polling| (polling, None)),
            None => {
                let said = operation.place.get("x-toolcrib-polling")?;
                polling::read(&base, &said.value.to_value())
            }
        };
        let (polling, warning) = polling::or_warning(read);
        findings.extend(
            warning
                .map(|(code, what)| Finding::new(code, &operation.at, format!("`{name}` {what}"))),
        );
        polling
    }

    /// The parameters of the path and of the operation, which take precedence; and the Swagger 2.0 parameters that form
    /// the body.
    fn parameters(
        &self,
        operation: &Operation<'a>,
        findings: &mut Vec<Finding>,
    ) -> Result<(Vec<Parameter<'a>>, Vec<Place<'a>>), Finding> {
        let count: usize = operation.nearest().map(|from| from.items("parameters").count()).sum();
        if PARAMETER_LIMIT < count {
            let message = "the operation is left out: it has too many parameters";
            return Err(Finding::new("unusable_operation", &operation.at, message));
        }
        let mut parameters: Vec<Parameter<'a>> = Vec::new();
        let mut body: Vec<Place<'a>> = Vec::new();
        for from in operation.above.iter().copied().chain([operation.place]) {
            for (index, place) in from.items("parameters").enumerate() {
                let read = parameter::read(self.documents, place)
                    .map_err(|dangling| Finding::dangling(&operation.at, &dangling))?;
                match read {
                    Read::Parameter(parameter) => {
                        parameters.retain(|other| !is_same(other, &parameter));
                        parameters.push(parameter);
                    }
                    Read::Body(place) => {
                        let key = |place: &Place<'a>| (place.text("in"), place.text("name"));
                        body.retain(|other| key(other) != key(&place));
                        body.push(place);
                    }
                    Read::Ignored => {}
                    Read::Withheld(_) if FINDING_LIMIT < findings.len() => {}
                    Read::Withheld(why) => {
                        let message = format!("parameter {index} is left out: {why}");
                        findings.push(Finding::new("parameter_ignored", &operation.at, message));
                    }
                }
            }
        }
        let in_path: Vec<&str> = path_names(operation.path).collect();
        parameters.retain(|parameter| {
            let nowhere =
                parameter.location == Location::Path && !in_path.contains(&parameter.name);
            if nowhere {
                let message =
                    format!("the path has no `{{{}}}`: the parameter is left out", parameter.name);
                findings.push(Finding::new("parameter_ignored", &operation.at, message));
            }
            !nowhere
        });
        for name in in_path {
            let declared = |parameter: &Parameter<'_>| {
                parameter.location == Location::Path && parameter.name == name
            };
            if !parameters.iter().any(declared) {
                parameters.push(Parameter::undeclared(name));
            }
        }
        Ok((parameters, body))
    }

    fn body(
        &self,
        operation: &Operation<'a>,
        parameters: &[Place<'a>],
    ) -> Result<Option<Body<'a>>, Dangling> {
        let preferred = self.options.media_type.as_deref();
        match operation.place.get("requestBody") {
            Some(request_body) => body::read(&self.requests, request_body, preferred),
            None => {
                let consumes = media_types(self.documents, operation.place, "consumes");
                body::read_swagger(&self.requests, parameters, &consumes, preferred)
            }
        }
    }

    fn input(
        &mut self,
        parameters: &[Parameter<'a>],
        names: &[String],
        body: Option<&Body<'a>>,
    ) -> Result<Schema, Dangling> {
        let mut uses = Vec::new();
        let mut root = Map::new();
        let mut arguments = Vec::new();
        for (parameter, name) in parameters.iter().zip(names) {
            let schema = self.parameter_schema(parameter, &mut uses)?;
            arguments.push(Argument { name: name.clone(), schema, required: parameter.required });
        }
        match body.map(|body| (body, &body.shape)) {
            None => {}
            Some((body, Shape::Fields { fields, additional })) => {
                for field in fields {
                    let schema = self.field_schema(field, body.encoding, &mut uses)?;
                    let required = body.required && field.required;
                    arguments.push(Argument { name: field.name.to_owned(), schema, required });
                }
                if let Some(additional) = additional.filter(|_| body.encoding == BodyEncoding::Json)
                {
                    let draft = self.requests.draft(additional)?;
                    uses.extend(draft.uses);
                    if draft.value != json!({}) && draft.value != json!(true) {
                        root.insert("additionalProperties".to_owned(), draft.value);
                    }
                }
            }
            Some((body, Shape::Whole(schema))) => {
                let schema = self.whole_schema(body, *schema, &mut uses)?;
                arguments.push(Argument {
                    name: "body".to_owned(),
                    schema,
                    required: body.required,
                });
            }
        }
        let mut whole = Map::new();
        whole.insert("type".to_owned(), Value::from("object"));
        let required: Vec<Value> = arguments
            .iter()
            .filter(|argument| argument.required)
            .map(|argument| Value::from(argument.name.as_str()))
            .collect();
        let properties: Map<String, Value> =
            arguments.into_iter().map(|argument| (argument.name, argument.schema)).collect();
        whole.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            whole.insert("required".to_owned(), Value::Array(required));
        }
        whole.extend(root);
        self.requests.whole(whole, uses)
    }

    fn parameter_schema(
        &mut self,
        parameter: &Parameter<'a>,
        uses: &mut Vec<usize>,
    ) -> Result<Value, Dangling> {
        let mut schema = match parameter.schema {
            Some(place) => {
                let draft = self.requests.draft(place)?;
                uses.extend(draft.uses);
                object(draft.value)
            }
            None if parameter.place.is_none() => text_schema(),
            None => Map::new(),
        };
        let Some(place) = parameter.place else { return Ok(Value::Object(schema)) };
        if let Some(description) = place.text("description").filter(|text| !text.is_empty()) {
            schema.insert("description".to_owned(), Value::from(description));
        }
        if place.is_true("deprecated") {
            schema.insert("deprecated".to_owned(), Value::Bool(true));
        }
        if let Some(example @ (Node::Text(_) | Node::Number(_))) = place.value.get("example")
            && !schema.contains_key("examples")
        {
            schema.insert("examples".to_owned(), json!([example.to_value()]));
        }
        Ok(Value::Object(schema))
    }

    fn field_schema(
        &mut self,
        field: &Field<'a>,
        encoding: BodyEncoding,
        uses: &mut Vec<usize>,
    ) -> Result<Value, Dangling> {
        let mut drafts = Vec::new();
        for place in &field.schemas {
            let draft = self.requests.draft(*place)?;
            uses.extend(draft.uses);
            drafts.push(draft.value);
        }
        drafts.dedup();
        let mut schema = match drafts.len() {
            1 => drafts.remove(0),
            _ => json!({"allOf": drafts}),
        };
        if encoding == BodyEncoding::Multipart
            && body::is_file(self.documents, &field.schemas)
            && let Some(object) = schema.as_object_mut()
        {
            add_sentence(object, BYTES);
        }
        Ok(schema)
    }

    /// The schema of the argument `body`.
    fn whole_schema(
        &mut self,
        body: &Body<'a>,
        schema: Option<Place<'a>>,
        uses: &mut Vec<usize>,
    ) -> Result<Value, Dangling> {
        let draft = match schema {
            Some(place) => self.requests.draft(place)?,
            None => super::schema::Draft::default(),
        };
        let mut schema = object(draft.value);
        match body.encoding {
            BodyEncoding::Json | BodyEncoding::Form | BodyEncoding::Multipart => {
                uses.extend(draft.uses)
            }
            BodyEncoding::Text if schema.get("type").is_some_and(|word| word == "string") => {
                uses.extend(draft.uses);
            }
            BodyEncoding::Text => {
                schema = text_schema();
                add_sentence(&mut schema, &format!("A text of type {}.", body.content_type));
            }
            BodyEncoding::Bytes => {
                schema = text_schema();
                add_sentence(&mut schema, BYTES);
            }
        }
        if let Some(description) = body.description.filter(|text| !text.is_empty()) {
            schema.entry("description").or_insert_with(|| Value::from(description));
        }
        Ok(Value::Object(schema))
    }

    /// The first successful response with JSON, else the first with any content: its media type and schema.
    fn answer(&self, operation: &Operation<'a>) -> Option<Answer<'a>> {
        let responses = operation.place.get("responses")?;
        let mut statuses: Vec<&'a str> = responses
            .object()?
            .iter()
            .map(|(status, _)| status)
            .filter(|status| status.starts_with('2') && status.len() == 3)
            .collect();
        statuses.sort_unstable_by_key(|status| status.to_ascii_uppercase());
        let mut first = None;
        for status in statuses {
            let Some(response) =
                responses.get(status).and_then(|place| self.documents.resolve(place).ok())
            else {
                continue;
            };
            if let Some(schema) = response.get("schema") {
                let produces = media_types(self.documents, operation.place, "produces");
                let media_type =
                    produces.iter().find(|media_type| is_json(media_type)).or(produces.first());
                let media_type = media_type.copied().unwrap_or("application/json");
                return Some(Answer { media_type, schema: Some(schema) });
            }
            let Some(content) = response.get("content") else { continue };
            for (media_type, media) in content.object().into_iter().flat_map(Object::iter) {
                let schema = self
                    .documents
                    .resolve(content.with(media))
                    .ok()
                    .and_then(|media| media.get("schema"));
                let answer = Answer { media_type, schema };
                if is_json(media_type) {
                    return Some(answer);
                }
                first.get_or_insert(answer);
            }
        }
        first
    }

    /// The schema of a response that is an object.
    fn output(&mut self, answer: Option<&Answer<'a>>) -> Result<Option<Schema>, Dangling> {
        let Some(Answer { media_type, schema: Some(schema) }) = answer else { return Ok(None) };
        if !is_json(media_type) {
            return Ok(None);
        }
        let target = self.documents.resolve(*schema)?;
        if !is_object(self.documents, target, &mut HashSet::new()) {
            return Ok(None);
        }
        let draft = self.responses.draft(target)?;
        let mut root = Map::new();
        root.insert("type".to_owned(), Value::from("object"));
        root.extend(object(draft.value));
        root.insert("type".to_owned(), Value::from("object"));
        self.responses.whole(root, draft.uses).map(Some)
    }

    /// The reason why no request can be sent, if there is one.
    fn unusable(&self, operation: &Operation<'a>, request: &HttpRequest) -> Option<&'static str> {
        let base = self.servers.base(operation);
        if !address::is_readable(&base, operation.path) {
            return Some("its path has a segment `.` or `..`");
        }
        let mut templates = std::iter::once(&request.url_template)
            .chain(request.headers_template.values())
            .chain(&request.body_template);
        let too_long = templates.any(|template| TEMPLATE_LIMIT < template.len());
        too_long.then_some("it has too many parameters")
    }

    fn request(
        &self,
        operation: &Operation<'a>,
        parameters: &[Parameter<'a>],
        names: &[String],
        body: Option<&Body<'a>>,
        answer: Option<&Answer<'a>>,
    ) -> HttpRequest {
        let at = |location| {
            let here = parameters.iter().zip(names);
            here.filter(move |(parameter, _)| parameter.location == location)
        };
        let address = Address {
            base: &self.servers.base(operation),
            path: operation.path,
            in_path: at(Location::Path).map(|(p, name)| (p.name, (p, name.as_str()))).collect(),
            queries: at(Location::Query).map(|(p, name)| p.expression(name)).collect(),
        };
        let mut headers = BTreeMap::new();
        for (parameter, name) in at(Location::Header) {
            let mut template = String::new();
            push_expression(&mut template, &parameter.expression(name));
            headers.insert(parameter.name.into(), template.into());
        }
        let cookies: Vec<String> =
            at(Location::Cookie).map(|(p, name)| p.expression(name)).collect();
        if !cookies.is_empty() {
            let mut template = String::new();
            push_expression(&mut template, &format!("cookies({})", cookies.join(", ")));
            headers.insert("Cookie".into(), template.into());
        }
        let mut literal = |name: &str, value: &str| {
            let mut template = String::new();
            push_literal(&mut template, value);
            headers.insert(name.into(), template.into());
        };
        if let Some(answer) = answer
            && answer.media_type.chars().all(|c| c == ' ' || c.is_ascii_graphic())
        {
            literal("Accept", answer.media_type);
        }
        if let Some(body) = body {
            literal("Content-Type", &body.content_type);
        }
        HttpRequest {
            url_template: address.template().into(),
            headers_template: headers,
            body_template: body.map(|body| body::template(body, names, self.documents).into()),
            body_encoding: body.map_or(BodyEncoding::Json, |body| body.encoding),
        }
    }
}

/// The successful response of an operation.
struct Answer<'a> {
    media_type: &'a str,
    schema: Option<Place<'a>>,
}

fn is_same(one: &Parameter<'_>, two: &Parameter<'_>) -> bool {
    one.location == two.location
        && match one.location {
            Location::Header => one.name.eq_ignore_ascii_case(two.name),
            Location::Path | Location::Query | Location::Cookie => one.name == two.name,
        }
}

/// The argument name of each parameter: its own, unless the body or a parameter of an earlier location has it.
fn argument_names(parameters: &[Parameter<'_>], body: Option<&Body<'_>>) -> Vec<String> {
    let taken_by_body = |name: &str| match body.map(|body| &body.shape) {
        None => false,
        Some(Shape::Fields { fields, .. }) => fields.iter().any(|field| field.name == name),
        Some(Shape::Whole(_)) => name == "body",
    };
    let name = |parameter: &Parameter<'_>| {
        let earlier = |other: &Parameter<'_>| {
            other.name == parameter.name && other.location < parameter.location
        };
        let mut name = parameter.name.to_owned();
        if taken_by_body(&name) || parameters.iter().any(earlier) {
            name = format!("{name}__{}", parameter.location.word());
        }
        while name != parameter.name
            && (taken_by_body(&name) || parameters.iter().any(|other| other.name == name))
        {
            name.push('_');
        }
        name
    };
    parameters.iter().map(name).collect()
}

fn describe(operation: &Operation<'_>, describe: Describe) -> String {
    let said = |key: &str| {
        let said = operation.nearest().find_map(|place| place.value.get(key))?;
        let text = said.scalar()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let (summary, description) = (said("summary"), said("description"));
    let chosen = match describe {
        Describe::Summary => summary.or(description),
        Describe::Description => description.or(summary),
        Describe::Both => match (summary, description) {
            (Some(summary), Some(description)) if summary != description => {
                Some(format!("{summary}\n\n{description}"))
            }
            (summary, description) => summary.or(description),
        },
    };
    chosen.unwrap_or_else(|| format!("{} {}", operation.method, operation.path))
}

fn tags(operation: Place<'_>) -> Vec<Box<str>> {
    let tag = |tag: Place<'_>| tag.value.scalar().map(Into::into);
    operation.items("tags").filter_map(tag).collect()
}

/// The MCP tool annotations that follow from an HTTP method.
pub(crate) fn annotations(method: &str) -> BTreeMap<Box<str>, RawJson> {
    let hints = match method {
        "GET" => json!({"readOnlyHint": true}),
        "POST" => json!({"destructiveHint": false}),
        "DELETE" | "PUT" => json!({"destructiveHint": true, "idempotentHint": true}),
        _ => json!({"destructiveHint": true}),
    };
    BTreeMap::from([("annotations".into(), RawJson::from(&hints))])
}

fn media_types<'a>(documents: &'a Documents<'a>, operation: Place<'a>, key: &str) -> Vec<&'a str> {
    let own = operation.get(key).is_some();
    let from = if own { operation } else { documents.root() };
    from.items(key).filter_map(|media_type| media_type.value.as_str()).collect()
}

fn is_json(media_type: &str) -> bool {
    body::encoding(media_type) == BodyEncoding::Json
}

/// Whether a response is certainly an object. `seen` holds the schemas already visited.
fn is_object(documents: &Documents<'_>, schema: Place<'_>, seen: &mut HashSet<usize>) -> bool {
    let Ok(schema) = documents.resolve(schema) else { return false };
    match schema.value.get("type") {
        Some(Node::Text(word)) => return word == "object",
        Some(Node::List(words)) => {
            return words.len() == 1 && words.first().and_then(Node::as_str) == Some("object");
        }
        _ => {}
    }
    if schema.get("properties").and_then(Place::object).is_some() {
        return true;
    }
    let is_new = seen.len() < 100 && seen.insert(std::ptr::from_ref(schema.value).addr());
    is_new && schema.items("allOf").any(|item| is_object(documents, item, seen))
}

fn text_schema() -> Map<String, Value> {
    object(json!({"type": "string"}))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn add_sentence(schema: &mut Map<String, Value>, sentence: &str) {
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} {sentence}"),
        None => sentence.to_owned(),
    };
    schema.insert("description".to_owned(), Value::from(description));
}
