//! Hanging sources do not delay the refreshes of other sources.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use catalog::source::SourceCommand;
use model::Health;
use serde_json::json;
use toolcrib::{CommandError, Context, RefreshResult, Refusal};

use crate::world::{World, id, profile};

/// A server that accepts connections and never answers.
fn hanging() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/openapi.json", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_source_delays_no_other() {
    let world = Arc::new(World::new().await);
    let (_listener, url) = hanging();
    for number in 0..3 {
        let profile = profile(json!({"name": "Slow", "url": url, "settings": {"kind": "openapi"}}));
        world.execute(&format!("slow-{number}"), SourceCommand::Register(profile)).await;
    }
    for number in 0..30 {
        world.offers(&format!("good-{number}"), &["a"]);
        world.register(&format!("good-{number}"), None).await;
    }
    let healthy = async {
        let is_healthy = |number| world.source(&format!("good-{number}")).health == Health::Healthy;
        let mut changes = world.catalog.changes();
        while !(0..30).all(is_healthy) {
            changes.changed().await.unwrap();
        }
    };
    tokio::select! {
        () = world.refresher.keep_fresh() => unreachable!("it goes on"),
        waited = tokio::time::timeout(Duration::from_secs(30), healthy) => waited.unwrap(),
    }
    for number in 0..3 {
        let slow = world.source(&format!("slow-{number}"));
        assert_eq!((slow.health, slow.last_sync_ended_at), (Health::Unknown, None));
        assert!(slow.last_sync_started_at.is_some());
    }
}

async fn refreshed_by_hand(world: &World) -> Result<RefreshResult, CommandError> {
    world.refresher.refresh(&id("pets"), false, &Context::by("admin")).await
}

#[tokio::test(start_paused = true)]
async fn a_manual_refresh_waits_for_another_node_for_a_limited_time() {
    let world = World::new().await;
    world.offers("pets", &["a"]);
    world.register("pets", None).await;
    let lease = world.catalog.journal().lease("refresh pets".to_owned()).await.unwrap();
    let refused = refreshed_by_hand(&world).await.unwrap_err();
    assert!(matches!(&refused, CommandError::Refused(Refusal::BeingRefreshed { .. })), "{refused}");
    let freed = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(lease);
    };
    let (result, ()) = tokio::join!(refreshed_by_hand(&world), freed);
    assert!(result.unwrap().success);
    assert_eq!(world.begun("pets").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_another_node_refreshes_is_skipped() {
    let world = World::new().await;
    world.offers("pets", &["a"]);
    world.register("pets", None).await;
    let lease = world.catalog.journal().lease("refresh pets".to_owned()).await.unwrap();
    world.pass(30).await;
    assert_eq!(world.begun("pets").await.len(), 0);
    drop(lease);
    world.pass(10).await;
    assert_eq!(world.begun("pets").await.len(), 1);
}
