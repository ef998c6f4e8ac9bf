//! Rules that span aggregates, and state that a change must not touch.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use model::ToolId;
use serde_json::json;
use toolcrib_catalog::clock::ManualClock;
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::{ChangeContext, MemoryJournal, Position, RecordedEvent};
use toolcrib_catalog::label::LabelCommand;
use toolcrib_catalog::policy::PolicyCommand;
use toolcrib_catalog::source::{SourceCommand, SyncError};
use toolcrib_catalog::tool::{ToolCommand, ToolStatus};
use toolcrib_catalog::{Catalog, Command, CommandError, CommandRefusal, Snapshot};

use crate::world::{create_group, done, ingest, inventory, read, register};

/// A catalog whose clock advances one second after each command.
struct Crib {
    catalog: Catalog,
    clock: Arc<ManualClock>,
}

impl Crib {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at("2026-05-01T09:00:00Z".parse().unwrap()));
        let journal = Arc::new(MemoryJournal::new(clock.clone()));
        Self { catalog: Catalog::open(journal).await.unwrap(), clock }
    }

    /// A catalog with the refreshed source `pets` of four tools, and a group that selects all of them.
    async fn with_pets() -> Self {
        let crib = Self::new().await;
        crib.execute_command(register("pets")).await;
        let tools = [("list", 1), ("get", 1), ("put", 1), ("drop", 1)];
        crib.execute_command(ingest("pets", &tools)).await;
        crib.execute_command(create_group("all-pets", json!([{"source": "pets"}]))).await;
        crib
    }

    /// Executes the command and returns the events that it stored.
    async fn execute_command(&self, command: Command) -> Vec<RecordedEvent> {
        let before = self.catalog.journal().head_position().await.unwrap();
        done(&self.catalog, command).await;
        self.clock.advance(SignedDuration::from_secs(1));
        self.catalog.journal().read_after(before, 10_000).await.unwrap()
    }

    /// Executes the command, expects a refusal, and checks that nothing was stored.
    async fn expect_refusal(&self, command: Command) -> CommandRefusal {
        let before = self.catalog.journal().head_position().await.unwrap();
        let result = self.catalog.execute(command, ChangeContext::by_actor("ada"), None).await;
        assert_eq!(self.catalog.journal().head_position().await.unwrap(), before);
        match result {
            Err(CommandError::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    fn members(&self, group: &str) -> BTreeSet<String> {
        let snapshot = self.snapshot();
        let tools = snapshot.group_tools(&group.parse().unwrap()).unwrap();
        tools.iter().map(|slot| snapshot.tool_at(slot).unwrap().tool.id.to_string()).collect()
    }
}

fn tool(id: &str) -> ToolId {
    id.parse().unwrap()
}

fn source(id: &str, command: SourceCommand) -> Command {
    Command::Source(id.parse().unwrap(), command)
}

fn kinds(events: &[RecordedEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.kind).collect()
}

#[tokio::test]
async fn one_changed_tool_does_not_copy_the_others() {
    let crib = Crib::new().await;
    crib.execute_command(register("many")).await;
    let names: Vec<_> = (0..1000).map(|number| format!("tool-{number}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    crib.execute_command(ingest("many", &tools)).await;
    crib.execute_command(create_group("all", json!([{"name": "*"}]))).await;
    let before = crib.snapshot();
    crib.execute_command(Command::Tool(tool("many:tool-500"), ToolCommand::Disable)).await;
    let after = crib.snapshot();
    let is_same = |name: &str| {
        let id = tool(&format!("many:{name}"));
        Arc::ptr_eq(before.tool(&id).unwrap(), after.tool(&id).unwrap())
    };
    let copied: Vec<_> = names.iter().filter(|name| !is_same(name)).collect();
    assert_eq!(copied, ["tool-500"]);
    // A refresh that changes one tool does not copy the others either.
    let mut tools = tools.clone();
    tools[7].1 = 2;
    let before = crib.snapshot();
    crib.execute_command(ingest("many", &tools)).await;
    let after = crib.snapshot();
    let shared =
        before.tools().filter(|entry| Arc::ptr_eq(entry, after.tool(&entry.tool.id).unwrap()));
    assert_eq!(shared.count(), 999);
    assert!(Arc::ptr_eq(
        before.group(&"all".parse().unwrap()).unwrap(),
        after.group(&"all".parse().unwrap()).unwrap()
    ));
}

#[tokio::test]
async fn removing_a_source_removes_its_tools_in_the_same_step() {
    let crib = Crib::with_pets().await;
    crib.execute_command(register("birds")).await;
    crib.execute_command(ingest("birds", &[("sing", 1)])).await;
    let events = crib.execute_command(source("pets", SourceCommand::Remove)).await;
    let expected = ["SourceRemoved", "ToolRemoved", "ToolRemoved", "ToolRemoved", "ToolRemoved"];
    assert_eq!(kinds(&events), expected);
    // All events of a step share one time; the clock advances only between steps.
    assert!(events.iter().all(|event| event.time == events[0].time));
    let left: Vec<_> = crib.snapshot().tools().map(|entry| entry.tool.id.to_string()).collect();
    assert_eq!(left, ["birds:sing"]);
    assert_eq!(crib.members("all-pets"), BTreeSet::new());
    // Registering the source again continues the versions of its removed tools.
    crib.execute_command(register("pets")).await;
    crib.execute_command(ingest("pets", &[("list", 1)])).await;
    let entry = Arc::clone(crib.snapshot().tool(&tool("pets:list")).unwrap());
    assert_eq!(entry.tool.version.0, 3);
    assert_eq!(crib.members("all-pets"), BTreeSet::from(["pets:list".to_owned()]));
}

#[tokio::test]
async fn deleting_a_label_removes_it_from_all_tools() {
    let crib = Crib::with_pets().await;
    let label = |id: &str, command| Command::Label(id.parse().unwrap(), command);
    for id in ["pii", "beta"] {
        crib.execute_command(label(id, LabelCommand::Create(read(json!({"name": id}))))).await;
    }
    let put = |id: &str, labels: &[&str]| {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        Command::Tool(tool(id), ToolCommand::Label(labels))
    };
    crib.execute_command(put("pets:list", &["pii", "beta"])).await;
    crib.execute_command(put("pets:get", &["pii"])).await;
    crib.execute_command(put("pets:put", &["beta"])).await;
    crib.execute_command(create_group("personal", json!([{"required_labels": ["pii"]}]))).await;
    assert_eq!(crib.members("personal").len(), 2);
    let refusal = crib.expect_refusal(put("pets:drop", &["beta", "unknown"])).await;
    assert_eq!(refusal, CommandRefusal::NoSuchLabels { labels: vec!["unknown".parse().unwrap()] });

    let events = crib.execute_command(label("pii", LabelCommand::Delete)).await;
    assert_eq!(kinds(&events), ["LabelDeleted", "ToolLabelled", "ToolLabelled"]);
    assert!(events.iter().all(|event| event.time == events[0].time));
    assert_eq!(crib.members("personal"), BTreeSet::new());
    let labels = |id: &str| {
        let snapshot = crib.snapshot();
        let labels = snapshot.tool(&tool(id)).unwrap().tool.labels.clone();
        labels.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!((labels("pets:list"), labels("pets:get")), (vec!["beta".to_owned()], vec![]));
    assert_eq!(labels("pets:put"), ["beta"]);
}

#[tokio::test]
async fn a_group_that_a_policy_grants_cannot_be_deleted() {
    let crib = Crib::with_pets().await;
    crib.execute_command(create_group("free", json!([]))).await;
    let rules = |groups: &[&str]| {
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        read(json!({"name": "Staff", "groups": groups, "matchers": matchers}))
    };
    let policy = |command| Command::Policy("staff".parse().unwrap(), command);
    let refusal =
        crib.expect_refusal(policy(PolicyCommand::Define(rules(&["all-pets", "none"])))).await;
    assert_eq!(refusal, CommandRefusal::NoSuchGroups { groups: vec!["none".parse().unwrap()] });
    crib.execute_command(policy(PolicyCommand::Define(rules(&["all-pets"])))).await;

    let delete = |id: &str| Command::Group(id.parse().unwrap(), GroupCommand::Delete);
    let granted = CommandRefusal::GroupIsGranted {
        id: "all-pets".parse().unwrap(),
        policies: vec!["staff".parse().unwrap()],
    };
    assert_eq!(crib.expect_refusal(delete("all-pets")).await, granted);
    // An inactive policy still grants the group.
    crib.execute_command(policy(PolicyCommand::Deactivate)).await;
    assert_eq!(crib.expect_refusal(delete("all-pets")).await, granted);
    crib.execute_command(delete("free")).await;
    crib.execute_command(policy(PolicyCommand::Delete)).await;
    crib.execute_command(delete("all-pets")).await;
    assert_eq!(crib.snapshot().groups().len(), 0);
}

#[tokio::test]
async fn a_refresh_that_removes_too_many_tools_is_rejected_unless_forced() {
    let crib = Crib::with_pets().await;
    let before = crib.snapshot().digest();
    // Three of four tools exceed the limit of 50 %.
    let refusal = crib.expect_refusal(ingest("pets", &[("list", 1)])).await;
    let (id, gone, known, limit) = ("pets".to_owned(), 3, 4, 50);
    assert_eq!(refusal, CommandRefusal::ShrinksTooMuch { id, gone, known, limit });
    assert!(matches!(
        crib.expect_refusal(ingest("pets", &[])).await,
        CommandRefusal::ShrinksTooMuch { gone: 4, .. }
    ));
    assert_eq!(crib.snapshot().digest(), before, "a refused refresh changes nothing");
    // Two of four tools do not.
    crib.execute_command(ingest("pets", &[("list", 1), ("get", 1)])).await;
    assert_eq!(crib.members("all-pets").len(), 2);
    let force = Command::Ingest { inventory: Box::new(inventory("pets", &[])), force: true };
    crib.execute_command(force).await;
    let snapshot = crib.snapshot();
    assert_eq!(snapshot.tool_count(), 4);
    assert!(snapshot.tools().all(|entry| entry.tool.status == ToolStatus::Deprecated));
    assert_eq!(crib.members("all-pets").len(), 0);
}

#[tokio::test]
async fn an_unchanged_inventory_stores_no_tool_events_but_records_success() {
    let crib = Crib::with_pets().await;
    let same = || ingest("pets", &[("drop", 1), ("put", 1), ("get", 1), ("list", 1)]);
    let events = crib.execute_command(same()).await;
    assert_eq!(kinds(&events), ["InventoryIngested"]);

    let error = SyncError { code: "spec_fetch_failed".into(), message: "no answer".into() };
    crib.execute_command(source("pets", SourceCommand::FailSync(error))).await;
    let pets = || crib.snapshot().source(&"pets".parse().unwrap()).unwrap().source.clone();
    assert_eq!(pets().failures, 1);
    let versions = |snapshot: &Snapshot| {
        snapshot.tools().map(|entry| entry.tool.version.0).collect::<Vec<_>>()
    };
    let before = versions(&crib.snapshot());
    let events = crib.execute_command(same()).await;
    assert_eq!(kinds(&events), ["InventoryIngested", "SourceHealthChanged"]);
    assert_eq!((pets().failures, pets().last_sync_error), (0, None));
    assert_eq!(pets().inventory.unwrap().at, Some(events[0].time));
    assert_eq!(versions(&crib.snapshot()), before);
}

#[tokio::test]
async fn a_command_with_an_idempotency_key_is_executed_once() {
    let crib = Crib::with_pets().await;
    let execute =
        |command| crib.catalog.execute(command, ChangeContext::by_actor("ada"), Some("key"));
    let group = || create_group("new", json!([{"name": "*"}]));
    let first = execute(group()).await.unwrap();
    assert!(!first.repeated);
    // Without the idempotency key the second command would be refused, because the group exists.
    let second = execute(group()).await.unwrap();
    assert!(second.repeated);
    assert_eq!((second.position, second.answer), (first.position, first.answer));
    let other = execute(create_group("other", json!([]))).await;
    assert!(other.unwrap_err().to_string().contains("used for another request"));
    // Idempotency keys are scoped to the caller.
    let bob = crib.catalog.execute(
        create_group("bobs", json!([])),
        ChangeContext::by_actor("bob"),
        Some("key"),
    );
    assert!(!bob.await.unwrap().repeated);
    assert_eq!(crib.snapshot().position(), crib.catalog.journal().head_position().await.unwrap());
    assert!(Position(0) < crib.snapshot().position());
}
