//! The tool `hash`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::text_encoding::to_hex;
use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static HASH: BuiltinTool = BuiltinTool {
    name: "hash",
    title: "Hash a text",
    description: "The SHA-2 hash of a text (in UTF-8), as hexadecimal digits.",
    tags: &["checksum", "digest", "sha256"],
    example: r#"{"text": "abc", "algorithm": "sha256"}"#,
    uses_network: false,
    input: arguments_schema::<HashArguments>,
    work: BuiltinWork::Linear(|arguments, _| hash_text(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct HashArguments {
    /// What to hash.
    text: String,
    /// How.
    #[serde(default)]
    algorithm: HashAlgorithm,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Algorithm")]
enum HashAlgorithm {
    Sha224,
    #[default]
    Sha256,
    Sha384,
    Sha512,
}

fn hash_text(arguments: &HashArguments) -> BuiltinResult {
    let text = arguments.text.as_bytes();
    let hash = match arguments.algorithm {
        HashAlgorithm::Sha224 => to_hex(&Sha224::digest(text)),
        HashAlgorithm::Sha256 => to_hex(&Sha256::digest(text)),
        HashAlgorithm::Sha384 => to_hex(&Sha384::digest(text)),
        HashAlgorithm::Sha512 => to_hex(&Sha512::digest(text)),
    };
    Ok(json!({ "hash": hash, "bytes": text.len() }))
}
