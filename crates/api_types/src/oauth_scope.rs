//! An OAuth scope (RFC 6749, 3.3).

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

/// A scope (RFC 6749, 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct OAuthScope(pub Box<str>);

/// Why a string is no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scope is one word without quotes, such as `tools`")]
pub struct InvalidScope;

impl FromStr for OAuthScope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let is_good = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        match !text.is_empty() && text.bytes().all(is_good) {
            true => Ok(Self(text.into())),
            false => Err(InvalidScope),
        }
    }
}

impl TryFrom<String> for OAuthScope {
    type Error = InvalidScope;

    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}
