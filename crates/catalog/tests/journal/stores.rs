//! The three journal stores, empty for each test, and shorthands for steps and events.

use std::sync::Arc;

use tokio_postgres::NoTls;
use toolcrib_catalog::clock::ManualClock;
use toolcrib_catalog::journal::{
    AppendRequest, Journal, JournalError, MemoryJournal, NewEvent, Position, PostgresJournal,
    RecordedEvent, SqliteJournal, StreamAppend, StreamName, StreamVersion,
};

use crate::database::database;

/// An empty journal of one store.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) journal: Arc<dyn Journal>,
    /// The clock of the stores that do not use the clock of a database.
    pub(crate) clock: Arc<ManualClock>,
    /// The connection URL, for PostgreSQL.
    url: Option<String>,
    /// The folder of the SQLite file; deleted with the store.
    _folder: Option<tempfile::TempDir>,
    /// True while a test runs against this store, so that a panic prints the name of the store.
    on_trial: bool,
}

/// One store of each kind; `name` is that of the test and names its database.
pub(crate) async fn stores(name: &str) -> impl Iterator<Item = Store> {
    let stores = [memory(), sqlite(), postgres(name).await];
    stores.into_iter().map(|mut store| {
        store.on_trial = true;
        store
    })
}

pub(crate) fn memory() -> Store {
    let clock = clock();
    let journal = Arc::new(MemoryJournal::new(clock.clone()));
    Store { name: "memory", journal, clock, url: None, _folder: None, on_trial: false }
}

pub(crate) fn sqlite() -> Store {
    let (clock, folder) = (clock(), tempfile::tempdir().unwrap());
    let journal = SqliteJournal::open(&folder.path().join("journal.db"), clock.clone()).unwrap();
    let (journal, _folder) = (Arc::new(journal), Some(folder));
    Store { name: "SQLite", journal, clock, url: None, _folder, on_trial: false }
}

pub(crate) async fn postgres(name: &str) -> Store {
    let url = database(&format!("journal_{name}")).await;
    let journal = connect(&url).await;
    Store {
        name: "PostgreSQL",
        journal,
        clock: clock(),
        url: Some(url),
        _folder: None,
        on_trial: true,
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at("2026-05-01T09:00:00Z".parse().unwrap()))
}

async fn connect(url: &str) -> Arc<dyn Journal> {
    Arc::new(PostgresJournal::connect(url.parse().unwrap()).await.unwrap())
}

impl Store {
    /// The journal as a second node opens it; stores that allow one process return the same handle.
    pub(crate) async fn open_second_node(&self) -> Arc<dyn Journal> {
        match &self.url {
            Some(url) => connect(url).await,
            None => Arc::clone(&self.journal),
        }
    }

    /// Terminates the database connections that hold leases.
    pub(crate) async fn cut_leases(&self) {
        let url = self.url.as_ref().unwrap();
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let holders = "SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE locktype = 'advisory' AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_ne!(client.query(holders, &[]).await.unwrap().len(), 0);
    }

    /// All events of the journal.
    pub(crate) async fn events(&self) -> Vec<RecordedEvent> {
        self.journal.read_after(Position(0), 100_000).await.unwrap()
    }
}

impl Drop for Store {
    #[expect(clippy::print_stderr, reason = "says in which store a law was broken")]
    fn drop(&mut self) {
        if self.on_trial && std::thread::panicking() {
            eprintln!("the store was {}", self.name);
        }
    }
}

/// Events for one stream; each text becomes the data of one event.
pub(crate) fn append_to_stream(stream: &str, expected: u64, texts: &[&str]) -> StreamAppend {
    let event = |text: &&str| NewEvent {
        kind: "Tested".into(),
        data: serde_json::json!({ "text": text }).to_string().into(),
    };
    let (stream, expected) = (StreamName::new(stream), StreamVersion(expected));
    StreamAppend { stream, expected, events: texts.iter().map(event).collect() }
}

/// One step with these streams.
pub(crate) fn single_step(streams: impl Into<Vec<StreamAppend>>) -> AppendRequest {
    AppendRequest { streams: streams.into(), ..AppendRequest::default() }
}

/// Position, stream and version of each event.
pub(crate) fn positions_and_versions(events: &[RecordedEvent]) -> Vec<(u64, &str, u64)> {
    let place = |event: &RecordedEvent| event.version.0;
    events.iter().map(|event| (event.position.0, event.stream.as_str(), place(event))).collect()
}

/// Stream, expected and actual version of a conflict.
pub(crate) fn expect_conflict<T: std::fmt::Debug>(
    result: Result<T, JournalError>,
) -> (String, u64, u64) {
    match result.unwrap_err() {
        JournalError::Conflict { stream, expected, actual } => {
            (stream.to_string(), expected.0, actual.0)
        }
        error => panic!("not a conflict: {error}"),
    }
}
