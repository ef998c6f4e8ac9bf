//! Parameters of an operation in Swagger 2.0 and OpenAPI 3: their name, location and serialization.

use model::BodyEncoding;
use model::header::{is_ours, is_token};

use super::body::encoding;
use super::documents::{Dangling, Documents, Place};
use super::schema::takes_objects_unsaid;
use super::template::{argument, quoted};
use crate::text::Node;

/// The location of a parameter, ordered by precedence for keeping its own name (requirement O4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

impl Location {
    pub(super) fn word(self) -> &'static str {
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
pub(super) enum Style {
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

impl Style {
    fn read(word: &str) -> Option<Self> {
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
pub(super) struct Writing {
    pub style: Style,
    pub explode: bool,
    pub reserved: bool,
    /// Serialize an object as one value: the schema does not declare an object, so its fields must not become
    /// parameters.
    pub whole: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter<'a> {
    pub name: &'a str,
    pub location: Location,
    pub required: bool,
    /// The parameter object; for Swagger 2.0 it is also the schema.
    pub place: Option<Place<'a>>,
    pub schema: Option<Place<'a>>,
    pub writing: Writing,
}

/// Headers that OpenAPI excludes from parameters (3.1, 4.8.12.2).
const NO_PARAMETERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// The reason why a header cannot be an argument, if there is one.
fn withheld_header(name: &str) -> Option<&'static str> {
    if !is_token(name) {
        return Some("no header can have its name");
    }
    let is_withheld = is_ours(name) || name.eq_ignore_ascii_case("cookie");
    is_withheld.then_some("agents do not set this header")
}

/// The meaning of one entry of `parameters`.
pub(super) enum Read<'a> {
    Parameter(Parameter<'a>),
    /// Swagger 2.0: `in: body` and `in: formData` are the body.
    Body(Place<'a>),
    /// Excluded by the rules of OpenAPI.
    Ignored,
    /// Not offered to agents, with the reason.
    Withheld(&'static str),
}

pub(super) fn read<'a>(
    documents: &'a Documents<'a>,
    place: Place<'a>,
) -> Result<Read<'a>, Dangling> {
    let place = documents.resolve(place)?;
    let Some(name) = place.text("name").filter(|name| !name.is_empty()) else {
        return Ok(Read::Withheld("it has no name"));
    };
    let location = match place.text("in") {
        Some("path") => Location::Path,
        Some("query" | "querystring") => Location::Query,
        Some("header") => Location::Header,
        Some("cookie") => Location::Cookie,
        Some("body" | "formData") => return Ok(Read::Body(place)),
        _ => return Ok(Read::Withheld("its `in` is none of path, query, header and cookie")),
    };
    if location == Location::Header
        && NO_PARAMETERS.iter().any(|other| name.eq_ignore_ascii_case(other))
    {
        return Ok(Read::Ignored);
    }
    if location == Location::Header
        && let Some(why) = withheld_header(name)
    {
        return Ok(Read::Withheld(why));
    }
    let content = place.get("content").and_then(|content| {
        let (media_type, media) = content.object()?.iter().next()?;
        Some((media_type, content.with(media)))
    });
    let schema = match content {
        Some((_, media)) => media.get("schema"),
        None => place.get("schema").or_else(|| has_own_type(place).then_some(place)),
    };
    let required = location == Location::Path || place.is_true("required");
    let mut writing = writing(place, location);
    // `in: querystring` is the whole query: an object serialized as pairs.
    if place.text("in") != Some("querystring") {
        if content.is_some_and(|(media_type, _)| encoding(media_type) == BodyEncoding::Json) {
            writing.style = Style::Json;
        }
        writing.whole = schema.is_none_or(|schema| takes_objects_unsaid(documents, schema));
    }
    Ok(Read::Parameter(Parameter { name, location, required, place: Some(place), schema, writing }))
}

fn has_own_type(place: Place<'_>) -> bool {
    place.value.get("type").is_some() || place.value.get("enum").is_some()
}

/// How the value of a parameter or of a form field is serialized.
pub(super) fn writing(place: Place<'_>, location: Location) -> Writing {
    let usual = match location {
        Location::Path | Location::Header => Style::Simple,
        Location::Query | Location::Cookie => Style::Form,
    };
    let flag = |key: &str| place.value.get(key).and_then(Node::as_bool);
    let reserved = flag("allowReserved") == Some(true);
    if let Some(format) = place.text("collectionFormat") {
        let (style, explode) = match format {
            "multi" => (Style::Form, true),
            "ssv" => (Style::SpaceDelimited, false),
            "pipes" => (Style::PipeDelimited, false),
            _ => (usual, false),
        };
        return Writing { style, explode, reserved, whole: false };
    }
    let style = place.text("style").and_then(Style::read).unwrap_or(usual);
    // Swagger 2.0 joins lists with commas by default.
    let joined = place.text("type") == Some("array") && place.value.get("schema").is_none();
    let explode = flag("explode").unwrap_or(style == Style::Form && !joined);
    Writing { style, explode, reserved, whole: false }
}

impl<'a> Parameter<'a> {
    /// A path parameter that the specification does not declare.
    pub(super) fn undeclared(name: &'a str) -> Self {
        let (style, explode) = (Style::Simple, false);
        let writing = Writing { style, explode, reserved: false, whole: false };
        Self { name, location: Location::Path, required: true, place: None, schema: None, writing }
    }

    /// The template expression that serializes the argument.
    pub(super) fn expression(&self, argument_name: &str) -> String {
        let value = argument(argument_name);
        match self.location {
            Location::Path => self.in_path(&value),
            Location::Query => pair(self.name, &value, self.writing),
            Location::Header => match self.writing.style {
                Style::Json => format!("header_json({value})"),
                _ if self.writing.explode => format!("header({value}, explode=true)"),
                _ => format!("header({value})"),
            },
            Location::Cookie => {
                let explode = match self.writing {
                    Writing { explode: false, .. } => ", explode=false",
                    Writing { whole: true, .. } => ", whole=true",
                    Writing { .. } => "",
                };
                match self.writing.style {
                    Style::Json => format!("cookie({}, json({value}))", quoted(self.name)),
                    _ => format!("cookie({}, {value}{explode})", quoted(self.name)),
                }
            }
        }
    }

    fn in_path(&self, value: &str) -> String {
        let explode = if self.writing.explode { ", explode=true" } else { "" };
        match self.writing.style {
            Style::Label => format!("label({value}{explode})"),
            Style::Matrix => format!("matrix({}, {value}{explode})", quoted(self.name)),
            Style::Json => format!("simple(json({value}))"),
            _ => format!("simple({value}{explode})"),
        }
    }
}

/// The expression that writes `name=value` pairs, for queries and forms.
pub(super) fn pair(name: &str, value: &str, writing: Writing) -> String {
    let name = quoted(name);
    let reserved = if writing.reserved { ", reserved=true" } else { "" };
    let (function, explode) = match writing.style {
        Style::DeepObject => ("deep_object", ""),
        Style::Json => ("json_pair", ""),
        Style::SpaceDelimited if writing.explode => ("space_delimited", ", explode=true"),
        Style::SpaceDelimited => ("space_delimited", ""),
        Style::PipeDelimited if writing.explode => ("pipe_delimited", ", explode=true"),
        Style::PipeDelimited => ("pipe_delimited", ""),
        Style::Form | Style::Simple | Style::Label | Style::Matrix if writing.explode => {
            ("form", "")
        }
        Style::Form | Style::Simple | Style::Label | Style::Matrix => ("form", ", explode=false"),
    };
    // Without `explode`, the fields already form one value.
    let is_whole =
        writing.whole && writing.explode && !matches!(function, "deep_object" | "json_pair");
    let whole = if is_whole { ", whole=true" } else { "" };
    format!("{function}({name}, {value}{explode}{reserved}{whole})")
}
