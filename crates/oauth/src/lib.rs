//! OAuth for MCP servers: discovers the authorization server of an MCP server, obtains a token, and renews it.
//!
//! Written by hand, see `docs/adr/0022-oauth-towards-upstreams-by-hand.md`: other parties name every URL in here, so
//! all requests pass the egress policy, size limits and deadlines of [`HttpClient`]. Each value is checked against an
//! earlier one: the resource against the server's URL, the issuer against the location of its metadata, the answer of a
//! user against the request for consent.
//!
//! An [`McpAuthorization`] is for one server and one principal. Connections with it in their settings send its token, and
//! report when the server rejects the token. Tokens are never printed and appear in no error.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use upstream::http::{HttpClient, Url};
//! # use toolcrib_oauth::{ConsentCallback, InMemoryOAuthStore, McpAuthorization, OAuthFlow, OAuthLimits, OAuthSettings};
//! # fn example(client: HttpClient, url: Url, redirect: Url, consent: ConsentCallback, now: fn() -> u64) {
//! let oauth = OAuthSettings {
//!     principal: "zoë".to_owned(),
//!     client_name: "toolcrib".to_owned(),
//!     flow: OAuthFlow::AuthorizationCode { redirect, consent },
//!     registered_client: None,
//!     client_metadata_url: None,
//!     store: Arc::new(InMemoryOAuthStore::default()),
//!     now,
//!     trusts_plain_http: false,
//!     limits: OAuthLimits::default(),
//! };
//! let authorization = McpAuthorization::new(client, url, oauth);
//! # }
//! ```

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use authorization_state::AuthorizationState;
use upstream::http::header::HeaderValue;
use upstream::http::{HttpClient, Url};

mod authorization_server;
mod authorization_state;
mod bearer_challenge;
mod client_assertion;
mod client_registration;
mod oauth_error;
mod oauth_requests;
mod oauth_settings;
mod oauth_store;
mod requested_scopes;
mod resource_metadata;
mod token_endpoint;
mod token_flow;
mod token_grant;
mod token_requirements;
mod user_consent;

pub use bearer_challenge::rejects_token;
pub use client_assertion::ClientSigningKey;
pub use oauth_error::OAuthError;
pub use oauth_settings::{
    ConsentCallback, OAuthFlow, OAuthLimits, OAuthSettings, RegisteredClient,
};
pub use oauth_store::{InMemoryOAuthStore, OAuthStore, OAuthStoreKey};
pub use token_grant::{
    ACCESS_TOKEN_TYPE, GrantClient, GrantSubject, ID_JAG_TYPE, IssuedToken, TokenEndpoint,
    TokenGrant,
};
pub use token_requirements::TokenRequirements;

/// A boxed future.
pub type OAuthFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The authorization to use one server on behalf of one principal. A clone shares the same token.
#[derive(Clone)]
pub struct McpAuthorization {
    token_source: TokenSource,
}

/// Where the token comes from.
#[derive(Clone)]
enum TokenSource {
    Managed(Arc<AuthorizationState>),
    Provided(Arc<Mutex<Option<HeaderValue>>>),
}

impl McpAuthorization {
    /// Authorization for the MCP server at `url`. No request is sent before the server requires a token.
    pub fn new(client: HttpClient, url: Url, oauth: OAuthSettings) -> Self {
        Self {
            token_source: TokenSource::Managed(Arc::new(AuthorizationState::new(
                client, url, oauth,
            ))),
        }
    }

    /// Authorization with a token that the owner [provides](Self::provide_token). Rejections by the server are returned to the
    /// owner.
    pub fn with_provided_token() -> Self {
        Self { token_source: TokenSource::Provided(Arc::default()) }
    }

    /// Sets the token to send from now on. Returns false if it is not a valid header value.
    pub fn provide_token(&self, token: &str) -> bool {
        let (TokenSource::Provided(given), Some(mut value)) =
            (&self.token_source, HeaderValue::try_from(format!("Bearer {token}")).ok())
        else {
            return false;
        };
        value.set_sensitive(true);
        *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        true
    }

    /// Loads or renews the token, as far as that is possible without a user's consent. If that fails, the server's
    /// rejection states its requirements.
    pub async fn ensure_token(&self) {
        let TokenSource::Managed(shared) = &self.token_source else { return };
        if !shared.is_loaded() {
            token_flow::load_tokens(shared).await;
        }
        if shared.is_expiring() {
            // The old token is sent then, and the server's rejection tells more.
            drop(token_flow::renew_token(shared).await);
        }
    }

    /// The `Authorization` header, if there is a token, and the generation of the token.
    pub fn current_token(&self) -> (Option<HeaderValue>, u64) {
        match &self.token_source {
            TokenSource::Managed(shared) => shared.current_token(),
            TokenSource::Provided(given) => {
                (given.lock().unwrap_or_else(PoisonError::into_inner).clone(), 0)
            }
        }
    }

    /// Records that the server accepted the token of this generation.
    pub fn confirm_token(&self, generation: u64) {
        if let TokenSource::Managed(shared) = &self.token_source {
            shared.confirm_token(generation);
        }
    }

    /// Obtains the token that a rejection (status and `WWW-Authenticate` header) requires, so that the request can be
    /// repeated. `None` if no other token would help.
    pub async fn replace_rejected_token(
        &self,
        generation: u64,
        status: u16,
        challenge: &str,
    ) -> Option<Result<(), OAuthError>> {
        let TokenSource::Managed(shared) = &self.token_source else { return None };
        let need = bearer_challenge::token_need(status, challenge)?;
        Some(token_flow::obtain_token(shared, generation, need).await)
    }
}

impl fmt::Debug for McpAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpAuthorization").finish_non_exhaustive()
    }
}
