//! Claims of a verified token, and paths that select values in them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest claim path, in bytes.
const CLAIM_PATH_LIMIT: usize = 512;
/// The most segments of a claim path.
const CLAIM_PATH_SEGMENTS: usize = 16;

/// The content of a verified token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// The top-level claim of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The top-level claims with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl From<Map<String, Value>> for Claims {
    fn from(claims: Map<String, Value>) -> Self {
        Self(claims)
    }
}

/// Leads to a claim: `realm_access.roles`.
///
/// Dots separate the segments. A name with a dot, a quote, white space or `://` stands in quotes, where `\"` is a quote
/// and `\\` a backslash: `"https://example.com/roles"`, `resource_access."my.app".roles`. No segment is empty.
///
/// A path that meets a list goes on in each of its elements: over `{"groups": [{"name": "a"}, {"name": "b"}]}` the path
/// `groups.name` finds `"a"` and `"b"`. It goes through one level of list; a list directly in a list is not entered. A
/// number is a name like any other and picks no element, because who comes first in a list should not decide on access.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("minLength" = 1, "maxLength" = 512))]
pub struct ClaimPath {
    first: Box<str>,
    rest: Box<[Box<str>]>,
}

/// The error for a string that is not a claim path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a claim path: {rule}")]
pub struct InvalidClaimPath {
    /// The rejected string, cut to a readable length.
    pub path: String,
    /// The violated rule.
    pub rule: &'static str,
}

impl ClaimPath {
    /// All values that the path selects. A `null` counts as missing: a claim of `null` satisfies no matcher.
    pub fn find<'a>(&self, claims: &'a Claims) -> Vec<&'a Value> {
        let mut found: Vec<&Value> = claims.get(&self.first).into_iter().collect();
        for segment in &self.rest {
            found = found.into_iter().flat_map(|value| descend(value, segment)).collect();
        }
        found.retain(|value| !value.is_null());
        found
    }

    /// The top-level claim in which the path starts; the path sees nothing outside it.
    pub fn first_segment(&self) -> &str {
        &self.first
    }

    fn segments(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.first).chain(&self.rest).map(AsRef::as_ref)
    }
}

fn descend<'a>(value: &'a Value, segment: &str) -> Vec<&'a Value> {
    match value {
        Value::Object(object) => object.get(segment).into_iter().collect(),
        Value::Array(elements) => elements
            .iter()
            .filter_map(Value::as_object)
            .filter_map(|element| element.get(segment))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

impl FromStr for ClaimPath {
    type Err = InvalidClaimPath;

    fn from_str(text: &str) -> Result<Self, InvalidClaimPath> {
        parse_path(text)
            .map_err(|rule| InvalidClaimPath { path: text.chars().take(80).collect(), rule })
    }
}

fn parse_path(text: &str) -> Result<ClaimPath, &'static str> {
    if CLAIM_PATH_LIMIT < text.len() {
        return Err("at most 512 bytes");
    }
    let (first, mut after) = parse_segment(text)?;
    let mut rest = Vec::new();
    while !after.is_empty() {
        let next = after.strip_prefix('.').ok_or("a dot or nothing follows a closing quote")?;
        let (name, remaining) = parse_segment(next)?;
        rest.push(name);
        after = remaining;
    }
    if CLAIM_PATH_SEGMENTS <= rest.len() {
        return Err("at most 16 segments");
    }
    Ok(ClaimPath { first, rest: rest.into() })
}

/// Parses one segment and returns the remaining text.
fn parse_segment(text: &str) -> Result<(Box<str>, &str), &'static str> {
    let (name, after) = match text.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => {
            let (name, after) = text.split_at(text.find('.').unwrap_or(text.len()));
            if needs_quotes(name) {
                return Err(
                    "a name with a quote, white space or `://` stands in quotes: `\"https://example.com/roles\"`",
                );
            }
            (name.to_owned(), after)
        }
    };
    if name.is_empty() {
        return Err("each segment has a name; write it like `realm_access.roles`");
    }
    Ok((name.into(), after))
}

/// Parses up to the closing quote and returns the remaining text.
fn parse_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut name = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok((name, chars.as_str())),
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\')) => name.push(escaped),
                Some(_) | None => return Err(r#"in quotes, `\` stands only before `"` or `\`"#),
            },
            _ => name.push(c),
        }
    }
    Err("a quote is not closed")
}

/// A bare URL would be split at its dots, and a stray space would silently match nothing: both must be quoted.
fn needs_quotes(name: &str) -> bool {
    name.contains(['.', '"']) || name.contains(char::is_whitespace) || name.contains("://")
}

impl TryFrom<String> for ClaimPath {
    type Error = InvalidClaimPath;

    fn try_from(text: String) -> Result<Self, InvalidClaimPath> {
        text.parse()
    }
}
impl From<ClaimPath> for String {
    fn from(path: ClaimPath) -> Self {
        path.to_string()
    }
}
impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.segments().enumerate() {
            if 0 < position {
                f.write_str(".")?;
            }
            if needs_quotes(name) {
                write!(f, "\"{}\"", name.replace('\\', r"\\").replace('"', "\\\""))?;
            } else {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
