//! Sessions of the legacy versions. A session id is an encrypted text with the client's capabilities and version, bound
//! to its principal. Any node with the same sealing key can read it, and an abandoned session costs nothing. Mutable
//! state (a log level and subscriptions) is kept while the session is used.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use model::Cache;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use toolcrib::{Abilities, Following, Level, Seal};

use super::era::LEGACY;

const PURPOSE: &str = "session";
/// How long unused session state is kept, and maximum number of states in all and per principal.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
const KEPT: u64 = 20_000;
const KEPT_OF_ONE: u64 = 2_000;
/// Maximum number of ended sessions that are remembered.
const ENDED: u64 = 200_000;
const SUBSCRIPTIONS: usize = 100;

/// The content of a session id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
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
pub(crate) struct Gathered {
    /// True once the session has ended.
    ended: watch::Sender<bool>,
    log_from: Mutex<Option<Level>>,
    subscriptions: Mutex<BTreeSet<String>>,
    /// The subscriptions that exist at upstreams.
    following: Following,
}

/// The states of one principal's sessions, by session id.
type Own = Cache<String, Arc<Gathered>>;

/// The session states of this node.
pub(crate) struct Sessions {
    /// States by principal: a principal with too many sessions evicts only its own.
    gathered: Cache<Box<str>, Arc<Own>>,
    /// States of sessions with an open stream, which idle eviction must not lose.
    streaming: Mutex<HashMap<String, Weak<Gathered>>>,
    ended: Cache<String, ()>,
}

impl Session {
    pub(crate) fn new(version: &str, abilities: Abilities) -> Self {
        let Abilities { elicitation, elicitation_by_url, sampling, roots, tasks: _ } = abilities;
        let (nonce, version) = (toolcrib::random(), version.to_owned());
        Self { nonce, version, elicitation, elicitation_by_url, sampling, roots }
    }

    pub(crate) fn abilities(&self) -> Abilities {
        Abilities {
            elicitation: self.elicitation,
            elicitation_by_url: self.elicitation_by_url,
            sampling: self.sampling,
            roots: self.roots,
            tasks: false,
        }
    }

    /// The session without the capabilities that need an event stream, for clients that accept none.
    pub(crate) fn not_asked(self) -> Self {
        let nothing = Abilities::default();
        let Abilities { elicitation, elicitation_by_url, sampling, roots, tasks: _ } = nothing;
        Self { elicitation, elicitation_by_url, sampling, roots, ..self }
    }

    pub(crate) fn close(&self, seal: &Seal, principal: &str) -> String {
        seal.close(PURPOSE, principal, &serde_json::to_vec(self).expect("a session is JSON"))
    }

    /// Whether a stream may begin with an empty event, which makes it resumable from the start.
    pub(crate) fn can_be_primed(&self) -> bool {
        LEGACY.first().is_some_and(|newest| *newest == self.version)
    }
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let gathered: Cache<_, Arc<Own>> =
            Cache::weighing(KEPT, |_, own| u32::try_from(own.weight()).unwrap_or(u32::MAX));
        Self {
            gathered: gathered.lasting_unused(KEPT_FOR),
            streaming: Mutex::default(),
            ended: Cache::new(ENDED),
        }
    }

    /// The session with this id, if it belongs to this principal and has not ended.
    pub(crate) fn open(&self, seal: &Seal, principal: &str, id: &str) -> Option<Session> {
        if self.ended.get(id).is_some() {
            return None;
        }
        serde_json::from_slice(&seal.open(PURPOSE, principal, id)?).ok()
    }

    pub(crate) fn end(&self, principal: &str, id: &str) {
        self.ended.insert(id.to_owned(), ());
        if let Some(gathered) = self.gathered(principal, id) {
            gathered.ended.send_replace(true);
            gathered.following.end_all();
        }
        if let Some(own) = self.gathered.get(principal) {
            own.remove(id);
        }
        self.streaming().remove(id);
    }

    /// The state of a session, if it has any.
    pub(crate) fn gathered(&self, principal: &str, id: &str) -> Option<Arc<Gathered>> {
        if let Some(gathered) = self.gathered.get(principal).and_then(|own| own.get(id)) {
            return Some(gathered);
        }
        let held = self.streaming().get(id)?.upgrade()?;
        Some(self.keep(principal, id, held))
    }

    pub(crate) fn gather(&self, principal: &str, id: &str) -> Arc<Gathered> {
        let gathered = self.gathered(principal, id);
        gathered.unwrap_or_else(|| self.keep(principal, id, Arc::default()))
    }

    /// Inserts the state unless there is one already; returns the current state.
    fn keep(&self, principal: &str, id: &str, gathered: Arc<Gathered>) -> Arc<Gathered> {
        let none = || Arc::new(Cache::new(KEPT_OF_ONE).lasting_unused(KEPT_FOR));
        let own = self.gathered.get_with(principal.into(), none);
        let kept = own.get_with(id.to_owned(), || gathered);
        // Insert again: the weight of the entry has changed.
        self.gathered.insert(principal.into(), own);
        kept
    }

    /// The state of a session for a stream, which keeps the state alive.
    pub(crate) fn stream(&self, principal: &str, id: &str) -> Arc<Gathered> {
        let gathered = self.gather(principal, id);
        let mut streaming = self.streaming();
        if KEPT <= streaming.len() as u64 {
            streaming.retain(|_, held| 0 < held.strong_count());
        }
        streaming.insert(id.to_owned(), Arc::downgrade(&gathered));
        gathered
    }

    fn streaming(&self) -> MutexGuard<'_, HashMap<String, Weak<Gathered>>> {
        self.streaming.lock().expect("no one panics while holding streams")
    }
}

impl Gathered {
    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        ended.wait_for(|ended| *ended).await.expect("the sender is held here");
    }

    fn level(&self) -> MutexGuard<'_, Option<Level>> {
        self.log_from.lock().expect("no one panics while holding a level")
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscriptions.lock().expect("no one panics while holding subscriptions")
    }

    pub(crate) fn log_from(&self) -> Option<Level> {
        *self.level()
    }

    pub(crate) fn set_log_from(&self, level: Level) {
        *self.level() = Some(level);
    }

    /// Adds a subscription; false if there are too many.
    pub(crate) fn subscribe(&self, uri: &str) -> bool {
        let mut all = self.subscribed();
        let has_room = all.len() < SUBSCRIPTIONS || all.contains(uri);
        if has_room {
            all.insert(uri.to_owned());
        }
        has_room
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.subscribed().remove(uri);
        self.following.end(uri);
    }

    pub(crate) fn following(&self) -> &Following {
        &self.following
    }

    /// The URIs of the subscribed resources.
    pub(crate) fn wanted(&self) -> Vec<String> {
        self.subscribed().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_session_state_alive() {
        let sessions = Sessions::new();
        let held = sessions.stream("ada", "a");
        drop(sessions.gather("ada", "b"));
        // As after an hour without requests.
        sessions.gathered.remove("ada");
        assert!(sessions.gather("ada", "a").subscribe("file:a"));
        assert!(
            held.wanted() == ["file:a"]
                && Arc::ptr_eq(&held, &sessions.gathered("ada", "a").unwrap())
        );
        assert!(sessions.gathered("ada", "b").is_none());
        sessions.gathered.remove("ada");
        sessions.end("ada", "a");
        assert!(*held.ended.borrow());
        assert!(sessions.gathered("ada", "a").is_none());
    }

    #[test]
    fn a_principal_with_many_sessions_evicts_only_its_own() {
        let sessions = Sessions::new();
        sessions.gather("ada", "a").subscribe("file:a");
        for number in 0..KEPT + 1 {
            sessions.gather("eve", &number.to_string());
        }
        assert_eq!(sessions.gathered("ada", "a").unwrap().wanted(), ["file:a"]);
        assert!(sessions.gathered("eve", "0").is_none());
        assert!(sessions.gathered("eve", &KEPT.to_string()).is_some());
        assert_eq!(sessions.gathered.weight(), KEPT_OF_ONE + 1);
    }

    #[test]
    fn the_number_of_session_states_is_limited() {
        let sessions = Sessions::new();
        for principal in 0..12 {
            for number in 0..KEPT_OF_ONE {
                sessions.gather(&principal.to_string(), &format!("{principal}-{number}"));
            }
        }
        assert!(sessions.gathered.weight() <= KEPT);
        assert!(sessions.gathered("0", "0-0").is_none());
        assert!(sessions.gathered("11", "11-0").is_some());
    }

    #[test]
    fn a_session_belongs_to_its_principal_and_can_be_ended() {
        let (seal, sessions) = (Seal::random(), Sessions::new());
        let abilities = Abilities { sampling: true, ..Abilities::default() };
        let id = Session::new("2025-06-18", abilities).close(&seal, "ada");
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        let opened = sessions.open(&seal, "ada", &id).unwrap();
        assert_eq!((opened.version.as_str(), opened.abilities()), ("2025-06-18", abilities));
        assert!(sessions.open(&seal, "eve", &id).is_none());
        assert!(sessions.open(&Seal::random(), "ada", &id).is_none());
        sessions.end("ada", &id);
        assert!(sessions.open(&seal, "ada", &id).is_none());
    }
}
