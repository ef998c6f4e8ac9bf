//! Connections to the MCP servers behind sources: opened when they are needed, kept while they are used, and never shared
//! by two agents where what one says could reach the other.

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

/// How many connections are kept, and for how long without use.
const KEPT: u64 = 2_000;
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// How many of them to one source, and how many at once that are not kept.
const KEPT_OF_ONE: usize = 64;
const TRANSIENT: usize = 16;
/// How long a call waits until another has ended.
const PLACE_FOR: Duration = Duration::from_secs(10);
/// How long a program may take until it says which era it speaks. It has to start first, others beside it, and one that
/// finds the question of the modern era refuses the older one for good. Those that leave it unanswered are few.
const PROGRAM_STARTS: Duration = Duration::from_secs(20);

/// Where programs that speak MCP are started.
#[derive(Clone, Debug, Default)]
pub struct ProgramHost {
    /// Whether any are. Whoever may register a source could otherwise run whatever they like here.
    pub is_open: bool,
    /// Those that are started all the same: whoever started us has named them.
    pub named: Vec<StdioCommand>,
    /// Where the command of a source is looked up that is no path, and its `PATH`, unless its own environment says.
    pub search_path: Option<OsString>,
    /// A program that begins with [`upstream::stdio::run_if_asked`], most often this one: with it, programs die with us
    /// even if we are killed.
    pub bound_by: Option<PathBuf>,
    /// What programs are kept from, as in [`upstream::stdio::Program`].
    pub hidden: Vec<PathBuf>,
}

impl ProgramHost {
    /// Whether a command is carried out.
    fn starts(&self, command: &StdioCommand) -> bool {
        self.is_open || self.named.iter().any(|named| named.runs_the_same(command))
    }
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
    /// A connection is opened for each call, and there are as many as there may be.
    #[error("{TRANSIENT} calls to the source are under way at the same time: try again later")]
    Busy,
    /// Many agents have a connection of their own, and all of them are in use.
    #[error("{KEPT_OF_ONE} agents use the source at the same time: try again later")]
    Full,
    /// A command that is not carried out.
    #[error(transparent)]
    Command(#[from] InvalidCommand),
    /// What it is to be shown over TLS is no certificate.
    #[error("the client certificate of the source cannot be used")]
    Certificate(#[from] InvalidIdentity),
    /// What the source allows cannot be read.
    #[error(transparent)]
    Allow(#[from] InvalidAllowed),
}

/// The connections of one crib.
pub(crate) struct Upstreams {
    client: HttpClient,
    host: ProgramHost,
    kept: Cache<Key, Arc<Kept>>,
    /// Whoever holds it decides whether there is to be another one.
    keeping: Mutex<()>,
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

/// To what, and how to stop.
type Listening = (watch::Receiver<Changes>, AbortHandle);

/// A connection with what it was made for.
struct Kept {
    profile: SourceProfile,
    shown: Shown,
    supervised: Supervised,
    /// The token that was used last, where one is asked for: to connect, and to hear what the server says by itself.
    authorization: Option<Authorization>,
    /// For connections that are not kept.
    places: Arc<Semaphore>,
    /// Hears what the server says by itself, while it is connected.
    hearing: Mutex<Option<Listening>>,
}

/// A connection for one use.
pub(crate) struct Upstream {
    pub(crate) connection: Connection,
    /// Whose it is.
    key: Key,
    /// It ends with the last that keeps it.
    kept: Arc<Kept>,
    /// With each request of this use.
    pub(crate) carried: Carried,
    _place: Option<OwnedSemaphorePermit>,
}

impl Upstream {
    /// Whether it is there for the next use too.
    fn is_kept(&self) -> bool {
        is_kept(&self.kept.profile)
    }

    /// How long a call may take, if its source says so.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.kept.profile.limits.timeout()
    }

    /// What it must not repeat: the credentials that it is shown.
    pub(crate) fn mask(&self) -> Mask {
        let token = self.carried.token.iter().flat_map(Held::secrets);
        Mask::of(self.kept.shown.hidden().iter().chain(token))
    }

    /// Whether it may ask for the roots of a caller.
    pub(crate) fn may_see_roots(&self) -> bool {
        may_see_roots(&self.kept.profile)
    }
}

impl Upstreams {
    pub(crate) fn new(client: HttpClient, host: ProgramHost) -> Self {
        // Weighed by nothing but their number: what one takes is bounded in itself.
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

    /// A program that is run for one call, and the secrets in its environment.
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

    /// A connection for nobody in particular: to ask what there is.
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
                // A session may remember something, and what the server asks in it has no address.
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

    /// How the server is spoken to, if that was found out.
    fn era(&self, source: &SourceId, profile: &SourceProfile) -> Option<Era> {
        let shared = self.kept.get(&(source.clone(), None))?;
        if shared.profile == *profile { shared.supervised.era() } else { None }
    }

    /// Ends the connections to sources that are no longer there or are others by now. Calls under way come to their end.
    pub(crate) fn retain(&self, snapshot: &Snapshot) {
        for (key, kept) in self.kept.entries() {
            let source = snapshot.source(&key.0).map(|entry| &entry.source);
            if source.is_none_or(|source| !source.enabled || source.profile != kept.profile) {
                self.kept.remove(&key);
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
        // Those that have them may wait for people: that is not for the server to answer for.
        let place = timeout(PLACE_FOR, Arc::clone(&kept.places).acquire_owned()).await;
        let place = Some(place.map_err(|_| UpstreamError::Busy)?.map_err(|_| McpError::Closed)?);
        let connection = kept.supervised.connection().await?;
        Ok(Upstream { connection, key: whole, kept, carried, _place: place })
    }

    /// The one that shows the secrets of the source as they are now: one that was replaced is used from then on.
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

    /// One for all who come at the same time.
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

    /// One source does not take all there is: the connection that was not used for longest makes room for the next.
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
    /// Notes when the server says that one of its lists is another. It ends with the connection.
    fn hear(&self, source: SourceId, connection: &Connection, news: &Arc<News>) {
        let mut hearing = self.hearing.lock().expect("no one panics while holding it");
        let (mut changes, news) = (connection.changes(), Arc::clone(news));
        match &*hearing {
            Some((heard, _)) if heard.same_channel(&changes) => return,
            // It may be kept by calls that are about to fail.
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

/// A credential of each agent's own is for a connection of its own, whatever is said.
fn isolation(profile: &SourceProfile) -> Isolation {
    match &profile.settings {
        _ if profile.auth.is_per_agent() => Isolation::PerAgent,
        Settings::Mcp { isolation, .. } => *isolation,
        _ => Isolation::Shared,
    }
}

/// Who an agent is, in one word that nobody else has.
pub(crate) fn whose(agent: &Agent) -> Box<str> {
    let known = agent.identity();
    match &agent.user {
        Some(user) => json!((known, user)).to_string().into(),
        None => known.into(),
    }
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A number that stands for the same, as long as this process lives.
pub(crate) fn number(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.identity(), &agent.user))
}

/// The same for whoever an agent acts for: with two clients somebody is still one.
pub(crate) fn number_of_subject(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.issuer(), &agent.subject, &agent.user))
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
    #[test]
    fn users_of_one_credential_are_not_one() {
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
    fn clients_of_one_subject_are_two_callers_and_one_subject() {
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
