//! A PostgreSQL server that fails and returns: reads from memory continue, writes fail fast, and everything resumes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::journal::{ChangeContext, JournalError, Position, PostgresJournal};
use catalog::{Catalog, CommandError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::program::{Running, run, toolcrib};
use crate::proxy::{Proxy, ProxyMode};
use crate::server::{client, connect, database};
use crate::world::{Deadline, assert_sound, create_group, event};

/// Longest time until an impossible write fails.
const FAILURE_DEADLINE: Duration = Duration::from_secs(8);

async fn converge(one: &Catalog, two: &Catalog) {
    let deadline = Deadline::after(Duration::from_secs(10));
    while one.snapshot().position() != two.snapshot().position() {
        deadline.wait_or_panic("converging").await;
    }
    assert_eq!(one.snapshot().digest(), two.snapshot().digest());
}

/// Status and whole response of the readiness endpoint.
async fn readiness(address: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer.split(' ').nth(1).unwrap().to_owned(), answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_journal_is_not_ready_until_it_reconnects() {
    let url = database("faults_ready").await;
    let proxy = Proxy::start().await;
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("serve --listen 127.0.0.1:0 --journal {}", proxy.proxied_url(&url));
    let mut child = Running(toolcrib(folder.path(), &arguments).spawn().unwrap());
    let mut greeting = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    let address = greeting.trim().rsplit_once("http://").unwrap().1.to_owned();
    assert_eq!(readiness(&address).await.0, "200");
    proxy.set(ProxyMode::Cut);
    let deadline = Deadline::after(Duration::from_secs(20));
    // First writing fails; after some seconds the catalog also counts as behind.
    loop {
        let (status, answer) = readiness(&address).await;
        if answer.contains("[\"journal_unavailable\",\"catalog_behind\"]") {
            assert_eq!(status, "503");
            assert!(!answer.contains("postgres"), "{answer}");
            break;
        }
        deadline.wait_or_panic("noticing").await;
    }
    proxy.set(ProxyMode::Open);
    let deadline = Deadline::after(Duration::from_secs(20));
    while readiness(&address).await.0 != "200" {
        deadline.wait_or_panic("recovering").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_continue_while_the_server_is_lost_and_writes_resume_afterwards() {
    let url = database("faults_lost").await;
    let proxy = Proxy::start().await;
    let journal = connect(&proxy.proxied_url(&url)).await;
    let cut_off = Catalog::open(Arc::clone(&journal)).await.unwrap();
    let other = Catalog::open(connect(&url).await).await.unwrap();
    for round in 0..3 {
        let create = |who: &str| create_group(&format!("{who}-{round}"));
        cut_off.execute(create("before"), ChangeContext::by_actor("ada"), None).await.unwrap();
        converge(&cut_off, &other).await;
        proxy.set(ProxyMode::Cut);
        let known = cut_off.snapshot().digest();
        for attempt in 0..3 {
            let start = Instant::now();
            match journal.append(event(&format!("cut-{round}-{attempt}"), 0, "x")).await {
                Err(error @ JournalError::Unavailable { .. }) => {
                    assert!(error.is_retryable());
                    assert!(error.to_string().contains("reconnects by itself"), "{error}");
                }
                result => panic!("{result:?}"),
            }
            match cut_off.execute(create("during"), ChangeContext::by_actor("ada"), None).await {
                Err(CommandError::Journal(JournalError::Unavailable { .. })) => {}
                result => panic!("{result:?}"),
            }
            let read = journal.read_after(Position(0), 10).await;
            assert!(matches!(read, Err(JournalError::Unavailable { .. })), "{read:?}");
            assert!(start.elapsed() < FAILURE_DEADLINE, "it took {:?}", start.elapsed());
            assert_eq!(cut_off.snapshot().digest(), known, "the last snapshot stays in service");
        }
        // Another node still writes.
        other.execute(create("elsewhere"), ChangeContext::by_actor("ada"), None).await.unwrap();
        assert_eq!(cut_off.snapshot().digest(), known);
        proxy.set(ProxyMode::Open);
        converge(&cut_off, &other).await;
        let deadline = Deadline::after(Duration::from_secs(5));
        while cut_off.execute(create("after"), ChangeContext::by_actor("ada"), None).await.is_err()
        {
            deadline.wait_or_panic("resuming").await;
        }
        converge(&cut_off, &other).await;
    }
    let groups: BTreeSet<_> =
        other.snapshot().groups().map(|entry| entry.group.id.to_string()).collect();
    for round in 0..3 {
        for who in ["before", "elsewhere", "after"] {
            assert!(groups.contains(&format!("{who}-{round}")), "{who}-{round} of {groups:?}");
        }
    }
    assert_sound(&journal).await;
}

/// The server repeatedly terminates all sessions while both nodes write.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_terminated_sessions_lose_and_duplicate_nothing() {
    let url = database("faults_terminated").await;
    let nodes = [
        Arc::new(Catalog::open(connect(&url).await).await.unwrap()),
        Arc::new(Catalog::open(connect(&url).await).await.unwrap()),
    ];
    let admin = client(&url).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().cloned().enumerate() {
        tasks.spawn(async move {
            for command in 0..40 {
                let id = format!("node-{number}-{command}");
                let deadline = Deadline::after(Duration::from_secs(10));
                loop {
                    let context = ChangeContext::by_actor("ada");
                    match node.execute(create_group(&id), context, Some(&id)).await {
                        Ok(done) => break assert_eq!(done.answer["id"], id),
                        Err(CommandError::Journal(error)) if error.is_retryable() => {}
                        Err(error) => panic!("{id}: {error}"),
                    }
                    deadline.wait_or_panic("writing").await;
                }
            }
        });
    }
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut cuts = 0;
    while !tasks.is_empty() {
        let ended: i64 = admin.query_one(cut, &[]).await.unwrap().get(0);
        cuts += usize::from(0 < ended);
        tokio::time::sleep(Duration::from_millis(60)).await;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
    }
    assert!(1 < cuts, "nothing was cut");
    converge(&nodes[0], &nodes[1]).await;
    assert_eq!(nodes[0].snapshot().groups().len(), 80);
    assert_eq!(nodes[0].snapshot().position(), Position(80), "an event was stored twice");
    assert_sound(nodes[0].journal()).await;
}

/// No notification arrives, because the connection was down at the time: the poll timer must be enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_missed_a_notification_catches_up() {
    let url = database("faults_deaf").await;
    let proxy = Proxy::start().await;
    let deaf = Catalog::open(connect(&proxy.proxied_url(&url)).await).await.unwrap();
    let other = Catalog::open(connect(&url).await).await.unwrap();
    proxy.set(ProxyMode::Cut);
    other.execute(create_group("unheard"), ChangeContext::by_actor("ada"), None).await.unwrap();
    proxy.set(ProxyMode::Open);
    converge(&deaf, &other).await;
}

/// The connection stays open but no data arrives, as with a stopped server or a proxy that dropped the connection. The
/// test's clock jumps from timer to timer, so the test does not wait.
#[tokio::test]
async fn an_unresponsive_server_times_out_and_is_reconnected() {
    const LONG: Duration = Duration::from_secs(300);
    let url = database("faults_silent").await;
    let proxy = Proxy::start().await;
    let journal = connect(&proxy.proxied_url(&url)).await;
    journal.append(event("diary", 0, "before")).await.unwrap();
    proxy.set(ProxyMode::Silent);
    tokio::time::pause();
    let append = tokio::time::timeout(LONG, journal.append(event("diary", 1, "during"))).await;
    let append = append.expect("a writer waits for ever");
    let given_up = matches!(append, Err(JournalError::Unavailable { maybe_stored: true, .. }));
    assert!(given_up, "{append:?}");
    let read = tokio::time::timeout(LONG, journal.read_after(Position(0), 10)).await;
    let read = read.expect("a reader waits for ever");
    assert!(matches!(read, Err(JournalError::Unavailable { .. })), "{read:?}");
    tokio::time::resume();
    proxy.set(ProxyMode::Open);
    let deadline = Deadline::after(Duration::from_secs(10));
    while journal.append(event("after", 0, "x")).await.is_err() {
        deadline.wait_or_panic("resuming").await;
    }
    while journal.read_after(Position(0), 10).await.is_err() {
        deadline.wait_or_panic("reading again").await;
    }
    assert_sound(&journal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_at_startup_is_reported_quickly() {
    let url = database("faults_start").await;
    let proxy = Proxy::start().await;
    let by_way = proxy.proxied_url(&url);
    drop(connect(&by_way).await);
    proxy.set(ProxyMode::Cut);
    let start = Instant::now();
    let result = PostgresJournal::connect(by_way.parse().unwrap()).await;
    let error = result.err().expect("the way is cut");
    let is_said =
        matches!(error, JournalError::CannotOpen { .. } | JournalError::Unavailable { .. });
    assert!(is_said, "{error}");
    assert!(start.elapsed() < FAILURE_DEADLINE);
    let folder = tempfile::tempdir().unwrap();
    for verb in ["journal show", "journal collect"] {
        let path = folder.path().to_owned();
        let journal = by_way.clone();
        let verb_run = tokio::task::spawn_blocking(move || {
            run(toolcrib(&path, verb).env("TOOLCRIB_JOURNAL", journal))
        });
        let refused = verb_run.await.unwrap();
        refused.assert_rejected(verb);
        assert!(refused.stderr.contains("cannot be"), "{}", refused.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_rejected_by_every_verb() {
    let url = database("faults_newer").await;
    drop(connect(&url).await);
    let admin = client(&url).await;
    admin.batch_execute("INSERT INTO toolcrib_format VALUES (99)").await.unwrap();
    for result in [
        PostgresJournal::connect(url.parse().unwrap()).await,
        PostgresJournal::connect_to_read(url.parse().unwrap()).await,
    ] {
        assert!(matches!(result.err(), Some(JournalError::Newer { found: 99, .. })));
    }
    let folder = tempfile::tempdir().unwrap();
    for verb in
        ["journal show", "journal tail", "journal verify", "journal export", "journal collect"]
    {
        let (path, journal) = (folder.path().to_owned(), url.clone());
        let verb_run = tokio::task::spawn_blocking(move || {
            run(toolcrib(&path, verb).env("TOOLCRIB_JOURNAL", journal))
        });
        let refused = verb_run.await.unwrap();
        refused.assert_rejected(verb);
        assert!(refused.stderr.contains("has format 99"), "{}", refused.stderr);
    }
}
