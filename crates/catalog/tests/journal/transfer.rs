//! Restore, export and import: nothing is lost between any two stores.

use std::sync::Arc;

use model::{Actor, Digest, Inventory, RawJson, SchemaDocument};
use serde_json::json;
use toolcrib_catalog::journal::{
    AppendRequest, ChangeContext, IdempotencyEntry, IdempotentAnswer, Journal, JournalError,
    NewEvent, Position, RecordedEvent, StreamVersion,
};
use toolcrib_catalog::{
    Catalog, Command, JournalImport, JournalMoment, export_journal, snapshot_at, verify_journal,
};

use crate::stores::{
    Store, append_to_stream, memory, positions_and_versions, postgres, single_step, sqlite, stores,
};
use crate::world::{create_group, done, ingest, manifest, register};

/// Event data that no current version of ours writes: unusual whitespace, escapes and numbers must survive unchanged.
const ODD: [&str; 6] = [
    r#"{ "later" : [1.50, 1e3, -0, 123456789012345678901234567890] }"#,
    r#"{"b":1,"a":{"\u00e9":"\ud83d\ude00\u0000"},"b":2}"#,
    r#"{"text":"é😀\/ \\ \" \t"}"#,
    r#""not even an object""#,
    "null",
    "{}",
];

fn odd_events() -> AppendRequest {
    let mut append = single_step([
        append_to_stream("future-things", 0, &[]),
        append_to_stream("source_tool-pets:list", 0, &[]),
    ]);
    for stream in &mut append.streams {
        let event = |data: &&str| NewEvent { kind: "Möglich".into(), data: (*data).into() };
        stream.events = ODD.iter().map(event).collect();
    }
    append.context = ChangeContext {
        actor: Actor::new("ada"),
        correlation_id: Some("é \"quoted\" \n".into()),
        causation_id: Some("".into()),
    };
    append
}

async fn export_to_string(journal: &dyn Journal) -> String {
    let mut text = String::new();
    let write = |line: &str| {
        text.push_str(line);
        Ok(())
    };
    export_journal(journal, write).await.unwrap();
    text
}

/// Compares line by line, because a diff of whole exports is unreadable.
fn assert_same(one: &str, two: &str) {
    for (number, (one, two)) in (1..).zip(one.lines().zip(two.lines())) {
        assert_eq!(one, two, "line {number}");
    }
    assert_eq!(one.len(), two.len());
}

async fn import(journal: &dyn Journal, text: &str) -> u64 {
    let mut import = JournalImport::new(journal).await.unwrap();
    for line in text.lines() {
        import.import_line(line).await.unwrap();
    }
    import.finish().await.unwrap()
}

fn event_at(position: u64, stream: &str, version: u64) -> RecordedEvent {
    RecordedEvent {
        position: Position(position),
        stream: toolcrib_catalog::journal::StreamName::new(stream),
        version: StreamVersion(version),
        kind: "Tested".into(),
        time: "2026-05-01T09:00:00.000001Z".parse().unwrap(),
        actor: "ada".into(),
        correlation_id: None,
        causation_id: Some("".into()),
        data: ODD[0].into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_events_equal_the_original_events() {
    for store in stores("restore").await {
        let journal = &store.journal;
        let events = vec![event_at(1, "a", 1), event_at(2, "b", 1), event_at(3, "a", 2)];
        let value = json!({"a": "document"});
        let document =
            SchemaDocument { text: RawJson::from(&value), digest: Digest::of_canonical(&value) };
        let (key, answer) = ("key".into(), "done".into());
        let answer =
            IdempotentAnswer { key, request: Digest::of_bytes("r"), answer, position: Position(2) };
        let head = journal
            .restore_events(events.clone(), vec![document.clone()], vec![answer.clone()])
            .await
            .unwrap();
        assert_eq!(head, Position(3));
        assert_eq!(store.events().await, events);
        assert_eq!(journal.read_documents(vec![document.digest]).await.unwrap(), [document]);
        assert_eq!(journal.find_answer("key".to_owned()).await.unwrap(), Some(answer));
        // New events can be appended after the restored ones.
        journal.append(single_step([append_to_stream("a", 2, &["x"])])).await.unwrap();
        assert_eq!(journal.head_position().await.unwrap(), Position(4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_with_gaps_is_refused_and_stores_nothing() {
    for store in stores("gaps").await {
        let journal = &store.journal;
        journal.append(single_step([append_to_stream("a", 0, &["x", "y"])])).await.unwrap();
        let wrong = [
            vec![event_at(4, "a", 3)],
            vec![event_at(2, "a", 2)],
            vec![event_at(3, "a", 2)],
            vec![event_at(3, "a", 4)],
            vec![event_at(3, "b", 2)],
            vec![event_at(3, "a", 3), event_at(5, "a", 4)],
            vec![event_at(3, "b", 1), event_at(4, "b", 3)],
            vec![event_at(3, "a", 3), event_at(3, "a", 4)],
        ];
        for events in wrong {
            let value = json!({"of": "a refused restore"});
            let document = SchemaDocument {
                text: RawJson::from(&value),
                digest: Digest::of_canonical(&value),
            };
            let digest = document.digest;
            let result = journal.restore_events(events.clone(), vec![document], Vec::new()).await;
            let refused = matches!(result, Err(JournalError::DoesNotFollow { .. }));
            assert!(refused, "{:?}: {result:?}", positions_and_versions(&events));
            assert_eq!(positions_and_versions(&store.events().await), [(1, "a", 1), (2, "a", 2)]);
            assert_eq!(journal.read_documents(vec![digest]).await.unwrap(), []);
        }
        let fits = vec![event_at(3, "a", 3), event_at(4, "b", 1), event_at(5, "a", 4)];
        assert_eq!(
            journal.restore_events(fits, Vec::new(), Vec::new()).await.unwrap(),
            Position(5)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_events_survive_byte_for_byte() {
    for store in stores("odd").await {
        store.journal.append(odd_events()).await.unwrap();
        let there: Vec<_> = store.events().await.iter().map(|event| event.data.clone()).collect();
        assert_eq!(there.iter().map(|data| &**data).collect::<Vec<_>>(), [ODD, ODD].concat());
        let catalog = Catalog::open(Arc::clone(&store.journal)).await.unwrap();
        assert_eq!(catalog.snapshot().not_understood(), 12);

        let text = export_to_string(&*store.journal).await;
        for data in ODD {
            assert!(text.contains(&format!("\"data\":{data}")), "{data} is not in the export");
        }
        let other = memory();
        assert_eq!(import(&*other.journal, &text).await, 12);
        assert_eq!(other.events().await, store.events().await);
        assert_same(&export_to_string(&*other.journal).await, &text);
    }
}

/// Fills a catalog with everything an export can contain: documents, idempotent answers, unusual events.
async fn fill(store: &Store) {
    let catalog = Catalog::open(Arc::clone(&store.journal)).await.unwrap();
    for command in [
        register("pets"),
        ingest("pets", &[("list", 1), ("get", 1), ("drop", 1)]),
        ingest("pets", &[("list", 2), ("get", 1)]),
        create_group("all-pets", json!([{"source": "pets"}])),
        create_group("second-edition", json!([{"required_tags": ["edition-2"]}])),
        register("birds"),
    ] {
        done(&catalog, command).await;
        store.clock.advance(jiff::SignedDuration::from_millis(1234));
    }
    for key in ["one", "two"] {
        let nothing = create_group(&format!("group-{key}"), json!([]));
        catalog.execute(nothing, ChangeContext::by_actor("ada"), Some(key)).await.unwrap();
    }
    let once = IdempotencyEntry {
        key: "odd \" key".into(),
        request: Digest::of_bytes("x"),
        answer: "{}".into(),
    };
    let mut odd = odd_events();
    odd.streams.truncate(1);
    store.journal.append(AppendRequest { idempotency: Some(once), ..odd }).await.unwrap();
}

async fn digest(journal: &dyn Journal) -> Digest {
    snapshot_at(journal, JournalMoment::Position(Position(u64::MAX))).await.unwrap().digest()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_sqlite_through_postgresql_to_memory_not_one_byte_changes() {
    let (file, server, last) = (sqlite(), postgres("moves").await, memory());
    fill(&file).await;
    let text = export_to_string(&*file.journal).await;
    let count = import(&*server.journal, &text).await;
    assert_eq!(count, file.journal.head_position().await.unwrap().0);
    let from_server = export_to_string(&*server.journal).await;
    assert_same(&from_server, &text);
    import(&*last.journal, &from_server).await;
    assert_same(&export_to_string(&*last.journal).await, &text);

    let there = digest(&*file.journal).await;
    for store in [&server, &last] {
        assert_eq!(digest(&*store.journal).await, there, "{}", store.name);
        let catalog = Catalog::open(Arc::clone(&store.journal)).await.unwrap();
        let verified = verify_journal(&*store.journal, &catalog.snapshot(), |_| {}).await.unwrap();
        assert_eq!(verified.live, Some(there));
    }
    // The imported journal returns the stored answers of idempotent commands.
    let catalog = Catalog::open(Arc::clone(&server.journal)).await.unwrap();
    let again = create_group("group-one", json!([]));
    let executed =
        catalog.execute(again, ChangeContext::by_actor("ada"), Some("one")).await.unwrap();
    assert!(executed.repeated);
}

/// PostgreSQL as the first store: it assigns event times from its own clock.
#[tokio::test(flavor = "multi_thread")]
async fn from_postgresql_to_sqlite_not_one_byte_changes() {
    let (server, file) = (postgres("moves_back").await, sqlite());
    fill(&server).await;
    let text = export_to_string(&*server.journal).await;
    import(&*file.journal, &text).await;
    assert_same(&export_to_string(&*file.journal).await, &text);
    assert_eq!(digest(&*file.journal).await, digest(&*server.journal).await);
}

/// Importing the whole file again completes an import that was interrupted at any line.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_can_be_repeated_to_complete_it() {
    let first = sqlite();
    fill(&first).await;
    let text = export_to_string(&*first.journal).await;
    let lines: Vec<_> = text.lines().collect();
    for store in stores("breaks_off").await {
        for cut in (1..lines.len()).step_by(5) {
            let mut part = JournalImport::new(&*store.journal).await.unwrap();
            for line in &lines[..cut] {
                part.import_line(line).await.unwrap();
            }
            assert!(part.finish().await.is_err(), "a cut-off file was taken for a whole one");
        }
        import(&*store.journal, &text).await;
        assert_same(&export_to_string(&*store.journal).await, &text);
    }
}

/// An upstream may pretty-print its manifest; an export still has one line per event.
#[tokio::test]
async fn a_multi_line_manifest_survives_export_and_import() {
    let (first, second) = (memory(), memory());
    let catalog = Catalog::open(Arc::clone(&first.journal)).await.unwrap();
    done(&catalog, register("pets")).await;
    let mut manifest = manifest("list", 1);
    let text = "{\n  \"readOnlyHint\": true,\r\n  \"title\": \"a\\nb\"\n}";
    manifest.extra = [("annotations".into(), RawJson::parse(text).unwrap())].into();
    manifest.security = Some(serde_json::from_str("[\n{}]").unwrap());
    let inventory = Inventory::new("pets".parse().unwrap(), [("list".to_owned(), manifest)]);
    let inventory = Box::new(inventory.unwrap());
    done(&catalog, Command::Ingest { inventory, force: false }).await;
    let text = export_to_string(&*first.journal).await;
    import(&*second.journal, &text).await;
    assert_eq!(digest(&*second.journal).await, catalog.snapshot().digest());
}
