//! Reading: in order, in pages, as of a time; and waiting for new events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use toolcrib_catalog::journal::{
    Journal, Position, RecordedEvent, StreamName, StreamVersion, WAKE_UP_AT_LEAST_EVERY,
};

use crate::stores::{
    append_to_stream, memory, positions_and_versions, single_step, sqlite, stores,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_read_in_order_and_in_pages() {
    for store in stores("read_stream").await {
        let journal = &store.journal;
        for version in 0..10 {
            let append = single_step([
                append_to_stream("a", version, &["x"]),
                append_to_stream("b", version, &["y"]),
            ]);
            journal.append(append).await.unwrap();
        }
        let read = |after: u64, limit: usize| async move {
            let events =
                journal.read_stream(StreamName::new("a"), StreamVersion(after), limit).await;
            events.unwrap().iter().map(|event| event.version.0).collect::<Vec<_>>()
        };
        assert_eq!(read(0, 100).await, (1..=10).collect::<Vec<_>>());
        assert_eq!(read(0, 3).await, [1, 2, 3]);
        assert_eq!(read(3, 3).await, [4, 5, 6]);
        assert_eq!(read(9, 3).await, [10]);
        assert_eq!(read(10, 3).await, [0; 0]);
        assert_eq!(read(1000, 3).await, [0; 0]);
        assert_eq!(read(0, 0).await, [0; 0]);
        let part_of_a_name =
            journal.read_stream(StreamName::new("A"), StreamVersion::NONE, 10).await;
        assert_eq!(part_of_a_name.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_journal_is_read_in_order_and_in_pages() {
    for store in stores("read_after").await {
        let journal = &store.journal;
        for version in 0..10 {
            let append = single_step([
                append_to_stream("a", version, &["x"]),
                append_to_stream("b", version, &["y"]),
            ]);
            journal.append(append).await.unwrap();
        }
        let mut seen: Vec<RecordedEvent> = Vec::new();
        loop {
            let after = Position(seen.len() as u64);
            let some = journal.read_after(after, 7).await.unwrap();
            if some.is_empty() {
                break;
            }
            assert!(some.len() <= 7);
            seen.extend(some);
        }
        let expected = (0..20).map(|n: u64| (n + 1, ["a", "b"][(n % 2) as usize], n / 2 + 1));
        assert_eq!(positions_and_versions(&seen), expected.collect::<Vec<_>>());
        assert_eq!(journal.read_after(Position(5), 0).await.unwrap(), []);
        assert_eq!(journal.read_after(Position(1000), 10).await.unwrap(), []);
    }
}

/// The largest limits and positions are valid arguments; reading beyond the head returns nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_limits_and_positions_are_valid() {
    for store in stores("largest").await {
        let journal = &store.journal;
        journal.append(single_step([append_to_stream("a", 0, &["1", "2"])])).await.unwrap();
        assert_eq!(journal.read_after(Position(0), usize::MAX).await.unwrap().len(), 2);
        assert_eq!(journal.read_after(Position(u64::MAX), usize::MAX).await.unwrap(), []);
        let stream = || StreamName::new("a");
        let all = journal.read_stream(stream(), StreamVersion::NONE, usize::MAX).await.unwrap();
        assert_eq!(all.len(), 2);
        let none =
            journal.read_stream(stream(), StreamVersion(u64::MAX), usize::MAX).await.unwrap();
        assert_eq!(none, []);
        assert_eq!(journal.list_answers(String::new(), usize::MAX).await.unwrap(), []);
        assert_eq!(journal.document_digests(None, usize::MAX).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_maps_to_the_position_of_the_last_event_up_to_it() {
    for store in stores("position_at").await {
        let journal = &store.journal;
        assert_eq!(journal.position_at(Timestamp::MAX).await.unwrap(), Position(0));
        for version in [0, 2, 4] {
            journal
                .append(single_step([append_to_stream("a", version, &["x", "y"])]))
                .await
                .unwrap();
            store.clock.advance(SignedDuration::from_secs(1));
        }
        let events = store.events().await;
        let instant = SignedDuration::from_micros(1);
        for (first, last) in [(0, 1), (2, 3), (4, 5)] {
            let just_before = events[first].time - instant;
            let (before, at) = (Position(first as u64), Position(last as u64 + 1));
            assert_eq!(journal.position_at(just_before).await.unwrap(), before);
            assert_eq!(journal.position_at(events[last].time).await.unwrap(), at);
        }
        assert_eq!(journal.position_at(Timestamp::MAX).await.unwrap(), Position(6));
        assert_eq!(journal.position_at(Timestamp::MIN).await.unwrap(), Position(0));
        assert_eq!(journal.position_at(Timestamp::UNIX_EPOCH).await.unwrap(), Position(0));
    }
}

/// If the clock goes backwards, positions still define the order.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_ordered_by_position_even_if_the_clock_goes_back() {
    for store in [memory(), sqlite()] {
        for (version, then) in [(0, 10), (1, -60), (2, 5)] {
            store
                .journal
                .append(single_step([append_to_stream("a", version, &["x"])]))
                .await
                .unwrap();
            store.clock.advance(SignedDuration::from_secs(then));
        }
        let events = store.events().await;
        assert_eq!(positions_and_versions(&events), [(1, "a", 1), (2, "a", 2), (3, "a", 3)]);
        assert!(events[2].time < events[0].time);
        let at = |time: Timestamp| store.journal.position_at(time);
        assert_eq!(at(events[1].time).await.unwrap(), Position(3));
        assert_eq!(at(events[2].time).await.unwrap(), Position(3));
        assert_eq!(at(events[2].time - SignedDuration::from_secs(1)).await.unwrap(), Position(0));
    }
}

/// Time from an append on one node until a wait that began earlier on another node returns.
async fn measure_wake_delay(
    waiting: Arc<dyn Journal>,
    other: &dyn Journal,
    version: u64,
) -> Duration {
    let (ready, begins) = tokio::sync::oneshot::channel();
    let waiter = tokio::spawn(async move {
        let wait = waiting.wait_after(Position(version));
        ready.send(()).unwrap();
        wait.await;
        Instant::now()
    });
    begins.await.unwrap();
    other.append(single_step([append_to_stream("a", version, &["x"])])).await.unwrap();
    let stored = Instant::now();
    waiter.await.unwrap().saturating_duration_since(stored)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_wakes_soon_after_another_node_appends() {
    for store in stores("wake").await {
        let other = store.open_second_node().await;
        let mut fastest = Duration::MAX;
        for version in 0..10 {
            let took = measure_wake_delay(Arc::clone(&store.journal), &*other, version).await;
            assert!(took < 3 * WAKE_UP_AT_LEAST_EVERY, "it took {took:?}");
            fastest = fastest.min(took);
        }
        // A busy machine may delay one attempt, but not all ten.
        assert!(fastest < Duration::from_millis(100), "the fastest took {fastest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_wakes_at_once_if_newer_events_exist() {
    for store in stores("wake_at_once").await {
        store.journal.append(single_step([append_to_stream("a", 0, &["1", "2"])])).await.unwrap();
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            store.journal.wait_after(Position(1)).await;
            fastest = fastest.min(start.elapsed());
        }
        assert!(fastest < Duration::from_millis(100), "the fastest took {fastest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_wakes_by_its_timer_when_nothing_happens() {
    for store in stores("timer").await {
        let start = Instant::now();
        store.journal.wait_after(Position(0)).await;
        let took = start.elapsed();
        assert!(WAKE_UP_AT_LEAST_EVERY / 2 < took, "it took only {took:?}");
        assert!(took < 5 * WAKE_UP_AT_LEAST_EVERY, "it took {took:?}");
    }
}
