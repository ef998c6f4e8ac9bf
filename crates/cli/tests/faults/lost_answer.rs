//! An append that is stored while its response is lost: retried with its idempotency key, it is stored once.

use std::sync::Arc;
use std::time::Duration;

use catalog::journal::{
    AppendOutcome, AppendRequest, ChangeContext, IdempotencyEntry, JournalError, Position,
};
use catalog::source::{SourceCommand, SyncError};
use catalog::{Catalog, CommandError};
use model::Digest;
use serde_json::json;

use crate::proxy::{Proxy, ProxyMode};
use crate::server::{connect, database};
use crate::world::{Deadline, assert_sound, create_group, event, events};

fn with_idempotency_key(append: AppendRequest, key: &str) -> AppendRequest {
    let answer = format!("{{\"answer to\":\"{key}\"}}").into();
    let once = IdempotencyEntry { key: key.into(), request: Digest::of_bytes(key), answer };
    AppendRequest { idempotency: Some(once), ..append }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_with_a_lost_response_is_stored_once_under_its_key() {
    const TIMES: u64 = 40;
    let url = database("faults_answer").await;
    let proxy = Proxy::start().await;
    let (journal, direct) = (connect(&proxy.proxied_url(&url)).await, connect(&url).await);
    for number in 0..TIMES {
        let deadline = Deadline::after(Duration::from_secs(10));
        // Establish a connection first, so that the lost response is the one to the append.
        while journal.append(event("warm-up", number, "x")).await.is_err() {
            deadline.wait_or_panic("reconnecting").await;
        }
        let key = format!("key-{number}");
        let append = with_idempotency_key(event("diary", number, &key), &key);
        let lost = proxy.lost_count();
        proxy.set(ProxyMode::LosesAnswers);
        let result = journal.append(append.clone()).await;
        proxy.set(ProxyMode::Open);
        assert!(lost < proxy.lost_count(), "no answer was lost: {result:?}");
        assert!(result.is_err(), "{result:?}");
        let position = Position(2 * number + 2);
        let stored = direct.find_answer(key.clone()).await.unwrap().expect("the server stored it");
        assert_eq!(stored.position, position);
        // Retried, it returns the original answer.
        let again = loop {
            match journal.append(append.clone()).await {
                Ok(again) => break again,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            deadline.wait_or_panic("repeating").await;
        };
        assert_eq!(again, AppendOutcome::AlreadyStored(stored));
    }
    assert_eq!(events(&*direct).await.len() as u64, 2 * TIMES);
    assert_sound(&direct).await;
}

/// No other writer touched the stream. If this were reported as a conflict, the change would be stored a second time.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_with_a_lost_response_is_not_reported_as_a_conflict() {
    let url = database("faults_no_conflict").await;
    let proxy = Proxy::start().await;
    let (journal, direct) = (connect(&proxy.proxied_url(&url)).await, connect(&url).await);
    for number in 0..10 {
        let deadline = Deadline::after(Duration::from_secs(10));
        while journal.append(event("warm-up", number, "x")).await.is_err() {
            deadline.wait_or_panic("reconnecting").await;
        }
        proxy.set(ProxyMode::LosesAnswers);
        let result = journal.append(event("diary", number, "x")).await;
        proxy.set(ProxyMode::Open);
        match result {
            Err(JournalError::Unavailable { maybe_stored, .. }) => assert!(maybe_stored),
            result => panic!("{result:?}"),
        }
        assert_eq!(direct.head_position().await.unwrap(), Position(2 * number + 2));
    }
}

/// A counted failure must not be counted twice because a response was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_key_is_never_executed_twice() {
    let url = database("faults_no_key").await;
    let proxy = Proxy::start().await;
    let cut_off = Catalog::open(connect(&proxy.proxied_url(&url)).await).await.unwrap();
    let other = Catalog::open(connect(&url).await).await.unwrap();
    let source = |command| catalog::Command::Source("pets".parse().unwrap(), command);
    let profile = json!({"name": "Pets", "settings": {"kind": "openapi"}});
    let register = SourceCommand::Register(serde_json::from_value(profile).unwrap());
    cut_off.execute(source(register), ChangeContext::by_actor("ada"), None).await.unwrap();
    let mut counted = 0;
    for number in 0..10 {
        let deadline = Deadline::after(Duration::from_secs(10));
        let id = format!("warm-up-{number}");
        while cut_off
            .execute(create_group(&id), ChangeContext::by_actor("ada"), Some(&id))
            .await
            .is_err()
        {
            deadline.wait_or_panic("reconnecting").await;
        }
        let error = SyncError { code: "spec_fetch_failed".into(), message: "no answer".into() };
        let failed = source(SourceCommand::FailSync(error));
        proxy.set(ProxyMode::LosesAnswers);
        let result = cut_off.execute(failed, ChangeContext::by_actor("ada"), None).await;
        proxy.set(ProxyMode::Open);
        match result {
            Err(CommandError::Journal(JournalError::Unavailable { maybe_stored, .. })) => {
                assert!(maybe_stored);
            }
            result => panic!("{result:?}"),
        }
        other.wait_until_visible(other.journal().head_position().await.unwrap()).await.unwrap();
        let there = other.snapshot().source(&"pets".parse().unwrap()).unwrap().source.failures;
        counted += 1;
        assert_eq!(there, counted);
    }
    assert_sound(other.journal()).await;
}

/// Commands with idempotency keys while the connection is cut and restored at random: each is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn commands_with_keys_are_executed_once_however_often_they_are_retried() {
    let url = database("faults_repeated").await;
    let proxy = Arc::new(Proxy::start().await);
    let catalog = Arc::new(Catalog::open(connect(&proxy.proxied_url(&url)).await).await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..4 {
        let catalog = Arc::clone(&catalog);
        tasks.spawn(async move {
            for number in 0..15 {
                let id = format!("group-{lane}-{number}");
                let deadline = Deadline::after(Duration::from_secs(60));
                loop {
                    let context = ChangeContext::by_actor("ada");
                    match catalog.execute(create_group(&id), context, Some(&id)).await {
                        Ok(done) => break assert_eq!(done.answer["changed"], true, "{id}"),
                        Err(CommandError::Journal(error)) if error.is_retryable() => {}
                        // Stored, but the connection for reading was cut as well.
                        Err(CommandError::SnapshotBehind { .. }) => {}
                        Err(error) => panic!("{id}: {error}"),
                    }
                    deadline.wait_or_panic("repeating").await;
                }
            }
        });
    }
    let ways = [ProxyMode::LosesAnswers, ProxyMode::Open, ProxyMode::Cut, ProxyMode::Open];
    for way in ways.into_iter().cycle() {
        proxy.set(way);
        let time = if way == ProxyMode::Open { 120 } else { 30 };
        tokio::time::sleep(Duration::from_millis(time)).await;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        if tasks.is_empty() {
            break;
        }
    }
    let direct = connect(&url).await;
    assert_eq!(events(&*direct).await.len(), 60);
    assert_sound(&direct).await;
}
