//! No answer is older than the last acknowledged change: neither from a cache nor in a race.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use catalog::policy::PolicyCommand;
use catalog::tool::ToolCommand;
use serde_json::json;
use tokio::task::JoinHandle;
use toolcrib::Command;

use crate::world::{World, agent};

const CHANGES: u64 = 120;

/// A writer revokes and restores a grant while other writers change other things. Readers never see a revoked grant,
/// and never miss a restored one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_a_stale_grant_after_an_acknowledged_change() {
    let world = Arc::new(World::with_tools(&[("pets", &["get_pet", "add_pet"])]).await);
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("p", json!({"role": "x"}), &["all"]).await;
    // Twice the number of acknowledged changes; odd while a change is in progress. Granted after an even number of
    // changes.
    let clock = Arc::new(AtomicU64::new(0));
    let (done, judged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = (0..3)
        .map(|number| {
            let (world, clock) = (Arc::clone(&world), Arc::clone(&clock));
            let (done, judged) = (Arc::clone(&done), Arc::clone(&judged));
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    let before = clock.load(Ordering::SeqCst);
                    let claims = json!({"role": "x", "iat": before, "reader": number});
                    let view = world.crib.view(&agent(claims));
                    let found = view.find("get_pet").is_ok();
                    assert_eq!(found, view.list().iter().any(|tool| tool.name() == "get_pet"));
                    // Only a read that did not overlap with a change has exactly one right answer.
                    if clock.load(Ordering::SeqCst) == before && before % 2 == 0 {
                        assert_eq!(found, (before / 2) % 2 == 0, "after {} changes", before / 2);
                        judged.fetch_add(1, Ordering::SeqCst);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    // Other writers make unrelated changes meanwhile, so that many snapshots replace each other.
    let others: Vec<_> = (0..2)
        .map(|number| {
            let (world, done) = (Arc::clone(&world), Arc::clone(&done));
            tokio::spawn(async move {
                let id = format!("other-{number}");
                while !done.load(Ordering::SeqCst) {
                    world.group(&id, json!({"tools": ["pets:add_pet"]})).await;
                    let delete = catalog::group::GroupCommand::Delete;
                    world.execute(Command::Group(id.parse().unwrap(), delete)).await;
                }
            })
        })
        .collect();
    for change in 0..CHANGES {
        let policy = |command| Command::Policy("p".parse().unwrap(), command);
        let tool = |command| Command::Tool("pets:get_pet".parse().unwrap(), command);
        let command = match change % 4 {
            0 => policy(PolicyCommand::Deactivate),
            1 => policy(PolicyCommand::Activate),
            2 => tool(ToolCommand::Disable),
            _ => tool(ToolCommand::Enable),
        };
        clock.fetch_add(1, Ordering::SeqCst);
        world.execute(command).await;
        let before = judged.load(Ordering::SeqCst);
        clock.fetch_add(1, Ordering::SeqCst);
        // Wait until a reader has checked this state; a reader that found a wrong answer has finished.
        while judged.load(Ordering::SeqCst) == before
            && !readers.iter().all(JoinHandle::is_finished)
        {
            tokio::task::yield_now().await;
        }
    }
    done.store(true, Ordering::SeqCst);
    for task in readers.into_iter().chain(others) {
        task.await.unwrap();
    }
}

/// Claims that no policy reads make no difference; every claim that a policy reads does (AUZ-12).
#[tokio::test]
async fn agents_that_differ_in_a_claim_that_policies_read_are_distinguished() {
    let world = World::with_tools(&[("pets", &["get_pet", "add_pet"])]).await;
    world.group("readers", json!({"tools": ["pets:get_pet"]})).await;
    for claim in ["auth_time", "nonce", "session_state", "iat", "jti"] {
        world.policy(&claim.replace('_', "-"), json!({claim: 7}), &["readers"]).await;
        let count = |value: u32| world.view(json!({"sub": "me", claim: value})).list().len();
        assert_eq!([count(7), count(8), count(7)], [1, 0, 1], "{claim}");
    }
}

/// A policy that begins to read a claim applies at once, also to agents whose toolset is cached.
#[tokio::test]
async fn a_new_policy_that_reads_another_claim_applies_at_once() {
    let world = World::with_tools(&[("pets", &["get_pet", "add_pet"])]).await;
    world.group("readers", json!({"tools": ["pets:get_pet"]})).await;
    world.group("writers", json!({"tools": ["pets:add_pet"]})).await;
    world.policy("p", json!({"role": "x"}), &["readers"]).await;
    let count = |team: &str| world.view(json!({"role": "x", "team": team})).list().len();
    assert_eq!([count("a"), count("b")], [1, 1]);
    world.policy("q", json!({"team": "a"}), &["writers"]).await;
    assert_eq!([count("a"), count("b")], [2, 1]);
}
