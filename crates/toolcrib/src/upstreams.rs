//! Connections to the MCP servers behind sources: opened when they are needed, kept while they are used, and never shared
//! by two agents where what one says could reach the other.

pub(crate) mod bridge;
pub(crate) mod followers;
mod target;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::source::Source;
use model::{Agent, Isolation, Lifecycle, Settings, SourceId, SourceProfile};
use moka::sync::Cache;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use upstream::egress::InvalidAllowed;
use upstream::http::HttpClient;
use upstream::mcp::{self, Changes, Connection, Era, Keeping, McpError, Supervised, Target};

use self::bridge::ParkedRequests;
use self::followers::Followers;
use self::target::Shown;
use crate::secrets::{SecretError, Secrets};

/// How many connections are kept, and for how long without use.
const KEPT: u64 = 2_000;
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// How long a program may take until it says which era it speaks. It has to start first, others beside it, and one that
/// finds the question of the modern era refuses the older one for good. Those that leave it unanswered are few.
const PROGRAM_STARTS: Duration = Duration::from_secs(20);
/// How soon a secret that was replaced is used.
const SECRETS_FOR: Duration = Duration::from_secs(1);

/// Where programs that speak MCP are started.
#[derive(Clone, Debug, Default)]
pub struct ProgramHost {
    /// Whether any are. Whoever may register a source could otherwise run whatever they like here.
    pub is_open: bool,
    /// Where the command of a source is looked up that is no path, and its `PATH`, unless its own environment says.
    pub search_path: Option<OsString>,
    /// A program that begins with [`upstream::stdio::run_if_asked`], most often this one: with it, programs die with us
    /// even if we are killed.
    pub bound_by: Option<PathBuf>,
}

/// Why there is no connection to the server behind a source. None of it holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The server does not let itself be spoken to.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// A secret of the source cannot be had.
    #[error("a secret of the source cannot be read")]
    Secret(#[from] SecretError),
    /// There is nothing to read secrets with.
    #[error("no secret can be read here")]
    NoSecrets,
    /// A secret that cannot stand in a header.
    #[error("the secret that is sent as `{name}` has characters that cannot stand in a header")]
    NotAHeader {
        /// The name of the header.
        name: Box<str>,
    },
    /// The source is a program, and none is started here.
    #[error("no program is started here: start toolcrib with --allow-stdio for that")]
    NoPrograms,
    /// Nowhere to connect to.
    #[error("the source has neither a `url` nor a `command`: give one of them")]
    Nowhere,
    /// A way to show a credential that this kind of source does not have.
    #[error("sources of kind `mcp` cannot be shown a credential of kind `{kind}`")]
    NotThisAuth {
        /// The kind.
        kind: &'static str,
    },
    /// What the source allows cannot be read.
    #[error(transparent)]
    Allow(#[from] InvalidAllowed),
}

/// The connections of one crib.
pub(crate) struct Upstreams {
    client: HttpClient,
    host: ProgramHost,
    kept: Cache<Key, Arc<Kept>>,
    pub(crate) parked: ParkedRequests,
    pub(crate) followers: Followers,
    news: Arc<News>,
}

/// Sources whose servers say that they offer something else by now.
#[derive(Default)]
struct News {
    sources: Mutex<HashSet<SourceId>>,
    told: Notify,
}

/// For all agents, or for one of them.
type Key = (SourceId, Option<Box<str>>);

/// A connection with what it was made for.
struct Kept {
    profile: SourceProfile,
    shown: Shown,
    shown_at: Instant,
    supervised: Supervised,
    /// Hears what the server says by itself, while it is connected.
    hearing: Arc<Mutex<Option<AbortHandle>>>,
}

/// A connection for one use.
pub(crate) struct Upstream {
    pub(crate) connection: Connection,
    /// Whose it is.
    key: Key,
    /// It ends with the last that keeps it.
    kept: Arc<Kept>,
}

impl Upstream {
    /// Whether it is there for the next use too.
    fn is_kept(&self) -> bool {
        is_kept(&self.kept.profile)
    }

    /// Whether it may ask for the roots of a caller.
    pub(crate) fn may_see_roots(&self) -> bool {
        may_see_roots(&self.kept.profile)
    }
}

impl Upstreams {
    pub(crate) fn new(client: HttpClient, host: ProgramHost) -> Self {
        // Weighed by nothing but their number: what one takes is bounded in itself.
        let kept = Cache::builder().max_capacity(KEPT).time_to_idle(KEPT_FOR).build();
        let (parked, followers) = (ParkedRequests::new(), Followers::default());
        Self { client, host, kept, parked, followers, news: Arc::default() }
    }

    /// A connection for nobody in particular: to ask what there is.
    pub(crate) async fn for_discovery(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        secrets: Option<&Secrets>,
    ) -> Result<Upstream, UpstreamError> {
        self.open((source.clone(), None), profile, secrets).await
    }

    /// A connection for a call of this agent.
    pub(crate) async fn for_agent(
        &self,
        source: &Source,
        agent: &Agent,
        secrets: Option<&Secrets>,
    ) -> Result<Upstream, UpstreamError> {
        let (id, profile) = (source.id.clone(), &source.profile);
        match isolation(profile) {
            Isolation::Shared => self.open((id, None), profile, secrets).await,
            Isolation::PerAgent => self.open((id, Some(whose(agent))), profile, secrets).await,
            Isolation::Auto => {
                let shared = self.open((id.clone(), None), profile, secrets).await?;
                // A session may remember something, and what the server asks in it has no address.
                match profile.url.is_some() && shared.connection.about().era != Era::Modern {
                    true => self.open((id, Some(whose(agent))), profile, secrets).await,
                    false => Ok(shared),
                }
            }
        }
    }

    /// Waits until servers say that they offer something else by now, and says whose they are.
    pub(crate) async fn news(&self) -> HashSet<SourceId> {
        loop {
            let told = self.news.told.notified();
            let news = std::mem::take(
                &mut *self.news.sources.lock().expect("no one panics while holding it"),
            );
            if !news.is_empty() {
                return news;
            }
            told.await;
        }
    }

    /// The last that the program of a source said on the side.
    pub(crate) fn stderr(&self, source: &SourceId) -> Option<String> {
        self.kept.get(&(source.clone(), None))?.supervised.stderr()
    }

    async fn open(
        &self,
        key: Key,
        profile: &SourceProfile,
        secrets: Option<&Secrets>,
    ) -> Result<Upstream, UpstreamError> {
        let (whole, source) = (key.clone(), key.0.clone());
        let hears = key.1.is_none() && is_kept(profile);
        let kept = match self.kept.get(&key).filter(|kept| kept.profile == *profile) {
            Some(kept) if kept.shown_at.elapsed() < SECRETS_FOR || kept.shown.is_nothing() => kept,
            before => {
                let shown = Shown::of(profile, secrets).await?;
                match before.filter(|before| before.shown == shown) {
                    Some(before) => self.keep(key, before.renewed()),
                    None => self.keep(key, self.supervised(profile, shown)?),
                }
            }
        };
        let connection = kept.supervised.connection().await?;
        if hears {
            kept.hear(source, &connection, &self.news);
        }
        Ok(Upstream { connection, key: whole, kept })
    }

    fn keep(&self, key: Key, kept: Kept) -> Arc<Kept> {
        let kept = Arc::new(kept);
        self.kept.insert(key, Arc::clone(&kept));
        kept
    }

    fn supervised(&self, profile: &SourceProfile, shown: Shown) -> Result<Kept, UpstreamError> {
        let target = target::target(profile, &shown, &self.client, &self.host)?;
        let capabilities = abilities(may_see_roots(profile));
        let mut settings = mcp::Settings { capabilities, ..mcp::Settings::default() };
        if let Target::Program(_) = target {
            settings.limits.probe = PROGRAM_STARTS;
        }
        let keeping = Keeping { is_kept: is_kept(profile), ..Keeping::default() };
        let supervised = Supervised::new(target, settings, keeping);
        let (shown_at, hearing) = (Instant::now(), Arc::default());
        Ok(Kept { profile: profile.clone(), shown, shown_at, supervised, hearing })
    }
}

impl Kept {
    /// The same, with secrets that were looked at just now.
    fn renewed(&self) -> Self {
        Self {
            profile: self.profile.clone(),
            shown: self.shown.clone(),
            shown_at: Instant::now(),
            supervised: self.supervised.clone(),
            hearing: Arc::clone(&self.hearing),
        }
    }

    /// Notes when the server says that one of its lists is another. It ends with the connection.
    fn hear(&self, source: SourceId, connection: &Connection, news: &Arc<News>) {
        let mut hearing = self.hearing.lock().expect("no one panics while holding it");
        if hearing.as_ref().is_some_and(|hearing| !hearing.is_finished()) {
            return;
        }
        let (mut changes, news) = (connection.changes(), Arc::clone(news));
        let lists = |changes: &Changes| (changes.tools, changes.prompts, changes.resources);
        let mut before = lists(&changes.borrow_and_update());
        let heard = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let now = lists(&changes.borrow_and_update());
                if std::mem::replace(&mut before, now) != now {
                    news.add(&source);
                }
            }
        });
        *hearing = Some(heard.abort_handle());
    }
}

impl News {
    fn add(&self, source: &SourceId) {
        self.sources.lock().expect("no one panics while holding it").insert(source.clone());
        self.told.notify_one();
    }
}

fn is_kept(profile: &SourceProfile) -> bool {
    matches!(&profile.settings, Settings::Mcp { lifecycle: Lifecycle::Persistent, .. })
}

fn isolation(profile: &SourceProfile) -> Isolation {
    match &profile.settings {
        Settings::Mcp { isolation, .. } => *isolation,
        _ => Isolation::Shared,
    }
}

/// Who an agent is, in one word that nobody else has.
fn whose(agent: &Agent) -> Box<str> {
    let client = ["client_id", "azp"].iter().find_map(|name| agent.claims.get(name));
    json!([agent.claims.get("iss"), agent.subject, client]).to_string().into()
}

/// Roots are folders where the caller is. A program runs where we are and would take them for folders of ours: some let
/// them take the place of those that their arguments name, for everybody.
fn may_see_roots(profile: &SourceProfile) -> bool {
    !matches!(&profile.settings, Settings::Mcp { command: Some(_), .. })
}

/// What whoever is behind us might be able to do. Whether this caller can is found out when it is asked.
fn abilities(roots: bool) -> serde_json::Map<String, Value> {
    let mut all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}});
    if roots {
        all["roots"] = json!({});
    }
    all.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_of_no_roots() {
        let profile = |more: Value| -> SourceProfile {
            let mut profile = json!({"name": "files", "settings": {"kind": "mcp"}});
            profile.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            serde_json::from_value(profile).unwrap()
        };
        let program = json!({"settings": {"kind": "mcp", "command": {"program": "files"}}});
        for (more, sees) in [(program, false), (json!({"url": "https://files.example"}), true)] {
            let may = may_see_roots(&profile(more));
            assert_eq!(may, sees);
            assert_eq!(abilities(may).contains_key("roots"), sees);
            assert!(abilities(may).contains_key("elicitation"));
        }
    }
}
