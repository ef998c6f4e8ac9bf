//! Converts one operation to one manifest.

use std::collections::{BTreeMap, HashSet};

use json::document_text::{DocumentNode, DocumentObject};
use model::{
    BodyEncoding, Execution, HttpRequest, Manifest, OperationDescription, RawJson, Schema,
    StatusPolling, TEMPLATE_LIMIT,
};
use serde_json::{Map, Value, json};
use upstream::egress::MAX_URL;

use super::operation_url::{OperationUrl, path_names};
use super::parameter::{OpenApiParameter, ParameterEntry, ParameterLocation};
use super::request_body::{BodyField, BodyShape, OpenApiBody};
use super::security_requirements::read_security;
use super::servers::OpenApiServers;
use super::shared_schemas::SharedSchemas;
use super::specification_documents::{DanglingReference, DocumentValue, SpecificationDocuments};
use super::template_writer::{push_expression, push_literal};
use super::{OpenApiFinding, SpecOptions, operation_url, parameter, request_body};
use crate::polling_settings;

/// The maximum number of findings for one operation; more would tell the admin nothing new.
const FINDING_LIMIT: usize = 20;
/// Tells the model how to pass bytes in a text argument.
const BYTES_HINT: &str = "Text, or bytes as `data:<type>;base64,<data>`.";

/// The maximum number of parameters of an operation.
const PARAMETER_LIMIT: usize = 1_000;

/// An operation and its location in the specification.
#[derive(Clone, Debug)]
pub(super) struct OpenApiOperation<'a> {
    pub method: &'static str,
    pub path: &'a str,
    /// The path item with its reference resolved, and the fields beside that reference.
    pub path_items: Vec<DocumentValue<'a>>,
    /// The operation with its reference resolved.
    pub place: DocumentValue<'a>,
    /// The location as a JSON pointer.
    pub at: String,
}

impl<'a> OpenApiOperation<'a> {
    /// The objects that can describe the operation, the most specific first.
    pub(super) fn most_specific_first(&self) -> impl Iterator<Item = DocumentValue<'a>> + '_ {
        std::iter::once(self.place).chain(self.path_items.iter().rev().copied())
    }

    /// The operation id, if there is one.
    pub(super) fn operation_id(&self) -> Option<String> {
        let id = self.place.value.get("operationId").and_then(DocumentNode::scalar_string);
        id.filter(|id| !id.trim().is_empty())
    }

    /// Whether the operation has this id, or its tool has this name.
    pub(super) fn has_id_or_name(&self, wanted: &str, name: &str) -> bool {
        wanted == name || self.operation_id().is_some_and(|id| id == wanted)
    }
}

/// The state that all operations of a specification share.
#[derive(Debug)]
pub(super) struct OperationConverter<'a> {
    pub documents: &'a SpecificationDocuments<'a>,
    pub options: &'a SpecOptions,
    pub servers: OpenApiServers,
    pub requests: SharedSchemas<'a>,
    pub responses: SharedSchemas<'a>,
    /// The security requirements of operations that declare none.
    pub security: Option<RawJson>,
}

/// One argument of a tool.
struct ToolArgument {
    name: String,
    schema: Value,
    required: bool,
}

impl<'a> OperationConverter<'a> {
    /// The manifest of an operation, and findings about omitted parts.
    pub(super) fn build_manifest(
        &mut self,
        operation: &OpenApiOperation<'a>,
        name: &str,
    ) -> Result<(Manifest, Vec<OpenApiFinding>), OpenApiFinding> {
        if MAX_URL < operation.path.len() {
            let message = "the operation is left out: its path is too long to be sent";
            return Err(OpenApiFinding::new("unusable_operation", &operation.at, message));
        }
        let mut findings = Vec::new();
        let broken = |dangling: DanglingReference| {
            OpenApiFinding::from_dangling_reference(&operation.at, &dangling)
        };
        let (parameters, body_parameters) = self.collect_parameters(operation, &mut findings)?;
        let body = self.choose_body(operation, &body_parameters).map_err(broken)?;
        let names = argument_names(&parameters, body.as_ref());
        let input_schema =
            self.build_input_schema(&parameters, &names, body.as_ref()).map_err(broken)?;
        let answer = self.find_success_response(operation);
        let output_schema = match self.build_output_schema(answer.as_ref()) {
            Ok(schema) => schema,
            Err(dangling) => {
                let message = format!("`{name}` has no output schema: {}", dangling.to_sentence());
                findings.push(OpenApiFinding::new("output_schema_dropped", &operation.at, message));
                None
            }
        };
        let request =
            self.build_request(operation, &parameters, &names, body.as_ref(), answer.as_ref());
        if let Some(why) = self.unusable_reason(operation, &request) {
            let message = format!("the operation is left out: {why}");
            return Err(OpenApiFinding::new("unusable_operation", &operation.at, message));
        }
        let mut output_schema = output_schema;
        let execution = match self.read_polling(operation, name, &mut findings) {
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
            description: tool_description(operation, self.options.describe).into(),
            method: operation.method.into(),
            path: operation.path.into(),
            tags: operation_tags(operation.place),
            input_schema,
            output_schema,
            execution,
            deprecated: operation.place.is_true("deprecated"),
            security: match operation.place.get("security") {
                Some(_) => read_security(self.documents, operation.place),
                None => self.security.clone(),
            },
            extra: method_annotations(operation.method),
        };
        Ok((manifest, findings))
    }

    /// How to poll a job that continues after the first response.
    fn read_polling(
        &self,
        operation: &OpenApiOperation<'a>,
        name: &str,
        findings: &mut Vec<OpenApiFinding>,
    ) -> Option<StatusPolling> {
        let base = self.servers.base_url(operation);
        let mut by_admin = self.options.polling.iter();
        let read = match by_admin.find(|(wanted, _)| operation.has_id_or_name(wanted, name)) {
            Some((_, said)) => {
                polling_settings::build_polling(&base, said).map(|polling| (polling, None))
            }
            None => {
                let said = operation.place.get("x-toolcrib-polling")?;
                polling_settings::read_polling(&base, &said.value.to_value())
            }
        };
        let (polling, warning) = polling_settings::split_warning(read);
        findings.extend(warning.map(|(code, what)| {
            OpenApiFinding::new(code, &operation.at, format!("`{name}` {what}"))
        }));
        polling
    }

    /// The parameters of the path and of the operation, which take precedence; and the Swagger 2.0 parameters that form
    /// the body.
    fn collect_parameters(
        &self,
        operation: &OpenApiOperation<'a>,
        findings: &mut Vec<OpenApiFinding>,
    ) -> Result<(Vec<OpenApiParameter<'a>>, Vec<DocumentValue<'a>>), OpenApiFinding> {
        let count: usize =
            operation.most_specific_first().map(|from| from.list_items("parameters").count()).sum();
        if PARAMETER_LIMIT < count {
            let message = "the operation is left out: it has too many parameters";
            return Err(OpenApiFinding::new("unusable_operation", &operation.at, message));
        }
        let mut parameters: Vec<OpenApiParameter<'a>> = Vec::new();
        let mut body: Vec<DocumentValue<'a>> = Vec::new();
        for from in operation.path_items.iter().copied().chain([operation.place]) {
            for (index, place) in from.list_items("parameters").enumerate() {
                let read =
                    parameter::read_parameter(self.documents, place).map_err(|dangling| {
                        OpenApiFinding::from_dangling_reference(&operation.at, &dangling)
                    })?;
                match read {
                    ParameterEntry::Parameter(parameter) => {
                        parameters.retain(|other| !is_same_parameter(other, &parameter));
                        parameters.push(parameter);
                    }
                    ParameterEntry::Body(place) => {
                        let key = |place: &DocumentValue<'a>| {
                            (place.string_field("in"), place.string_field("name"))
                        };
                        body.retain(|other| key(other) != key(&place));
                        body.push(place);
                    }
                    ParameterEntry::Ignored => {}
                    ParameterEntry::Withheld(_) if FINDING_LIMIT < findings.len() => {}
                    ParameterEntry::Withheld(why) => {
                        let message = format!("parameter {index} is left out: {why}");
                        findings.push(OpenApiFinding::new(
                            "parameter_ignored",
                            &operation.at,
                            message,
                        ));
                    }
                }
            }
        }
        let in_path: Vec<&str> = path_names(operation.path).collect();
        parameters.retain(|parameter| {
            let nowhere =
                parameter.location == ParameterLocation::Path && !in_path.contains(&parameter.name);
            if nowhere {
                let message =
                    format!("the path has no `{{{}}}`: the parameter is left out", parameter.name);
                findings.push(OpenApiFinding::new("parameter_ignored", &operation.at, message));
            }
            !nowhere
        });
        for name in in_path {
            let declared = |parameter: &OpenApiParameter<'_>| {
                parameter.location == ParameterLocation::Path && parameter.name == name
            };
            if !parameters.iter().any(declared) {
                parameters.push(OpenApiParameter::undeclared_path_parameter(name));
            }
        }
        Ok((parameters, body))
    }

    fn choose_body(
        &self,
        operation: &OpenApiOperation<'a>,
        parameters: &[DocumentValue<'a>],
    ) -> Result<Option<OpenApiBody<'a>>, DanglingReference> {
        let preferred = self.options.media_type.as_deref();
        match operation.place.get("requestBody") {
            Some(request_body) => {
                request_body::read_request_body(&self.requests, request_body, preferred)
            }
            None => {
                let consumes = media_types(self.documents, operation.place, "consumes");
                request_body::read_swagger_body(&self.requests, parameters, &consumes, preferred)
            }
        }
    }

    fn build_input_schema(
        &mut self,
        parameters: &[OpenApiParameter<'a>],
        names: &[String],
        body: Option<&OpenApiBody<'a>>,
    ) -> Result<Schema, DanglingReference> {
        let mut uses = Vec::new();
        let mut root = Map::new();
        let mut arguments = Vec::new();
        for (parameter, name) in parameters.iter().zip(names) {
            let schema = self.parameter_schema(parameter, &mut uses)?;
            arguments.push(ToolArgument {
                name: name.clone(),
                schema,
                required: parameter.required,
            });
        }
        match body.map(|body| (body, &body.shape)) {
            None => {}
            Some((body, BodyShape::Fields { fields, additional })) => {
                for field in fields {
                    let schema = self.field_schema(field, body.encoding, &mut uses)?;
                    let required = body.required && field.required;
                    arguments.push(ToolArgument { name: field.name.to_owned(), schema, required });
                }
                if let Some(additional) = additional.filter(|_| body.encoding == BodyEncoding::Json)
                {
                    let draft = self.requests.draft_schema(additional)?;
                    uses.extend(draft.uses);
                    if draft.value != json!({}) && draft.value != json!(true) {
                        root.insert("additionalProperties".to_owned(), draft.value);
                    }
                }
            }
            Some((body, BodyShape::Whole(schema))) => {
                let schema = self.body_argument_schema(body, *schema, &mut uses)?;
                arguments.push(ToolArgument {
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
        self.requests.assemble_schema(whole, uses)
    }

    fn parameter_schema(
        &mut self,
        parameter: &OpenApiParameter<'a>,
        uses: &mut Vec<usize>,
    ) -> Result<Value, DanglingReference> {
        let mut schema = match parameter.schema {
            Some(place) => {
                let draft = self.requests.draft_schema(place)?;
                uses.extend(draft.uses);
                into_object(draft.value)
            }
            None if parameter.place.is_none() => string_schema(),
            None => Map::new(),
        };
        let Some(place) = parameter.place else { return Ok(Value::Object(schema)) };
        if let Some(description) = place.string_field("description").filter(|text| !text.is_empty())
        {
            schema.insert("description".to_owned(), Value::from(description));
        }
        if place.is_true("deprecated") {
            schema.insert("deprecated".to_owned(), Value::Bool(true));
        }
        if let Some(example @ (DocumentNode::Text(_) | DocumentNode::Number(_))) =
            place.value.get("example")
            && !schema.contains_key("examples")
        {
            schema.insert("examples".to_owned(), json!([example.to_value()]));
        }
        Ok(Value::Object(schema))
    }

    fn field_schema(
        &mut self,
        field: &BodyField<'a>,
        encoding: BodyEncoding,
        uses: &mut Vec<usize>,
    ) -> Result<Value, DanglingReference> {
        let mut drafts = Vec::new();
        for place in &field.schemas {
            let draft = self.requests.draft_schema(*place)?;
            uses.extend(draft.uses);
            drafts.push(draft.value);
        }
        drafts.dedup();
        let mut schema = match drafts.len() {
            1 => drafts.remove(0),
            _ => json!({"allOf": drafts}),
        };
        if encoding == BodyEncoding::Multipart
            && request_body::is_file_field(self.documents, &field.schemas)
            && let Some(object) = schema.as_object_mut()
        {
            add_sentence(object, BYTES_HINT);
        }
        Ok(schema)
    }

    /// The schema of the argument `body`.
    fn body_argument_schema(
        &mut self,
        body: &OpenApiBody<'a>,
        schema: Option<DocumentValue<'a>>,
        uses: &mut Vec<usize>,
    ) -> Result<Value, DanglingReference> {
        let draft = match schema {
            Some(place) => self.requests.draft_schema(place)?,
            None => super::shared_schemas::SchemaDraft::default(),
        };
        let mut schema = into_object(draft.value);
        match body.encoding {
            BodyEncoding::Json | BodyEncoding::Form | BodyEncoding::Multipart => {
                uses.extend(draft.uses)
            }
            BodyEncoding::Text if schema.get("type").is_some_and(|word| word == "string") => {
                uses.extend(draft.uses);
            }
            BodyEncoding::Text => {
                schema = string_schema();
                add_sentence(&mut schema, &format!("A text of type {}.", body.content_type));
            }
            BodyEncoding::Bytes => {
                schema = string_schema();
                add_sentence(&mut schema, BYTES_HINT);
            }
        }
        if let Some(description) = body.description.filter(|text| !text.is_empty()) {
            schema.entry("description").or_insert_with(|| Value::from(description));
        }
        Ok(Value::Object(schema))
    }

    /// The first successful response with JSON, else the first with any content: its media type and schema.
    fn find_success_response(
        &self,
        operation: &OpenApiOperation<'a>,
    ) -> Option<SuccessResponse<'a>> {
        let responses = operation.place.get("responses")?;
        let mut statuses: Vec<&'a str> = responses
            .as_object()?
            .iter()
            .map(|(status, _)| status)
            .filter(|status| status.starts_with('2') && status.len() == 3)
            .collect();
        statuses.sort_unstable_by_key(|status| status.to_ascii_uppercase());
        let mut first = None;
        for status in statuses {
            let Some(response) = responses
                .get(status)
                .and_then(|place| self.documents.resolve_reference(place).ok())
            else {
                continue;
            };
            if let Some(schema) = response.get("schema") {
                let produces = media_types(self.documents, operation.place, "produces");
                let media_type =
                    produces.iter().find(|media_type| is_json(media_type)).or(produces.first());
                let media_type = media_type.copied().unwrap_or("application/json");
                return Some(SuccessResponse { media_type, schema: Some(schema) });
            }
            let Some(content) = response.get("content") else { continue };
            for (media_type, media) in
                content.as_object().into_iter().flat_map(DocumentObject::iter)
            {
                let schema = self
                    .documents
                    .resolve_reference(content.with_value(media))
                    .ok()
                    .and_then(|media| media.get("schema"));
                let answer = SuccessResponse { media_type, schema };
                if is_json(media_type) {
                    return Some(answer);
                }
                first.get_or_insert(answer);
            }
        }
        first
    }

    /// The schema of a response that is an object.
    fn build_output_schema(
        &mut self,
        answer: Option<&SuccessResponse<'a>>,
    ) -> Result<Option<Schema>, DanglingReference> {
        let Some(SuccessResponse { media_type, schema: Some(schema) }) = answer else {
            return Ok(None);
        };
        if !is_json(media_type) {
            return Ok(None);
        }
        let target = self.documents.resolve_reference(*schema)?;
        if !is_object_schema(self.documents, target, &mut HashSet::new()) {
            return Ok(None);
        }
        let draft = self.responses.draft_schema(target)?;
        let mut root = Map::new();
        root.insert("type".to_owned(), Value::from("object"));
        root.extend(into_object(draft.value));
        root.insert("type".to_owned(), Value::from("object"));
        self.responses.assemble_schema(root, draft.uses).map(Some)
    }

    /// The reason why no request can be sent, if there is one.
    fn unusable_reason(
        &self,
        operation: &OpenApiOperation<'a>,
        request: &HttpRequest,
    ) -> Option<&'static str> {
        let base = self.servers.base_url(operation);
        if !operation_url::survives_url_parsing(&base, operation.path) {
            return Some("its path has a segment `.` or `..`");
        }
        let mut templates = std::iter::once(&request.url_template)
            .chain(request.headers_template.values())
            .chain(&request.body_template);
        let too_long = templates.any(|template| TEMPLATE_LIMIT < template.len());
        too_long.then_some("it has too many parameters")
    }

    fn build_request(
        &self,
        operation: &OpenApiOperation<'a>,
        parameters: &[OpenApiParameter<'a>],
        names: &[String],
        body: Option<&OpenApiBody<'a>>,
        answer: Option<&SuccessResponse<'a>>,
    ) -> HttpRequest {
        let at = |location| {
            let here = parameters.iter().zip(names);
            here.filter(move |(parameter, _)| parameter.location == location)
        };
        let address = OperationUrl {
            base: &self.servers.base_url(operation),
            path: operation.path,
            in_path: at(ParameterLocation::Path)
                .map(|(p, name)| (p.name, (p, name.as_str())))
                .collect(),
            queries: at(ParameterLocation::Query).map(|(p, name)| p.to_expression(name)).collect(),
        };
        let mut headers = BTreeMap::new();
        for (parameter, name) in at(ParameterLocation::Header) {
            let mut template = String::new();
            push_expression(&mut template, &parameter.to_expression(name));
            headers.insert(parameter.name.into(), template.into());
        }
        let cookies: Vec<String> =
            at(ParameterLocation::Cookie).map(|(p, name)| p.to_expression(name)).collect();
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
            url_template: address.to_template().into(),
            headers_template: headers,
            body_template: body
                .map(|body| request_body::body_template(body, names, self.documents).into()),
            body_encoding: body.map_or(BodyEncoding::Json, |body| body.encoding),
        }
    }
}

/// The successful response of an operation.
struct SuccessResponse<'a> {
    media_type: &'a str,
    schema: Option<DocumentValue<'a>>,
}

fn is_same_parameter(one: &OpenApiParameter<'_>, two: &OpenApiParameter<'_>) -> bool {
    one.location == two.location
        && match one.location {
            ParameterLocation::Header => one.name.eq_ignore_ascii_case(two.name),
            ParameterLocation::Path | ParameterLocation::Query | ParameterLocation::Cookie => {
                one.name == two.name
            }
        }
}

/// The argument name of each parameter: its own, unless the body or a parameter of an earlier location has it.
fn argument_names(
    parameters: &[OpenApiParameter<'_>],
    body: Option<&OpenApiBody<'_>>,
) -> Vec<String> {
    let taken_by_body = |name: &str| match body.map(|body| &body.shape) {
        None => false,
        Some(BodyShape::Fields { fields, .. }) => fields.iter().any(|field| field.name == name),
        Some(BodyShape::Whole(_)) => name == "body",
    };
    let name = |parameter: &OpenApiParameter<'_>| {
        let earlier = |other: &OpenApiParameter<'_>| {
            other.name == parameter.name && other.location < parameter.location
        };
        let mut name = parameter.name.to_owned();
        if taken_by_body(&name) || parameters.iter().any(earlier) {
            name = format!("{name}__{}", parameter.location.as_str());
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

fn tool_description(operation: &OpenApiOperation<'_>, describe: OperationDescription) -> String {
    let said = |key: &str| {
        let said = operation.most_specific_first().find_map(|place| place.value.get(key))?;
        let text = said.scalar_string()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let (summary, description) = (said("summary"), said("description"));
    let chosen = match describe {
        OperationDescription::Summary => summary.or(description),
        OperationDescription::Description => description.or(summary),
        OperationDescription::Both => match (summary, description) {
            (Some(summary), Some(description)) if summary != description => {
                Some(format!("{summary}\n\n{description}"))
            }
            (summary, description) => summary.or(description),
        },
    };
    chosen.unwrap_or_else(|| format!("{} {}", operation.method, operation.path))
}

fn operation_tags(operation: DocumentValue<'_>) -> Vec<Box<str>> {
    let tag = |tag: DocumentValue<'_>| tag.value.scalar_string().map(Into::into);
    operation.list_items("tags").filter_map(tag).collect()
}

/// The MCP tool annotations that follow from an HTTP method.
pub(crate) fn method_annotations(method: &str) -> BTreeMap<Box<str>, RawJson> {
    let hints = match method {
        "GET" => json!({"readOnlyHint": true}),
        "POST" => json!({"destructiveHint": false}),
        "DELETE" | "PUT" => json!({"destructiveHint": true, "idempotentHint": true}),
        _ => json!({"destructiveHint": true}),
    };
    BTreeMap::from([("annotations".into(), RawJson::from(&hints))])
}

fn media_types<'a>(
    documents: &'a SpecificationDocuments<'a>,
    operation: DocumentValue<'a>,
    key: &str,
) -> Vec<&'a str> {
    let own = operation.get(key).is_some();
    let from = if own { operation } else { documents.root_value() };
    from.list_items(key).filter_map(|media_type| media_type.value.as_str()).collect()
}

fn is_json(media_type: &str) -> bool {
    request_body::encoding_of_media_type(media_type) == BodyEncoding::Json
}

/// Whether a response is certainly an object. `seen` holds the schemas already visited.
fn is_object_schema(
    documents: &SpecificationDocuments<'_>,
    schema: DocumentValue<'_>,
    seen: &mut HashSet<usize>,
) -> bool {
    let Ok(schema) = documents.resolve_reference(schema) else { return false };
    match schema.value.get("type") {
        Some(DocumentNode::Text(word)) => return word == "object",
        Some(DocumentNode::List(words)) => {
            return words.len() == 1
                && words.first().and_then(DocumentNode::as_str) == Some("object");
        }
        _ => {}
    }
    if schema.get("properties").and_then(DocumentValue::as_object).is_some() {
        return true;
    }
    let is_new = seen.len() < 100 && seen.insert(std::ptr::from_ref(schema.value).addr());
    is_new && schema.list_items("allOf").any(|item| is_object_schema(documents, item, seen))
}

fn string_schema() -> Map<String, Value> {
    into_object(json!({"type": "string"}))
}

fn into_object(value: Value) -> Map<String, Value> {
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
