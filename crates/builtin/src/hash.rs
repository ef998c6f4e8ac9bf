//! The tool `hash`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::encode::hex;
use crate::{Builtin, Given, Work, read, schema};

pub(crate) static HASH: Builtin = Builtin {
    name: "hash",
    title: "Hash a text",
    description: "The SHA-2 hash of a text (in UTF-8), as hexadecimal digits.",
    tags: &["checksum", "digest", "sha256"],
    example: r#"{"text": "abc", "algorithm": "sha256"}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Quick(|arguments, _| hash(&read(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to hash.
    text: String,
    /// How.
    #[serde(default)]
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Algorithm {
    Sha224,
    #[default]
    Sha256,
    Sha384,
    Sha512,
}

fn hash(arguments: &Arguments) -> Given {
    let text = arguments.text.as_bytes();
    let hash = match arguments.algorithm {
        Algorithm::Sha224 => hex(&Sha224::digest(text)),
        Algorithm::Sha256 => hex(&Sha256::digest(text)),
        Algorithm::Sha384 => hex(&Sha384::digest(text)),
        Algorithm::Sha512 => hex(&Sha512::digest(text)),
    };
    Ok(json!({ "hash": hash, "bytes": text.len() }))
}
