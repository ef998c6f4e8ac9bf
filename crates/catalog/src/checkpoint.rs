//! Checkpoints: snapshots stored in pieces, so that a start does not fold the whole journal.
//!
//! A checkpoint is only a shortcut. If it is damaged, or from another version of the program or another history, it is
//! ignored and the journal is folded from the start.

use jiff::Timestamp;
use model::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::catalog::RecentDocuments;
use crate::journal::{Journal, JournalError, Position, RecordedEvent};
use crate::snapshot::{OwnedSnapshotEntry, Snapshot};
use crate::snapshot_fold::SnapshotFold;

/// Approximate size of one piece, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Only the version that stored a checkpoint loads it: another version might fold the same events differently.
const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Increased when the stored states change their shape between two releases.
const CHECKPOINT_FORMAT: u32 = 4;

/// Piece zero: describes the checkpoint and is written after all other pieces.
#[derive(Serialize, Deserialize)]
struct CheckpointHeader {
    format: u32,
    program: String,
    position: Position,
    time: Option<Timestamp>,
    not_understood: u64,
    /// Digest of the event at that position; it ties the checkpoint to one history.
    event: Digest,
    pieces: u32,
    /// Digest over all pieces.
    digest: Digest,
}

/// Stores a snapshot and removes older checkpoints.
pub(crate) async fn save_checkpoint(
    journal: &dyn Journal,
    snapshot: &Snapshot,
) -> Result<(), JournalError> {
    let at = snapshot.position();
    let Some(event) = event_at(journal, at).await? else { return Ok(()) };
    // A checkpoint at the same position is overwritten: if it could be trusted, the caller would not have come here.
    if let Some(newest) = journal.checkpoint_positions().await?.first()
        && at < *newest
        && trusted_header(journal, *newest).await?.is_ok()
    {
        return Ok(());
    }
    let mut digest = Sha256::new();
    let mut pieces = 0;
    let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    let mut entries = snapshot.entries();
    loop {
        let entry = entries.next();
        if let Some(entry) = &entry {
            serde_json::to_writer(&mut piece, entry).expect("entries are JSON");
            piece.push(b'\n');
        }
        if PIECE_BYTES <= piece.len() || (entry.is_none() && !piece.is_empty()) {
            pieces += 1;
            digest.update(&piece);
            let full =
                std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8));
            journal.write_checkpoint(at, pieces, full).await?;
        }
        if entry.is_none() {
            break;
        }
    }
    let header = CheckpointHeader {
        format: CHECKPOINT_FORMAT,
        program: PROGRAM_VERSION.to_owned(),
        position: at,
        time: snapshot.time(),
        not_understood: snapshot.not_understood(),
        event: digest_of(&event),
        pieces,
        digest: Digest::from_bytes(&digest.finalize()).expect("SHA-256 has 32 bytes"),
    };
    let header = serde_json::to_vec(&header).expect("a header is JSON");
    journal.write_checkpoint(at, 0, header).await?;
    journal.remove_checkpoints_before(at).await
}

/// Continues from the newest trustworthy checkpoint, or from an empty catalog.
pub(crate) async fn load_checkpoint(journal: &dyn Journal) -> Result<SnapshotFold, JournalError> {
    let mut ignored = Vec::new();
    // Another node may replace the checkpoint while it is being read; then a newer one exists.
    while let Some(at) =
        journal.checkpoint_positions().await?.into_iter().find(|at| !ignored.contains(at))
    {
        match try_load(journal, at).await? {
            Ok(fold) => return Ok(fold),
            Err(reason) => {
                tracing::warn!(%at, reason, "the checkpoint at {at} is ignored: {reason}")
            }
        }
        ignored.push(at);
    }
    Ok(SnapshotFold::default())
}

async fn try_load(
    journal: &dyn Journal,
    at: Position,
) -> Result<Result<SnapshotFold, &'static str>, JournalError> {
    let header = match trusted_header(journal, at).await? {
        Ok(header) => header,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut fold = SnapshotFold::default();
    let mut digest = Sha256::new();
    for number in 1..=header.pieces {
        let Some(piece) = journal.read_checkpoint(at, number).await? else {
            return Ok(Err("a piece is missing"));
        };
        digest.update(&piece);
        for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<OwnedSnapshotEntry>(line) {
                Ok(entry) => fold.restore_entry(entry),
                Err(_) => return Ok(Err("an entry cannot be read")),
            }
        }
        // Derive the state after each piece, so that a large catalog is never in memory twice.
        fold.derive_state(journal, &RecentDocuments::default()).await?;
    }
    if digest.finalize()[..] != header.digest.as_bytes()[..] {
        return Ok(Err("it is damaged"));
    }
    fold.continue_from(at, header.time, header.not_understood);
    Ok(Ok(fold))
}

/// The header of a checkpoint, if this version of the program and this history wrote it.
async fn trusted_header(
    journal: &dyn Journal,
    at: Position,
) -> Result<Result<CheckpointHeader, &'static str>, JournalError> {
    let Some(header) = journal.read_checkpoint(at, 0).await? else { return Ok(Err("it is gone")) };
    let Ok(header) = serde_json::from_slice::<CheckpointHeader>(&header) else {
        return Ok(Err("its header cannot be read"));
    };
    if header.format != CHECKPOINT_FORMAT
        || header.program != PROGRAM_VERSION
        || header.position != at
    {
        return Ok(Err("it is from another version"));
    }
    if event_at(journal, at).await?.is_none_or(|event| digest_of(&event) != header.event) {
        return Ok(Err("it is from another history"));
    }
    Ok(Ok(header))
}

async fn event_at(
    journal: &dyn Journal,
    at: Position,
) -> Result<Option<RecordedEvent>, JournalError> {
    let Some(before) = at.0.checked_sub(1) else { return Ok(None) };
    let events = journal.read_after(Position(before), 1).await?;
    Ok(events.into_iter().find(|event| event.position == at))
}

fn digest_of(event: &RecordedEvent) -> Digest {
    Digest::of_bytes(serde_json::to_string(event).unwrap_or_default())
}
