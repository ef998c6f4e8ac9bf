//! What is kept of authorizations: tokens for each principal and server, and who we are to each issuer.
//!
//! Both are texts that nobody else needs to understand, and secrets: whoever writes them down seals them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Coming;

/// What something is kept under. An issuer's registration is never looked up under another issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// The tokens of a principal.
    Tokens {
        /// In whose name.
        principal: String,
        /// The server's url.
        resource: String,
    },
    /// Who we are to an authorization server.
    Client {
        /// Its issuer.
        issuer: String,
    },
}

/// Keeps texts. One that cannot be read counts as lost: a new one is asked for.
pub trait Store: Send + Sync {
    /// What was kept.
    fn load<'a>(&'a self, key: &'a Kept) -> Coming<'a, Option<String>>;

    /// Keeps it instead of what was there; without a text, forgets it. It is done when the future is.
    fn save<'a>(&'a self, key: &'a Kept, text: Option<String>) -> Coming<'a, ()>;
}

/// Keeps them until the program ends.
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
