//! The body of a request: which of the offered media types is sent, which arguments it takes, and how it is encoded.
//!
//! The properties of an object body become arguments of their own beside the parameters. Any other body is the argument
//! `body` (requirement O4).

use std::collections::HashSet;

use json::document_text::{DocumentNode, DocumentObject};
use model::BodyEncoding;

use super::parameter::{
    ParameterLocation, ParameterSerialization, ParameterStyle, pair_expression, read_serialization,
};
use super::shared_schemas::{SharedSchemas, accepts_objects_implicitly};
use super::specification_documents::{
    DanglingReference, DocumentValue, SpecificationDocuments, reference_of,
};
use super::template_writer::{argument_expression, string_literal};

/// The maximum depth of nested `allOf`.
const MERGE_DEPTH: usize = 16;
/// An object with more properties becomes the argument `body`: a model cannot fill in that many arguments.
const MAX_BODY_FIELDS: usize = 1_000;

/// The request body in the chosen media type.
#[derive(Debug)]
pub(super) struct OpenApiBody<'a> {
    pub required: bool,
    pub description: Option<&'a str>,
    pub content_type: String,
    pub encoding: BodyEncoding,
    pub shape: BodyShape<'a>,
    /// Properties that are `readOnly`; they are never sent, even if the caller passes them.
    pub read_only: Vec<&'a str>,
}

#[derive(Debug)]
pub(super) enum BodyShape<'a> {
    /// An object with one argument for each property.
    Fields { fields: Vec<BodyField<'a>>, additional: Option<DocumentValue<'a>> },
    /// Any other value, passed as the argument `body`.
    Whole(Option<DocumentValue<'a>>),
}

/// A property of an object body.
#[derive(Debug)]
pub(super) struct BodyField<'a> {
    pub name: &'a str,
    /// Several if parts of an `allOf` declare the same name; the value must match all of them.
    pub schemas: Vec<DocumentValue<'a>>,
    pub required: bool,
    pub writing: ParameterSerialization,
    /// The media type of this part of a multipart body.
    pub content_type: Option<&'a str>,
}

/// One media type that the operation accepts.
#[derive(Clone, Copy)]
struct MediaTypeOffer<'a> {
    media_type: &'a str,
    media: DocumentValue<'a>,
    schema: Option<DocumentValue<'a>>,
}

/// Reads the body of an OpenAPI 3 operation.
pub(super) fn read_request_body<'a>(
    schemas: &SharedSchemas<'a>,
    request_body: DocumentValue<'a>,
    preferred: Option<&str>,
) -> Result<Option<OpenApiBody<'a>>, DanglingReference> {
    let documents = schemas.documents();
    let request_body = documents.resolve_reference(request_body)?;
    let Some(content) = request_body.get("content") else { return Ok(None) };
    let mut offers = Vec::new();
    for (media_type, media) in content.as_object().into_iter().flat_map(DocumentObject::iter) {
        let media = documents.resolve_reference(content.with_value(media))?;
        let schema = media.get("schema").or_else(|| media.get("itemSchema"));
        offers.push(MediaTypeOffer { media_type, media, schema });
    }
    let required = request_body.value.get("required");
    let description = request_body.string_field("description");
    let Some(offer) = choose_offer(&offers, preferred) else { return Ok(None) };
    let body = body_from_offer(schemas, offer, description)?;
    let needs_fields = matches!(&body.shape, BodyShape::Fields { fields, .. } if fields.iter().any(|field| field.required));
    // Many specifications forget `required: true`; an object with required properties implies it.
    let required = required.and_then(DocumentNode::as_bool).unwrap_or(needs_fields);
    Ok(Some(OpenApiBody { required, ..body }))
}

/// Reads the body of a Swagger 2.0 operation: its parameters `in: body` or `in: formData`.
pub(super) fn read_swagger_body<'a>(
    schemas: &SharedSchemas<'a>,
    parameters: &[DocumentValue<'a>],
    consumes: &[&'a str],
    preferred: Option<&str>,
) -> Result<Option<OpenApiBody<'a>>, DanglingReference> {
    let is_required = |place: DocumentValue<'_>| place.is_true("required");
    let body = parameters.iter().find(|place| place.string_field("in") == Some("body"));
    if let Some(&place) = body {
        let schema = place.get("schema");
        let types = if consumes.is_empty() { &["application/json"][..] } else { consumes };
        let offers: Vec<MediaTypeOffer<'_>> = types
            .iter()
            .map(|media_type| MediaTypeOffer { media_type, media: place, schema })
            .collect();
        let Some(offer) = choose_offer(&offers, preferred) else { return Ok(None) };
        let offer = MediaTypeOffer { media: place.with_value(&DocumentNode::Null), ..*offer };
        let body = body_from_offer(schemas, &offer, place.string_field("description"))?;
        return Ok(Some(OpenApiBody { required: is_required(place), ..body }));
    }
    if parameters.is_empty() {
        return Ok(None);
    }
    let has_file = parameters.iter().any(|place| place.string_field("type") == Some("file"));
    let says = |word: &str| consumes.iter().any(|media_type| media_type.starts_with(word));
    let multipart =
        has_file || (says("multipart/form-data") && !says("application/x-www-form-urlencoded"));
    let fields = parameters.iter().filter_map(|&place| {
        let name = place.string_field("name")?;
        let schemas = vec![place];
        let writing = read_serialization(place, ParameterLocation::Query);
        Some(BodyField { name, schemas, required: is_required(place), writing, content_type: None })
    });
    let (content_type, encoding) = match multipart {
        true => ("multipart/form-data", BodyEncoding::Multipart),
        false => ("application/x-www-form-urlencoded", BodyEncoding::Form),
    };
    Ok(Some(OpenApiBody {
        required: parameters.iter().any(|&place| is_required(place)),
        description: None,
        content_type: content_type.to_owned(),
        encoding,
        shape: BodyShape::Fields { fields: fields.collect(), additional: None },
        read_only: Vec::new(),
    }))
}

fn body_from_offer<'a>(
    schemas: &SharedSchemas<'a>,
    offer: &MediaTypeOffer<'a>,
    description: Option<&'a str>,
) -> Result<OpenApiBody<'a>, DanglingReference> {
    let encoding = encoding_of_media_type(offer.media_type);
    let (shape, left_out) = match (encoding, offer.schema) {
        (BodyEncoding::Json | BodyEncoding::Form | BodyEncoding::Multipart, Some(schema)) => {
            body_shape(schemas, schema, offer.media.get("encoding"))?
        }
        (_, schema) => (BodyShape::Whole(schema), Vec::new()),
    };
    let content_type = concrete_media_type(offer.media_type, encoding);
    Ok(OpenApiBody {
        required: false,
        description,
        content_type,
        encoding,
        shape,
        read_only: left_out,
    })
}

/// The preferred media type, else the one that is easiest to fill in.
fn choose_offer<'o, 'a>(
    offers: &'o [MediaTypeOffer<'a>],
    preferred: Option<&str>,
) -> Option<&'o MediaTypeOffer<'a>> {
    let base = |media_type: &str| {
        media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let rank = |offer: &&MediaTypeOffer<'_>| {
        let own_choice =
            preferred.is_none_or(|preferred| base(preferred) != base(offer.media_type));
        let ease = match encoding_of_media_type(offer.media_type) {
            BodyEncoding::Json => 0,
            BodyEncoding::Form => 1,
            BodyEncoding::Multipart => 2,
            BodyEncoding::Text => 3,
            BodyEncoding::Bytes => 4,
        };
        (own_choice, offer.schema.is_none(), ease)
    };
    offers.iter().min_by_key(rank)
}

/// The encoding of a media type.
pub(super) fn encoding_of_media_type(media_type: &str) -> BodyEncoding {
    let base = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match base.as_str() {
        "*/*" | "application/*" | "" => BodyEncoding::Json,
        "application/x-www-form-urlencoded" => BodyEncoding::Form,
        "application/x-ndjson" | "application/jsonl" | "application/json-seq" => BodyEncoding::Text,
        "application/javascript" | "application/graphql" | "application/sql" => BodyEncoding::Text,
        base if base.starts_with("multipart/") => BodyEncoding::Multipart,
        base if base.ends_with("json") => BodyEncoding::Json,
        base if base.starts_with("text/") => BodyEncoding::Text,
        base if base.ends_with("xml") || base.ends_with("yaml") || base.ends_with("yml") => {
            BodyEncoding::Text
        }
        _ => BodyEncoding::Bytes,
    }
}

/// The media type to send; a range such as `*/*` is replaced by a concrete type.
fn concrete_media_type(media_type: &str, encoding: BodyEncoding) -> String {
    let legal = |c: char| c == ' ' || c.is_ascii_graphic();
    if !media_type.contains('*') && media_type.contains('/') && media_type.chars().all(legal) {
        return media_type.to_owned();
    }
    let usual = match encoding {
        BodyEncoding::Json => "application/json",
        BodyEncoding::Form => "application/x-www-form-urlencoded",
        BodyEncoding::Multipart => "multipart/form-data",
        BodyEncoding::Text => "text/plain",
        BodyEncoding::Bytes => "application/octet-stream",
    };
    usual.to_owned()
}

fn body_shape<'a>(
    schemas: &SharedSchemas<'a>,
    schema: DocumentValue<'a>,
    encodings: Option<DocumentValue<'a>>,
) -> Result<(BodyShape<'a>, Vec<&'a str>), DanglingReference> {
    let mut members = BodyFieldCollector::default();
    if !members.collect_fields(schemas, schema, 0)? || members.fields.is_empty() {
        return Ok((BodyShape::Whole(Some(schema)), Vec::new()));
    }
    let BodyFieldCollector {
        mut fields, required, additional, is_merged, read_only: left_out, ..
    } = members;
    let additional = additional.filter(|_| !is_merged);
    for field in &mut fields {
        field.required |= required.contains(field.name);
        let unsaid =
            |schema: &DocumentValue<'_>| accepts_objects_implicitly(schemas.documents(), *schema);
        let whole = field.schemas.iter().all(unsaid);
        field.writing.whole = whole;
        let Some(encoding) = encodings.and_then(|encodings| encodings.get(field.name)) else {
            // Forms have no standard encoding for an object; most servers accept JSON.
            if is_object_field(schemas.documents(), &field.schemas) {
                field.writing.style = ParameterStyle::Json;
            }
            continue;
        };
        field.content_type = encoding.string_field("contentType");
        field.writing = ParameterSerialization {
            whole,
            ..read_serialization(encoding, ParameterLocation::Query)
        };
        let says_style =
            ["style", "explode", "allowReserved"].iter().any(|key| encoding.get(key).is_some());
        if !says_style && field.content_type.is_some_and(|media_type| media_type.contains("json")) {
            field.writing.style = ParameterStyle::Json;
        }
    }
    Ok((BodyShape::Fields { fields, additional }, left_out))
}

fn is_object_field(documents: &SpecificationDocuments<'_>, schemas: &[DocumentValue<'_>]) -> bool {
    schemas.iter().any(|&schema| {
        documents.resolve_reference(schema).is_ok_and(|schema| {
            schema.string_field("type") == Some("object")
                || schema.value.get("properties").is_some()
        })
    })
}

/// Collects the properties of an object schema and of its `allOf` parts.
#[derive(Default)]
struct BodyFieldCollector<'a> {
    fields: Vec<BodyField<'a>>,
    required: HashSet<&'a str>,
    additional: Option<DocumentValue<'a>>,
    /// Whether `allOf` merges several parts; then no part knows the properties of the others.
    is_merged: bool,
    read_only: Vec<&'a str>,
    /// Schemas already visited; `allOf` can contain one schema many times.
    seen: HashSet<*const DocumentNode<'a>>,
}

impl<'a> BodyFieldCollector<'a> {
    /// Adds the properties of a schema; returns whether it is an object whose properties all have names.
    fn collect_fields(
        &mut self,
        schemas: &SharedSchemas<'a>,
        schema: DocumentValue<'a>,
        depth: usize,
    ) -> Result<bool, DanglingReference> {
        let Some(object) = schema.as_object() else { return Ok(false) };
        if MERGE_DEPTH < depth {
            return Ok(false);
        }
        if !self.seen.insert(schema.value) {
            return Ok(true);
        }
        if let Some(text) = reference_of(schema) {
            let target = schemas.documents().follow_reference(schema, text)?;
            if !self.collect_fields(schemas, target, depth + 1)? {
                return Ok(false);
            }
        }
        if !is_plain_object(object) {
            return Ok(false);
        }
        for item in schema.list_items("allOf") {
            self.is_merged = true;
            if !self.collect_fields(schemas, item, depth + 1)? {
                return Ok(false);
            }
        }
        let properties = schema.get("properties");
        for (name, value) in
            properties.and_then(DocumentValue::as_object).into_iter().flat_map(DocumentObject::iter)
        {
            let property = schema.with_value(value);
            match schemas.is_omitted(property) {
                true => self.read_only.push(name),
                false => self.add_field(name, property),
            }
            if MAX_BODY_FIELDS < self.fields.len() {
                return Ok(false);
            }
        }
        let required = schema.value.get("required").and_then(DocumentNode::as_list);
        self.required.extend(required.into_iter().flatten().filter_map(DocumentNode::as_str));
        self.additional = schema.get("additionalProperties").or(self.additional);
        Ok(true)
    }

    fn add_field(&mut self, name: &'a str, schema: DocumentValue<'a>) {
        if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            field.schemas.push(schema);
            return;
        }
        let required = schema.is_true("required");
        let (style, explode) = (ParameterStyle::Form, true);
        let writing = ParameterSerialization { style, explode, reserved: false, whole: false };
        let schemas = vec![schema];
        self.fields.push(BodyField { name, schemas, required, writing, content_type: None });
    }
}

/// Whether a schema is an object by `type` or `properties`, and its choices only vary the required properties.
fn is_plain_object(object: &DocumentObject<'_>) -> bool {
    let is_object = match object.get("type") {
        None => true,
        Some(DocumentNode::Text(word)) => word == "object",
        Some(DocumentNode::List(words)) => words.iter().any(|word| word.as_str() == Some("object")),
        Some(_) => false,
    };
    let only_requires = |choice: &DocumentNode<'_>| {
        choice.as_object().is_some_and(|choice| {
            choice.iter().all(|(key, _)| {
                matches!(key, "required" | "title" | "description" | "type" | "not")
            })
        })
    };
    let simple = |key: &str| match object.get(key) {
        None => true,
        Some(DocumentNode::List(choices)) => choices.iter().all(only_requires),
        Some(_) => false,
    };
    is_object
        && simple("oneOf")
        && simple("anyOf")
        && ["enum", "const", "if", "patternProperties", "$dynamicRef"]
            .iter()
            .all(|key| !object.contains_key(key))
}

/// The template of the body. `parameters` are the arguments that go elsewhere.
pub(super) fn body_template(
    body: &OpenApiBody<'_>,
    parameters: &[String],
    documents: &SpecificationDocuments<'_>,
) -> String {
    let whole = argument_expression("body");
    let fields = match &body.shape {
        BodyShape::Fields { fields, .. } => fields,
        BodyShape::Whole(_) => {
            return match body.encoding {
                BodyEncoding::Json => format!("{{{{ json({whole}) }}}}"),
                BodyEncoding::Form => format!("{{{{ pairs(form(\"body\", {whole})) }}}}"),
                BodyEncoding::Multipart => format!("{{{{ multipart(part(\"body\", {whole})) }}}}"),
                BodyEncoding::Text => format!("{{{{ text({whole}) }}}}"),
                BodyEncoding::Bytes => format!("{{{{ bytes({whole}) }}}}"),
            };
        }
    };
    if body.encoding == BodyEncoding::Json {
        let elsewhere = parameters.iter().map(String::as_str);
        let others = elsewhere.chain(body.read_only.iter().copied());
        let mut arguments: Vec<String> = others.map(string_literal).collect();
        if body.required {
            arguments.push("required=true".to_owned());
        }
        return format!("{{{{ json(rest({})) }}}}", arguments.join(", "));
    }
    if body.encoding == BodyEncoding::Multipart {
        let parts: Vec<String> =
            fields.iter().map(|field| part_expression(field, documents)).collect();
        return format!("{{{{ multipart({}) }}}}", parts.join(", "));
    }
    let write = |field: &BodyField<'_>| {
        pair_expression(field.name, &argument_expression(field.name), field.writing)
    };
    let pairs: Vec<String> = fields.iter().map(write).collect();
    format!("{{{{ pairs({}) }}}}", pairs.join(", "))
}

fn part_expression(field: &BodyField<'_>, documents: &SpecificationDocuments<'_>) -> String {
    let function = if is_file_field(documents, &field.schemas) { "file" } else { "part" };
    let media_type =
        match field.content_type.and_then(|types| types.split(',').next()).map(str::trim) {
            Some(media_type) if !media_type.contains('*') => {
                format!(", type={}", string_literal(media_type))
            }
            _ => String::new(),
        };
    format!(
        "{function}({}, {}{media_type})",
        string_literal(field.name),
        argument_expression(field.name)
    )
}

/// Whether a field holds a file or a list of files, that is binary content.
pub(super) fn is_file_field(
    documents: &SpecificationDocuments<'_>,
    schemas: &[DocumentValue<'_>],
) -> bool {
    let binary = |schema: DocumentValue<'_>| {
        let says = |key: &str, word: &str| schema.string_field(key) == Some(word);
        says("format", "binary")
            || says("type", "file")
            || (schema.value.get("contentMediaType").is_some()
                && schema.value.get("contentEncoding").is_none())
    };
    schemas.iter().any(|&schema| {
        documents.resolve_reference(schema).is_ok_and(|schema| {
            let item =
                schema.get("items").and_then(|items| documents.resolve_reference(items).ok());
            binary(schema) || item.is_some_and(binary)
        })
    })
}
