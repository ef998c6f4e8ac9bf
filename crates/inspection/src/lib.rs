//! Checks of texts that come from upstreams: invisible characters, prompt injection, encoded payloads.
//!
//! Inspection takes linear time and never repeats a text unescaped. Callers decide what follows from a finding. The
//! stored texts stay unchanged; agents get them through [`sanitize_text`].

mod encoded_payload;
mod finding;
mod invisible_characters;
mod invisible_findings;
mod prompt_injection;
mod sanitize;
pub mod text_checks;
mod text_role;

pub use finding::{Finding, Severity};
pub use prompt_injection::{mixes_alphabets, release_memory as release_inspector_memory};
pub use sanitize::{
    DESCRIPTION_LIMIT, is_fully_visible, printable_line, sanitize_description, sanitize_json,
    sanitize_text,
};
pub use text_role::{SchemaContext, TextRole};
