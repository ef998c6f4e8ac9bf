//! Histories no command would write, but a journal may hold: imported, restored, or written by another version.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use model::NewGroup;
use toolcrib_catalog::clock::SystemClock;
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::{
    Append, Appended, Context, Journal, MemoryJournal, NewEvent, Position, StreamAppend,
    StreamName, Version,
};
use toolcrib_catalog::label::LabelCommand;
use toolcrib_catalog::policy::PolicyCommand;
use toolcrib_catalog::source::SourceCommand;
use toolcrib_catalog::tool::ToolCommand;
use toolcrib_catalog::{Catalog, Command, Moment, Snapshot, snapshot_at};

const SOURCE: (&str, &str, &str) = (
    "upstream_source-s",
    "SourceRegistered",
    r#"{"profile":{"name":"S","settings":{"kind":"custom"}}}"#,
);
const TOOL: (&str, &str, &str) = (
    "source_tool-s:t",
    "ToolRegistered",
    r#"{"source":"s","fingerprint":"0000000000000000000000000000000000000000000000000000000000000000",
        "manifest":{"name":"t","method":"POST","path":"/t","input_schema":{"inline":{}},"execution":{"mode":"custom"}}}"#,
);
const GROUP: (&str, &str, &str) = (
    "tool_group-g",
    "GroupCreated",
    r#"{"profile":{"name":"G"},"selectors":[{"kind":"tool","source":"s"}]}"#,
);

/// A journal with these events, a catalog that saw each as it came, and the versions so far.
struct History {
    journal: Arc<dyn Journal>,
    catalog: Catalog,
    streams: Vec<(String, u64)>,
}

impl History {
    async fn new() -> Self {
        let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
        let catalog = Catalog::open(Arc::clone(&journal)).await.unwrap();
        Self { journal, catalog, streams: Vec::new() }
    }

    async fn add(&mut self, (stream, kind, data): (&str, &str, &str)) {
        let known = self.streams.iter().filter(|(name, _)| name == stream).count() as u64;
        self.streams.push((stream.to_owned(), known + 1));
        let events = vec![NewEvent { kind: kind.into(), data: data.into() }];
        let stream =
            StreamAppend { stream: StreamName::new(stream), expected: Version(known), events };
        let appended =
            self.journal.append(Append { streams: vec![stream], ..Append::default() }).await;
        let Appended::Stored(position) = appended.unwrap() else { unreachable!("there is no key") };
        self.catalog.shown(position).await.unwrap();
    }

    /// What is live, what a fold from zero gives, and what a checkpoint gives: always the same.
    async fn check(&self) -> Arc<Snapshot> {
        let live = self.catalog.snapshot();
        let all = Moment::Position(Position(u64::MAX));
        let rebuilt = snapshot_at(&*self.journal, all).await.unwrap();
        assert_eq!(live.digest(), rebuilt.digest(), "live and rebuilt");
        self.catalog.checkpoint().await.unwrap();
        let started = Catalog::open(Arc::clone(&self.journal)).await.unwrap();
        assert_eq!(
            live.digest(),
            started.snapshot().digest(),
            "live and started from a checkpoint"
        );
        live
    }
}

#[tokio::test]
async fn a_tool_that_stands_before_its_source_waits_for_it() {
    let mut history = History::new().await;
    history.add(TOOL).await;
    assert!(history.check().await.served().is_empty());
    history.add(GROUP).await;
    history.add(SOURCE).await;
    let snapshot = history.check().await;
    assert_eq!(snapshot.served().len(), 1);
    assert_eq!(snapshot.source(&"s".parse().unwrap()).unwrap().tools.len(), 1);
    assert_eq!(snapshot.group_tools(&"g".parse().unwrap()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_source_that_goes_without_its_tools_leaves_them_unserved_until_it_is_back() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, GROUP, ("upstream_source-s", "SourceRemoved", "{}")] {
        history.add(event).await;
    }
    assert!(history.check().await.served().is_empty());
    history.add(SOURCE).await;
    assert_eq!(history.check().await.served().len(), 1);
}

#[tokio::test]
async fn a_tool_that_is_registered_twice_is_the_second_one() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, ("source_tool-s:t", "ToolDisabled", "{}"), TOOL] {
        history.add(event).await;
    }
    assert_eq!(history.check().await.served().len(), 1);
    // And if it says another source, it is that one's.
    let other = TOOL.2.replace(r#""source":"s""#, r#""source":"elsewhere""#);
    history.add((TOOL.0, TOOL.1, &other)).await;
    let snapshot = history.check().await;
    assert!(snapshot.source(&"s".parse().unwrap()).unwrap().tools.is_empty());
}

#[tokio::test]
async fn events_about_nothing_and_events_nobody_knows_change_nothing() {
    let mut history = History::new().await;
    for event in [
        SOURCE,
        TOOL,
        ("source_tool-s:other", "ToolDisabled", "{}"),
        ("tool_group-nothing", "GroupDeleted", "{}"),
        ("source_tool-s:t", "ToolPaintedBlue", r#"{"shade":3}"#),
        ("upstream_source-s", "SourceUpdated", r#"{"profile":7}"#),
        ("a stream of another kind", "Whatever", "null"),
        ("source_tool-no colon", "ToolEnabled", "{}"),
    ] {
        history.add(event).await;
    }
    let snapshot = history.check().await;
    assert_eq!((snapshot.served().len(), snapshot.not_understood()), (1, 4));
}

/// A newer node wrote something about each of them. This one keeps it, and can still change what it knows.
#[tokio::test]
async fn what_a_newer_version_wrote_does_not_block_a_stream() {
    let mut history = History::new().await;
    let label = ("label-l", "LabelCreated", r#"{"profile":{"name":"L"}}"#);
    let policy = (
        "access_policy-p",
        "PolicyDefined",
        r#"{"rules":{"name":"P","priority":0,"groups":["g"],
            "matchers":[{"claim":"a","operator":"exists"}]}}"#,
    );
    for event in [SOURCE, TOOL, GROUP, label, policy] {
        history.add(event).await;
        history.add((event.0, "SomethingNewer", "{}")).await;
    }
    let commands = [
        Command::Source("s".parse().unwrap(), SourceCommand::Disable),
        Command::Tool("s:t".parse().unwrap(), ToolCommand::Disable),
        Command::Group("g".parse().unwrap(), GroupCommand::Deactivate),
        Command::Policy("p".parse().unwrap(), PolicyCommand::Deactivate),
        Command::Policy("p".parse().unwrap(), PolicyCommand::Delete),
        Command::Label("l".parse().unwrap(), LabelCommand::Delete),
    ];
    for command in commands {
        let done = history.catalog.execute(command, Context::by("test"), None).await.unwrap();
        assert_eq!(done.answer["changed"], true);
        history.check().await;
    }
}

/// On two nodes, a group was deleted while a policy began to grant it, and a label while a tool got it. Neither comes
/// back to life with the next group or label of that id.
#[tokio::test]
async fn what_a_race_left_behind_does_not_come_back_to_life() {
    let policy = (
        "access_policy-p",
        "PolicyDefined",
        r#"{"rules":{"name":"P","priority":0,"groups":["g"],
            "matchers":[{"claim":"a","operator":"exists"}]}}"#,
    );
    let mut history = History::new().await;
    let labelled = ("source_tool-s:t", "ToolLabelled", r#"{"labels":["l"]}"#);
    for event in [SOURCE, TOOL, labelled, policy] {
        history.add(event).await;
    }
    let new = serde_json::json!({"id": "g", "profile": {"name": "G"}});
    let new: Box<NewGroup> = serde_json::from_value(new).unwrap();
    let create = Command::Group("g".parse().unwrap(), GroupCommand::Create(new));
    let refused = history.catalog.execute(create, Context::by("test"), None).await.unwrap_err();
    assert_eq!(refused.to_string(), "group `g` is granted by `p`: change those policies first");
    let profile = serde_json::from_value(serde_json::json!({"name": "L"})).unwrap();
    let create = Command::Label("l".parse().unwrap(), LabelCommand::Create(profile));
    history.catalog.execute(create, Context::by("test"), None).await.unwrap();
    let snapshot = history.check().await;
    assert!(snapshot.tool(&"s:t".parse().unwrap()).unwrap().tool.labels.is_empty());
}

/// A deactivated group grants nothing, whatever is in it.
#[tokio::test]
async fn a_group_that_is_switched_off_has_no_tools_to_serve() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, GROUP, ("tool_group-g", "GroupDeactivated", "{}")] {
        history.add(event).await;
    }
    let snapshot = history.check().await;
    assert!(snapshot.group_tools(&"g".parse().unwrap()).unwrap().is_empty());
    assert_eq!(snapshot.group(&"g".parse().unwrap()).unwrap().members.len(), 1);
}

#[tokio::test]
async fn slots_are_used_again_and_nothing_of_the_old_tool_stays() {
    let mut history = History::new().await;
    for event in [SOURCE, GROUP, TOOL, ("source_tool-s:t", "ToolRemoved", "{}")] {
        history.add(event).await;
    }
    let other = TOOL.2.replace(r#""source":"s""#, r#""source":"elsewhere""#);
    history.add(("source_tool-elsewhere:x", "ToolRegistered", &other)).await;
    let snapshot = history.check().await;
    assert_eq!(snapshot.tool_count(), 1);
    assert!(
        snapshot.served().is_empty()
            && snapshot.group_tools(&"g".parse().unwrap()).unwrap().is_empty()
    );
}
