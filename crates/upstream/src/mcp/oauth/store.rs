//! Storage of authorizations: tokens for each principal and server, and the client registration for each issuer.
//!
//! Both are opaque strings and secrets: an implementation that persists them must encrypt them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Coming;

/// The key of a stored value. The registration at one issuer is never used for another issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The tokens of a principal.
    Tokens {
        principal: String,
        /// The URL of the MCP server.
        resource: String,
    },
    /// The client registration at an authorization server.
    Client { issuer: String },
}

/// Stores strings. A value that cannot be read counts as lost, and a new token or registration is requested.
pub trait Store: Send + Sync {
    /// Loads a stored value.
    fn load<'a>(&'a self, key: &'a Kept) -> Coming<'a, Option<String>>;

    /// Replaces a value, or deletes it if `text` is `None`. The value is stored when the future completes.
    fn save<'a>(&'a self, key: &'a Kept, text: Option<String>) -> Coming<'a, ()>;
}

/// Stores values in memory until the process exits.
#[derive(Default)]
pub struct InMemory {
    kept: Mutex<HashMap<Kept, String>>,
}

impl Store for InMemory {
    fn load<'a>(&'a self, key: &'a Kept) -> Coming<'a, Option<String>> {
        let found = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        Box::pin(std::future::ready(found))
    }

    fn save<'a>(&'a self, key: &'a Kept, text: Option<String>) -> Coming<'a, ()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => kept.insert(key.clone(), text),
            None => kept.remove(key),
        };
        Box::pin(std::future::ready(()))
    }
}
