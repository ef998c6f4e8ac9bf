//! View subscriptions: a stream waits until its agent's view changes.
//!
//! Nothing is queued per stream. On a change signal, a stream compares its agent's previous view with the current one,
//! so a slow stream compares over a longer time. Each comparison, and every minute at least, checks the credential
//! again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use futures_util::future::select_all;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib::{
    AgentView, Changes, Identity, Means, NotIdentified, Position, TokenError, ToolProvider as _,
};

use crate::app::App;
use crate::caller::{self, Caller};
use crate::problem::Problem;
use crate::seats::Seat;
use crate::sight::Sight;

/// Delay before a comparison, because changes come in bursts.
const BURST: Duration = Duration::from_millis(50);
/// Maximum interval between two checks of a credential.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A unique key for the principal of an identity. It includes the client as well as the user that it acts for.
pub(crate) fn principal(identity: &Identity) -> String {
    let Identity { agent, means, came_with: _, providers: _ } = identity;
    let shown = match means {
        Means::Token => agent.identity(),
        Means::Key { .. } | Means::Nothing => agent.subject.to_string(),
    };
    match &agent.user {
        Some(user) => json!([shown, user]).to_string(),
        None => shown,
    }
}

/// A caller with its identity, and the credential for later checks.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) identity: Identity,
    shown: Shown,
}

/// The credential of a caller, for later checks.
#[derive(Clone)]
enum Shown {
    /// A bearer credential; `None` where anonymous access is allowed.
    Bearer(Option<SecretString>),
    /// No credential: the user who started the process set the identity.
    ByStart,
}

impl Standing {
    /// A caller whose identity was set at startup; it stays valid for the life of the process.
    pub(crate) fn here(identity: Identity) -> Self {
        Self { identity, shown: Shown::ByStart }
    }

    /// Authenticates a bearer credential.
    pub(crate) async fn shown(app: &App, bearer: SecretString) -> Result<Self, NotIdentified> {
        let identity = app.crib.identify(Some(bearer.expose_secret())).await?;
        Ok(Self { identity, shown: Shown::Bearer(Some(bearer)) })
    }

    /// Authenticates a request; its headers are not attached.
    pub(crate) async fn of(parts: &Parts, app: &App) -> Result<Self, Problem> {
        let bearer = caller::bearer(&parts.headers)?;
        let Caller(identity) = Caller::showing(bearer, parts, app).await?;
        Ok(Self { identity, shown: Shown::Bearer(bearer.map(SecretString::from)) })
    }

    /// Attaches the request's headers, for upstreams.
    pub(crate) fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { identity: self.identity.with_headers(headers), ..self }
    }

    pub(crate) fn principal(&self) -> String {
        principal(&self.identity)
    }

    /// Checks the credential again and returns the current identity.
    pub(crate) async fn again(&self, app: &App) -> Result<Identity, Gone> {
        let bearer = match &self.shown {
            Shown::Bearer(bearer) => bearer.as_ref(),
            Shown::ByStart => return Ok(self.identity.clone()),
        };
        let identified = app.crib.identify(bearer.map(|bearer| bearer.expose_secret())).await;
        // Keep the data of the original request, which applies to everything that the request started.
        let identified = identified.map(|identity| identity.going_on_from(&self.identity));
        identified.map_err(|error| match error {
            NotIdentified::Token(TokenError::KeysUnavailable) => Gone::KeysUnavailable,
            NotIdentified::NoCredential
            | NotIdentified::NoIssuer
            | NotIdentified::Token(_)
            | NotIdentified::Key => Gone::Credential,
        })
    }
}

impl FromRequestParts<App> for Standing {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let standing = Self::of(parts, app).await?;
        Ok(standing.with_headers(Arc::new(parts.headers.clone())))
    }
}

/// The changes of a view since the last comparison.
pub(crate) struct Change {
    /// The previous view, if the list of tools may have changed.
    pub(crate) tools_before: Option<AgentView>,
    pub(crate) prompts: bool,
    /// Whether the list of resources or of resource templates changed.
    pub(crate) resources: bool,
    /// The previous view, if the catalog's prompts or resources changed.
    pub(crate) offers_before: Option<AgentView>,
    /// URIs of provider resources whose content changed.
    pub(crate) updated: Vec<Arc<str>>,
    /// URIs of upstream resources with a subscription whose content changed.
    pub(crate) followed: Vec<Arc<str>>,
    /// Whether more resources changed than are listed: any resource may have changed.
    pub(crate) has_missed: bool,
}

/// The reason why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
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
pub(crate) struct Watching {
    app: App,
    who: Standing,
    sight: Sight,
    view: AgentView,
    catalog: watch::Receiver<Position>,
    providers: Vec<Provider>,
    following: Option<Provider>,
    /// A change signal arrived that is not compared yet. A field, so that `next_change` can be dropped at any time.
    is_due: bool,
    look_again: Instant,
    /// Permit for one stream.
    _seat: Seat,
}

/// The last seen state of a provider.
struct Provider {
    changes: watch::Receiver<Changes>,
    seen: Changes,
}

impl Watching {
    /// Subscribes from now on; `None` if the agent does not have the group.
    pub(crate) fn new(app: &App, who: Standing, sight: Sight, seat: Seat) -> Option<Self> {
        // Subscribe before the view is taken, so that no change in between is missed.
        let catalog = app.crib.catalog().changes();
        let providers = providers(app, &who.identity, &sight);
        let view = sight.of(app, &who.identity)?;
        app.crib.keep(&view);
        let (app, look_again) = (app.clone(), Instant::now() + LOOK_AGAIN);
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
    pub(crate) fn following(mut self, changes: watch::Receiver<Changes>) -> Self {
        self.following = Some(Provider::new(changes));
        self
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// The agent's view as of the last change.
    pub(crate) fn view(&self) -> &AgentView {
        &self.view
    }

    pub(crate) fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Waits for the next change. Cancel-safe: a dropped call loses nothing.
    pub(crate) async fn changed(&mut self) -> Result<Change, Gone> {
        loop {
            if !self.is_due {
                self.wait().await?;
                self.is_due = true;
            }
            tokio::time::sleep(BURST).await;
            // Boxed, because most streams are idle most of the time and should not reserve memory for it.
            let identity = Box::pin(self.who.again(&self.app)).await?;
            if let Some(change) = self.compare(&identity)? {
                return Ok(change);
            }
        }
    }

    async fn wait(&mut self) -> Result<(), Gone> {
        tokio::select! {
            _ = self.catalog.changed() => Ok(()),
            () = any(&mut self.providers) => Ok(()),
            () = any(self.following.as_mut_slice()) => Ok(()),
            () = tokio::time::sleep_until(self.look_again) => Ok(()),
            () = self.app.draining() => Err(Gone::Server),
        }
    }

    /// Compares the views. It does not await, so it is atomic.
    fn compare(&mut self, identity: &Identity) -> Result<Option<Change>, Gone> {
        (self.is_due, self.look_again) = (false, Instant::now() + LOOK_AGAIN);
        self.catalog.borrow_and_update();
        let mut change = Change {
            tools_before: None,
            prompts: false,
            resources: false,
            offers_before: None,
            updated: Vec::new(),
            followed: Vec::new(),
            has_missed: false,
        };
        // The set of providers may have changed. A change during the lookup is reported twice rather than missed.
        let others = providers(&self.app, identity, &self.sight);
        let mut before = std::mem::replace(&mut self.providers, others);
        before.iter_mut().for_each(|provider| provider.compare(&mut change));
        if let Some(following) = &mut self.following {
            change.has_missed |= following.has_missed();
            change.followed.extend(following.updated());
        }
        let view = self.sight.like(&self.app, identity, &self.view).ok_or(Gone::Group)?;
        self.app.crib.keep(&view);
        if !view.has_the_offers_of(&self.view) {
            let before = &self.view;
            change.prompts |= view.prompts() != before.prompts();
            change.resources |= view.resources() != before.resources()
                || view.resource_templates() != before.resource_templates();
            change.offers_before = Some(before.clone());
        }
        let is_as_before = view.is_as(&self.view);
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
fn providers(app: &App, identity: &Identity, sight: &Sight) -> Vec<Provider> {
    let all = app.crib.registry().changes().into_iter().filter(|_| sight.group.is_none());
    let own = identity.providers.iter().flat_map(|provider| provider.changes());
    all.chain(own).map(Provider::new).collect()
}

impl Provider {
    fn new(mut changes: watch::Receiver<Changes>) -> Self {
        let seen = changes.borrow_and_update().clone();
        Self { changes, seen }
    }

    fn compare(&mut self, change: &mut Change) {
        let (prompts, resources) = (self.seen.prompts, self.seen.resources);
        change.has_missed |= self.has_missed();
        change.updated.extend(self.updated());
        change.prompts |= prompts != self.seen.prompts;
        change.resources |= resources != self.seen.resources;
    }

    fn last(&self) -> u64 {
        self.seen.updated.last().map_or(0, |(number, _)| *number)
    }

    /// Whether more resources changed since the last look than the provider remembers by URI.
    fn has_missed(&self) -> bool {
        self.last() < self.changes.borrow().forgotten
    }

    /// Takes the URIs of resources that changed since the last look.
    fn updated(&mut self) -> Vec<Arc<str>> {
        let now = self.changes.borrow_and_update().clone();
        let last = self.last();
        let newer = now.updated.iter().filter(|(number, _)| last < *number);
        let newer = newer.map(|(_, uri)| Arc::clone(uri)).collect();
        self.seen = now;
        newer
    }
}

/// Resolves when one of the providers changes.
async fn any(providers: &mut [Provider]) {
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
