//! Checkpoints are only an optimisation: the catalog ignores an untrusted checkpoint and folds the journal instead.

use std::path::Path;
use std::sync::Arc;

use model::Digest;
use serde_json::{Value, json};
use toolcrib_catalog::clock::SystemClock;
use toolcrib_catalog::journal::{Journal, MemoryJournal, Position, SqliteJournal};
use toolcrib_catalog::{Catalog, JournalMoment, snapshot_at};

use crate::world::{create_group, done, ingest, register};

/// The chunks of a checkpoint; the first is its header.
type Pieces = Vec<Vec<u8>>;

async fn open(journal: &Arc<dyn Journal>) -> Catalog {
    Catalog::open(Arc::clone(journal)).await.unwrap()
}

async fn fill(catalog: &Catalog, source: &str) {
    done(catalog, register(source)).await;
    done(catalog, ingest(source, &[("list", 1), ("get", 1)])).await;
    done(catalog, create_group(&format!("all-{source}"), json!([{"source": source}]))).await;
}

/// A journal with a checkpoint and some events after it.
async fn with_checkpoint() -> (Arc<dyn Journal>, Position) {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
    let catalog = open(&journal).await;
    fill(&catalog, "pets").await;
    catalog.checkpoint_now().await.unwrap();
    let at = catalog.snapshot().position();
    assert_eq!(journal.checkpoint_positions().await.unwrap(), [at]);
    fill(&catalog, "birds").await;
    (journal, at)
}

async fn pieces(journal: &dyn Journal, at: Position) -> Pieces {
    let mut pieces = Vec::new();
    while let Some(piece) = journal.read_checkpoint(at, pieces.len() as u32).await.unwrap() {
        pieces.push(piece);
    }
    pieces
}

async fn write(journal: &dyn Journal, at: Position, pieces: &Pieces) {
    for (number, piece) in (0..).zip(pieces) {
        journal.write_checkpoint(at, number, piece.clone()).await.unwrap();
    }
}

async fn digest_of_full_fold(journal: &dyn Journal) -> Digest {
    snapshot_at(journal, JournalMoment::Position(Position(u64::MAX))).await.unwrap().digest()
}

fn changed_header(pieces: &Pieces, change: impl FnOnce(&mut Value)) -> Pieces {
    let mut header: Value = serde_json::from_slice(&pieces[0]).unwrap();
    change(&mut header);
    let mut changed = pieces.clone();
    changed[0] = header.to_string().into_bytes();
    changed
}

fn replace_in_chunk(piece: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(piece.to_vec()).unwrap();
    assert!(text.contains(from));
    text.replace(from, to).into_bytes()
}

#[tokio::test]
async fn a_checkpoint_plus_later_events_equals_a_full_fold() {
    let (journal, _) = with_checkpoint().await;
    let catalog = open(&journal).await;
    assert_eq!(catalog.snapshot().digest(), digest_of_full_fold(&*journal).await);
    assert_eq!(catalog.snapshot().position(), journal.head_position().await.unwrap());
    // The catalog keeps working after it was restored from a checkpoint.
    done(&catalog, ingest("pets", &[("list", 2), ("get", 1)])).await;
    done(&catalog, create_group("second", json!([{"required_tags": ["edition-2"]}]))).await;
    assert_eq!(catalog.snapshot().digest(), digest_of_full_fold(&*journal).await);
}

/// Control for the tests below: without it they would pass even if checkpoints were never used.
#[tokio::test]
async fn a_trusted_checkpoint_is_used() {
    let (journal, at) = with_checkpoint().await;
    let good = pieces(&*journal, at).await;
    assert_eq!(good.len(), 2);
    let forged = replace_in_chunk(&good[1], "\"all-pets\"", "\"all-pots\"");
    let mut forgery =
        changed_header(&good, |header| header["digest"] = json!(Digest::of_bytes(&forged)));
    forgery[1] = forged;
    write(&*journal, at, &forgery).await;
    let snapshot = open(&journal).await.snapshot();
    assert!(snapshot.group(&"all-pots".parse().unwrap()).is_some());
    assert!(snapshot.group(&"all-birds".parse().unwrap()).is_some());
}

#[tokio::test]
async fn a_damaged_checkpoint_or_one_of_another_version_is_ignored() {
    let (journal, at) = with_checkpoint().await;
    let good = pieces(&*journal, at).await;
    let right = digest_of_full_fold(&*journal).await;
    let with_piece = |number: usize, piece: Vec<u8>| {
        let mut pieces = good.clone();
        pieces[number] = piece;
        pieces
    };
    let mut bad = vec![
        with_piece(1, Vec::new()),
        with_piece(1, good[1][..good[1].len() / 2].to_vec()),
        with_piece(1, good[1][..good[1].len() - 1].to_vec()),
        with_piece(1, [&good[1][..], b"\n"].concat()),
        with_piece(1, replace_in_chunk(&good[1], "\"all-pets\"", "\"all-pots\"")),
        with_piece(1, b"\xff\xfe not even text".to_vec()),
        with_piece(0, Vec::new()),
        with_piece(0, good[0][..good[0].len() - 1].to_vec()),
        with_piece(0, b"{}".to_vec()),
        with_piece(0, good[1].clone()),
        changed_header(&good, |header| header["program"] = json!("0.0.1")),
        changed_header(&good, |header| header["format"] = json!(99)),
        changed_header(&good, |header| header["position"] = json!(at.0 - 1)),
        changed_header(&good, |header| header["pieces"] = json!(0)),
        changed_header(&good, |header| header["pieces"] = json!(2)),
        changed_header(&good, |header| header["event"] = json!(Digest::of_bytes("another"))),
    ];
    // Flip single bits across the whole chunk.
    for place in (0..good[1].len()).step_by(97) {
        let mut piece = good[1].clone();
        piece[place] ^= 1 << (place % 8);
        bad.push(with_piece(1, piece));
    }
    for pieces in &bad {
        write(&*journal, at, pieces).await;
        let catalog = open(&journal).await;
        let header = String::from_utf8_lossy(&pieces[0]).into_owned();
        assert_eq!(catalog.snapshot().digest(), right, "{header}");
        assert_eq!(catalog.snapshot().not_understood(), 0);
    }
}

/// Otherwise every start would fold the whole journal until the next event is stored.
#[tokio::test]
async fn an_ignored_checkpoint_is_replaced_by_the_next_one() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
    let catalog = open(&journal).await;
    fill(&catalog, "pets").await;
    catalog.checkpoint_now().await.unwrap();
    let at = catalog.snapshot().position();
    drop(catalog);
    let good = pieces(&*journal, at).await;
    let older = changed_header(&good, |header| header["program"] = json!("0.0.1"));
    let mut damaged = good.clone();
    damaged[1] = replace_in_chunk(&good[1], "\"all-pets\"", "\"all-pots\"");
    for bad in [older, damaged] {
        write(&*journal, at, &bad).await;
        let catalog = open(&journal).await;
        catalog.checkpoint_now().await.unwrap();
        assert_eq!(pieces(&*journal, at).await, good, "the bad one is still there");
    }
}

/// A node does not overwrite a newer checkpoint of another node with an outdated one.
#[tokio::test]
async fn an_older_node_does_not_replace_a_newer_checkpoint() {
    let (journal, at) = with_checkpoint().await;
    let catalog = open(&journal).await;
    catalog.checkpoint_now().await.unwrap();
    let newest = journal.head_position().await.unwrap();
    assert!(at < newest);
    assert_eq!(journal.checkpoint_positions().await.unwrap(), [newest]);
    catalog.checkpoint_now().await.unwrap();
    assert_eq!(journal.checkpoint_positions().await.unwrap(), [newest]);
}

fn sqlite(path: &Path) -> Arc<dyn Journal> {
    Arc::new(SqliteJournal::open(path, Arc::new(SystemClock)).unwrap())
}

/// A restored backup diverges from the original history; the checkpoint of the original history still exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_a_diverged_history_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("journal.db"), folder.path().join("backup.db"));
    let journal = sqlite(&path);
    let catalog = open(&journal).await;
    fill(&catalog, "pets").await;
    catalog.close().await;
    drop(journal);
    std::fs::copy(&path, &backup).unwrap();

    let journal = sqlite(&path);
    let catalog = open(&journal).await;
    fill(&catalog, "birds").await;
    catalog.checkpoint_now().await.unwrap();
    let at = catalog.snapshot().position();
    let of_birds = pieces(&*journal, at).await;
    catalog.close().await;
    drop(journal);

    std::fs::copy(&backup, &path).unwrap();
    let journal = sqlite(&path);
    let catalog = open(&journal).await;
    fill(&catalog, "fish").await;
    assert_eq!(catalog.snapshot().position(), at, "both histories are equally long");
    let right = catalog.snapshot().digest();
    catalog.close().await;
    write(&*journal, at, &of_birds).await;
    let snapshot = open(&journal).await.snapshot();
    assert!(snapshot.source(&"birds".parse().unwrap()).is_none());
    assert_eq!(snapshot.digest(), right);
    assert_eq!(snapshot.digest(), digest_of_full_fold(&*journal).await);
}

/// The checkpoint lies beyond the head of the journal, because the original history was longer.
#[tokio::test]
async fn a_checkpoint_beyond_the_journal_head_is_ignored() {
    let (long, _) = with_checkpoint().await;
    let catalog = open(&long).await;
    catalog.checkpoint_now().await.unwrap();
    let at = catalog.snapshot().position();
    let short: Arc<dyn Journal> = Arc::new(MemoryJournal::new(Arc::new(SystemClock)));
    let catalog = open(&short).await;
    fill(&catalog, "pets").await;
    write(&*short, at, &pieces(&*long, at).await).await;
    let again = open(&short).await;
    assert_eq!(again.snapshot().digest(), catalog.snapshot().digest());
    assert_eq!(again.snapshot().position(), short.head_position().await.unwrap());
}
