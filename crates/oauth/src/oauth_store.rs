//! Storage of authorizations: tokens for each principal and server, and the client registration for each issuer.
//!
//! Both are opaque strings and secrets: an implementation that persists them must encrypt them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::OAuthFuture;

/// The key of a stored value. The registration at one issuer is never used for another issuer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OAuthStoreKey {
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
pub trait OAuthStore: Send + Sync {
    /// Loads a stored value.
    fn load<'a>(&'a self, key: &'a OAuthStoreKey) -> OAuthFuture<'a, Option<String>>;

    /// Replaces a value, or deletes it if `text` is `None`. The value is stored when the future completes.
    fn save<'a>(&'a self, key: &'a OAuthStoreKey, text: Option<String>) -> OAuthFuture<'a, ()>;
}

/// Stores values in memory until the process exits.
#[derive(Default)]
pub struct InMemoryOAuthStore {
    entries: Mutex<HashMap<OAuthStoreKey, String>>,
}

impl OAuthStore for InMemoryOAuthStore {
    fn load<'a>(&'a self, key: &'a OAuthStoreKey) -> OAuthFuture<'a, Option<String>> {
        let found = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        Box::pin(std::future::ready(found))
    }

    fn save<'a>(&'a self, key: &'a OAuthStoreKey, text: Option<String>) -> OAuthFuture<'a, ()> {
        let mut kept = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => kept.insert(key.clone(), text),
            None => kept.remove(key),
        };
        Box::pin(std::future::ready(()))
    }
}
