//! Connections to the MCP servers behind sources: opened on demand, kept while they are used, and never shared by two
//! agents if messages for one could reach the other.

pub mod mcp_bridge;
mod mcp_target;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::Snapshot;
use catalog::source::Source;
use execution::CredentialMask;
use limits::LruCache;
use mcp_client::{
    McpConnection, McpError, McpTarget, ServerChanges, ServerEra, SupervisedConnection,
    SupervisionPolicy,
};
use model::{
    Agent, CommandProblem, Isolation, Lifecycle, SourceId, SourceProfile, SourceSettings,
    StdioCommand,
};
use oauth::McpAuthorization;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use upstream::egress::InvalidDestination;
use upstream::http::{HttpClient, InvalidClientCertificate};
use upstream::stdio::ProgramSpec;

use self::mcp_bridge::ParkedRequests;
use self::mcp_target::TargetCredentials;
use crate::principal::principal_key;
use crate::secrets::{SecretError, SecretStore};
use crate::upstream_credentials::{CachedToken, RequestAuth};

/// The most connections to keep, and how long to keep an unused one.
const KEPT: u64 = 2_000;
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// The most kept connections to one source, and the most concurrent ones that are not kept.
const KEPT_OF_ONE: usize = 64;
const TRANSIENT: usize = 16;
/// How long a call waits for another one to end.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a program may take until its era is known. It first has to start, perhaps together with others. A program
/// that sees the question of the modern era and then a timeout may reject the older era permanently. Few programs never
/// answer.
const PROGRAM_PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// How and whether this host starts programs that speak MCP.
#[derive(Clone, Debug, Default)]
pub struct ProgramHost {
    /// Whether any program may be started. If so, anyone who may register a source can run any program here.
    pub allows_any: bool,
    /// Commands that are always allowed: the operator has named them at start.
    pub allowed_commands: Vec<StdioCommand>,
    /// `PATH` used to resolve bare program names; also the child's `PATH` unless the source sets one.
    pub search_path: Option<OsString>,
    /// A program that begins with [`upstream::stdio::run_as_bound_child`], usually this one: with it, child programs end
    /// together with us even if we are killed.
    pub bound_by: Option<PathBuf>,
    /// Paths that programs cannot access, as in [`upstream::stdio::ProgramSpec`].
    pub hidden: Vec<PathBuf>,
}

impl ProgramHost {
    /// Whether a command may be started.
    fn allows_command(&self, command: &StdioCommand) -> bool {
        self.allows_any
            || self.allowed_commands.iter().any(|named| named.has_same_invocation(command))
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
    Command(#[from] CommandProblem),
    /// The client certificate is invalid.
    #[error("the client certificate of the source cannot be used")]
    Certificate(#[from] InvalidClientCertificate),
    /// The egress allowlist of the source cannot be parsed.
    #[error(transparent)]
    Allow(#[from] InvalidDestination),
}

/// The connections of one `Toolcrib`.
pub struct UpstreamConnections {
    client: HttpClient,
    host: ProgramHost,
    connections: LruCache<ConnectionKey, Arc<PooledConnection>>,
    /// Serialises decisions about opening another connection.
    open_lock: Mutex<()>,
    pub parked: ParkedRequests,
    changed_sources: Arc<ChangedSources>,
}

/// Sources whose servers reported a changed list.
#[derive(Default)]
struct ChangedSources {
    sources: Mutex<HashSet<SourceId>>,
    changed: Notify,
}

/// The source, and the agent if the connection is not shared.
pub type ConnectionKey = (SourceId, Option<Box<str>>);

/// The watched channel, and the task that watches it.
type ChangeListener = (watch::Receiver<ServerChanges>, AbortHandle);

/// A supervised connection with everything it was made from.
struct PooledConnection {
    profile: SourceProfile,
    credentials: TargetCredentials,
    supervised: SupervisedConnection,
    /// The last used token, where tokens are requested: for connecting, and for messages outside of calls.
    authorization: Option<McpAuthorization>,
    /// Permits for connections that are not kept.
    permits: Arc<Semaphore>,
    /// Watches for messages that the server sends outside of calls, while it is connected.
    listener: Mutex<Option<ChangeListener>>,
}

/// A connection for one use.
pub struct UpstreamConnection {
    pub connection: McpConnection,
    /// The pool key of the connection.
    pub key: ConnectionKey,
    /// The connection closes when its last holder drops it.
    pooled: Arc<PooledConnection>,
    /// Headers and token for each request of this use.
    pub request_auth: RequestAuth,
    _permit: Option<OwnedSemaphorePermit>,
}

impl UpstreamConnection {
    /// Whether the connection stays open for the next use.
    pub fn is_persistent(&self) -> bool {
        is_persistent(&self.pooled.profile)
    }

    /// The time limit of a call, if the source sets one.
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.pooled.profile.limits.timeout()
    }

    /// Masks the credentials that the server is shown, because it must not repeat them.
    pub fn credential_mask(&self) -> CredentialMask {
        let token = self.request_auth.token.iter().flat_map(CachedToken::secrets);
        CredentialMask::from_secrets(self.pooled.credentials.masked().iter().chain(token))
    }

    /// Whether the server may ask for the roots of a caller.
    pub(crate) fn may_see_roots(&self) -> bool {
        may_see_roots(&self.pooled.profile)
    }
}

impl UpstreamConnections {
    pub fn new(client: HttpClient, host: ProgramHost) -> Self {
        // Weighted only by their number: the memory of one connection is bounded in itself.
        let (keeping, parked) = (Mutex::default(), ParkedRequests::new());
        Self {
            client,
            host,
            connections: LruCache::new(KEPT).with_idle_timeout(KEPT_FOR),
            open_lock: keeping,
            parked,
            changed_sources: Arc::default(),
        }
    }

    /// Prepares a program that runs for one call; also returns the secrets in its environment.
    pub async fn prepare_program(
        &self,
        command: &StdioCommand,
        secrets: Option<&SecretStore>,
    ) -> Result<(ProgramSpec, Vec<SecretString>), UpstreamError> {
        mcp_target::check_command(command)?;
        let environment = mcp_target::read_environment(command, secrets).await?;
        let program = mcp_target::build_program(command, &environment, &self.host)?;
        Ok((program, environment.into_values().collect()))
    }

    /// A shared connection for discovery.
    pub async fn for_discovery(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        secrets: Option<&SecretStore>,
        carried: RequestAuth,
    ) -> Result<UpstreamConnection, UpstreamError> {
        self.open_connection((source.clone(), None), profile, secrets, carried).await
    }

    /// A connection for a call of this agent.
    pub async fn for_agent(
        &self,
        source: &Source,
        agent: &Agent,
        secrets: Option<&SecretStore>,
        carried: RequestAuth,
    ) -> Result<UpstreamConnection, UpstreamError> {
        let (id, profile) = (source.id.clone(), &source.profile);
        match effective_isolation(profile) {
            Isolation::Shared => self.open_connection((id, None), profile, secrets, carried).await,
            Isolation::PerAgent => {
                self.open_connection((id, Some(principal_key(agent))), profile, secrets, carried)
                    .await
            }
            Isolation::Auto if profile.url.is_none() => {
                self.open_connection((id, None), profile, secrets, carried).await
            }
            Isolation::Auto => {
                // A session may have state, and requests of the server within it name no caller.
                if self.known_era(&id, profile).is_none_or(|era| era == ServerEra::Modern) {
                    let shared = self
                        .open_connection((id.clone(), None), profile, secrets, carried.clone())
                        .await?;
                    if shared.connection.server_description().era == ServerEra::Modern {
                        return Ok(shared);
                    }
                }
                self.open_connection((id, Some(principal_key(agent))), profile, secrets, carried)
                    .await
            }
        }
    }

    /// The server's protocol era, if it is known.
    fn known_era(&self, source: &SourceId, profile: &SourceProfile) -> Option<ServerEra> {
        let shared = self.connections.get(&(source.clone(), None))?;
        if shared.profile == *profile { shared.supervised.era() } else { None }
    }

    /// Drops the connections of sources that were removed or changed. Running calls finish first.
    pub fn retain_current(&self, snapshot: &Snapshot) {
        for (key, kept) in self.connections.entries() {
            let source = snapshot.source(&key.0).map(|entry| &entry.source);
            if source.is_none_or(|source| !source.enabled || source.profile != kept.profile) {
                self.connections.remove(&key);
            }
        }
    }

    /// Waits until servers report changed lists, and returns their sources.
    pub async fn wait_for_changes(&self) -> HashSet<SourceId> {
        loop {
            let told = self.changed_sources.changed.notified();
            let news = std::mem::take(
                &mut *self.changed_sources.sources.lock().expect("no one panics while holding it"),
            );
            if !news.is_empty() {
                return news;
            }
            told.await;
        }
    }

    /// The last output on stderr of the program behind a source.
    pub fn program_stderr(&self, source: &SourceId) -> Option<String> {
        self.connections.get(&(source.clone(), None))?.supervised.stderr_text()
    }

    async fn open_connection(
        &self,
        key: ConnectionKey,
        profile: &SourceProfile,
        secrets: Option<&SecretStore>,
        carried: RequestAuth,
    ) -> Result<UpstreamConnection, UpstreamError> {
        let (whole, source) = (key.clone(), key.0.clone());
        let kept = self.pooled_connection(key, profile, secrets).await?;
        if let (Some(authorization), Some(held)) = (&kept.authorization, &carried.token) {
            authorization.provide_token(held.token().expose_secret());
        }
        if is_persistent(profile) {
            let connection = kept.supervised.get_connection().await?;
            kept.listen_for_changes(source, &connection, &self.changed_sources);
            return Ok(UpstreamConnection {
                connection,
                key: whole,
                pooled: kept,
                request_auth: carried,
                _permit: None,
            });
        }
        // Calls that hold the permits may wait for people, so a timeout is not the server's failure.
        let place = timeout(PERMIT_TIMEOUT, Arc::clone(&kept.permits).acquire_owned()).await;
        let place = Some(place.map_err(|_| UpstreamError::Busy)?.map_err(|_| McpError::Closed)?);
        let connection = kept.supervised.get_connection().await?;
        Ok(UpstreamConnection {
            connection,
            key: whole,
            pooled: kept,
            request_auth: carried,
            _permit: place,
        })
    }

    /// The pooled connection with the current secrets of the source: a replaced secret is used from then on.
    async fn pooled_connection(
        &self,
        key: ConnectionKey,
        profile: &SourceProfile,
        secrets: Option<&SecretStore>,
    ) -> Result<Arc<PooledConnection>, UpstreamError> {
        let known = self.connections.get(&key).filter(|kept| kept.profile == *profile);
        if let Some(kept) = known.as_ref().filter(|kept| kept.credentials.is_empty()) {
            return Ok(Arc::clone(kept));
        }
        mcp_target::check_profile(profile)?;
        let shown = TargetCredentials::read_for(profile, secrets).await?;
        match known.filter(|kept| kept.credentials == shown) {
            Some(kept) => Ok(kept),
            None => self.add_to_pool(key, profile, shown),
        }
    }

    /// Adds a connection to the pool; concurrent callers share one.
    fn add_to_pool(
        &self,
        key: ConnectionKey,
        profile: &SourceProfile,
        shown: TargetCredentials,
    ) -> Result<Arc<PooledConnection>, UpstreamError> {
        let _turn = self.open_lock.lock().expect("no one panics while holding it");
        let before = self
            .connections
            .get(&key)
            .filter(|it| it.profile == *profile && it.credentials == shown);
        if let Some(before) = before {
            return Ok(before);
        }
        self.evict_idle(&key)?;
        let kept = Arc::new(self.new_pooled_connection(profile, shown)?);
        self.connections.insert(key, Arc::clone(&kept));
        Ok(kept)
    }

    /// Limits the connections of one source: the longest idle one is closed for the next.
    fn evict_idle(&self, wanted: &ConnectionKey) -> Result<(), UpstreamError> {
        let of_source = self
            .connections
            .entries()
            .into_iter()
            .filter(|(key, _)| key.0 == wanted.0 && *key != *wanted);
        let of_source: Vec<_> = of_source.collect();
        if of_source.len() < KEPT_OF_ONE {
            return Ok(());
        }
        let idle =
            of_source.iter().filter_map(|(key, kept)| Some((kept.supervised.idle_time()?, key)));
        let (_, key) = idle.max_by_key(|(idle, _)| *idle).ok_or(UpstreamError::Full)?;
        self.connections.remove(key);
        Ok(())
    }

    fn new_pooled_connection(
        &self,
        profile: &SourceProfile,
        shown: TargetCredentials,
    ) -> Result<PooledConnection, UpstreamError> {
        let target = mcp_target::resolve_target(profile, &shown, &self.client, &self.host)?;
        let capabilities = possible_capabilities(may_see_roots(profile));
        let authorization =
            profile.auth.uses_fetched_token().then(McpAuthorization::with_provided_token);
        let mut settings = mcp_client::ConnectionSettings {
            capabilities,
            authorization: authorization.clone(),
            ..mcp_client::ConnectionSettings::default()
        };
        if let McpTarget::Program(_) = target {
            settings.limits.probe_deadline = PROGRAM_PROBE_TIMEOUT;
        }
        let keeping = SupervisionPolicy {
            is_persistent: is_persistent(profile),
            ..SupervisionPolicy::default()
        };
        let supervised = SupervisedConnection::new(target, settings, keeping);
        let (places, hearing) = (Arc::new(Semaphore::new(TRANSIENT)), Mutex::default());
        let profile = profile.clone();
        Ok(PooledConnection {
            profile,
            credentials: shown,
            supervised,
            authorization,
            permits: places,
            listener: hearing,
        })
    }
}

impl PooledConnection {
    /// Watches for reports that a list of the server has changed. The task ends with the connection.
    fn listen_for_changes(
        &self,
        source: SourceId,
        connection: &McpConnection,
        news: &Arc<ChangedSources>,
    ) {
        let mut hearing = self.listener.lock().expect("no one panics while holding it");
        let (mut changes, news) = (connection.subscribe_changes(), Arc::clone(news));
        match &*hearing {
            Some((heard, _)) if heard.same_channel(&changes) => return,
            // Calls that are about to fail may still hold the old connection.
            Some((_, before)) => before.abort(),
            None => {}
        }
        let heard = changes.clone();
        let lists = |changes: &ServerChanges| (changes.tools, changes.prompts, changes.resources);
        let mut before = lists(&changes.borrow_and_update());
        let task = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let now = lists(&changes.borrow_and_update());
                if std::mem::replace(&mut before, now) != now {
                    news.add_source(&source);
                }
            }
        });
        *hearing = Some((heard, task.abort_handle()));
    }
}

impl ChangedSources {
    fn add_source(&self, source: &SourceId) {
        self.sources.lock().expect("no one panics while holding it").insert(source.clone());
        self.changed.notify_one();
    }
}

fn is_persistent(profile: &SourceProfile) -> bool {
    matches!(&profile.settings, SourceSettings::Mcp { lifecycle: Lifecycle::Persistent, .. })
}

/// A credential of each agent's own requires a connection of its own, whatever the settings say.
fn effective_isolation(profile: &SourceProfile) -> Isolation {
    match &profile.settings {
        _ if profile.auth.is_per_agent() => Isolation::PerAgent,
        SourceSettings::Mcp { isolation, .. } => *isolation,
        _ => Isolation::Shared,
    }
}

/// Roots are folders on the caller's machine. A program runs on this machine and would take them for local folders:
/// some programs let them replace, for all callers, the folders that their arguments name.
fn may_see_roots(profile: &SourceProfile) -> bool {
    !matches!(&profile.settings, SourceSettings::Mcp { command: Some(_), .. })
}

/// The capabilities that any caller might have. Whether this caller has them is checked when it is asked.
fn possible_capabilities(roots: bool) -> serde_json::Map<String, Value> {
    let mut all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}});
    if roots {
        all["roots"] = json!({});
    }
    all.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::{principal_hash, subject_hash};

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
            assert_eq!(possible_capabilities(may).contains_key("roots"), sees);
            assert!(possible_capabilities(may).contains_key("elicitation"));
        }
    }
    #[test]
    fn users_of_one_credential_are_different_principals() {
        let anyone = crate::identity::CallerIdentity::anonymous();
        let [ada, eve] = ["ada", "eve"].map(|user| anyone.clone().with_user(user.into()).agent);
        let all = [&anyone.agent, &ada, &eve];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(principal_key(one) == principal_key(other), at == other_at);
                assert_eq!(principal_hash(one) == principal_hash(other), at == other_at);
            }
        }
        assert_eq!(&*principal_key(&anyone.agent), r#"[null,"anonymous",null]"#);
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
            assert_ne!(principal_hash(one), principal_hash(two));
            assert_ne!(principal_key(one), principal_key(two));
            assert_eq!(subject_hash(one), subject_hash(two));
        }
        assert_ne!(subject_hash(&one), subject_hash(&other));
        let user = Agent { user: Some("eve".into()), ..one.clone() };
        assert_ne!(subject_hash(&one), subject_hash(&user));
    }
}
