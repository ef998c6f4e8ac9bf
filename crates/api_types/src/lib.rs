//! The bodies of the admin API as types, with the validation that HTTP and the configuration file share.

pub mod config_status;
pub mod group_body;
pub mod moment_argument;
pub mod oauth_scope;
pub mod problem;
pub mod request_preview;
pub mod schema_check;
pub mod server_names;
pub mod source_checks;
pub mod tool_patch;
pub mod type_schemas;
pub mod value_reader;

#[cfg(test)]
#[path = "../../catalog/tests/support/reference_page.rs"]
mod reference_page;
