//! A small catalog, and short words for what is done to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::group::GroupCommand;
use catalog::journal::{
    Append, Context, Journal, NewEvent, Position, Recorded, SqliteJournal, StreamAppend,
    StreamName, Version,
};
use catalog::{Catalog, Command, verify};
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

/// A journal in a file, closed again, so that everything is in the one file.
pub(crate) fn make_journal(path: &Path, groups: usize) {
    runtime().block_on(async {
        let journal = open(path);
        let catalog = Catalog::open(Arc::clone(&journal)).await.unwrap();
        for number in 0..groups {
            let command = create_group(&format!("group-{number}"));
            catalog.execute(command, Context::by("ada"), None).await.unwrap();
        }
        catalog.close().await;
    });
    wait_until_closed(path);
}

/// The writer lets go a moment after the journal.
pub(crate) fn wait_until_closed(path: &Path) {
    std::fs::File::open(format!("{}.lock", path.display())).unwrap().lock().unwrap();
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// One event for a stream; the text is its data.
pub(crate) fn event(stream: &str, expected: u64, text: &str) -> Append {
    let data = json!({ "text": text }).to_string().into();
    let events = vec![NewEvent { kind: "Tested".into(), data }];
    let (stream, expected) = (StreamName::new(stream), Version(expected));
    Append { streams: vec![StreamAppend { stream, expected, events }], ..Append::default() }
}

pub(crate) async fn events(journal: &dyn Journal) -> Vec<Recorded> {
    journal.read_after(Position(0), 100_000).await.unwrap()
}

/// The texts of the events of one stream.
pub(crate) async fn texts(journal: &dyn Journal, stream: &str) -> Vec<String> {
    let events = events(journal).await;
    let of_stream = events.iter().filter(|event| event.stream.as_str() == stream);
    let text = |event: &Recorded| {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        data["text"].as_str().unwrap().to_owned()
    };
    of_stream.map(text).collect()
}

/// What is in service is what the journal says, and the storage is sound.
pub(crate) async fn assert_sound(journal: &Arc<dyn Journal>) {
    let catalog = Catalog::open(Arc::clone(journal)).await.unwrap();
    let verified = verify(&**journal, &catalog.snapshot(), |_| {}).await.unwrap();
    // The throw-away server of the tests may be told not to flush, and then says so.
    let problems: Vec<_> =
        verified.problems.iter().filter(|problem| !problem.contains("= off")).collect();
    assert_eq!(problems, [""; 0]);
}

/// Fails when something takes longer than it may.
pub(crate) struct Deadline(Instant, Duration);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now(), time)
    }

    /// To be asked in a loop; waits a moment.
    pub(crate) async fn not_over(&self, what: &str) {
        assert!(self.0.elapsed() < self.1, "{what}: not within {:?}", self.1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
