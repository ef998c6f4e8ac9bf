//! Waits until what an agent sees is another: for streams that tell it so.
//!
//! Nothing is queued for a stream. It compares what its agent had with what it has now, when something changed, and a
//! stream that was slow compares over a longer time. Its credential is looked at again each time, and every minute.

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

/// Changes come in bursts: they are waited for before anything is compared.
const BURST: Duration = Duration::from_millis(50);
/// How often a credential is looked at, if nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Whoever it is, in one word that nobody else has. The client counts as well as the user it acts for.
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

/// Somebody who may use tools, with the credential to look at again.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) identity: Identity,
    shown: Shown,
}

/// What somebody showed, to look at again.
#[derive(Clone)]
enum Shown {
    /// A credential, or nothing where that is enough.
    Bearer(Option<SecretString>),
    /// Whoever started us said who it is.
    ByStart,
}

impl Standing {
    /// Whoever started us says who it is, for as long as we run.
    pub(crate) fn here(identity: Identity) -> Self {
        Self { identity, shown: Shown::ByStart }
    }

    /// Whoever shows this credential.
    pub(crate) async fn shown(app: &App, bearer: SecretString) -> Result<Self, NotIdentified> {
        let identity = app.crib.identify(Some(bearer.expose_secret())).await?;
        Ok(Self { identity, shown: Shown::Bearer(Some(bearer)) })
    }

    /// Whoever sends this request, whose headers do not come with it.
    pub(crate) async fn of(parts: &Parts, app: &App) -> Result<Self, Problem> {
        let bearer = caller::bearer(&parts.headers)?;
        let Caller(identity) = Caller::showing(bearer, parts, app).await?;
        Ok(Self { identity, shown: Shown::Bearer(bearer.map(SecretString::from)) })
    }

    /// With headers for upstreams.
    pub(crate) fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { identity: self.identity.with_headers(headers), ..self }
    }

    pub(crate) fn principal(&self) -> String {
        principal(&self.identity)
    }

    /// Who it is now, by what was shown.
    pub(crate) async fn again(&self, app: &App) -> Result<Identity, Gone> {
        let bearer = match &self.shown {
            Shown::Bearer(bearer) => bearer.as_ref(),
            Shown::ByStart => return Ok(self.identity.clone()),
        };
        let identified = app.crib.identify(bearer.map(|bearer| bearer.expose_secret())).await;
        // What came with the request stays with what was begun by it.
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

/// What is another than before.
pub(crate) struct Change {
    /// What the agent saw before, if its list of tools may be another now.
    pub(crate) tools_before: Option<AgentView>,
    pub(crate) prompts: bool,
    /// The list of resources or of templates.
    pub(crate) resources: bool,
    /// What the agent saw before, if what the catalog has of prompts and resources is another now.
    pub(crate) offers_before: Option<AgentView>,
    /// The resources whose content is another, by `uri`.
    pub(crate) updated: Vec<Arc<str>>,
    /// The same of those at servers, which were followed when it changed.
    pub(crate) followed: Vec<Arc<str>>,
    /// Whether there are more than are named: any may be among them.
    pub(crate) has_missed: bool,
}

/// Why there is nothing more to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The credential is expired, revoked or no longer taken.
    Credential,
    /// Nobody can say now whether the credential is good.
    KeysUnavailable,
    /// The agent no longer has the group.
    Group,
    /// The server stops.
    Server,
}

/// Waits for changes of what one agent sees.
pub(crate) struct Watching {
    app: App,
    who: Standing,
    sight: Sight,
    view: AgentView,
    catalog: watch::Receiver<Position>,
    providers: Vec<Provider>,
    following: Option<Provider>,
    /// Something happened that was not compared yet. Kept here, so that whoever waits may stop waiting at any time.
    is_due: bool,
    look_again: Instant,
    /// One of those for streams.
    _seat: Seat,
}

/// What was seen of a provider.
struct Provider {
    changes: watch::Receiver<Changes>,
    seen: Changes,
}

impl Watching {
    /// From now on; none if the agent does not have the group.
    pub(crate) fn new(app: &App, who: Standing, sight: Sight, seat: Seat) -> Option<Self> {
        // Before the view: what happens meanwhile is a change.
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

    /// Also for changes of what is followed at servers.
    pub(crate) fn following(mut self, changes: watch::Receiver<Changes>) -> Self {
        self.following = Some(Provider::new(changes));
        self
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// What the agent sees, as of the last change.
    pub(crate) fn view(&self) -> &AgentView {
        &self.view
    }

    pub(crate) fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Waits until something is another. May be dropped and called again; nothing is lost.
    pub(crate) async fn changed(&mut self) -> Result<Change, Gone> {
        loop {
            if !self.is_due {
                self.wait().await?;
                self.is_due = true;
            }
            tokio::time::sleep(BURST).await;
            // On the heap, and only while it runs: most streams wait most of the time.
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

    /// From here on nothing waits: either all of it happens or nothing.
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
        // There may be others now. What happens while they are looked up is seen twice rather than never.
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

/// Those whose changes matter, as they are now.
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

    /// Whether more resources changed since it was last seen than are known by their addresses.
    fn has_missed(&self) -> bool {
        self.last() < self.changes.borrow().forgotten
    }

    /// The resources that changed since it was last seen.
    fn updated(&mut self) -> Vec<Arc<str>> {
        let now = self.changes.borrow_and_update().clone();
        let last = self.last();
        let newer = now.updated.iter().filter(|(number, _)| last < *number);
        let newer = newer.map(|(_, uri)| Arc::clone(uri)).collect();
        self.seen = now;
        newer
    }
}

/// Ends when one of the providers offers something else.
async fn any(providers: &mut [Provider]) {
    let waits = providers.iter_mut().map(|provider| {
        Box::pin(async {
            // Whoever is gone changes no more.
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
