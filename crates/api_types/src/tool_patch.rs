//! The body that overrides settings of a tool.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use catalog::tool::ToolOverrideChange;
use execution::ResultProjection;
use model::{CallLimit, DisplayName, Visibility};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::problem::Problem;

/// Allowed values of `max_result_bytes`.
const RESULT_BYTES: RangeInclusive<u32> = 1 << 10..=8 << 20;

/// What an admin says of a tool. A member that is left out stays as it is; null takes it back.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolPatch")]
pub struct ToolPatch {
    /// Another name.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<ToolName>")]
    name: Option<Option<ToolName>>,
    /// Another description.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<String>")]
    description: Option<Option<Box<str>>>,
    /// Another place to be met.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<Visibility>")]
    visibility: Option<Option<Visibility>>,
    /// What an agent's token must allow, instead of what the source or its specification says.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<BTreeSet<String>>")]
    required_scopes: Option<Option<BTreeSet<Box<str>>>>,
    /// For whom the tokens are that its upstream is shown, instead of whom the source says: with `client_credentials` and
    /// `token_exchange`.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<DisplayName>")]
    audience: Option<Option<DisplayName>>,
    /// Which part of its JSON agents get, as a JMESPath expression of at most 2,000 bytes.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<String>")]
    projection: Option<Option<Box<str>>>,
    /// How many bytes of text agents get at once of what it answers: 1,024 to 8,388,608; otherwise 262,144.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<u32>")]
    max_result_bytes: Option<Option<u32>>,
    /// How many calls of it there may be, instead of how many the source allows of each tool.
    #[serde(default, deserialize_with = "deserialize_present")]
    #[schemars(with = "Option<CallLimit>")]
    limit: Option<Option<CallLimit>>,
}

/// Deserializes a field that is present, so that null (restore) differs from absent (keep).
fn deserialize_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl ToolPatch {
    pub fn into_amendment(self) -> Result<ToolOverrideChange, Problem> {
        if let Some(Some(text)) = &self.projection {
            let checked = ResultProjection::compile(text);
            checked.map_err(|error| Problem::invalid_field("projection", error.to_string()))?;
        }
        if let Some(Some(bytes)) = self.max_result_bytes
            && !RESULT_BYTES.contains(&bytes)
        {
            return Err(Problem::invalid_field("max_result_bytes", "is to be 1024 to 8388608"));
        }
        let name = self.name.map(|name| name.map(|ToolName(name)| name));
        Ok(ToolOverrideChange {
            name,
            description: self.description,
            visibility: self.visibility,
            required_scopes: self.required_scopes,
            audience: self.audience,
            projection: self.projection,
            max_result_bytes: self.max_result_bytes,
            limit: self.limit,
        })
    }
}

/// 1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`, so that every model can say it.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, extend("title" = "1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`", "pattern" = "^[A-Za-z0-9_.-]{1,64}$"))]
struct ToolName(Box<str>);

impl TryFrom<String> for ToolName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        match (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(text.into())),
            false => {
                Err("a tool's name is 1 to 64 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`")
            }
        }
    }
}
