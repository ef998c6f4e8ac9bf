//! The admin API: everything in the catalog can be read, made, changed and removed.
//!
//! One file for each kind of thing: its routes, how it is shown, what its tag covers, and a handler for each route. A
//! handler parses, gives one command and shows what has become of it.

pub(crate) mod access;
pub(crate) mod configuration;
pub(crate) mod executions;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod issuers;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod plan;
pub(crate) mod policies;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod sources;
pub(crate) mod tools;

use model::Name;
use model::id::Slug;

use crate::problem::Problem;

/// The id that was given, or one made from the name.
fn id_for<Kind>(given: Option<Slug<Kind>>, name: &Name) -> Result<Slug<Kind>, Problem> {
    match given {
        Some(id) => Ok(id),
        None => {
            Slug::from_name(name.as_str()).map_err(|error| Problem::field("id", error.to_string()))
        }
    }
}
