//! The body of a request: which of the offered media types is sent, which arguments it takes, and how it is encoded.
//!
//! The properties of an object body become arguments of their own beside the parameters. Any other body is the argument
//! `body` (requirement O4).

use std::collections::HashSet;

use model::BodyEncoding;

use super::documents::{Dangling, Documents, Place, reference};
use super::parameter::{Location, Style, Writing, pair, writing};
use super::schema::{Schemas, takes_objects_unsaid};
use super::template::{argument, quoted};
use crate::text::{Node, Object};

/// The maximum depth of nested `allOf`.
const MERGE_DEPTH: usize = 16;
/// An object with more properties becomes the argument `body`: a model cannot fill in that many arguments.
const FIELD_LIMIT: usize = 1_000;

/// The request body in the chosen media type.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub required: bool,
    pub description: Option<&'a str>,
    pub content_type: String,
    pub encoding: BodyEncoding,
    pub shape: Shape<'a>,
    /// Properties that are `readOnly`; they are never sent, even if the caller passes them.
    pub left_out: Vec<&'a str>,
}

#[derive(Debug)]
pub(super) enum Shape<'a> {
    /// An object with one argument for each property.
    Fields { fields: Vec<Field<'a>>, additional: Option<Place<'a>> },
    /// Any other value, passed as the argument `body`.
    Whole(Option<Place<'a>>),
}

/// A property of an object body.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub name: &'a str,
    /// Several if parts of an `allOf` declare the same name; the value must match all of them.
    pub schemas: Vec<Place<'a>>,
    pub required: bool,
    pub writing: Writing,
    /// The media type of this part of a multipart body.
    pub content_type: Option<&'a str>,
}

/// One media type that the operation accepts.
#[derive(Clone, Copy)]
struct Offer<'a> {
    media_type: &'a str,
    media: Place<'a>,
    schema: Option<Place<'a>>,
}

/// Reads the body of an OpenAPI 3 operation.
pub(super) fn read<'a>(
    schemas: &Schemas<'a>,
    request_body: Place<'a>,
    preferred: Option<&str>,
) -> Result<Option<Body<'a>>, Dangling> {
    let documents = schemas.documents();
    let request_body = documents.resolve(request_body)?;
    let Some(content) = request_body.get("content") else { return Ok(None) };
    let mut offers = Vec::new();
    for (media_type, media) in content.object().into_iter().flat_map(Object::iter) {
        let media = documents.resolve(content.with(media))?;
        let schema = media.get("schema").or_else(|| media.get("itemSchema"));
        offers.push(Offer { media_type, media, schema });
    }
    let required = request_body.value.get("required");
    let description = request_body.text("description");
    let Some(offer) = choose(&offers, preferred) else { return Ok(None) };
    let body = offered(schemas, offer, description)?;
    let needs_fields = matches!(&body.shape, Shape::Fields { fields, .. } if fields.iter().any(|field| field.required));
    // Many specifications forget `required: true`; an object with required properties implies it.
    let required = required.and_then(Node::as_bool).unwrap_or(needs_fields);
    Ok(Some(Body { required, ..body }))
}

/// Reads the body of a Swagger 2.0 operation: its parameters `in: body` or `in: formData`.
pub(super) fn read_swagger<'a>(
    schemas: &Schemas<'a>,
    parameters: &[Place<'a>],
    consumes: &[&'a str],
    preferred: Option<&str>,
) -> Result<Option<Body<'a>>, Dangling> {
    let is_required = |place: Place<'_>| place.is_true("required");
    let body = parameters.iter().find(|place| place.text("in") == Some("body"));
    if let Some(&place) = body {
        let schema = place.get("schema");
        let types = if consumes.is_empty() { &["application/json"][..] } else { consumes };
        let offers: Vec<Offer<'_>> =
            types.iter().map(|media_type| Offer { media_type, media: place, schema }).collect();
        let Some(offer) = choose(&offers, preferred) else { return Ok(None) };
        let offer = Offer { media: place.with(&Node::Null), ..*offer };
        let body = offered(schemas, &offer, place.text("description"))?;
        return Ok(Some(Body { required: is_required(place), ..body }));
    }
    if parameters.is_empty() {
        return Ok(None);
    }
    let has_file = parameters.iter().any(|place| place.text("type") == Some("file"));
    let says = |word: &str| consumes.iter().any(|media_type| media_type.starts_with(word));
    let multipart =
        has_file || (says("multipart/form-data") && !says("application/x-www-form-urlencoded"));
    let fields = parameters.iter().filter_map(|&place| {
        let name = place.text("name")?;
        let schemas = vec![place];
        let writing = writing(place, Location::Query);
        Some(Field { name, schemas, required: is_required(place), writing, content_type: None })
    });
    let (content_type, encoding) = match multipart {
        true => ("multipart/form-data", BodyEncoding::Multipart),
        false => ("application/x-www-form-urlencoded", BodyEncoding::Form),
    };
    Ok(Some(Body {
        required: parameters.iter().any(|&place| is_required(place)),
        description: None,
        content_type: content_type.to_owned(),
        encoding,
        shape: Shape::Fields { fields: fields.collect(), additional: None },
        left_out: Vec::new(),
    }))
}

fn offered<'a>(
    schemas: &Schemas<'a>,
    offer: &Offer<'a>,
    description: Option<&'a str>,
) -> Result<Body<'a>, Dangling> {
    let encoding = encoding(offer.media_type);
    let (shape, left_out) = match (encoding, offer.schema) {
        (BodyEncoding::Json | BodyEncoding::Form | BodyEncoding::Multipart, Some(schema)) => {
            shape(schemas, schema, offer.media.get("encoding"))?
        }
        (_, schema) => (Shape::Whole(schema), Vec::new()),
    };
    let content_type = concrete(offer.media_type, encoding);
    Ok(Body { required: false, description, content_type, encoding, shape, left_out })
}

/// The preferred media type, else the one that is easiest to fill in.
fn choose<'o, 'a>(offers: &'o [Offer<'a>], preferred: Option<&str>) -> Option<&'o Offer<'a>> {
    let base = |media_type: &str| {
        media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let rank = |offer: &&Offer<'_>| {
        let own_choice =
            preferred.is_none_or(|preferred| base(preferred) != base(offer.media_type));
        let ease = match encoding(offer.media_type) {
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
pub(super) fn encoding(media_type: &str) -> BodyEncoding {
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
fn concrete(media_type: &str, encoding: BodyEncoding) -> String {
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

fn shape<'a>(
    schemas: &Schemas<'a>,
    schema: Place<'a>,
    encodings: Option<Place<'a>>,
) -> Result<(Shape<'a>, Vec<&'a str>), Dangling> {
    let mut members = Members::default();
    if !members.collect(schemas, schema, 0)? || members.fields.is_empty() {
        return Ok((Shape::Whole(Some(schema)), Vec::new()));
    }
    let Members { mut fields, required, additional, is_merged, left_out, .. } = members;
    let additional = additional.filter(|_| !is_merged);
    for field in &mut fields {
        field.required |= required.contains(field.name);
        let unsaid = |schema: &Place<'_>| takes_objects_unsaid(schemas.documents(), *schema);
        let whole = field.schemas.iter().all(unsaid);
        field.writing.whole = whole;
        let Some(encoding) = encodings.and_then(|encodings| encodings.get(field.name)) else {
            // Forms have no standard encoding for an object; most servers accept JSON.
            if is_object(schemas.documents(), &field.schemas) {
                field.writing.style = Style::Json;
            }
            continue;
        };
        field.content_type = encoding.text("contentType");
        field.writing = Writing { whole, ..writing(encoding, Location::Query) };
        let says_style =
            ["style", "explode", "allowReserved"].iter().any(|key| encoding.get(key).is_some());
        if !says_style && field.content_type.is_some_and(|media_type| media_type.contains("json")) {
            field.writing.style = Style::Json;
        }
    }
    Ok((Shape::Fields { fields, additional }, left_out))
}

fn is_object(documents: &Documents<'_>, schemas: &[Place<'_>]) -> bool {
    schemas.iter().any(|&schema| {
        documents.resolve(schema).is_ok_and(|schema| {
            schema.text("type") == Some("object") || schema.value.get("properties").is_some()
        })
    })
}

/// Collects the properties of an object schema and of its `allOf` parts.
#[derive(Default)]
struct Members<'a> {
    fields: Vec<Field<'a>>,
    required: HashSet<&'a str>,
    additional: Option<Place<'a>>,
    /// Whether `allOf` merges several parts; then no part knows the properties of the others.
    is_merged: bool,
    left_out: Vec<&'a str>,
    /// Schemas already visited; `allOf` can contain one schema many times.
    seen: HashSet<*const Node<'a>>,
}

impl<'a> Members<'a> {
    /// Adds the properties of a schema; returns whether it is an object whose properties all have names.
    fn collect(
        &mut self,
        schemas: &Schemas<'a>,
        schema: Place<'a>,
        depth: usize,
    ) -> Result<bool, Dangling> {
        let Some(object) = schema.object() else { return Ok(false) };
        if MERGE_DEPTH < depth {
            return Ok(false);
        }
        if !self.seen.insert(schema.value) {
            return Ok(true);
        }
        if let Some(text) = reference(schema) {
            let target = schemas.documents().follow(schema, text)?;
            if !self.collect(schemas, target, depth + 1)? {
                return Ok(false);
            }
        }
        if !is_plain_object(object) {
            return Ok(false);
        }
        for item in schema.items("allOf") {
            self.is_merged = true;
            if !self.collect(schemas, item, depth + 1)? {
                return Ok(false);
            }
        }
        let properties = schema.get("properties");
        for (name, value) in properties.and_then(Place::object).into_iter().flat_map(Object::iter) {
            let property = schema.with(value);
            match schemas.is_left_out(property) {
                true => self.left_out.push(name),
                false => self.add(name, property),
            }
            if FIELD_LIMIT < self.fields.len() {
                return Ok(false);
            }
        }
        let required = schema.value.get("required").and_then(Node::as_list);
        self.required.extend(required.into_iter().flatten().filter_map(Node::as_str));
        self.additional = schema.get("additionalProperties").or(self.additional);
        Ok(true)
    }

    fn add(&mut self, name: &'a str, schema: Place<'a>) {
        if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            field.schemas.push(schema);
            return;
        }
        let required = schema.is_true("required");
        let (style, explode) = (Style::Form, true);
        let writing = Writing { style, explode, reserved: false, whole: false };
        let schemas = vec![schema];
        self.fields.push(Field { name, schemas, required, writing, content_type: None });
    }
}

/// Whether a schema is an object by `type` or `properties`, and its choices only vary the required properties.
fn is_plain_object(object: &Object<'_>) -> bool {
    let is_object = match object.get("type") {
        None => true,
        Some(Node::Text(word)) => word == "object",
        Some(Node::List(words)) => words.iter().any(|word| word.as_str() == Some("object")),
        Some(_) => false,
    };
    let only_requires = |choice: &Node<'_>| {
        choice.as_object().is_some_and(|choice| {
            choice.iter().all(|(key, _)| {
                matches!(key, "required" | "title" | "description" | "type" | "not")
            })
        })
    };
    let simple = |key: &str| match object.get(key) {
        None => true,
        Some(Node::List(choices)) => choices.iter().all(only_requires),
        Some(_) => false,
    };
    is_object
        && simple("oneOf")
        && simple("anyOf")
        && ["enum", "const", "if", "patternProperties", "$dynamicRef"]
            .iter()
            .all(|key| !object.contains(key))
}

/// The template of the body. `parameters` are the arguments that go elsewhere.
pub(super) fn template(
    body: &Body<'_>,
    parameters: &[String],
    documents: &Documents<'_>,
) -> String {
    let whole = argument("body");
    let fields = match &body.shape {
        Shape::Fields { fields, .. } => fields,
        Shape::Whole(_) => {
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
        let others = elsewhere.chain(body.left_out.iter().copied());
        let mut arguments: Vec<String> = others.map(quoted).collect();
        if body.required {
            arguments.push("required=true".to_owned());
        }
        return format!("{{{{ json(rest({})) }}}}", arguments.join(", "));
    }
    if body.encoding == BodyEncoding::Multipart {
        let parts: Vec<String> = fields.iter().map(|field| part(field, documents)).collect();
        return format!("{{{{ multipart({}) }}}}", parts.join(", "));
    }
    let write = |field: &Field<'_>| pair(field.name, &argument(field.name), field.writing);
    let pairs: Vec<String> = fields.iter().map(write).collect();
    format!("{{{{ pairs({}) }}}}", pairs.join(", "))
}

fn part(field: &Field<'_>, documents: &Documents<'_>) -> String {
    let function = if is_file(documents, &field.schemas) { "file" } else { "part" };
    let media_type =
        match field.content_type.and_then(|types| types.split(',').next()).map(str::trim) {
            Some(media_type) if !media_type.contains('*') => {
                format!(", type={}", quoted(media_type))
            }
            _ => String::new(),
        };
    format!("{function}({}, {}{media_type})", quoted(field.name), argument(field.name))
}

/// Whether a field holds a file or a list of files, that is binary content.
pub(super) fn is_file(documents: &Documents<'_>, schemas: &[Place<'_>]) -> bool {
    let binary = |schema: Place<'_>| {
        let says = |key: &str, word: &str| schema.text(key) == Some(word);
        says("format", "binary")
            || says("type", "file")
            || (schema.value.get("contentMediaType").is_some()
                && schema.value.get("contentEncoding").is_none())
    };
    schemas.iter().any(|&schema| {
        documents.resolve(schema).is_ok_and(|schema| {
            let item = schema.get("items").and_then(|items| documents.resolve(items).ok());
            binary(schema) || item.is_some_and(binary)
        })
    })
}
