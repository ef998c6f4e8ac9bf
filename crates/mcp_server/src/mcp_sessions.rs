//! Sessions of the legacy versions. A session id is an encrypted text with the client's capabilities and version, bound
//! to its principal. Any node with the same sealing key can read it, and an abandoned session costs nothing. Mutable
//! state (a log level and subscriptions) is kept while the session is used.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use limits::LruCache;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use toolcrib::{CallerCapabilities, LogLevel, ResourceSubscriptions, StateCipher};

use super::protocol_era::LEGACY_VERSIONS;

const SESSION_PURPOSE: &str = "session";
/// How long unused session state is kept, and maximum number of states in all and per principal.
const STATE_RETENTION: Duration = Duration::from_secs(60 * 60);
const MAX_SESSION_STATES: u64 = 20_000;
const MAX_STATES_PER_PRINCIPAL: u64 = 2_000;
/// Maximum number of ended sessions that are remembered.
const MAX_ENDED_SESSIONS: u64 = 200_000;
const MAX_SUBSCRIPTIONS: usize = 100;

/// The content of a session id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct McpSession {
    /// Makes the id unique.
    nonce: String,
    pub(crate) version: String,
    elicitation: bool,
    elicitation_by_url: bool,
    sampling: bool,
    roots: bool,
}

/// The mutable state of a session.
#[derive(Default)]
pub(crate) struct McpSessionState {
    /// True once the session has ended.
    ended: watch::Sender<bool>,
    log_from: Mutex<Option<LogLevel>>,
    subscriptions: Mutex<BTreeSet<String>>,
    /// The subscriptions that exist at upstreams.
    following: ResourceSubscriptions,
}

/// The states of one principal's sessions, by session id.
type PrincipalSessions = LruCache<String, Arc<McpSessionState>>;

/// The session states of this node.
pub(crate) struct McpSessions {
    /// States by principal: a principal with too many sessions evicts only its own.
    states: LruCache<Box<str>, Arc<PrincipalSessions>>,
    /// States of sessions with an open stream, which idle eviction must not lose.
    streaming: Mutex<HashMap<String, Weak<McpSessionState>>>,
    ended: LruCache<String, ()>,
}

impl McpSession {
    pub(crate) fn new(version: &str, abilities: CallerCapabilities) -> Self {
        let CallerCapabilities { elicitation, elicitation_by_url, sampling, roots, tasks: _ } =
            abilities;
        let (nonce, version) = (toolcrib::random_id(), version.to_owned());
        Self { nonce, version, elicitation, elicitation_by_url, sampling, roots }
    }

    pub(crate) fn abilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            elicitation: self.elicitation,
            elicitation_by_url: self.elicitation_by_url,
            sampling: self.sampling,
            roots: self.roots,
            tasks: false,
        }
    }

    /// The session without the capabilities that need an event stream, for clients that accept none.
    pub(crate) fn without_client_requests(self) -> Self {
        let nothing = CallerCapabilities::default();
        let CallerCapabilities { elicitation, elicitation_by_url, sampling, roots, tasks: _ } =
            nothing;
        Self { elicitation, elicitation_by_url, sampling, roots, ..self }
    }

    pub(crate) fn to_session_id(&self, seal: &StateCipher, principal: &str) -> String {
        seal.encrypt(
            SESSION_PURPOSE,
            principal,
            &serde_json::to_vec(self).expect("a session is JSON"),
        )
    }

    /// Whether a stream may begin with an empty event, which makes it resumable from the start.
    pub(crate) fn supports_priming_event(&self) -> bool {
        LEGACY_VERSIONS.first().is_some_and(|newest| *newest == self.version)
    }
}

impl McpSessions {
    pub(crate) fn new() -> Self {
        let gathered: LruCache<_, Arc<PrincipalSessions>> =
            LruCache::with_weight(MAX_SESSION_STATES, |_, own| {
                u32::try_from(own.weight()).unwrap_or(u32::MAX)
            });
        Self {
            states: gathered.with_idle_timeout(STATE_RETENTION),
            streaming: Mutex::default(),
            ended: LruCache::new(MAX_ENDED_SESSIONS),
        }
    }

    /// The session with this id, if it belongs to this principal and has not ended.
    pub(crate) fn open_session(
        &self,
        seal: &StateCipher,
        principal: &str,
        id: &str,
    ) -> Option<McpSession> {
        if self.ended.get(id).is_some() {
            return None;
        }
        serde_json::from_slice(&seal.decrypt(SESSION_PURPOSE, principal, id)?).ok()
    }

    pub(crate) fn end_session(&self, principal: &str, id: &str) {
        self.ended.insert(id.to_owned(), ());
        if let Some(gathered) = self.find_state(principal, id) {
            gathered.ended.send_replace(true);
            gathered.following.unsubscribe_all();
        }
        if let Some(own) = self.states.get(principal) {
            own.remove(id);
        }
        self.lock_streaming().remove(id);
    }

    /// The state of a session, if it has any.
    pub(crate) fn find_state(&self, principal: &str, id: &str) -> Option<Arc<McpSessionState>> {
        if let Some(gathered) = self.states.get(principal).and_then(|own| own.get(id)) {
            return Some(gathered);
        }
        let held = self.lock_streaming().get(id)?.upgrade()?;
        Some(self.insert_state(principal, id, held))
    }

    pub(crate) fn get_or_create_state(&self, principal: &str, id: &str) -> Arc<McpSessionState> {
        let gathered = self.find_state(principal, id);
        gathered.unwrap_or_else(|| self.insert_state(principal, id, Arc::default()))
    }

    /// Inserts the state unless there is one already; returns the current state.
    fn insert_state(
        &self,
        principal: &str,
        id: &str,
        gathered: Arc<McpSessionState>,
    ) -> Arc<McpSessionState> {
        let none =
            || Arc::new(LruCache::new(MAX_STATES_PER_PRINCIPAL).with_idle_timeout(STATE_RETENTION));
        let own = self.states.get_with(principal.into(), none);
        let kept = own.get_with(id.to_owned(), || gathered);
        // Insert again: the weight of the entry has changed.
        self.states.insert(principal.into(), own);
        kept
    }

    /// The state of a session for a stream, which keeps the state alive.
    pub(crate) fn state_for_stream(&self, principal: &str, id: &str) -> Arc<McpSessionState> {
        let gathered = self.get_or_create_state(principal, id);
        let mut streaming = self.lock_streaming();
        if MAX_SESSION_STATES <= streaming.len() as u64 {
            streaming.retain(|_, held| 0 < held.strong_count());
        }
        streaming.insert(id.to_owned(), Arc::downgrade(&gathered));
        gathered
    }

    fn lock_streaming(&self) -> MutexGuard<'_, HashMap<String, Weak<McpSessionState>>> {
        self.streaming.lock().expect("no one panics while holding streams")
    }
}

impl McpSessionState {
    /// Waits until the session has ended.
    pub(crate) async fn wait_until_ended(&self) {
        let mut ended = self.ended.subscribe();
        ended.wait_for(|ended| *ended).await.expect("the sender is held here");
    }

    fn lock_level(&self) -> MutexGuard<'_, Option<LogLevel>> {
        self.log_from.lock().expect("no one panics while holding a level")
    }

    fn lock_subscriptions(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscriptions.lock().expect("no one panics while holding subscriptions")
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        *self.lock_level()
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        *self.lock_level() = Some(level);
    }

    /// Adds a subscription; false if there are too many.
    pub(crate) fn add_subscription(&self, uri: &str) -> bool {
        let mut all = self.lock_subscriptions();
        let has_room = all.len() < MAX_SUBSCRIPTIONS || all.contains(uri);
        if has_room {
            all.insert(uri.to_owned());
        }
        has_room
    }

    pub(crate) fn remove_subscription(&self, uri: &str) {
        self.lock_subscriptions().remove(uri);
        self.following.unsubscribe(uri);
    }

    pub(crate) fn upstream_subscriptions(&self) -> &ResourceSubscriptions {
        &self.following
    }

    /// The URIs of the subscribed resources.
    pub(crate) fn subscribed_uris(&self) -> Vec<String> {
        self.lock_subscriptions().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_session_state_alive() {
        let sessions = McpSessions::new();
        let held = sessions.state_for_stream("ada", "a");
        drop(sessions.get_or_create_state("ada", "b"));
        // As after an hour without requests.
        sessions.states.remove("ada");
        assert!(sessions.get_or_create_state("ada", "a").add_subscription("file:a"));
        assert!(
            held.subscribed_uris() == ["file:a"]
                && Arc::ptr_eq(&held, &sessions.find_state("ada", "a").unwrap())
        );
        assert!(sessions.find_state("ada", "b").is_none());
        sessions.states.remove("ada");
        sessions.end_session("ada", "a");
        assert!(*held.ended.borrow());
        assert!(sessions.find_state("ada", "a").is_none());
    }

    #[test]
    fn a_principal_with_many_sessions_evicts_only_its_own() {
        let sessions = McpSessions::new();
        sessions.get_or_create_state("ada", "a").add_subscription("file:a");
        for number in 0..MAX_SESSION_STATES + 1 {
            sessions.get_or_create_state("eve", &number.to_string());
        }
        assert_eq!(sessions.find_state("ada", "a").unwrap().subscribed_uris(), ["file:a"]);
        assert!(sessions.find_state("eve", "0").is_none());
        assert!(sessions.find_state("eve", &MAX_SESSION_STATES.to_string()).is_some());
        assert_eq!(sessions.states.weight(), MAX_STATES_PER_PRINCIPAL + 1);
    }

    #[test]
    fn the_number_of_session_states_is_limited() {
        let sessions = McpSessions::new();
        for principal in 0..12 {
            for number in 0..MAX_STATES_PER_PRINCIPAL {
                sessions
                    .get_or_create_state(&principal.to_string(), &format!("{principal}-{number}"));
            }
        }
        assert!(sessions.states.weight() <= MAX_SESSION_STATES);
        assert!(sessions.find_state("0", "0-0").is_none());
        assert!(sessions.find_state("11", "11-0").is_some());
    }

    #[test]
    fn a_session_belongs_to_its_principal_and_can_be_ended() {
        let (seal, sessions) = (StateCipher::with_random_key(), McpSessions::new());
        let abilities = CallerCapabilities { sampling: true, ..CallerCapabilities::default() };
        let id = McpSession::new("2025-06-18", abilities).to_session_id(&seal, "ada");
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        let opened = sessions.open_session(&seal, "ada", &id).unwrap();
        assert_eq!((opened.version.as_str(), opened.abilities()), ("2025-06-18", abilities));
        assert!(sessions.open_session(&seal, "eve", &id).is_none());
        assert!(sessions.open_session(&StateCipher::with_random_key(), "ada", &id).is_none());
        sessions.end_session("ada", &id);
        assert!(sessions.open_session(&seal, "ada", &id).is_none());
    }
}
