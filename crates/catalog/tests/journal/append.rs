//! Appending: one atomic step over any number of streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Actor, Digest, RawJson, SchemaDocument};
use toolcrib_catalog::journal::{
    APPEND_LIMIT, AppendOutcome, ChangeContext, EVENT_LIMIT, IdempotencyEntry, Journal,
    JournalError, NewEvent, Position, StreamName, StreamVersion,
};

use crate::stores::{
    append_to_stream, expect_conflict, memory, positions_and_versions, single_step, stores,
};

#[tokio::test(flavor = "multi_thread")]
async fn positions_and_versions_count_from_one_without_gaps() {
    for store in stores("count").await {
        let journal = &store.journal;
        assert_eq!(journal.head_position().await.unwrap(), Position(0));
        let first = journal
            .append(single_step([
                append_to_stream("a", 0, &["1", "2"]),
                append_to_stream("b", 0, &["3"]),
            ]))
            .await;
        assert_eq!(first.unwrap(), AppendOutcome::Stored(Position(3)));
        let second = journal.append(single_step([append_to_stream("b", 1, &["4", "5"])])).await;
        assert_eq!(second.unwrap(), AppendOutcome::Stored(Position(5)));
        // A refused step leaves no gap in the positions.
        assert!(journal.append(single_step([append_to_stream("b", 1, &["never"])])).await.is_err());
        let third = journal.append(single_step([append_to_stream("a", 2, &["6"])])).await;
        assert_eq!(third.unwrap(), AppendOutcome::Stored(Position(6)));
        assert_eq!(journal.head_position().await.unwrap(), Position(6));
        let events = store.events().await;
        let expected =
            [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, "b", 2), (5, "b", 3), (6, "a", 3)];
        assert_eq!(positions_and_versions(&events), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_envelope_has_its_actor_and_correlation_ids() {
    for store in stores("envelope").await {
        let context = ChangeContext {
            actor: Actor::new("ada"),
            correlation_id: Some("request 7".into()),
            causation_id: Some("event 6".into()),
        };
        let mut append = single_step([append_to_stream("a", 0, &["1"])]);
        append.context = context;
        store.journal.append(append).await.unwrap();
        store.journal.append(single_step([append_to_stream("a", 1, &["2"])])).await.unwrap();
        let events = store.events().await;
        let who = |place: usize| {
            let event: &toolcrib_catalog::journal::RecordedEvent = &events[place];
            (&*event.actor, event.correlation_id.as_deref(), event.causation_id.as_deref())
        };
        assert_eq!(who(0), (Actor::new("ada").as_str(), Some("request 7"), Some("event 6")));
        assert_eq!(who(1), (ChangeContext::default().actor.as_str(), None, None));
        assert_eq!((&*events[0].kind, &*events[0].data), ("Tested", r#"{"text":"1"}"#));
    }
}

/// With different times, a snapshot as of a time could contain half a step.
#[tokio::test(flavor = "multi_thread")]
async fn all_events_of_a_step_have_the_same_time() {
    for store in stores("one_time").await {
        let texts = vec!["x"; 300];
        store
            .journal
            .append(single_step([
                append_to_stream("a", 0, &texts),
                append_to_stream("b", 0, &texts),
            ]))
            .await
            .unwrap();
        let events = store.events().await;
        assert_eq!(events.first().unwrap().time, events.last().unwrap().time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_in_the_third_stream_stores_nothing_of_the_first_two() {
    for store in stores("all_or_nothing").await {
        let journal = &store.journal;
        journal.append(single_step([append_to_stream("c", 0, &["1"])])).await.unwrap();
        let document = document("of a refused step");
        let once = IdempotencyEntry {
            key: "key".into(),
            request: Digest::of_bytes("r"),
            answer: "1".into(),
        };
        // Once with an expected version of 0 (a new stream), once with the wrong existing version.
        for expected in [0, 2] {
            let streams = [
                append_to_stream("a", 0, &["2"]),
                append_to_stream("b", 0, &["3", "4"]),
                append_to_stream("c", expected, &["5"]),
            ];
            let mut append = single_step(streams);
            append.documents = vec![document.clone()];
            append.idempotency = Some(once.clone());
            let result = journal.append(append).await;
            assert_eq!(expect_conflict(result), ("c".to_owned(), expected, 1));
            assert_eq!(positions_and_versions(&store.events().await), [(1, "c", 1)]);
            for stream in ["a", "b"] {
                let events =
                    journal.read_stream(StreamName::new(stream), StreamVersion::NONE, 10).await;
                assert_eq!(events.unwrap(), []);
            }
            assert_eq!(journal.read_documents(vec![document.digest]).await.unwrap(), []);
            assert_eq!(journal.find_answer("key".to_owned()).await.unwrap(), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_error_names_the_stream_and_both_versions() {
    for store in stores("conflict").await {
        let journal = &store.journal;
        journal.append(single_step([append_to_stream("a", 0, &["1", "2", "3"])])).await.unwrap();
        for (stream, expected, actual) in [("a", 0, 3), ("a", 2, 3), ("a", 4, 3), ("b", 1, 0)] {
            let result =
                journal.append(single_step([append_to_stream(stream, expected, &["x"])])).await;
            assert_eq!(expect_conflict(result), (stream.to_owned(), expected, actual));
        }
        assert_eq!(store.events().await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_must_not_list_a_stream_twice() {
    for store in stores("twice").await {
        let result = store
            .journal
            .append(single_step([
                append_to_stream("a", 0, &["1"]),
                append_to_stream("a", 1, &["2"]),
            ]))
            .await;
        assert!(matches!(result, Err(JournalError::DoesNotFollow { .. })), "{result:?}");
        assert_eq!(store.events().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_must_not_list_a_stream_without_events() {
    for store in stores("idle").await {
        let result = store
            .journal
            .append(single_step([append_to_stream("b", 0, &["x"]), append_to_stream("a", 0, &[])]))
            .await;
        assert!(matches!(result, Err(JournalError::DoesNotFollow { .. })), "{result:?}");
        assert_eq!(store.events().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_step_is_accepted_and_stores_nothing() {
    for store in stores("nothing").await {
        let journal = &store.journal;
        assert_eq!(
            journal.append(single_step([])).await.unwrap(),
            AppendOutcome::Stored(Position(0))
        );
        journal.append(single_step([append_to_stream("a", 0, &["1"])])).await.unwrap();
        assert_eq!(
            journal.append(single_step([])).await.unwrap(),
            AppendOutcome::Stored(Position(1))
        );
        assert_eq!(positions_and_versions(&store.events().await), [(1, "a", 1)]);
    }
}

/// Sixteen writers on all nodes compete for the same fifty versions of one stream.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_concurrent_append_gets_each_version_of_a_stream() {
    const VERSIONS: u64 = 50;
    for store in stores("race").await {
        let nodes = [store.open_second_node().await, store.open_second_node().await];
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..16 {
            tasks.spawn(append_until_full(Arc::clone(&nodes[number % 2]), number, VERSIONS));
        }
        let mut winners: BTreeMap<u64, String> = BTreeMap::new();
        for (version, text) in tasks.join_all().await.into_iter().flatten() {
            assert_eq!(winners.insert(version, text), None, "version {version} was won twice");
        }
        let events = store.events().await;
        let there: BTreeMap<_, _> =
            events.iter().map(|event| (event.version.0, event.data.to_string())).collect();
        assert_eq!(there.len() as u64, VERSIONS);
        assert_eq!(there, winners);
    }
}

/// Appends until the stream is full; returns the versions and event data that this writer stored.
async fn append_until_full(
    journal: Arc<dyn Journal>,
    number: usize,
    versions: u64,
) -> Vec<(u64, String)> {
    let mut won = Vec::new();
    let mut expected = 0;
    while expected < versions {
        let text = format!("{number} at {expected}");
        let append = single_step([append_to_stream("a", expected, &[&text])]);
        let data = append.streams[0].events[0].data.to_string();
        expected = match journal.append(append).await {
            Ok(AppendOutcome::Stored(_)) => {
                won.push((expected + 1, data));
                expected + 1
            }
            Ok(AppendOutcome::AlreadyStored(_)) => panic!("there was no key"),
            Err(JournalError::Conflict { actual, .. }) => actual.0,
            Err(error) => panic!("{error}"),
        };
    }
    won
}

/// Stores may batch concurrent appends; a conflict of one must not fail the others in its batch.
#[tokio::test(flavor = "multi_thread")]
async fn among_concurrent_appends_only_conflicting_ones_are_refused() {
    for store in stores("crowd").await {
        store.journal.append(single_step([append_to_stream("taken", 0, &["1"])])).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let journal = Arc::clone(&store.journal);
            tasks.spawn(async move {
                let own = format!("own-{number}");
                let stream = if number % 3 == 0 { "taken" } else { &own };
                let result =
                    journal.append(single_step([append_to_stream(stream, 0, &["x"])])).await;
                assert_eq!(result.is_err(), number % 3 == 0, "{stream}: {result:?}");
            });
        }
        tasks.join_all().await;
        assert_eq!(store.events().await.len(), 1 + 66);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_with_an_oversized_event_is_refused_entirely() {
    for store in stores("too_large").await {
        let mut append =
            single_step([append_to_stream("a", 0, &["1"]), append_to_stream("b", 0, &[])]);
        let data = format!("\"{}\"", "x".repeat(EVENT_LIMIT - 2)).into_boxed_str();
        append.streams[1].events.push(NewEvent { kind: "Tested".into(), data });
        let mut larger = append.clone();
        larger.streams[1].events[0].data = format!("\"{}\"", "x".repeat(EVENT_LIMIT - 1)).into();
        match store.journal.append(larger).await {
            Err(JournalError::TooLarge { bytes, limit, .. }) => {
                assert_eq!((bytes, limit), (EVENT_LIMIT + 1, EVENT_LIMIT));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.events().await, []);
        store.journal.append(append).await.unwrap();
        assert_eq!(store.events().await[1].data.len(), EVENT_LIMIT);
    }
}

#[tokio::test]
async fn an_oversized_step_is_refused_entirely() {
    let store = memory();
    let mut append = single_step([append_to_stream("a", 0, &[])]);
    let data = format!("\"{}\"", "x".repeat(EVENT_LIMIT - 2)).into_boxed_str();
    let event = NewEvent { kind: "Tested".into(), data };
    append.streams[0].events = vec![event; APPEND_LIMIT / EVENT_LIMIT + 1];
    let result = store.journal.append(append).await;
    assert!(matches!(result, Err(JournalError::TooLarge { .. })), "{result:?}");
    assert_eq!(store.events().await, []);
}

/// Stores may accept or reject a text with NUL. Other appends in the same batch must succeed either way, and the
/// rejection must not be retryable.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_with_a_nul_does_not_fail_other_appends() {
    for store in stores("nul").await {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..40 {
            let journal = Arc::clone(&store.journal);
            tasks.spawn(async move {
                let mut append =
                    single_step([append_to_stream(&format!("own-{number}"), 0, &["x"])]);
                let odd = number % 4 == 0;
                append.context.correlation_id = odd.then(|| "a\0b".into());
                (odd, journal.append(append).await)
            });
        }
        let mut refused = 0;
        for (odd, result) in tasks.join_all().await {
            if let Err(error) = result {
                assert!(odd, "somebody else was told: {error}");
                assert!(!error.is_retryable(), "it would be tried for ever: {error}");
                refused += 1;
            }
        }
        assert_eq!(store.events().await.len(), 40 - refused);
    }
}

fn document(text: &str) -> SchemaDocument {
    let value = serde_json::json!({ "title": text });
    SchemaDocument { text: RawJson::from(&value), digest: Digest::of_canonical(&value) }
}
