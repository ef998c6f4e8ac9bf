//! Histories that no command would write but a journal may hold: imported, restored, or written by another version.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use model::NewGroup;
use toolcrib_catalog::clock::SystemClock;
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::{
    AppendOutcome, AppendRequest, ChangeContext, Journal, MemoryJournal, NewEvent, Position,
    StreamAppend, StreamName, StreamVersion,
};
use toolcrib_catalog::label::LabelCommand;
use toolcrib_catalog::policy::PolicyCommand;
use toolcrib_catalog::source::SourceCommand;
use toolcrib_catalog::tool::ToolCommand;
use toolcrib_catalog::{Catalog, Command, JournalMoment, Snapshot, snapshot_at};

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

/// A journal with these events, a catalog that followed every append, and the latest version of each stream.
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
        let stream = StreamAppend {
            stream: StreamName::new(stream),
            expected: StreamVersion(known),
            events,
        };
        let appended = self
            .journal
            .append(AppendRequest { streams: vec![stream], ..AppendRequest::default() })
            .await;
        let AppendOutcome::Stored(position) = appended.unwrap() else {
            unreachable!("there is no key")
        };
        self.catalog.wait_until_visible(position).await.unwrap();
    }

    /// Checks that the live snapshot, a fold from zero and a checkpoint agree; returns the live snapshot.
    async fn check(&self) -> Arc<Snapshot> {
        let live = self.catalog.snapshot();
        let all = JournalMoment::Position(Position(u64::MAX));
        let rebuilt = snapshot_at(&*self.journal, all).await.unwrap();
        assert_eq!(live.digest(), rebuilt.digest(), "live and rebuilt");
        self.catalog.checkpoint_now().await.unwrap();
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
async fn a_tool_registered_before_its_source_is_served_once_the_source_exists() {
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
async fn tools_of_a_removed_source_are_not_served_until_it_is_registered_again() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, GROUP, ("upstream_source-s", "SourceRemoved", "{}")] {
        history.add(event).await;
    }
    assert!(history.check().await.served().is_empty());
    history.add(SOURCE).await;
    assert_eq!(history.check().await.served().len(), 1);
}

#[tokio::test]
async fn the_second_registration_of_a_tool_replaces_the_first() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, ("source_tool-s:t", "ToolDisabled", "{}"), TOOL] {
        history.add(event).await;
    }
    assert_eq!(history.check().await.served().len(), 1);
    // A later registration moves the tool to the source that it names.
    let other = TOOL.2.replace(r#""source":"s""#, r#""source":"elsewhere""#);
    history.add((TOOL.0, TOOL.1, &other)).await;
    let snapshot = history.check().await;
    assert!(snapshot.source(&"s".parse().unwrap()).unwrap().tools.is_empty());
}

#[tokio::test]
async fn events_of_missing_aggregates_and_unknown_events_change_nothing() {
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

/// A newer node wrote events about every aggregate. This node keeps them and can still change the parts it understands.
#[tokio::test]
async fn events_of_a_newer_version_do_not_block_a_stream() {
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
        let done =
            history.catalog.execute(command, ChangeContext::by_actor("test"), None).await.unwrap();
        assert_eq!(done.answer["changed"], true);
        history.check().await;
    }
}

/// A race between two nodes: a group was deleted while a policy began to grant it, and a label while a tool got it. A
/// later group or label with the same id must not inherit the grant or the tool.
#[tokio::test]
async fn references_left_by_a_race_do_not_apply_to_a_recreated_id() {
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
    let refused =
        history.catalog.execute(create, ChangeContext::by_actor("test"), None).await.unwrap_err();
    assert_eq!(refused.to_string(), "group `g` is granted by `p`: change those policies first");
    let profile = serde_json::from_value(serde_json::json!({"name": "L"})).unwrap();
    let create = Command::Label("l".parse().unwrap(), LabelCommand::Create(profile));
    history.catalog.execute(create, ChangeContext::by_actor("test"), None).await.unwrap();
    let snapshot = history.check().await;
    assert!(snapshot.tool(&"s:t".parse().unwrap()).unwrap().tool.labels.is_empty());
}

/// An inactive group grants nothing, whatever its members.
#[tokio::test]
async fn an_inactive_group_serves_no_tools() {
    let mut history = History::new().await;
    for event in [SOURCE, TOOL, GROUP, ("tool_group-g", "GroupDeactivated", "{}")] {
        history.add(event).await;
    }
    let snapshot = history.check().await;
    assert!(snapshot.group_tools(&"g".parse().unwrap()).unwrap().is_empty());
    assert_eq!(snapshot.group(&"g".parse().unwrap()).unwrap().members.len(), 1);
}

#[tokio::test]
async fn reused_slots_keep_nothing_of_the_old_tool() {
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
