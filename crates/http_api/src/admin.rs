//! The admin API: routes to read, create, change and remove everything in the catalog.
//!
//! One file per noun: its routes, its response bodies, what its `ETag` covers, and one handler per route. A handler
//! parses the request, executes one command and answers with the changed entity.

pub(crate) mod access;
pub(crate) mod executions;
pub(crate) mod followed_config;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod issuers;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod plan_and_apply;
pub(crate) mod policies;
pub(crate) mod search_preview;
pub(crate) mod secrets;
pub(crate) mod sources;
pub(crate) mod tools;

use api_types::problem::Problem;
use model::DisplayName;
use model::id::Slug;

/// The requested id, or one derived from the name.
fn id_or_from_name<Kind>(
    given: Option<Slug<Kind>>,
    name: &DisplayName,
) -> Result<Slug<Kind>, Problem> {
    match given {
        Some(id) => Ok(id),
        None => Slug::from_name(name.as_str())
            .map_err(|error| Problem::invalid_field("id", error.to_string())),
    }
}
