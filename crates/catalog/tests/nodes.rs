//! Several nodes on one PostgreSQL: no update is lost, no event is skipped, and lost signals only cause delay.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{GroupId, GroupProfile, NewGroup, SelectorMode, ToolId};
use tokio_postgres::{Client, NoTls};
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::{
    AppendOutcome, AppendRequest, ChangeContext, Journal, NewEvent, Position, PostgresJournal,
    StreamAppend, StreamName, StreamVersion,
};
use toolcrib_catalog::{Catalog, Command, CommandError};

#[path = "support/database.rs"]
mod support;

use self::support::database;

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn journal(url: &str) -> Arc<dyn Journal> {
    Arc::new(PostgresJournal::connect(url.parse().unwrap()).await.unwrap())
}

fn group_id(number: usize) -> GroupId {
    format!("group-{number}").parse().unwrap()
}

fn create(number: usize) -> Command {
    let profile = GroupProfile {
        name: format!("Group {number}").parse().unwrap(),
        description: "".into(),
        selector_mode: SelectorMode::All,
        visibility: None,
    };
    let (id, selectors) = (group_id(number), Vec::new());
    let new = NewGroup {
        id: id.clone(),
        profile,
        selectors,
        tools: BTreeSet::new(),
        excluded: Vec::new(),
    };
    Command::Group(id, GroupCommand::Create(Box::new(new)))
}

fn tool(number: usize) -> ToolId {
    format!("s:tool-{number}").parse().unwrap()
}

/// 10,000 commands on two nodes, each adding a tool of its own to one of eight groups. In the end both nodes and the
/// journal must contain every acknowledged addition, and no version may occur twice.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_commands_on_two_nodes_lose_no_update() {
    const COMMANDS: usize = 10_000;
    const GROUPS: usize = 8;
    let url = database("nodes_commands").await;
    let nodes = [journal(&url).await, journal(&url).await];
    let nodes = [
        Arc::new(Catalog::open(Arc::clone(&nodes[0])).await.unwrap()),
        Arc::new(Catalog::open(Arc::clone(&nodes[1])).await.unwrap()),
    ];
    for number in 0..GROUPS {
        let done =
            nodes[0].execute(create(number), ChangeContext::by_actor("test"), None).await.unwrap();
        nodes[1].wait_until_visible(done.position).await.unwrap();
    }
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..COMMANDS {
        let node = Arc::clone(&nodes[number % 2]);
        tasks.spawn(async move {
            let command = GroupCommand::AddTools([tool(number)].into());
            let command = Command::Group(group_id(number % GROUPS), command);
            match node.execute(command, ChangeContext::by_actor("test"), None).await {
                Ok(_) => Some(number),
                Err(CommandError::Busy { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let acknowledged: BTreeSet<usize> = tasks.join_all().await.into_iter().flatten().collect();
    assert!(COMMANDS - 10 < acknowledged.len(), "only {} went through", acknowledged.len());

    let head = nodes[0].journal().head_position().await.unwrap();
    for node in &nodes {
        node.wait_until_visible(head).await.unwrap();
        let snapshot = node.snapshot();
        let there: BTreeSet<ToolId> =
            snapshot.groups().flat_map(|entry| entry.group.tools.clone()).collect();
        let expected: BTreeSet<ToolId> = acknowledged.iter().map(|number| tool(*number)).collect();
        assert_eq!(there, expected, "an update was lost, or one came that nobody was told of");
    }
    let mut versions: HashMap<StreamName, u64> = HashMap::new();
    let events = nodes[1].journal().read_after(Position(0), 2 * COMMANDS).await.unwrap();
    assert_eq!(events.len(), GROUPS + acknowledged.len());
    for (event, position) in events.iter().zip(1..) {
        let version = versions.entry(event.stream.clone()).or_default();
        *version += 1;
        assert_eq!((event.position.0, event.version.0), (position, *version));
    }
    assert_eq!(nodes[0].snapshot().digest(), nodes[1].snapshot().digest());
}

fn one_event(stream: &str) -> AppendRequest {
    let events = vec![NewEvent { kind: "Tested".into(), data: "{}".into() }];
    let stream =
        StreamAppend { stream: StreamName::new(stream), expected: StreamVersion::NONE, events };
    AppendRequest { streams: vec![stream], ..AppendRequest::default() }
}

/// Readers must not skip the position of a transaction that commits late.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_commits_late_is_not_skipped() {
    let url = database("nodes_late").await;
    let (writer, reader) = (journal(&url).await, journal(&url).await);
    writer.append(one_event("first")).await.unwrap();

    // A slow node: it has reserved its position and has not committed yet.
    let mut slow = client(&url).await;
    let transaction = slow.transaction().await.unwrap();
    let call =
        "SELECT head FROM toolcrib_append('{}', '{}', '{}', '{1}', '{slow}', '{1}', '{Tested}',
        '{test}', '{NULL}', '{NULL}', '{\"{}\"}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')";
    let head: i64 = transaction.query_one(call, &[]).await.unwrap().get(0);
    assert_eq!(head, 1);

    let fast = tokio::spawn(async move { writer.append(one_event("fast")).await });
    let mut seen = Vec::new();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let after = Position(seen.len() as u64);
        seen.extend(reader.read_after(after, 100).await.unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen.len(), 1, "nothing may be seen that stands after an event still on its way");
    transaction.commit().await.unwrap();
    assert_eq!(fast.await.unwrap().unwrap(), AppendOutcome::Stored(Position(3)));
    let after = Position(seen.len() as u64);
    seen.extend(reader.read_after(after, 100).await.unwrap());
    let streams: Vec<_> = seen.iter().map(|event| event.stream.as_str()).collect();
    assert_eq!(streams, ["first", "slow", "fast"]);
}

/// The poll timer backs up the signal: a node converges even if its connections are cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hears_nothing_converges_by_its_timer() {
    let url = database("nodes_deaf").await;
    let (one, two) = (journal(&url).await, journal(&url).await);
    let (one, two) = (Catalog::open(one).await.unwrap(), Catalog::open(two).await.unwrap());
    let admin = client(&url).await;
    for number in 0..10 {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        admin.query(cut, &[]).await.unwrap();
        let start = Instant::now();
        // The cut may hit this append, so retry it.
        let position = loop {
            match one
                .execute(
                    create(number),
                    ChangeContext::by_actor("test"),
                    Some(&format!("key {number}")),
                )
                .await
            {
                Ok(done) => break done.position,
                Err(CommandError::Journal(error)) if error.is_retryable() => {}
                Err(error) => panic!("{error}"),
            }
            assert!(start.elapsed() < Duration::from_secs(10), "writing did not resume");
        };
        two.wait_until_visible(position).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "the second node did not converge");
    }
    assert_eq!(two.snapshot().groups().len(), 10);
    assert_eq!(one.snapshot().digest(), two.snapshot().digest());
}

/// Signals are fast: the second node sees a change well before its poll timer fires.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_node_sees_a_change_within_a_second() {
    let url = database("nodes_signal").await;
    let one = Catalog::open(journal(&url).await).await.unwrap();
    let two = Catalog::open(journal(&url).await).await.unwrap();
    let mut slowest = Duration::ZERO;
    let mut seen = HashSet::new();
    for number in 0..20 {
        let done =
            one.execute(create(number), ChangeContext::by_actor("test"), None).await.unwrap();
        let start = Instant::now();
        two.wait_until_visible(done.position).await.unwrap();
        slowest = slowest.max(start.elapsed());
        seen.insert(two.snapshot().groups().len());
    }
    assert!(slowest < Duration::from_secs(1), "it took {slowest:?}");
    assert_eq!(seen.len(), 20);
}

/// A client repeats one request on both nodes at once: one event is stored, and all callers get the same answer.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_callers_with_one_idempotency_key_get_one_answer() {
    let url = database("nodes_key").await;
    let nodes = [
        Arc::new(Catalog::open(journal(&url).await).await.unwrap()),
        Arc::new(Catalog::open(journal(&url).await).await.unwrap()),
    ];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let node = Arc::clone(&nodes[number % 2]);
        tasks.spawn(async move {
            node.execute(create(1), ChangeContext::by_actor("test"), Some("one key")).await
        });
    }
    let answers: Vec<_> = tasks.join_all().await.into_iter().map(|done| done.unwrap()).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    let same =
        |answer: &toolcrib_catalog::ExecutedCommand| (answer.position, answer.answer.clone());
    assert!(answers.iter().all(|answer| same(answer) == same(&answers[0])));
    assert_eq!(nodes[0].journal().head_position().await.unwrap(), Position(1));
}

/// A command is decided against the latest events of all nodes, even if it looks redundant or impossible on this node.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_not_decided_on_an_outdated_snapshot() {
    let url = database("nodes_stale").await;
    let one = Catalog::open(journal(&url).await).await.unwrap();
    let two = Catalog::open(journal(&url).await).await.unwrap();
    let group = |command| Command::Group(group_id(1), command);
    one.execute(create(1), ChangeContext::by_actor("test"), None).await.unwrap();
    for _ in 0..20 {
        let off = one
            .execute(group(GroupCommand::Deactivate), ChangeContext::by_actor("test"), None)
            .await
            .unwrap();
        let on = two
            .execute(group(GroupCommand::Activate), ChangeContext::by_actor("test"), None)
            .await
            .unwrap();
        assert!(off.answer["changed"] == true && on.answer["changed"] == true);
    }
}
