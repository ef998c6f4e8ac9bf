//! References to secrets. The values are stored in the environment, in files, or encrypted next to the journal.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Where a secret is: `env:NAME`, `file:PATH` or `sealed:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(into = "String")]
#[schemars(with = "String", inline, extend("title" = "a reference: `env:NAME`, `file:PATH` or `sealed:NAME`", "pattern" = "^(env|file|sealed):"))]
pub enum SecretRef {
    /// An environment variable of the server.
    Env(Box<str>),
    /// A file the server can read.
    File(Box<str>),
    /// Sealed in the database under this name.
    Sealed(Box<str>),
}

/// Words in field names that denote a secret, without separators.
const SECRET_WORDS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "cookie",
    "session",
    "signature",
];

/// Whether a value with this field name is most likely a secret.
pub fn is_secret_name(name: &str) -> bool {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    let name: String = letters.flat_map(char::to_lowercase).collect();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The error for a string that is not a reference. It may be the secret itself, so the message does not repeat it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret is given by reference: `env:NAME`, `file:PATH` or `sealed:NAME` (1 to 1024 bytes)"
)]
pub struct InvalidSecretRef;

impl FromStr for SecretRef {
    type Err = InvalidSecretRef;

    fn from_str(text: &str) -> Result<Self, InvalidSecretRef> {
        let (store, name) = text.split_once(':').ok_or(InvalidSecretRef)?;
        if name.is_empty() || 1024 < name.len() || name.chars().any(char::is_control) {
            return Err(InvalidSecretRef);
        }
        match store {
            "env" => Ok(Self::Env(name.into())),
            "file" => Ok(Self::File(name.into())),
            "sealed" => Ok(Self::Sealed(name.into())),
            _ => Err(InvalidSecretRef),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Sealed(name) => write!(f, "sealed:{name}"),
        }
    }
}
impl<'de> Deserialize<'de> for SecretRef {
    /// Accepts any JSON value, so that no error message repeats it: a number here is most likely a password.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let secret = value.as_str().ok_or(InvalidSecretRef).and_then(str::parse);
        secret.map_err(serde::de::Error::custom)
    }
}
impl From<SecretRef> for String {
    fn from(secret: SecretRef) -> Self {
        secret.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reference_survives_printing_and_parsing() {
        for text in ["env:TOKEN", "file:/run/secrets/token", "sealed:billing"] {
            assert_eq!(text.parse::<SecretRef>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_literal_secret_is_rejected_and_not_repeated() {
        for text in ["hunter2", "Bearer: hunter2", "env:", "vault:hunter2"] {
            let error = text.parse::<SecretRef>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
        for json in [r#""hunter2""#, "90210", r#"["hunter2"]"#, r#"{"a":"hunter2"}"#] {
            let error = serde_json::from_str::<SecretRef>(json).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && !error.contains("90210"), "{error}");
        }
    }
}
