//! Connections to the MCP servers behind sources: opened on demand, kept while they are used, and never shared by two
//! agents if messages for one could reach the other.

pub(crate) mod bridge;
pub(crate) mod followers;
pub(crate) mod parking;
mod target;

use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use catalog::Snapshot;
use catalog::source::Source;
use execution::Mask;
use model::{
    Agent, Cache, InvalidCommand, Isolation, Lifecycle, Settings, SourceId, SourceProfile,
    StdioCommand,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use upstream::egress::InvalidAllowed;
use upstream::http::{HttpClient, InvalidIdentity};
use upstream::mcp::oauth::Authorization;
use upstream::mcp::{self, Changes, Connection, Era, Keeping, McpError, Supervised, Target};
use upstream::stdio::Program;

use self::bridge::ParkedRequests;
use self::followers::Followers;
use self::target::Shown;
use crate::credentials::{Carried, Held};
use crate::secrets::{SecretError, Secrets};

/// The most connections to keep, and how long to keep an unused one.
const KEPT: u64 = 2_000;
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// The most kept connections to one source, and the most concurrent ones that are not kept.
const KEPT_OF_ONE: usize = 64;
const TRANSIENT: usize = 16;
/// How long a call waits for another one to end.
const PLACE_FOR: Duration = Duration::from_secs(10);
/// How long a program may take until its era is known. It first has to start, perhaps together with others. A program
/// that sees the question of the modern era and then a timeout may reject the older era permanently. Few programs never
/// answer.
const PROGRAM_STARTS: Duration = Duration::from_secs(20);

/// How and whether this host starts programs that speak MCP.
#[derive(Clone, Debug, Default)]
pub struct ProgramHost {
    /// Whether any program may be started. If so, anyone who may register a source can run any program here.
    pub is_open: bool,
    /// Commands that are always allowed: the operator has named them at start.
    pub named: Vec<StdioCommand>,
    /// `PATH` used to resolve bare program names; also the child's `PATH` unless the source sets one.
    pub search_path: Option<OsString>,
    /// A program that begins with [`upstream::stdio::run_if_asked`], usually this one: with it, child programs end
    /// together with us even if we are killed.
    pub bound_by: Option<PathBuf>,
    /// Paths that programs cannot access, as in [`upstream::stdio::Program`].
    pub hidden: Vec<PathBuf>,
}

impl ProgramHost {
    /// Whether a command may be started.
    fn starts(&self, command: &StdioCommand) -> bool {
        self.is_open || self.named.iter().any(|named| named.runs_the_same(command))
    }
}

/// Why there is no connection to the server behind a source. No text contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The server rejects or breaks the connection.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// A secret of the source cannot be read.
    #[error("a secret of the source cannot be read")]
    Secret(#[from] SecretError),
    /// Secrets cannot be read here at all.
    #[error("no secret can be read here")]
    NoSecrets,
    /// A secret has characters that are not allowed in a header.
    #[error("the secret that is sent as `{name}` has characters that cannot stand in a header")]
    NotAHeader {
        /// The name of the header.
        name: Box<str>,
    },
    /// The source is a program, and programs are not started here.
    #[error("no program is started here: start toolcrib with --allow-stdio for that")]
    NoPrograms,
    /// The source has no address.
    #[error("the source has neither a `url` nor a `command`: give one of them")]
    Nowhere,
    /// The kind of credential does not work with MCP servers.
    #[error("sources of kind `mcp` cannot be shown a credential of kind `{kind}`")]
    NotThisAuth {
        /// The kind of credential.
        kind: &'static str,
    },
    /// Each call opens a connection, and the limit of those is reached.
    #[error("{TRANSIENT} calls to the source are under way at the same time: try again later")]
    Busy,
    /// Many agents have a connection of their own, and all of them are in use.
    #[error("{KEPT_OF_ONE} agents use the source at the same time: try again later")]
    Full,
    /// The command is not allowed.
    #[error(transparent)]
    Command(#[from] InvalidCommand),
    /// The client certificate is invalid.
    #[error("the client certificate of the source cannot be used")]
    Certificate(#[from] InvalidIdentity),
    /// The egress allowlist of the source cannot be parsed.
    #[error(transparent)]
    Allow(#[from] InvalidAllowed),
}

/// The connections of one [`Toolcrib`](crate::Toolcrib).
pub(crate) struct Upstreams {
    client: HttpClient,
    host: ProgramHost,
    kept: Cache<Key, Arc<Kept>>,
    /// Serialises decisions about opening another connection.
    keeping: Mutex<()>,
    pub(crate) parked: ParkedRequests,
    pub(crate) followers: Followers,
    news: Arc<News>,
}

/// Sources whose servers reported a changed list.
#[derive(Default)]
struct News {
    sources: Mutex<HashSet<SourceId>>,
    told: Notify,
}

/// The source, and the agent if the connection is not shared.
type Key = (SourceId, Option<Box<str>>);

/// The watched channel, and the task that watches it.
type Listening = (watch::Receiver<Changes>, AbortHandle);

/// A supervised connection with everything it was made from.
struct Kept {
    profile: SourceProfile,
    shown: Shown,
    supervised: Supervised,
    /// The last used token, where tokens are requested: for connecting, and for messages outside of calls.
    authorization: Option<Authorization>,
    /// Permits for connections that are not kept.
    places: Arc<Semaphore>,
    /// Watches for messages that the server sends outside of calls, while it is connected.
    hearing: Mutex<Option<Listening>>,
}

/// A connection for one use.
pub(crate) struct Upstream {
    pub(crate) connection: Connection,
    /// The pool key of the connection.
    key: Key,
    /// The connection closes when its last holder drops it.
    kept: Arc<Kept>,
    /// Headers and token for each request of this use.
    pub(crate) carried: Carried,
    _place: Option<OwnedSemaphorePermit>,
}

impl Upstream {
    /// Whether the connection stays open for the next use.
    fn is_kept(&self) -> bool {
        is_kept(&self.kept.profile)
    }

    /// The time limit of a call, if the source sets one.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.kept.profile.limits.timeout()
    }

    /// Masks the credentials that the server is shown, because it must not repeat them.
    pub(crate) fn mask(&self) -> Mask {
        let token = self.carried.token.iter().flat_map(Held::secrets);
        Mask::of(self.kept.shown.hidden().iter().chain(token))
    }

    /// Whether the server may ask for the roots of a caller.
    pub(crate) fn may_see_roots(&self) -> bool {
        may_see_roots(&self.kept.profile)
    }
}

impl Upstreams {
    pub(crate) fn new(client: HttpClient, host: ProgramHost) -> Self {
        // Weighted only by their number: the memory of one connection is bounded in itself.
        let (keeping, parked) = (Mutex::default(), ParkedRequests::new());
        let followers = Followers::default();
        Self {
            client,
            host,
            kept: Cache::new(KEPT).lasting_unused(KEPT_FOR),
            keeping,
            parked,
            followers,
            news: Arc::default(),
        }
    }

    /// Prepares a program that runs for one call; also returns the secrets in its environment.
    pub(crate) async fn program(
        &self,
        command: &StdioCommand,
        secrets: Option<&Secrets>,
    ) -> Result<(Program, Vec<SecretString>), UpstreamError> {
        target::check_command(command)?;
        let environment = target::environment(command, secrets).await?;
        let program = target::program(command, &environment, &self.host)?;
        Ok((program, environment.into_values().collect()))
    }

    /// A shared connection for discovery.
    pub(crate) async fn for_discovery(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        secrets: Option<&Secrets>,
        carried: Carried,
    ) -> Result<Upstream, UpstreamError> {
        self.open((source.clone(), None), profile, secrets, carried).await
    }

    /// A connection for a call of this agent.
    pub(crate) async fn for_agent(
        &self,
        source: &Source,
        agent: &Agent,
        secrets: Option<&Secrets>,
        carried: Carried,
    ) -> Result<Upstream, UpstreamError> {
        let (id, profile) = (source.id.clone(), &source.profile);
        match isolation(profile) {
            Isolation::Shared => self.open((id, None), profile, secrets, carried).await,
            Isolation::PerAgent => {
                self.open((id, Some(whose(agent))), profile, secrets, carried).await
            }
            Isolation::Auto if profile.url.is_none() => {
                self.open((id, None), profile, secrets, carried).await
            }
            Isolation::Auto => {
                // A session may have state, and requests of the server within it name no caller.
                if self.era(&id, profile).is_none_or(|era| era == Era::Modern) {
                    let shared =
                        self.open((id.clone(), None), profile, secrets, carried.clone()).await?;
                    if shared.connection.about().era == Era::Modern {
                        return Ok(shared);
                    }
                }
                self.open((id, Some(whose(agent))), profile, secrets, carried).await
            }
        }
    }

    /// The server's protocol era, if it is known.
    fn era(&self, source: &SourceId, profile: &SourceProfile) -> Option<Era> {
        let shared = self.kept.get(&(source.clone(), None))?;
        if shared.profile == *profile { shared.supervised.era() } else { None }
    }

    /// Drops the connections of sources that were removed or changed. Running calls finish first.
    pub(crate) fn retain(&self, snapshot: &Snapshot) {
        for (key, kept) in self.kept.entries() {
            let source = snapshot.source(&key.0).map(|entry| &entry.source);
            if source.is_none_or(|source| !source.enabled || source.profile != kept.profile) {
                self.kept.remove(&key);
            }
        }
    }

    /// Waits until servers report changed lists, and returns their sources.
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

    /// The last output on stderr of the program behind a source.
    pub(crate) fn stderr(&self, source: &SourceId) -> Option<String> {
        self.kept.get(&(source.clone(), None))?.supervised.stderr()
    }

    async fn open(
        &self,
        key: Key,
        profile: &SourceProfile,
        secrets: Option<&Secrets>,
        carried: Carried,
    ) -> Result<Upstream, UpstreamError> {
        let (whole, source) = (key.clone(), key.0.clone());
        let kept = self.kept(key, profile, secrets).await?;
        if let (Some(authorization), Some(held)) = (&kept.authorization, &carried.token) {
            authorization.give(held.token().expose_secret());
        }
        if is_kept(profile) {
            let connection = kept.supervised.connection().await?;
            kept.hear(source, &connection, &self.news);
            return Ok(Upstream { connection, key: whole, kept, carried, _place: None });
        }
        // Calls that hold the permits may wait for people, so a timeout is not the server's failure.
        let place = timeout(PLACE_FOR, Arc::clone(&kept.places).acquire_owned()).await;
        let place = Some(place.map_err(|_| UpstreamError::Busy)?.map_err(|_| McpError::Closed)?);
        let connection = kept.supervised.connection().await?;
        Ok(Upstream { connection, key: whole, kept, carried, _place: place })
    }

    /// The pooled connection with the current secrets of the source: a replaced secret is used from then on.
    async fn kept(
        &self,
        key: Key,
        profile: &SourceProfile,
        secrets: Option<&Secrets>,
    ) -> Result<Arc<Kept>, UpstreamError> {
        let known = self.kept.get(&key).filter(|kept| kept.profile == *profile);
        if let Some(kept) = known.as_ref().filter(|kept| kept.shown.is_nothing()) {
            return Ok(Arc::clone(kept));
        }
        target::check(profile)?;
        let shown = Shown::of(profile, secrets).await?;
        match known.filter(|kept| kept.shown == shown) {
            Some(kept) => Ok(kept),
            None => self.keep(key, profile, shown),
        }
    }

    /// Adds a connection to the pool; concurrent callers share one.
    fn keep(
        &self,
        key: Key,
        profile: &SourceProfile,
        shown: Shown,
    ) -> Result<Arc<Kept>, UpstreamError> {
        let _turn = self.keeping.lock().expect("no one panics while holding it");
        let before = self.kept.get(&key).filter(|it| it.profile == *profile && it.shown == shown);
        if let Some(before) = before {
            return Ok(before);
        }
        self.make_room(&key)?;
        let kept = Arc::new(self.supervised(profile, shown)?);
        self.kept.insert(key, Arc::clone(&kept));
        Ok(kept)
    }

    /// Limits the connections of one source: the longest idle one is closed for the next.
    fn make_room(&self, wanted: &Key) -> Result<(), UpstreamError> {
        let of_source =
            self.kept.entries().into_iter().filter(|(key, _)| key.0 == wanted.0 && *key != *wanted);
        let of_source: Vec<_> = of_source.collect();
        if of_source.len() < KEPT_OF_ONE {
            return Ok(());
        }
        let idle = of_source.iter().filter_map(|(key, kept)| Some((kept.supervised.idle()?, key)));
        let (_, key) = idle.max_by_key(|(idle, _)| *idle).ok_or(UpstreamError::Full)?;
        self.kept.remove(key);
        Ok(())
    }

    fn supervised(&self, profile: &SourceProfile, shown: Shown) -> Result<Kept, UpstreamError> {
        let target = target::target(profile, &shown, &self.client, &self.host)?;
        let capabilities = abilities(may_see_roots(profile));
        let authorization = profile.auth.is_a_token().then(Authorization::given);
        let mut settings = mcp::Settings {
            capabilities,
            authorization: authorization.clone(),
            ..mcp::Settings::default()
        };
        if let Target::Program(_) = target {
            settings.limits.probe = PROGRAM_STARTS;
        }
        let keeping = Keeping { is_kept: is_kept(profile), ..Keeping::default() };
        let supervised = Supervised::new(target, settings, keeping);
        let (places, hearing) = (Arc::new(Semaphore::new(TRANSIENT)), Mutex::default());
        let profile = profile.clone();
        Ok(Kept { profile, shown, supervised, authorization, places, hearing })
    }
}

impl Kept {
    /// Watches for reports that a list of the server has changed. The task ends with the connection.
    fn hear(&self, source: SourceId, connection: &Connection, news: &Arc<News>) {
        let mut hearing = self.hearing.lock().expect("no one panics while holding it");
        let (mut changes, news) = (connection.changes(), Arc::clone(news));
        match &*hearing {
            Some((heard, _)) if heard.same_channel(&changes) => return,
            // Calls that are about to fail may still hold the old connection.
            Some((_, before)) => before.abort(),
            None => {}
        }
        let heard = changes.clone();
        let lists = |changes: &Changes| (changes.tools, changes.prompts, changes.resources);
        let mut before = lists(&changes.borrow_and_update());
        let task = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let now = lists(&changes.borrow_and_update());
                if std::mem::replace(&mut before, now) != now {
                    news.add(&source);
                }
            }
        });
        *hearing = Some((heard, task.abort_handle()));
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

/// A credential of each agent's own requires a connection of its own, whatever the settings say.
fn isolation(profile: &SourceProfile) -> Isolation {
    match &profile.settings {
        _ if profile.auth.is_per_agent() => Isolation::PerAgent,
        Settings::Mcp { isolation, .. } => *isolation,
        _ => Isolation::Shared,
    }
}

/// A unique text key of the principal behind an agent.
pub(crate) fn whose(agent: &Agent) -> Box<str> {
    let known = agent.identity();
    match &agent.user {
        Some(user) => json!((known, user)).to_string().into(),
        None => known.into(),
    }
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A hash of the principal, stable while this process runs.
pub(crate) fn number(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.identity(), &agent.user))
}

/// A hash of the subject that an agent acts for, regardless of its client.
pub(crate) fn number_of_subject(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.issuer(), &agent.subject, &agent.user))
}

/// Roots are folders on the caller's machine. A program runs on this machine and would take them for local folders:
/// some programs let them replace, for all callers, the folders that their arguments name.
fn may_see_roots(profile: &SourceProfile) -> bool {
    !matches!(&profile.settings, Settings::Mcp { command: Some(_), .. })
}

/// The capabilities that any caller might have. Whether this caller has them is checked when it is asked.
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
    fn a_program_is_offered_no_roots() {
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
    #[test]
    fn users_of_one_credential_are_different_principals() {
        let anyone = crate::Identity::anonymous();
        let [ada, eve] = ["ada", "eve"].map(|user| anyone.clone().with_user(user.into()).agent);
        let all = [&anyone.agent, &ada, &eve];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(whose(one) == whose(other), at == other_at);
                assert_eq!(number(one) == number(other), at == other_at);
            }
        }
        assert_eq!(&*whose(&anyone.agent), r#"[null,"anonymous",null]"#);
    }

    #[test]
    fn clients_of_one_subject_are_two_principals_and_one_subject() {
        let agent = |claims: Value| {
            let claims = claims.as_object().cloned().unwrap();
            Agent::new("ada", Arc::new(claims.into()))
        };
        let one = agent(json!({"iss": "https://a.example", "client_id": "desk"}));
        let two = agent(json!({"iss": "https://a.example", "azp": "phone"}));
        let other = agent(json!({"iss": "https://b.example", "client_id": "desk"}));
        let acting =
            agent(json!({"iss": "https://a.example", "client_id": "desk", "act": {"sub": "a"}}));
        for (one, two) in [(&one, &two), (&one, &acting)] {
            assert_ne!(number(one), number(two));
            assert_ne!(whose(one), whose(two));
            assert_eq!(number_of_subject(one), number_of_subject(two));
        }
        assert_ne!(number_of_subject(&one), number_of_subject(&other));
        let user = Agent { user: Some("eve".into()), ..one.clone() };
        assert_ne!(number_of_subject(&one), number_of_subject(&user));
    }
}
