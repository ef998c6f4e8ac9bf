//! A catalog with sources in files, and a clock that follows the pausable time of the tokio runtime.

use std::sync::Arc;
use std::time::Duration;

use catalog::source::{Source, SourceCommand};
use jiff::{SignedDuration, Timestamp};
use limits::pending_low_priority_tasks;
use model::{SourceId, SourceProfile};
use serde_json::{Value, json};
use toolcrib::{
    Catalog, ChangeContext, Clock, Command, CommandError, Journal, JournalLocation, Position,
    SourceRefresher,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

/// A clock that follows the time of the tokio runtime.
#[derive(Clone, Copy)]
pub(crate) struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-05-01T09:00:00Z".parse().unwrap();
        start + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

pub(crate) struct World {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) refresher: SourceRefresher,
    clock: RuntimeClock,
    folder: tempfile::TempDir,
}

pub(crate) fn client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() })
}

pub(crate) fn id(name: &str) -> SourceId {
    name.parse().unwrap()
}

/// An OpenAPI specification with these operations.
pub(crate) fn specification(operations: &[&str]) -> String {
    let path = |id: &&str| {
        (format!("/{id}"), json!({"get": {"operationId": id, "summary": id, "responses": {}}}))
    };
    let paths: serde_json::Map<String, Value> = operations.iter().map(path).collect();
    let info = json!({"title": "Pets", "version": "1"});
    let servers = json!([{"url": "https://pets.example"}]);
    json!({"openapi": "3.1.0", "info": info, "servers": servers, "paths": paths}).to_string()
}

pub(crate) async fn execute(catalog: &Catalog, source: &str, command: SourceCommand) {
    try_execute(catalog, source, command).await.unwrap();
}

pub(crate) async fn try_execute(
    catalog: &Catalog,
    source: &str,
    command: SourceCommand,
) -> Result<(), CommandError> {
    let command = Command::Source(id(source), command);
    catalog.execute(command, ChangeContext::by_actor("admin"), None).await.map(drop)
}

pub(crate) fn profile(value: Value) -> SourceProfile {
    serde_json::from_value(value).unwrap()
}

impl World {
    pub(crate) async fn new() -> Self {
        let clock = RuntimeClock(tokio::time::Instant::now());
        let journal = JournalLocation::Memory.open(clock).await.unwrap();
        Self::with_journal(journal, clock, tempfile::tempdir().unwrap()).await
    }

    async fn with_journal(
        journal: Arc<dyn Journal>,
        clock: RuntimeClock,
        folder: tempfile::TempDir,
    ) -> Self {
        let catalog = Arc::new(Catalog::open(journal).await.unwrap());
        let refresher = SourceRefresher::new(Arc::clone(&catalog), client(), Arc::new(clock));
        Self { catalog, refresher, clock, folder }
    }

    /// Simulates a restart of the process: opens the catalog again over the same journal.
    pub(crate) async fn restart(self) -> Self {
        let Self { catalog, refresher, clock, folder } = self;
        let journal = Arc::clone(catalog.journal());
        drop((catalog, refresher));
        Self::with_journal(journal, clock, folder).await
    }

    /// The profile of a source whose specification is a file.
    pub(crate) fn file_source_profile(&self, name: &str, every: Option<u32>) -> SourceProfile {
        let file = self.folder.path().join(name);
        let settings = json!({"kind": "openapi", "specification": {"file": file}});
        profile(json!({"name": name, "settings": settings, "refresh_every": every}))
    }

    pub(crate) async fn register(&self, name: &str, every: Option<u32>) {
        self.execute(name, SourceCommand::Register(self.file_source_profile(name, every))).await;
    }

    pub(crate) fn write_specification(&self, name: &str, operations: &[&str]) {
        std::fs::write(self.folder.path().join(name), specification(operations)).unwrap();
    }

    pub(crate) fn delete_specification(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    pub(crate) async fn execute(&self, source: &str, command: SourceCommand) {
        execute(&self.catalog, source, command).await;
    }

    pub(crate) fn source(&self, name: &str) -> Source {
        self.catalog.snapshot().source(&id(name)).unwrap().source.clone()
    }

    /// Runs the refresher while this many seconds pass.
    pub(crate) async fn run_for_seconds(&self, seconds: u64) {
        let time = Duration::from_secs(seconds);
        let both =
            async { tokio::join!(self.refresher.keep_fresh(), stop_time_during_blocking_work()) };
        tokio::time::timeout(time, both).await.unwrap_err();
    }

    /// The times at which refreshes of the source began, in seconds.
    pub(crate) async fn refresh_start_times(&self, name: &str) -> Vec<f64> {
        let start: Timestamp = "2026-05-01T09:00:00Z".parse().unwrap();
        let events = self.catalog.journal().read_after(Position(0), 100_000).await.unwrap();
        let stream = format!("upstream_source-{name}");
        let begun = events
            .iter()
            .filter(|event| &*event.kind == "SourceSyncStarted" && event.stream.as_str() == stream);
        begun.map(|event| event.time.duration_since(start).as_secs_f64()).collect()
    }
}

/// Stops time while the blocking pool works. Paused tokio time advances whenever the runtime is idle, and the runtime
/// does not see work on that pool.
async fn stop_time_during_blocking_work() {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        while 0 < pending_low_priority_tasks() {
            std::thread::sleep(Duration::from_micros(50));
            tokio::task::yield_now().await;
        }
    }
}

/// The intervals between successive times.
pub(crate) fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
