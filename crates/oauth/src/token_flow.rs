//! Obtains tokens, one flow at a time. Concurrent callers wait for the flow and share its result.
//!
//! A flow continues if its callers stop waiting, because the user's consent or the spent refresh token would be lost
//! otherwise.

use std::sync::Arc;

use tokio::time::timeout;
use upstream::http::origin_text;

use super::authorization_server::AuthorizationServer;
use super::authorization_state::{AuthorizationState, TokenOrigin};
use super::bearer_challenge::TokenNeed;
use super::client_registration::OAuthClient;
use super::oauth_requests::OAuthRequester;
use super::oauth_settings::OAuthFlow;
use super::requested_scopes::MAX_SCOPES;
use super::resource_metadata::ResourceMetadata;
use super::token_endpoint::{ExchangeInput, StoredTokens};
use super::user_consent::GrantParameters;
use super::{
    OAuthError, authorization_server, client_registration, requested_scopes, resource_metadata,
    token_endpoint, user_consent,
};

/// Loads the stored tokens.
pub(super) async fn load_tokens(shared: &AuthorizationState) {
    let tokens = stored_tokens(shared).await;
    shared.set_loaded(tokens);
}

async fn stored_tokens(shared: &AuthorizationState) -> Option<StoredTokens> {
    let text = shared.oauth.store.load(&shared.token_key()).await?;
    serde_json::from_str(&text).ok()
}

/// Renews a token that expires soon.
pub(super) async fn renew_token(shared: &Arc<AuthorizationState>) -> Result<(), OAuthError> {
    let (_, generation) = shared.current_token();
    obtain_token(shared, generation, TokenNeed::Renewal).await
}

/// Obtains a token to replace the one of this generation, unless it has already been replaced.
pub(super) async fn obtain_token(
    shared: &Arc<AuthorizationState>,
    generation: u64,
    need: TokenNeed,
) -> Result<(), OAuthError> {
    let shared = shared.clone();
    let patience = shared.oauth.limits.max_wait;
    let flight = tokio::spawn(async move {
        let _place = shared.waiting_permits.try_acquire().map_err(|_| OAuthError::Busy)?;
        let _turn = match (&need, shared.flow_lock.try_lock()) {
            (_, Ok(turn)) => turn,
            // The token is still valid for a while, and the running flow may be waiting for a user.
            (TokenNeed::Renewal, Err(_)) => return Ok(()),
            (TokenNeed::Token(_) | TokenNeed::Scopes(_), Err(_)) => shared.flow_lock.lock().await,
        };
        if shared.current_token().1 != generation {
            return Ok(());
        }
        if let Some(failed) = shared.recent_failure(&need) {
            return Err(failed);
        }
        // Another node may have renewed the token, and a refresh token may be usable only once.
        if let Some(newer) = stored_tokens(&shared).await.filter(|kept| !shared.has_tokens(kept)) {
            shared.replace_tokens(newer);
            return Ok(());
        }
        let done = run_flow(&shared, &need).await;
        done.inspect_err(|error| shared.record_failure(&need, error.clone()))
    });
    let landed = timeout(patience, flight).await.map_err(|_| OAuthError::Pending)?;
    landed.unwrap_or(Err(OAuthError::ShuttingDown))
}

async fn run_flow(shared: &AuthorizationState, need: &TokenNeed) -> Result<(), OAuthError> {
    let fetch = OAuthRequester { client: &shared.client, oauth: &shared.oauth };
    let before = shared.current_tokens();
    let metadata = match need {
        TokenNeed::Token(challenge) | TokenNeed::Scopes(challenge) => {
            challenge.metadata_url.clone()
        }
        TokenNeed::Renewal => before.as_ref().and_then(|tokens| tokens.metadata.clone()),
    };
    let (resource, server) =
        find_server(shared, fetch, need, metadata.as_deref(), before.as_ref()).await?;
    let bound = before.as_ref().map(|tokens| tokens.issuer.clone());
    // Tokens of one issuer are never sent to another.
    let before = before.filter(|tokens| tokens.issuer == server.issuer);
    let client = client_registration::find_client(fetch, &server, bound.as_deref()).await?;
    let renewable = before.as_ref().filter(|_| may_renew(shared, need));
    let renewed = match renewable {
        Some(tokens) => renew_tokens(fetch, &server, &client, &resource, tokens).await?,
        None => None,
    };
    let is_code = matches!(shared.oauth.flow, OAuthFlow::AuthorizationCode { .. });
    let (mut tokens, came) = match (renewed, need) {
        (Some(tokens), _) => (tokens, TokenOrigin::Renewed),
        // A user is not asked for consent before the server requires a token.
        (None, TokenNeed::Renewal) if is_code => {
            shared.postpone_renewal();
            return Ok(());
        }
        (None, need) => {
            let asked =
                request_tokens(shared, need, &server, &client, &resource, before.as_ref()).await?;
            let is_fresh = *need == TokenNeed::Renewal;
            (asked, if is_fresh { TokenOrigin::Renewed } else { TokenOrigin::Requested })
        }
    };
    tokens.metadata = metadata;
    shared.oauth.store.save(&shared.token_key(), serde_json::to_string(&tokens).ok()).await;
    shared.set_obtained(tokens, came, (resource, server));
    Ok(())
}

/// Finds the authorization server. After a rejection, the resource may name another one than before.
async fn find_server(
    shared: &AuthorizationState,
    fetch: OAuthRequester<'_>,
    need: &TokenNeed,
    metadata: Option<&str>,
    before: Option<&StoredTokens>,
) -> Result<(ResourceMetadata, AuthorizationServer), OAuthError> {
    if let (TokenNeed::Renewal, Some(found)) = (need, shared.known_server()) {
        return Ok(found);
    }
    let resource =
        resource_metadata::find_resource(fetch.transport(), &shared.url, metadata).await?;
    let registered = shared.oauth.registered_client.as_ref().and_then(|it| it.issuer.as_deref());
    let known = [registered, before.map(|tokens| tokens.issuer.as_str())];
    let known =
        known.into_iter().flatten().find(|issuer| resource.issuers.iter().any(|it| it == issuer));
    let issuer = known.or(resource.issuers.first().map(String::as_str)).unwrap_or_default();
    let server = authorization_server::find_authorization_server(fetch.transport(), issuer).await?;
    Ok((resource, server))
}

/// Renewal adds no scopes, and does not help if the rejected token was just renewed.
fn may_renew(shared: &AuthorizationState, need: &TokenNeed) -> bool {
    match need {
        TokenNeed::Token(_) => !shared.is_renewed_unaccepted(),
        TokenNeed::Scopes(_) => false,
        TokenNeed::Renewal => true,
    }
}

/// Renews the tokens; `None` if they cannot be renewed.
async fn renew_tokens(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    client: &OAuthClient,
    resource: &ResourceMetadata,
    tokens: &StoredTokens,
) -> Result<Option<StoredTokens>, OAuthError> {
    let Some(token) = &tokens.refresh else { return Ok(None) };
    let wish = GrantParameters { client, resource: &resource.id, scopes: &tokens.scopes };
    match token_endpoint::exchange_token(fetch, server, wish, ExchangeInput::Refresh(token)).await {
        Ok(tokens) => Ok(Some(tokens)),
        Err(error) if error.is_refusal(&["invalid_grant", "invalid_scope", "invalid_target"]) => {
            Ok(None)
        }
        Err(error) => Err(forget_rejected_client(fetch, server, error).await),
    }
}

async fn request_tokens(
    shared: &AuthorizationState,
    need: &TokenNeed,
    server: &AuthorizationServer,
    client: &OAuthClient,
    resource: &ResourceMetadata,
    before: Option<&StoredTokens>,
) -> Result<StoredTokens, OAuthError> {
    let fetch = OAuthRequester { client: &shared.client, oauth: &shared.oauth };
    let is_code = matches!(shared.oauth.flow, OAuthFlow::AuthorizationCode { .. });
    let challenged = match need {
        TokenNeed::Token(challenge) | TokenNeed::Scopes(challenge) => challenge.scopes.as_slice(),
        TokenNeed::Renewal => &[],
    };
    let scopes = requested_scopes::select_scopes(requested_scopes::KnownScopes {
        before: before.map(|tokens| tokens.scopes.as_slice()).unwrap_or_default(),
        challenged,
        of_resource: &resource.scopes,
        of_server: &server.metadata.scopes_supported,
        renews: is_code,
    });
    if MAX_SCOPES < scopes.len() {
        return Err(OAuthError::TooManyScopes {
            origin: origin_text(&shared.url),
            limit: MAX_SCOPES,
        });
    }
    if is_repeated_request(shared, need, before, &scopes) || shared.has_too_many_rejections() {
        return Err(OAuthError::RejectedAgain { origin: origin_text(&shared.url) });
    }
    let wish = GrantParameters { client, resource: &resource.id, scopes: &scopes };
    let given = match &shared.oauth.flow {
        OAuthFlow::AuthorizationCode { redirect, consent } => {
            let code =
                user_consent::request_consent(fetch, server, wish, redirect, consent).await?;
            ExchangeInput::Code { code, redirect: redirect.as_str() }
        }
        OAuthFlow::ClientCredentials => ExchangeInput::ClientItself,
    };
    match token_endpoint::exchange_token(fetch, server, wish, given).await {
        Ok(tokens) => Ok(tokens),
        Err(error) => Err(forget_rejected_client(fetch, server, error).await),
    }
}

/// Whether the same request was made recently: it would have the same result, and would ask a user repeatedly.
fn is_repeated_request(
    shared: &AuthorizationState,
    need: &TokenNeed,
    before: Option<&StoredTokens>,
    scopes: &[String],
) -> bool {
    let (Some(before), Some(was_taken)) = (before, shared.recent_request_accepted()) else {
        return false;
    };
    match need {
        TokenNeed::Token(_) => !was_taken,
        TokenNeed::Scopes(_) => before.scopes == scopes,
        TokenNeed::Renewal => false,
    }
}

/// Deletes a registration that the authorization server no longer knows, so that the next attempt registers again.
async fn forget_rejected_client(
    fetch: OAuthRequester<'_>,
    server: &AuthorizationServer,
    error: OAuthError,
) -> OAuthError {
    if error.is_refusal(&["invalid_client", "unauthorized_client"]) {
        client_registration::forget_client(fetch.oauth, server).await;
    }
    error
}
