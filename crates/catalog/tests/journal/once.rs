//! Idempotency: repeating a key returns the stored answer and appends no event.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Digest;
use toolcrib_catalog::journal::{
    AppendOutcome, AppendRequest, IdempotencyEntry, IdempotentAnswer, JournalError, Position,
};

use crate::stores::{append_to_stream, positions_and_versions, single_step, stores};

fn with_idempotency_key(
    append: AppendRequest,
    key: &str,
    request: &str,
    answer: &str,
) -> AppendRequest {
    let once = IdempotencyEntry {
        key: key.into(),
        request: Digest::of_bytes(request),
        answer: answer.into(),
    };
    AppendRequest { idempotency: Some(once), ..append }
}

fn answer(key: &str, request: &str, answer: &str, position: u64) -> IdempotentAnswer {
    let request = Digest::of_bytes(request);
    IdempotentAnswer {
        key: key.into(),
        request,
        answer: answer.into(),
        position: Position(position),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_and_request_returns_the_stored_answer_without_an_event() {
    for store in stores("same_key").await {
        let journal = &store.journal;
        let append = with_idempotency_key(
            single_step([append_to_stream("a", 0, &["1", "2"])]),
            "key",
            "request",
            r#"{"n":1}"#,
        );
        let stored = journal.append(append.clone()).await.unwrap();
        assert_eq!(stored, AppendOutcome::Stored(Position(2)));
        journal.append(single_step([append_to_stream("b", 0, &["3"])])).await.unwrap();
        // The stream has grown and the new answer would differ; the stored answer is still returned.
        let before = AppendOutcome::AlreadyStored(answer("key", "request", r#"{"n":1}"#, 2));
        assert_eq!(journal.append(append).await.unwrap(), before);
        let later = with_idempotency_key(
            single_step([append_to_stream("a", 2, &["4"])]),
            "key",
            "request",
            r#"{"n":2}"#,
        );
        assert_eq!(journal.append(later).await.unwrap(), before);
        assert_eq!(
            positions_and_versions(&store.events().await),
            [(1, "a", 1), (2, "a", 2), (3, "b", 1)]
        );
        let found = journal.find_answer("key".to_owned()).await.unwrap();
        assert_eq!(found, Some(answer("key", "request", r#"{"n":1}"#, 2)));
        assert_eq!(journal.find_answer("other".to_owned()).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_for_another_request_is_refused() {
    for store in stores("key_reused").await {
        let journal = &store.journal;
        journal
            .append(with_idempotency_key(
                single_step([append_to_stream("a", 0, &["1"])]),
                "key",
                "one",
                "1",
            ))
            .await
            .unwrap();
        let other = with_idempotency_key(
            single_step([append_to_stream("b", 0, &["2"])]),
            "key",
            "two",
            "2",
        );
        match journal.append(other).await {
            Err(JournalError::KeyReused { key }) => assert_eq!(key, "key"),
            result => panic!("{result:?}"),
        }
        assert_eq!(store.events().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_step_is_stored_under_its_key() {
    for store in stores("empty_step").await {
        let journal = &store.journal;
        let nothing = with_idempotency_key(single_step([]), "first", "request", "none");
        assert_eq!(
            journal.append(nothing.clone()).await.unwrap(),
            AppendOutcome::Stored(Position(0))
        );
        journal.append(single_step([append_to_stream("a", 0, &["1"])])).await.unwrap();
        let before = AppendOutcome::AlreadyStored(answer("first", "request", "none", 0));
        assert_eq!(journal.append(nothing).await.unwrap(), before);
        let later = with_idempotency_key(single_step([]), "second", "request", "none");
        assert_eq!(
            journal.append(later.clone()).await.unwrap(),
            AppendOutcome::Stored(Position(1))
        );
        let before = AppendOutcome::AlreadyStored(answer("second", "request", "none", 1));
        assert_eq!(journal.append(later).await.unwrap(), before);
        assert_eq!(store.events().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_appends_with_one_key_store_one_event() {
    for store in stores("fifty").await {
        let nodes = [store.open_second_node().await, store.open_second_node().await];
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..50 {
            let journal = Arc::clone(&nodes[number % 2]);
            let append = with_idempotency_key(
                single_step([append_to_stream("a", 0, &["1"])]),
                "key",
                "request",
                "done",
            );
            tasks.spawn(async move { journal.append(append).await.unwrap() });
        }
        let results = tasks.join_all().await;
        let stored = results.iter().filter(|result| **result == AppendOutcome::Stored(Position(1)));
        assert_eq!(stored.count(), 1);
        let before = AppendOutcome::AlreadyStored(answer("key", "request", "done", 1));
        assert_eq!(results.iter().filter(|result| **result == before).count(), 49);
        assert_eq!(positions_and_versions(&store.events().await), [(1, "a", 1)]);
    }
}

/// Concurrent appends with and without keys: each answer carries the position of its own step.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_answers_have_the_position_of_their_own_step() {
    for store in stores("crowd_of_keys").await {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..60 {
            let journal = Arc::clone(&store.journal);
            tasks.spawn(async move {
                let (stream, key) = (format!("own-{number}"), format!("key-{number}"));
                let texts = vec!["x"; number % 4];
                let plain = match texts.is_empty() {
                    true => single_step([]),
                    false => single_step([append_to_stream(&stream, 0, &texts)]),
                };
                let append = with_idempotency_key(plain.clone(), &key, &key, "done");
                let keyed = number % 2 == 0;
                let stored = journal.append(if keyed { append.clone() } else { plain }).await;
                let AppendOutcome::Stored(position) = stored.unwrap() else {
                    panic!("{key} is new")
                };
                if keyed {
                    let before =
                        AppendOutcome::AlreadyStored(answer(&key, &key, "done", position.0));
                    assert_eq!(journal.append(append).await.unwrap(), before);
                }
                (stream, texts.len(), position)
            });
        }
        let results = tasks.join_all().await;
        let events = store.events().await;
        for (stream, count, position) in results.iter().filter(|(_, count, _)| 0 < *count) {
            let last = events.iter().rfind(|event| event.stream.as_str() == stream).unwrap();
            assert_eq!((last.version.0, last.position), (*count as u64, *position), "{stream}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_listed_in_key_order() {
    for store in stores("answers").await {
        let keys = ["b", "Z", "ä", "a b", "a", "B", "a-b", "zz", "日本"];
        for key in keys {
            store
                .journal
                .append(with_idempotency_key(single_step([]), key, key, key))
                .await
                .unwrap();
        }
        let sorted: Vec<_> = BTreeSet::from(keys).into_iter().map(str::to_owned).collect();
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().cloned().unwrap_or_default();
            let some = store.journal.list_answers(after, 2).await.unwrap();
            if some.is_empty() {
                break;
            }
            assert!(some.len() <= 2);
            listed.extend(some.iter().map(|answer| answer.key.to_string()));
        }
        assert_eq!(listed, sorted);
    }
}
