//! View subscriptions: a stream waits until its agent's view changes.
//!
//! Nothing is queued per stream. On a change signal, a stream compares its agent's previous view with the current one,
//! so a slow stream compares over a longer time. Each comparison, and every minute at least, checks the credential
//! again.

use std::sync::Arc;
use std::time::Duration;

use api_types::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures_util::future::select_all;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib::{
    AgentView, AuthMethod, AuthenticationError, CallerIdentity, Position, ProviderChanges,
    TokenError, ToolProvider as _,
};

use crate::app_state::AppState;
use crate::caller;
use crate::caller::Caller;
use crate::stream_limit::StreamPermit;
use crate::tool_listing::ListOptions;

/// Delay before a comparison, because changes come in bursts.
const BURST_DELAY: Duration = Duration::from_millis(50);
/// Maximum interval between two checks of a credential.
const REVALIDATION_INTERVAL: Duration = Duration::from_secs(60);

/// A unique key for the principal of an identity. It includes the client as well as the user that it acts for.
pub fn principal_key(identity: &CallerIdentity) -> String {
    let CallerIdentity { agent, auth_method: means, request_credentials: _, providers: _ } =
        identity;
    let shown = match means {
        AuthMethod::Token => agent.identity(),
        AuthMethod::Key { .. } | AuthMethod::Anonymous => agent.subject.to_string(),
    };
    match &agent.user {
        Some(user) => json!([shown, user]).to_string(),
        None => shown,
    }
}

/// A caller with its identity, and the credential for later checks.
#[derive(Clone)]
pub struct AuthenticatedCaller {
    pub identity: CallerIdentity,
    credential: CallerCredential,
}

/// The credential of a caller, for later checks.
#[derive(Clone)]
enum CallerCredential {
    /// A bearer credential; `None` where anonymous access is allowed.
    Bearer(Option<SecretString>),
    /// No credential: the user who started the process set the identity.
    SetAtStartup,
}

impl AuthenticatedCaller {
    /// A caller whose identity was set at startup; it stays valid for the life of the process.
    pub fn set_at_startup(identity: CallerIdentity) -> Self {
        Self { identity, credential: CallerCredential::SetAtStartup }
    }

    /// Authenticates a bearer credential.
    pub async fn authenticate_bearer(
        app: &AppState,
        bearer: SecretString,
    ) -> Result<Self, AuthenticationError> {
        let identity = app.crib.identify(Some(bearer.expose_secret())).await?;
        Ok(Self { identity, credential: CallerCredential::Bearer(Some(bearer)) })
    }

    /// Authenticates a request; its headers are not attached.
    pub async fn authenticate_request(parts: &Parts, app: &AppState) -> Result<Self, Problem> {
        let bearer = caller::bearer_token(&parts.headers)?;
        let Caller(identity) = Caller::from_credential(bearer, parts, app).await?;
        Ok(Self { identity, credential: CallerCredential::Bearer(bearer.map(SecretString::from)) })
    }

    /// Attaches the request's headers, for upstreams.
    pub fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { identity: self.identity.with_headers(headers), ..self }
    }

    pub fn principal(&self) -> String {
        principal_key(&self.identity)
    }

    /// Checks the credential again and returns the current identity.
    pub async fn reauthenticate(&self, app: &AppState) -> Result<CallerIdentity, StreamEnd> {
        let bearer = match &self.credential {
            CallerCredential::Bearer(bearer) => bearer.as_ref(),
            CallerCredential::SetAtStartup => return Ok(self.identity.clone()),
        };
        let identified = app.crib.identify(bearer.map(|bearer| bearer.expose_secret())).await;
        // Keep the data of the original request, which applies to everything that the request started.
        let identified = identified.map(|identity| identity.continue_request(&self.identity));
        identified.map_err(|error| match error {
            AuthenticationError::Token(TokenError::KeysUnavailable) => StreamEnd::KeysUnavailable,
            AuthenticationError::NoCredential
            | AuthenticationError::NoIssuer
            | AuthenticationError::Token(_)
            | AuthenticationError::Key => StreamEnd::Credential,
        })
    }
}

impl FromRequestParts<AppState> for AuthenticatedCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let standing = Self::authenticate_request(parts, app).await?;
        Ok(standing.with_headers(Arc::new(parts.headers.clone())))
    }
}

/// The changes of a view since the last comparison.
pub struct ViewChange {
    /// The previous view, if the list of tools may have changed.
    pub tools_before: Option<AgentView>,
    pub prompts: bool,
    /// Whether the list of resources or of resource templates changed.
    pub resources: bool,
    /// The previous view, if the catalog's prompts or resources changed.
    pub offers_before: Option<AgentView>,
    /// URIs of provider resources whose content changed.
    pub updated: Vec<Arc<str>>,
    /// URIs of upstream resources with a subscription whose content changed.
    pub followed: Vec<Arc<str>>,
    /// Whether more resources changed than are listed: any resource may have changed.
    pub has_missed: bool,
}

/// The reason why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The credential is expired, revoked or no longer accepted.
    Credential,
    /// The issuer's keys are unavailable, so the credential cannot be checked.
    KeysUnavailable,
    /// The agent lost the group.
    Group,
    /// The server is shutting down.
    Server,
}

/// A subscription to changes of one agent's view.
pub struct ViewSubscription {
    app: AppState,
    who: AuthenticatedCaller,
    sight: ListOptions,
    view: AgentView,
    catalog: watch::Receiver<Position>,
    providers: Vec<WatchedProvider>,
    following: Option<WatchedProvider>,
    /// A change signal arrived that is not compared yet. A field, so that `next_change` can be dropped at any time.
    is_due: bool,
    look_again: Instant,
    /// Permit for one stream.
    _seat: StreamPermit,
}

/// The last seen state of a provider.
struct WatchedProvider {
    changes: watch::Receiver<ProviderChanges>,
    seen: ProviderChanges,
}

impl ViewSubscription {
    /// Subscribes from now on; `None` if the agent does not have the group.
    pub fn new(
        app: &AppState,
        who: AuthenticatedCaller,
        sight: ListOptions,
        seat: StreamPermit,
    ) -> Option<Self> {
        // Subscribe before the view is taken, so that no change in between is missed.
        let catalog = app.crib.catalog().subscribe();
        let providers = watched_providers(app, &who.identity, &sight);
        let view = sight.current_view(app, &who.identity)?;
        app.crib.retain_snapshot(&view);
        let (app, look_again) = (app.clone(), Instant::now() + REVALIDATION_INTERVAL);
        Some(Self {
            app,
            who,
            sight,
            view,
            catalog,
            providers,
            following: None,
            is_due: false,
            look_again,
            _seat: seat,
        })
    }

    /// Also waits for changes of upstream resources.
    pub fn with_followed_resources(mut self, changes: watch::Receiver<ProviderChanges>) -> Self {
        self.following = Some(WatchedProvider::new(changes));
        self
    }

    pub fn app(&self) -> &AppState {
        &self.app
    }

    /// The agent's view as of the last change.
    pub fn view(&self) -> &AgentView {
        &self.view
    }

    pub fn list_options(&self) -> &ListOptions {
        &self.sight
    }

    /// Waits for the next change. Cancel-safe: a dropped call loses nothing.
    pub async fn next_change(&mut self) -> Result<ViewChange, StreamEnd> {
        loop {
            if !self.is_due {
                self.wait_for_signal().await?;
                self.is_due = true;
            }
            tokio::time::sleep(BURST_DELAY).await;
            // Boxed, because most streams are idle most of the time and should not reserve memory for it.
            let identity = Box::pin(self.who.reauthenticate(&self.app)).await?;
            if let Some(change) = self.compare_views(&identity)? {
                return Ok(change);
            }
        }
    }

    async fn wait_for_signal(&mut self) -> Result<(), StreamEnd> {
        tokio::select! {
            _ = self.catalog.changed() => Ok(()),
            () = any_provider_changed(&mut self.providers) => Ok(()),
            () = any_provider_changed(self.following.as_mut_slice()) => Ok(()),
            () = tokio::time::sleep_until(self.look_again) => Ok(()),
            () = self.app.wait_for_draining() => Err(StreamEnd::Server),
        }
    }

    /// Compares the views. It does not await, so it is atomic.
    fn compare_views(
        &mut self,
        identity: &CallerIdentity,
    ) -> Result<Option<ViewChange>, StreamEnd> {
        (self.is_due, self.look_again) = (false, Instant::now() + REVALIDATION_INTERVAL);
        self.catalog.borrow_and_update();
        let mut change = ViewChange {
            tools_before: None,
            prompts: false,
            resources: false,
            offers_before: None,
            updated: Vec::new(),
            followed: Vec::new(),
            has_missed: false,
        };
        // The set of providers may have changed. A change during the lookup is reported twice rather than missed.
        let others = watched_providers(&self.app, identity, &self.sight);
        let mut before = std::mem::replace(&mut self.providers, others);
        before.iter_mut().for_each(|provider| provider.add_changes(&mut change));
        if let Some(following) = &mut self.following {
            change.has_missed |= following.has_missed();
            change.followed.extend(following.take_updated());
        }
        let view = self
            .sight
            .current_view_like(&self.app, identity, &self.view)
            .ok_or(StreamEnd::Group)?;
        self.app.crib.retain_snapshot(&view);
        if !view.has_same_offers(&self.view) {
            let before = &self.view;
            change.prompts |= view.prompts() != before.prompts();
            change.resources |= view.resources() != before.resources()
                || view.resource_templates() != before.resource_templates();
            change.offers_before = Some(before.clone());
        }
        let is_as_before = view.has_same_list(&self.view);
        let before = std::mem::replace(&mut self.view, view);
        change.tools_before = (!is_as_before).then_some(before);
        let is_updated =
            change.has_missed || !change.updated.is_empty() || !change.followed.is_empty();
        let is_updated = is_updated || change.offers_before.is_some();
        let is_any = !is_as_before || change.prompts || change.resources || is_updated;
        Ok(is_any.then_some(change))
    }
}

/// The providers whose changes are visible in the view.
fn watched_providers(
    app: &AppState,
    identity: &CallerIdentity,
    sight: &ListOptions,
) -> Vec<WatchedProvider> {
    let all = app.crib.registry().changes().into_iter().filter(|_| sight.group.is_none());
    let own = identity.providers.iter().flat_map(|provider| provider.changes());
    all.chain(own).map(WatchedProvider::new).collect()
}

impl WatchedProvider {
    fn new(mut changes: watch::Receiver<ProviderChanges>) -> Self {
        let seen = changes.borrow_and_update().clone();
        Self { changes, seen }
    }

    fn add_changes(&mut self, change: &mut ViewChange) {
        let (prompts, resources) = (self.seen.prompts, self.seen.resources);
        change.has_missed |= self.has_missed();
        change.updated.extend(self.take_updated());
        change.prompts |= prompts != self.seen.prompts;
        change.resources |= resources != self.seen.resources;
    }

    fn last_update_number(&self) -> u64 {
        self.seen.updated_resources.last().map_or(0, |(number, _)| *number)
    }

    /// Whether more resources changed since the last look than the provider remembers by URI.
    fn has_missed(&self) -> bool {
        self.last_update_number() < self.changes.borrow().last_dropped
    }

    /// Takes the URIs of resources that changed since the last look.
    fn take_updated(&mut self) -> Vec<Arc<str>> {
        let now = self.changes.borrow_and_update().clone();
        let last = self.last_update_number();
        let newer = now.updated_resources.iter().filter(|(number, _)| last < *number);
        let newer = newer.map(|(_, uri)| Arc::clone(uri)).collect();
        self.seen = now;
        newer
    }
}

/// Resolves when one of the providers changes.
async fn any_provider_changed(providers: &mut [WatchedProvider]) {
    let waits = providers.iter_mut().map(|provider| {
        Box::pin(async {
            // A dropped provider changes no more.
            if provider.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    let waits: Vec<_> = waits.collect();
    match waits.is_empty() {
        true => std::future::pending().await,
        false => drop(select_all(waits).await),
    }
}

#[cfg(test)]
mod tests;
