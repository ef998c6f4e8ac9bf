//! JSON and YAML texts: strict parsing, sizes, raw values, and documents with the positions of their values.

pub mod document_text;
pub mod json_size;
mod raw_json;
pub mod strict_json;

pub use raw_json::RawJson;
