//! Who acts: agents call tools, actors change the catalog.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Claims;

/// The authenticated caller.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Who it is, for the record.
    pub subject: Arc<str>,
    /// Verified content of its token.
    pub claims: Arc<Claims>,
}

/// Who changed the catalog: `admin:alice`, `system:refresher`, `cli`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(Arc<str>);

impl Actor {
    /// Takes the first 200 printable characters of a name.
    pub fn new(name: &str) -> Self {
        Self(name.chars().filter(|c| !c.is_control()).take(200).collect::<String>().into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
