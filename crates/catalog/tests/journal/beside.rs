//! Storage beside the events: checkpoint chunks and encrypted secrets.

use toolcrib_catalog::journal::Position;

use crate::stores::{append_to_stream, single_step, stores};

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_complete_once_chunk_zero_exists() {
    for store in stores("checkpoints").await {
        let journal = &store.journal;
        assert_eq!(journal.checkpoint_positions().await.unwrap(), []);
        for (at, piece) in [(5, 1), (5, 2), (5, 0), (9, 1), (9, 0), (12, 1), (12, 2)] {
            let body = format!("{at} {piece}").into_bytes();
            journal.write_checkpoint(Position(at), piece, body).await.unwrap();
        }
        assert_eq!(journal.checkpoint_positions().await.unwrap(), [Position(9), Position(5)]);
        let piece = journal.read_checkpoint(Position(5), 2).await.unwrap();
        assert_eq!(piece.as_deref(), Some(&b"5 2"[..]));
        assert_eq!(journal.read_checkpoint(Position(5), 3).await.unwrap(), None);
        assert_eq!(journal.read_checkpoint(Position(6), 0).await.unwrap(), None);

        journal.write_checkpoint(Position(5), 2, vec![0, 255]).await.unwrap();
        assert_eq!(journal.read_checkpoint(Position(5), 2).await.unwrap(), Some(vec![0, 255]));

        // Another node may still be writing a later checkpoint.
        journal.remove_checkpoints_before(Position(9)).await.unwrap();
        assert_eq!(journal.checkpoint_positions().await.unwrap(), [Position(9)]);
        assert_eq!(journal.read_checkpoint(Position(5), 1).await.unwrap(), None);
        assert!(journal.read_checkpoint(Position(12), 1).await.unwrap().is_some());
        journal.remove_checkpoints_before(Position(13)).await.unwrap();
        assert_eq!(journal.checkpoint_positions().await.unwrap(), []);
        assert_eq!(journal.read_checkpoint(Position(12), 1).await.unwrap(), None);
        assert_eq!(journal.head_position().await.unwrap(), Position(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_secrets_are_replaced_and_removed_without_an_event() {
    for store in stores("sealed").await {
        let journal = &store.journal;
        let sealed = |name: &str| journal.encrypted_secret(name.to_owned());
        let seal = |name: &str, bytes: Option<&[u8]>| {
            journal.store_encrypted_secret(name.to_owned(), bytes.map(<[u8]>::to_vec))
        };
        assert_eq!(sealed("token").await.unwrap(), None);
        for name in ["token", "Z", "a", "ä", "token-2"] {
            seal(name, Some(name.as_bytes())).await.unwrap();
        }
        seal("token", Some(&[0, 1, 255])).await.unwrap();
        assert_eq!(sealed("token").await.unwrap(), Some(vec![0, 1, 255]));
        assert_eq!(
            journal.encrypted_secret_names().await.unwrap(),
            ["Z", "a", "token", "token-2", "ä"]
        );
        seal("token", None).await.unwrap();
        seal("never there", None).await.unwrap();
        assert_eq!(sealed("token").await.unwrap(), None);
        assert_eq!(journal.encrypted_secret_names().await.unwrap(), ["Z", "a", "token-2", "ä"]);
        assert_eq!(store.events().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_store_reports_no_problems() {
    for store in stores("sound").await {
        store.journal.append(single_step([append_to_stream("a", 0, &["1"])])).await.unwrap();
        let report = store.journal.check_storage().await.unwrap();
        // The disposable test server may run with `fsync = off`; the report mentions that.
        let problems = report.problems.iter().filter(|problem| !problem.contains("= off"));
        assert_eq!(problems.count(), 0, "{report:?}");
    }
}
