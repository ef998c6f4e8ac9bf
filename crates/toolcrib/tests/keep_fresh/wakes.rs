//! Change notifications wake the refresher; a flood of them does no harm.

use std::time::Duration;

use catalog::source::SourceCommand;
use serde_json::json;

use crate::world::{World, gaps, id, profile};

const MOMENT: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn repeated_wakes_lead_to_one_prompt_refresh() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    let wakes = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        world.write_specification("pets", &["a", "b"]);
        for _ in 0..50 {
            world.refresher.request_refresh(&id("pets"));
        }
    };
    tokio::join!(world.run_for_seconds(1000), wakes);
    let begun = world.refresh_start_times("pets").await;
    assert!(begun.len() == 2 && (100.0..101.0).contains(&begun[1]), "{begun:?}");
    assert_eq!(world.catalog.snapshot().tool_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wake_during_a_refresh_leads_to_another_refresh() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    // Another process began a refresh that never ended.
    world.execute("pets", SourceCommand::StartSync).await;
    world.refresher.request_refresh(&id("pets"));
    world.run_for_seconds(2).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 2);
    // A refresh that begins after the notification already covers it.
    world.refresher.request_refresh(&id("pets"));
    tokio::time::advance(Duration::from_secs(1)).await;
    world.execute("pets", SourceCommand::StartSync).await;
    world.run_for_seconds(2).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_wakes_is_throttled_and_delays_no_other_source() {
    let world = World::new().await;
    for name in ["loud", "quiet"] {
        world.write_specification(name, &["a"]);
        world.register(name, Some(60)).await;
    }
    let flood = async {
        for _ in 0..60_000 {
            world.refresher.request_refresh(&id("loud"));
            tokio::time::sleep(MOMENT).await;
        }
    };
    tokio::join!(world.run_for_seconds(600), flood);
    let loud = world.refresh_start_times("loud").await;
    assert!((10..=30).contains(&loud.len()), "{loud:?}");
    assert!(gaps(&loud).iter().all(|gap| 1.0 <= *gap), "{loud:?}");
    let quiet = world.refresh_start_times("quiet").await;
    assert!(gaps(&quiet).iter().all(|gap| (54.0..67.0).contains(gap)), "{quiet:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_disabled_and_declared_sources_are_not_woken() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    let declared = profile(json!({"name": "Own", "settings": {"kind": "custom"}}));
    world.execute("own", SourceCommand::Register(declared)).await;
    world.execute("pets", SourceCommand::Disable).await;
    for name in ["pets", "own", "none"] {
        world.refresher.request_refresh(&id(name));
    }
    world.run_for_seconds(100).await;
    assert_eq!(
        (
            world.refresh_start_times("pets").await.len(),
            world.refresh_start_times("own").await.len()
        ),
        (0, 0)
    );
}
