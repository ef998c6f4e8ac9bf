//! Documents: stored once beside the events that refer to them, removed only if no event can refer to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Digest, RawJson, SchemaDocument};
use serde_json::json;
use toolcrib_catalog::journal::{AppendRequest, Position};
use toolcrib_catalog::{Catalog, DocumentCleanup, remove_unused_documents};

use crate::stores::{append_to_stream, single_step, stores};
use crate::world::{done, ingest, register};

fn document(number: u32) -> SchemaDocument {
    let value = json!({"number": number, "about": "a document"});
    SchemaDocument { text: RawJson::from(&value), digest: Digest::of_canonical(&value) }
}

fn with_documents(append: AppendRequest, documents: &[SchemaDocument]) -> AppendRequest {
    AppendRequest { documents: documents.to_vec(), ..append }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_stored_once_and_never_replaced() {
    for store in stores("documents_once").await {
        let journal = &store.journal;
        let (one, two) = (document(1), document(2));
        journal
            .append(with_documents(
                single_step([append_to_stream("a", 0, &["1"])]),
                &[one.clone(), two.clone()],
            ))
            .await
            .unwrap();
        // The same digest with the keys in a different order.
        let again = SchemaDocument {
            text: RawJson::parse(r#"{"about":"a document","number":1}"#).unwrap(),
            digest: one.digest,
        };
        journal
            .append(with_documents(
                single_step([append_to_stream("a", 1, &["2"])]),
                &[again, two.clone()],
            ))
            .await
            .unwrap();
        let wanted = vec![one.digest, Digest::of_bytes("none"), two.digest];
        let mut found = journal.read_documents(wanted).await.unwrap();
        found.sort_by_key(|document| document.text.as_str().to_owned());
        assert_eq!(found, [one, two]);
        assert_eq!(journal.read_documents(Vec::new()).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn document_digests_are_listed_in_order_and_in_pages() {
    for store in stores("digests").await {
        let documents: Vec<_> = (0..25).map(document).collect();
        store.journal.append(with_documents(single_step([]), &documents)).await.unwrap();
        let sorted: BTreeSet<_> = documents.iter().map(|document| document.digest).collect();
        let mut listed: Vec<Digest> = Vec::new();
        loop {
            let some = store.journal.document_digests(listed.last().copied(), 7).await.unwrap();
            if some.is_empty() {
                break;
            }
            assert!(some.len() <= 7);
            listed.extend(some);
        }
        assert_eq!(listed, sorted.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_not_removed_if_an_event_was_appended_meanwhile() {
    for store in stores("remove_documents").await {
        let journal = &store.journal;
        let digests = vec![document(1).digest, document(2).digest];
        journal
            .append(with_documents(
                single_step([append_to_stream("a", 0, &["1"])]),
                &[document(1), document(2)],
            ))
            .await
            .unwrap();
        assert_eq!(journal.remove_documents(digests.clone(), Position(0)).await.unwrap(), None);
        assert_eq!(journal.read_documents(digests.clone()).await.unwrap().len(), 2);
        let unknown = vec![document(1).digest, document(3).digest];
        assert_eq!(journal.remove_documents(unknown, Position(1)).await.unwrap(), Some(1));
        assert_eq!(journal.read_documents(digests).await.unwrap(), [document(2)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unreferenced_documents_are_removed() {
    for store in stores("collect").await {
        let journal = &store.journal;
        let catalog = Catalog::open(Arc::clone(journal)).await.unwrap();
        done(&catalog, register("pets")).await;
        done(&catalog, ingest("pets", &[("list", 1), ("get", 1)])).await;
        // An old event still refers to the first edition.
        done(&catalog, ingest("pets", &[("list", 2), ("get", 1)])).await;
        let needed = journal.document_digests(None, 100).await.unwrap();
        assert_eq!(needed.len(), 3);
        journal.append(with_documents(single_step([]), &[document(1), document(2)])).await.unwrap();
        assert_eq!(remove_unused_documents(&**journal).await.unwrap(), DocumentCleanup::Removed(2));
        assert_eq!(journal.document_digests(None, 100).await.unwrap(), needed);
        assert_eq!(remove_unused_documents(&**journal).await.unwrap(), DocumentCleanup::Removed(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_document_is_removed_while_an_unknown_event_exists() {
    for store in stores("not_understood").await {
        let journal = &store.journal;
        // A newer program version may refer to the document in an event that this version cannot parse.
        let append = single_step([
            append_to_stream("source_tool-pets:list", 0, &["future"]),
            append_to_stream("future-1", 0, &["x"]),
        ]);
        journal.append(with_documents(append, &[document(1)])).await.unwrap();
        let collected = remove_unused_documents(&**journal).await.unwrap();
        assert_eq!(collected, DocumentCleanup::NotUnderstood(2));
        assert_eq!(journal.document_digests(None, 100).await.unwrap(), [document(1).digest]);
    }
}
