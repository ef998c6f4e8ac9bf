//! Parameters of an operation in Swagger 2.0 and OpenAPI 3: their name, location and serialization.

use json::document_text::DocumentNode;
use model::BodyEncoding;
use model::header_names::{is_header_name, is_reserved_header};

use super::request_body::encoding_of_media_type;
use super::shared_schemas::accepts_objects_implicitly;
use super::specification_documents::{DanglingReference, DocumentValue, SpecificationDocuments};
use super::template_writer::{argument_expression, string_literal};

/// The location of a parameter, ordered by precedence for keeping its own name (requirement O4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

impl ParameterLocation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// The serialization style of a value (OpenAPI 3.1, 4.8.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterStyle {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
    /// `content` with a JSON media type instead of a style.
    Json,
}

impl ParameterStyle {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }
}

/// How one value is serialized into a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParameterSerialization {
    pub style: ParameterStyle,
    pub explode: bool,
    pub reserved: bool,
    /// Serialize an object as one value: the schema does not declare an object, so its fields must not become
    /// parameters.
    pub whole: bool,
}

#[derive(Clone, Debug)]
pub(super) struct OpenApiParameter<'a> {
    pub name: &'a str,
    pub location: ParameterLocation,
    pub required: bool,
    /// The parameter object; for Swagger 2.0 it is also the schema.
    pub place: Option<DocumentValue<'a>>,
    pub schema: Option<DocumentValue<'a>>,
    pub writing: ParameterSerialization,
}

/// Headers that OpenAPI excludes from parameters (3.1, 4.8.12.2).
const EXCLUDED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// The reason why a header cannot be an argument, if there is one.
fn header_problem(name: &str) -> Option<&'static str> {
    if !is_header_name(name) {
        return Some("no header can have its name");
    }
    let is_withheld = is_reserved_header(name) || name.eq_ignore_ascii_case("cookie");
    is_withheld.then_some("agents do not set this header")
}

/// The meaning of one entry of `parameters`.
pub(super) enum ParameterEntry<'a> {
    Parameter(OpenApiParameter<'a>),
    /// Swagger 2.0: `in: body` and `in: formData` are the body.
    Body(DocumentValue<'a>),
    /// Excluded by the rules of OpenAPI.
    Ignored,
    /// Not offered to agents, with the reason.
    Withheld(&'static str),
}

pub(super) fn read_parameter<'a>(
    documents: &'a SpecificationDocuments<'a>,
    place: DocumentValue<'a>,
) -> Result<ParameterEntry<'a>, DanglingReference> {
    let place = documents.resolve_reference(place)?;
    let Some(name) = place.string_field("name").filter(|name| !name.is_empty()) else {
        return Ok(ParameterEntry::Withheld("it has no name"));
    };
    let location = match place.string_field("in") {
        Some("path") => ParameterLocation::Path,
        Some("query" | "querystring") => ParameterLocation::Query,
        Some("header") => ParameterLocation::Header,
        Some("cookie") => ParameterLocation::Cookie,
        Some("body" | "formData") => return Ok(ParameterEntry::Body(place)),
        _ => {
            return Ok(ParameterEntry::Withheld(
                "its `in` is none of path, query, header and cookie",
            ));
        }
    };
    if location == ParameterLocation::Header
        && EXCLUDED_HEADERS.iter().any(|other| name.eq_ignore_ascii_case(other))
    {
        return Ok(ParameterEntry::Ignored);
    }
    if location == ParameterLocation::Header
        && let Some(why) = header_problem(name)
    {
        return Ok(ParameterEntry::Withheld(why));
    }
    let content = place.get("content").and_then(|content| {
        let (media_type, media) = content.as_object()?.iter().next()?;
        Some((media_type, content.with_value(media)))
    });
    let schema = match content {
        Some((_, media)) => media.get("schema"),
        None => place.get("schema").or_else(|| has_own_type(place).then_some(place)),
    };
    let required = location == ParameterLocation::Path || place.is_true("required");
    let mut writing = read_serialization(place, location);
    // `in: querystring` is the whole query: an object serialized as pairs.
    if place.string_field("in") != Some("querystring") {
        if content
            .is_some_and(|(media_type, _)| encoding_of_media_type(media_type) == BodyEncoding::Json)
        {
            writing.style = ParameterStyle::Json;
        }
        writing.whole = schema.is_none_or(|schema| accepts_objects_implicitly(documents, schema));
    }
    Ok(ParameterEntry::Parameter(OpenApiParameter {
        name,
        location,
        required,
        place: Some(place),
        schema,
        writing,
    }))
}

fn has_own_type(place: DocumentValue<'_>) -> bool {
    place.value.get("type").is_some() || place.value.get("enum").is_some()
}

/// How the value of a parameter or of a form field is serialized.
pub(super) fn read_serialization(
    place: DocumentValue<'_>,
    location: ParameterLocation,
) -> ParameterSerialization {
    let usual = match location {
        ParameterLocation::Path | ParameterLocation::Header => ParameterStyle::Simple,
        ParameterLocation::Query | ParameterLocation::Cookie => ParameterStyle::Form,
    };
    let flag = |key: &str| place.value.get(key).and_then(DocumentNode::as_bool);
    let reserved = flag("allowReserved") == Some(true);
    if let Some(format) = place.string_field("collectionFormat") {
        let (style, explode) = match format {
            "multi" => (ParameterStyle::Form, true),
            "ssv" => (ParameterStyle::SpaceDelimited, false),
            "pipes" => (ParameterStyle::PipeDelimited, false),
            _ => (usual, false),
        };
        return ParameterSerialization { style, explode, reserved, whole: false };
    }
    let style = place.string_field("style").and_then(ParameterStyle::parse).unwrap_or(usual);
    // Swagger 2.0 joins lists with commas by default.
    let joined = place.string_field("type") == Some("array") && place.value.get("schema").is_none();
    let explode = flag("explode").unwrap_or(style == ParameterStyle::Form && !joined);
    ParameterSerialization { style, explode, reserved, whole: false }
}

impl<'a> OpenApiParameter<'a> {
    /// A path parameter that the specification does not declare.
    pub(super) fn undeclared_path_parameter(name: &'a str) -> Self {
        let (style, explode) = (ParameterStyle::Simple, false);
        let writing = ParameterSerialization { style, explode, reserved: false, whole: false };
        Self {
            name,
            location: ParameterLocation::Path,
            required: true,
            place: None,
            schema: None,
            writing,
        }
    }

    /// The template expression that serializes the argument.
    pub(super) fn to_expression(&self, argument_name: &str) -> String {
        let value = argument_expression(argument_name);
        match self.location {
            ParameterLocation::Path => self.path_expression(&value),
            ParameterLocation::Query => pair_expression(self.name, &value, self.writing),
            ParameterLocation::Header => match self.writing.style {
                ParameterStyle::Json => format!("header_json({value})"),
                _ if self.writing.explode => format!("header({value}, explode=true)"),
                _ => format!("header({value})"),
            },
            ParameterLocation::Cookie => {
                let explode = match self.writing {
                    ParameterSerialization { explode: false, .. } => ", explode=false",
                    ParameterSerialization { whole: true, .. } => ", whole=true",
                    ParameterSerialization { .. } => "",
                };
                match self.writing.style {
                    ParameterStyle::Json => {
                        format!("cookie({}, json({value}))", string_literal(self.name))
                    }
                    _ => format!("cookie({}, {value}{explode})", string_literal(self.name)),
                }
            }
        }
    }

    fn path_expression(&self, value: &str) -> String {
        let explode = if self.writing.explode { ", explode=true" } else { "" };
        match self.writing.style {
            ParameterStyle::Label => format!("label({value}{explode})"),
            ParameterStyle::Matrix => {
                format!("matrix({}, {value}{explode})", string_literal(self.name))
            }
            ParameterStyle::Json => format!("simple(json({value}))"),
            _ => format!("simple({value}{explode})"),
        }
    }
}

/// The expression that writes `name=value` pairs, for queries and forms.
pub(super) fn pair_expression(name: &str, value: &str, writing: ParameterSerialization) -> String {
    let name = string_literal(name);
    let reserved = if writing.reserved { ", reserved=true" } else { "" };
    let (function, explode) = match writing.style {
        ParameterStyle::DeepObject => ("deep_object", ""),
        ParameterStyle::Json => ("json_pair", ""),
        ParameterStyle::SpaceDelimited if writing.explode => ("space_delimited", ", explode=true"),
        ParameterStyle::SpaceDelimited => ("space_delimited", ""),
        ParameterStyle::PipeDelimited if writing.explode => ("pipe_delimited", ", explode=true"),
        ParameterStyle::PipeDelimited => ("pipe_delimited", ""),
        ParameterStyle::Form
        | ParameterStyle::Simple
        | ParameterStyle::Label
        | ParameterStyle::Matrix
            if writing.explode =>
        {
            ("form", "")
        }
        ParameterStyle::Form
        | ParameterStyle::Simple
        | ParameterStyle::Label
        | ParameterStyle::Matrix => ("form", ", explode=false"),
    };
    // Without `explode`, the fields already form one value.
    let is_whole =
        writing.whole && writing.explode && !matches!(function, "deep_object" | "json_pair");
    let whole = if is_whole { ", whole=true" } else { "" };
    format!("{function}({name}, {value}{explode}{reserved}{whole})")
}
