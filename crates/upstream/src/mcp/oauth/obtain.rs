//! Obtains tokens, one flow at a time. Concurrent callers wait for the flow and share its result.
//!
//! A flow continues if its callers stop waiting, because the user's consent or the spent refresh token would be lost
//! otherwise.

use std::sync::Arc;

use tokio::time::timeout;

use super::OAuthError;
use super::challenge::Need;
use super::client::{self, Client};
use super::consent::{self, Wish};
use super::fetch::Fetch;
use super::resource::{self, Resource};
use super::scope::{self, MAX_SCOPES};
use super::server::{self, Server};
use super::settings::Flow;
use super::state::{Origin, Shared};
use super::token::{self, Given, Tokens};
use crate::http::origin;

/// Loads the stored tokens.
pub(super) async fn load(shared: &Shared) {
    let tokens = kept(shared).await;
    shared.loaded(tokens);
}

async fn kept(shared: &Shared) -> Option<Tokens> {
    let text = shared.oauth.store.load(&shared.key()).await?;
    serde_json::from_str(&text).ok()
}

/// Renews a token that expires soon.
pub(super) async fn refresh(shared: &Arc<Shared>) -> Result<(), OAuthError> {
    let (_, generation) = shared.shown();
    obtain(shared, generation, Need::Fresh).await
}

/// Obtains a token to replace the one of this generation, unless it has already been replaced.
pub(super) async fn obtain(
    shared: &Arc<Shared>,
    generation: u64,
    need: Need,
) -> Result<(), OAuthError> {
    let shared = shared.clone();
    let patience = shared.oauth.limits.patience;
    let flight = tokio::spawn(async move {
        let _place = shared.places.try_acquire().map_err(|_| OAuthError::Busy)?;
        let _turn = match (&need, shared.turn.try_lock()) {
            (_, Ok(turn)) => turn,
            // The token is still valid for a while, and the running flow may be waiting for a user.
            (Need::Fresh, Err(_)) => return Ok(()),
            (Need::Token(_) | Need::Scopes(_), Err(_)) => shared.turn.lock().await,
        };
        if shared.shown().1 != generation {
            return Ok(());
        }
        if let Some(failed) = shared.rests(&need) {
            return Err(failed);
        }
        // Another node may have renewed the token, and a refresh token may be usable only once.
        if let Some(newer) = kept(&shared).await.filter(|kept| !shared.has(kept)) {
            shared.replaced(newer);
            return Ok(());
        }
        let done = fly(&shared, &need).await;
        done.inspect_err(|error| shared.failed(&need, error.clone()))
    });
    let landed = timeout(patience, flight).await.map_err(|_| OAuthError::Pending)?;
    landed.unwrap_or(Err(OAuthError::Ending))
}

async fn fly(shared: &Shared, need: &Need) -> Result<(), OAuthError> {
    let fetch = Fetch { client: &shared.client, oauth: &shared.oauth };
    let before = shared.tokens();
    let metadata = match need {
        Need::Token(challenge) | Need::Scopes(challenge) => challenge.metadata.clone(),
        Need::Fresh => before.as_ref().and_then(|tokens| tokens.metadata.clone()),
    };
    let (resource, server) =
        find(shared, fetch, need, metadata.as_deref(), before.as_ref()).await?;
    let bound = before.as_ref().map(|tokens| tokens.issuer.clone());
    // Tokens of one issuer are never sent to another.
    let before = before.filter(|tokens| tokens.issuer == server.issuer);
    let client = client::find(fetch, &server, bound.as_deref()).await?;
    let renewable = before.as_ref().filter(|_| may_renew(shared, need));
    let renewed = match renewable {
        Some(tokens) => renew(fetch, &server, &client, &resource, tokens).await?,
        None => None,
    };
    let is_code = matches!(shared.oauth.flow, Flow::Code { .. });
    let (mut tokens, came) = match (renewed, need) {
        (Some(tokens), _) => (tokens, Origin::Refreshed),
        // A user is not asked for consent before the server requires a token.
        (None, Need::Fresh) if is_code => {
            shared.cannot_be_renewed_yet();
            return Ok(());
        }
        (None, need) => {
            let asked = ask(shared, need, &server, &client, &resource, before.as_ref()).await?;
            let is_fresh = *need == Need::Fresh;
            (asked, if is_fresh { Origin::Refreshed } else { Origin::Asked })
        }
    };
    tokens.metadata = metadata;
    shared.oauth.store.save(&shared.key(), serde_json::to_string(&tokens).ok()).await;
    shared.obtained(tokens, came, (resource, server));
    Ok(())
}

/// Finds the authorization server. After a rejection, the resource may name another one than before.
async fn find(
    shared: &Shared,
    fetch: Fetch<'_>,
    need: &Need,
    metadata: Option<&str>,
    before: Option<&Tokens>,
) -> Result<(Resource, Server), OAuthError> {
    if let (Need::Fresh, Some(found)) = (need, shared.found()) {
        return Ok(found);
    }
    let resource = resource::find(fetch.way(), &shared.url, metadata).await?;
    let registered = shared.oauth.registered.as_ref().and_then(|it| it.issuer.as_deref());
    let known = [registered, before.map(|tokens| tokens.issuer.as_str())];
    let known =
        known.into_iter().flatten().find(|issuer| resource.issuers.iter().any(|it| it == issuer));
    let issuer = known.or(resource.issuers.first().map(String::as_str)).unwrap_or_default();
    let server = server::find(fetch.way(), issuer).await?;
    Ok((resource, server))
}

/// Renewal adds no scopes, and does not help if the rejected token was just renewed.
fn may_renew(shared: &Shared, need: &Need) -> bool {
    match need {
        Need::Token(_) => !shared.was_renewed_in_vain(),
        Need::Scopes(_) => false,
        Need::Fresh => true,
    }
}

/// Renews the tokens; `None` if they cannot be renewed.
async fn renew(
    fetch: Fetch<'_>,
    server: &Server,
    client: &Client,
    resource: &Resource,
    tokens: &Tokens,
) -> Result<Option<Tokens>, OAuthError> {
    let Some(token) = &tokens.refresh else { return Ok(None) };
    let wish = Wish { client, resource: &resource.id, scopes: &tokens.scopes };
    match token::exchange(fetch, server, wish, Given::Refresh(token)).await {
        Ok(tokens) => Ok(Some(tokens)),
        Err(error) if error.is_refusal(&["invalid_grant", "invalid_scope", "invalid_target"]) => {
            Ok(None)
        }
        Err(error) => Err(forgotten(fetch, server, error).await),
    }
}

async fn ask(
    shared: &Shared,
    need: &Need,
    server: &Server,
    client: &Client,
    resource: &Resource,
    before: Option<&Tokens>,
) -> Result<Tokens, OAuthError> {
    let fetch = Fetch { client: &shared.client, oauth: &shared.oauth };
    let is_code = matches!(shared.oauth.flow, Flow::Code { .. });
    let challenged = match need {
        Need::Token(challenge) | Need::Scopes(challenge) => challenge.scopes.as_slice(),
        Need::Fresh => &[],
    };
    let scopes = scope::select(scope::Known {
        before: before.map(|tokens| tokens.scopes.as_slice()).unwrap_or_default(),
        challenged,
        of_resource: &resource.scopes,
        of_server: &server.metadata.scopes_supported,
        renews: is_code,
    });
    if MAX_SCOPES < scopes.len() {
        return Err(OAuthError::TooManyScopes { origin: origin(&shared.url), limit: MAX_SCOPES });
    }
    if is_asked_already(shared, need, before, &scopes) || shared.is_in_vain() {
        return Err(OAuthError::Again { origin: origin(&shared.url) });
    }
    let wish = Wish { client, resource: &resource.id, scopes: &scopes };
    let given = match &shared.oauth.flow {
        Flow::Code { redirect, consent } => {
            let code = consent::ask(fetch, server, wish, redirect, consent).await?;
            Given::Code { code, redirect: redirect.as_str() }
        }
        Flow::ClientCredentials => Given::Nothing,
    };
    match token::exchange(fetch, server, wish, given).await {
        Ok(tokens) => Ok(tokens),
        Err(error) => Err(forgotten(fetch, server, error).await),
    }
}

/// Whether the same request was made recently: it would have the same result, and would ask a user repeatedly.
fn is_asked_already(
    shared: &Shared,
    need: &Need,
    before: Option<&Tokens>,
    scopes: &[String],
) -> bool {
    let (Some(before), Some(was_taken)) = (before, shared.asked_lately()) else { return false };
    match need {
        Need::Token(_) => !was_taken,
        Need::Scopes(_) => before.scopes == scopes,
        Need::Fresh => false,
    }
}

/// Deletes a registration that the authorization server no longer knows, so that the next attempt registers again.
async fn forgotten(fetch: Fetch<'_>, server: &Server, error: OAuthError) -> OAuthError {
    if error.is_refusal(&["invalid_client", "unauthorized_client"]) {
        client::forget(fetch.oauth, server).await;
    }
    error
}
