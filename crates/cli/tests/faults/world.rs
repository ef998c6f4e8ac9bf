//! A small catalog, and short functions for changing and checking it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::group::GroupCommand;
use catalog::journal::{
    AppendRequest, ChangeContext, Journal, NewEvent, Position, RecordedEvent, SqliteJournal,
    StreamAppend, StreamName, StreamVersion,
};
use catalog::{Catalog, Command, verify_journal};
use serde_json::json;
use toolcrib::SystemClock;

pub(crate) fn open(path: &Path) -> Arc<dyn Journal> {
    Arc::new(SqliteJournal::open(path, Arc::new(SystemClock)).unwrap())
}

pub(crate) fn create_group(id: &str) -> Command {
    let new = json!({"id": id, "profile": {"name": id}, "selectors": [{"name": "*"}]});
    let new = serde_json::from_value(new).unwrap();
    Command::Group(id.parse().unwrap(), GroupCommand::Create(Box::new(new)))
}

/// Creates a journal file and closes it, so that all data is in the one file.
pub(crate) fn make_journal(path: &Path, groups: usize) {
    runtime().block_on(async {
        let journal = open(path);
        let catalog = Catalog::open(Arc::clone(&journal)).await.unwrap();
        for number in 0..groups {
            let command = create_group(&format!("group-{number}"));
            catalog.execute(command, ChangeContext::by_actor("ada"), None).await.unwrap();
        }
        catalog.close().await;
    });
    wait_until_closed(path);
}

/// The writer releases its lock shortly after the journal is dropped.
pub(crate) fn wait_until_closed(path: &Path) {
    std::fs::File::open(format!("{}.lock", path.display())).unwrap().lock().unwrap();
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Append of one event to a stream; the event's data is the text.
pub(crate) fn event(stream: &str, expected: u64, text: &str) -> AppendRequest {
    let data = json!({ "text": text }).to_string().into();
    let events = vec![NewEvent { kind: "Tested".into(), data }];
    let (stream, expected) = (StreamName::new(stream), StreamVersion(expected));
    AppendRequest {
        streams: vec![StreamAppend { stream, expected, events }],
        ..AppendRequest::default()
    }
}

pub(crate) async fn events(journal: &dyn Journal) -> Vec<RecordedEvent> {
    journal.read_after(Position(0), 100_000).await.unwrap()
}

/// Texts of the events of one stream.
pub(crate) async fn texts(journal: &dyn Journal, stream: &str) -> Vec<String> {
    let events = events(journal).await;
    let of_stream = events.iter().filter(|event| event.stream.as_str() == stream);
    let text = |event: &RecordedEvent| {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        data["text"].as_str().unwrap().to_owned()
    };
    of_stream.map(text).collect()
}

/// Checks that the journal can be loaded and passes verification.
pub(crate) async fn assert_sound(journal: &Arc<dyn Journal>) {
    let catalog = Catalog::open(Arc::clone(journal)).await.unwrap();
    let verified = verify_journal(&**journal, &catalog.snapshot(), |_| {}).await.unwrap();
    // The temporary test server may run with flushing turned off, which `verify` reports.
    let problems: Vec<_> =
        verified.problems.iter().filter(|problem| !problem.contains("= off")).collect();
    assert_eq!(problems, [""; 0]);
}

/// Panics if something takes longer than allowed.
pub(crate) struct Deadline(Instant, Duration);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now(), time)
    }

    /// Call this in a loop: panics after the deadline, otherwise waits a moment.
    pub(crate) async fn wait_or_panic(&self, what: &str) {
        assert!(self.0.elapsed() < self.1, "{what}: not within {:?}", self.1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
