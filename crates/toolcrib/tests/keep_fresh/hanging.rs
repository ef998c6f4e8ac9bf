//! Hanging sources do not delay the refreshes of other sources.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use catalog::source::SourceCommand;
use model::SourceHealth;
use serde_json::json;
use toolcrib::{ChangeContext, CommandError, CommandRefusal, RefreshResult};

use crate::world::{World, id, profile};

/// A server that accepts connections and never answers.
fn hanging_server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/openapi.json", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_source_delays_no_other() {
    let world = Arc::new(World::new().await);
    let (_listener, url) = hanging_server();
    for number in 0..3 {
        let profile = profile(json!({"name": "Slow", "url": url, "settings": {"kind": "openapi"}}));
        world.execute(&format!("slow-{number}"), SourceCommand::Register(profile)).await;
    }
    for number in 0..30 {
        world.write_specification(&format!("good-{number}"), &["a"]);
        world.register(&format!("good-{number}"), None).await;
    }
    let healthy = async {
        let is_healthy =
            |number| world.source(&format!("good-{number}")).health == SourceHealth::Healthy;
        let mut changes = world.catalog.subscribe();
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
        assert_eq!((slow.health, slow.last_sync_ended_at), (SourceHealth::Unknown, None));
        assert!(slow.last_sync_started_at.is_some());
    }
}

async fn refresh_manually(world: &World) -> Result<RefreshResult, CommandError> {
    world.refresher.refresh(&id("pets"), false, &ChangeContext::by_actor("admin")).await
}

#[tokio::test(start_paused = true)]
async fn a_manual_refresh_waits_for_another_node_for_a_limited_time() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    let lease = world.catalog.journal().acquire_lease("refresh pets".to_owned()).await.unwrap();
    let refused = refresh_manually(&world).await.unwrap_err();
    assert!(
        matches!(&refused, CommandError::Refused(CommandRefusal::BeingRefreshed { .. })),
        "{refused}"
    );
    let freed = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(lease);
    };
    let (result, ()) = tokio::join!(refresh_manually(&world), freed);
    assert!(result.unwrap().success);
    assert_eq!(world.refresh_start_times("pets").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_another_node_refreshes_is_skipped() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    let lease = world.catalog.journal().acquire_lease("refresh pets".to_owned()).await.unwrap();
    world.run_for_seconds(30).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 0);
    drop(lease);
    world.run_for_seconds(10).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 1);
}
