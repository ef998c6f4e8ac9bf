//! When a source is due: after registration, on its schedule, after failures and after a restart.

use catalog::source::SourceCommand;
use model::{SourceHealth, SourceProfile};
use serde_json::json;

use crate::world::{World, gaps, profile};

#[tokio::test(start_paused = true)]
async fn a_source_is_refreshed_after_registration_and_then_on_its_schedule() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.write_specification("dogs", &["a"]);
    world.register("pets", Some(100)).await;
    world.run_for_seconds(300).await;
    world.register("dogs", None).await;
    world.run_for_seconds(10_000).await;
    let begun = world.refresh_start_times("pets").await;
    assert!(begun[0] < 1.0, "{begun:?}");
    assert!(gaps(&begun).iter().all(|gap| (90.0..111.0).contains(gap)), "{begun:?}");
    assert!((92..=114).contains(&begun.len()), "{}", begun.len());
    let begun = world.refresh_start_times("dogs").await;
    assert!(begun.len() == 1 && begun[0] < 301.0, "{begun:?}");
    assert_eq!(world.source("dogs").health, SourceHealth::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_changed_source_is_refreshed_at_once_although_the_refresher_sleeps() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.write_specification("dogs", &["a", "b"]);
    world.register("pets", None).await;
    let changes = async {
        let minute = std::time::Duration::from_secs(60);
        tokio::time::sleep(minute).await;
        let renamed = SourceProfile {
            name: "Cats".parse().unwrap(),
            ..world.file_source_profile("pets", None)
        };
        world.execute("pets", SourceCommand::Update(renamed)).await;
        tokio::time::sleep(minute).await;
        world.execute("pets", SourceCommand::Update(world.file_source_profile("dogs", None))).await;
        tokio::time::sleep(minute).await;
        world.execute("pets", SourceCommand::Disable).await;
        tokio::time::sleep(minute).await;
        world.execute("pets", SourceCommand::Enable).await;
    };
    tokio::join!(world.run_for_seconds(1000), changes);
    let begun: Vec<u64> =
        world.refresh_start_times("pets").await.iter().map(|at| at.round() as u64).collect();
    assert_eq!(begun, [0, 120, 240]);
}

#[tokio::test(start_paused = true)]
async fn failed_refreshes_are_retried_with_backoff_until_success() {
    let world = World::new().await;
    world.register("pets", None).await;
    world.run_for_seconds(4000).await;
    let begun = world.refresh_start_times("pets").await;
    let nominal = [5, 10, 20, 40, 80, 160, 320, 640, 900, 900];
    let gaps = gaps(&begun);
    assert!(nominal.len() <= gaps.len(), "{begun:?}");
    for (gap, nominal) in gaps.iter().zip(nominal) {
        let nominal = f64::from(nominal);
        assert!((nominal * 0.9..nominal * 1.1 + 1.0).contains(gap), "{gaps:?}");
    }
    assert_eq!(world.source("pets").health, SourceHealth::Unhealthy);

    world.write_specification("pets", &["a"]);
    world.run_for_seconds(1000).await;
    assert_eq!(
        (world.source("pets").health, world.source("pets").failures),
        (SourceHealth::Healthy, 0)
    );
    let recovered = world.refresh_start_times("pets").await.len();
    world.run_for_seconds(10_000).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), recovered);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_refresh_is_retried_with_backoff() {
    let world = World::new().await;
    world.write_specification("pets", &["a", "b", "c"]);
    world.register("pets", Some(600)).await;
    world.run_for_seconds(10).await;
    world.write_specification("pets", &["a"]);
    world.run_for_seconds(24 * 3600).await;
    let source = world.source("pets");
    assert_eq!(&*source.last_sync_error.unwrap().code, "inventory_shrinks");
    assert_eq!(world.catalog.snapshot().tool_count(), 3);
    let often = world.refresh_start_times("pets").await.len();
    assert!((130..=180).contains(&often), "{often} in a day");

    // The admin raises the shrink limit.
    let allowed =
        SourceProfile { shrink_limit: 100, ..world.file_source_profile("pets", Some(600)) };
    world.write_specification("pets", &["a", "d"]);
    world.execute("pets", SourceCommand::Update(allowed)).await;
    world.run_for_seconds(5).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), often + 1);
    assert_eq!(world.source("pets").health, SourceHealth::Healthy);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_only_due_sources_are_refreshed() {
    let world = World::new().await;
    for name in ["fresh", "often", "failing"] {
        world.write_specification(name, &["a"]);
    }
    world.register("fresh", None).await;
    world.register("often", Some(100)).await;
    world.register("failing", None).await;
    world.delete_specification("failing");
    world.run_for_seconds(60).await;
    let failures = world.refresh_start_times("failing").await.len();
    let world = world.restart().await;
    // The fourth attempt failed at about 35 s, so the fifth is due at about 75 s and not right after the restart.
    world.run_for_seconds(5).await;
    assert_eq!(world.refresh_start_times("failing").await.len(), failures);
    world.run_for_seconds(25).await;
    let counts = [
        world.refresh_start_times("fresh").await.len(),
        world.refresh_start_times("often").await.len(),
    ];
    assert_eq!((counts, world.refresh_start_times("failing").await.len()), ([1, 1], failures + 1));
    // The source becomes due while no refresher runs.
    tokio::time::advance(std::time::Duration::from_secs(3600)).await;
    let world = world.restart().await;
    world.run_for_seconds(5).await;
    let counts = [
        world.refresh_start_times("fresh").await.len(),
        world.refresh_start_times("often").await.len(),
    ];
    assert_eq!(counts, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_of_a_terminated_process_is_repeated_by_the_next() {
    let world = World::new().await;
    world.write_specification("pets", &["a"]);
    world.register("pets", None).await;
    world.execute("pets", SourceCommand::StartSync).await;
    let world = world.restart().await;
    world.run_for_seconds(4).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 1);
    world.run_for_seconds(3).await;
    assert_eq!(world.refresh_start_times("pets").await.len(), 2);
    assert_eq!(world.source("pets").health, SourceHealth::Healthy);
}

#[tokio::test(start_paused = true)]
async fn sources_with_declared_tools_are_not_refreshed_on_schedule() {
    let world = World::new().await;
    for kind in ["custom", "workflow"] {
        let settings = json!({"kind": kind});
        let profile = profile(json!({"name": kind, "settings": settings, "refresh_every": 1}));
        world.execute(kind, SourceCommand::Register(profile)).await;
    }
    world.run_for_seconds(3600).await;
    assert_eq!(world.refresh_start_times("custom").await, [0.0; 0]);
    // A workflow source is read once after its registration.
    assert_eq!(world.refresh_start_times("workflow").await, [0.0]);
}
