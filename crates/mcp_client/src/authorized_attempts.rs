//! Requests with the token of a connection, repeated with another token if the server requires one.

use std::sync::Arc;

use oauth::McpAuthorization;
use upstream::http::header::{AUTHORIZATION, HeaderMap};

use super::McpError;

/// Replaces the `Authorization` header with the token of the connection, if there is one.
pub(crate) fn insert_token(authorization: Option<&McpAuthorization>, headers: &mut HeaderMap) {
    if let Some(token) = authorization.and_then(|authorization| authorization.current_token().0) {
        headers.insert(AUTHORIZATION, token);
    }
}

/// How often one request is repeated with another token.
const MAX_TOKEN_RETRIES: u32 = 3;

/// Repeats a request with another token if the server requires one, because a rejected request was not executed. The
/// request's deadline does not cover obtaining a token, which may need a user's consent.
pub(crate) struct AuthorizedAttempts<'a> {
    authorization: Option<&'a McpAuthorization>,
    generation: u64,
    retries: u32,
}

impl<'a> AuthorizedAttempts<'a> {
    pub(crate) fn new(authorization: Option<&'a McpAuthorization>) -> Self {
        Self { authorization, generation: 0, retries: 0 }
    }

    /// Prepares the token before each attempt.
    pub(crate) async fn begin_attempt(&mut self) {
        if let Some(authorization) = self.authorization {
            authorization.ensure_token().await;
            self.generation = authorization.current_token().1;
        }
    }

    /// Handles the result of an attempt; `None` means that the request must be repeated.
    pub(crate) async fn finish_attempt<T>(
        &mut self,
        done: Result<T, McpError>,
    ) -> Result<Option<T>, McpError> {
        match (done, self.authorization) {
            (Ok(done), authorization) => {
                authorization.inspect(|it| it.confirm_token(self.generation));
                Ok(Some(done))
            }
            (Err(refusal), Some(authorization)) if self.retries < MAX_TOKEN_RETRIES => {
                self.retries += 1;
                self.replace_token(authorization, refusal).await.map(|()| None)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Obtains the token that a rejection requires. Other errors are returned.
    async fn replace_token(
        &self,
        authorization: &McpAuthorization,
        refusal: McpError,
    ) -> Result<(), McpError> {
        let McpError::Unauthorized { origin, status, challenge } = &refusal else {
            return Err(refusal);
        };
        let challenge = challenge.as_deref().unwrap_or_default();
        let replaced = authorization.replace_rejected_token(self.generation, *status, challenge);
        let Some(done) = replaced.await else { return Err(refusal) };
        let origin = origin.clone();
        done.map_err(|source| McpError::TokenUnavailable { origin, source: Arc::new(source) })
    }
}
