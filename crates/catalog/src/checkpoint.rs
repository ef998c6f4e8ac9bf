//! Checkpoints: snapshots stored in pieces, so that a start does not fold the whole journal.
//!
//! A checkpoint is only a shortcut. If it is damaged, or from another version of the program or another history, it is
//! ignored and the journal is folded from the start.

use jiff::Timestamp;
use model::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::catalog::Recent;
use crate::fold::Fold;
use crate::journal::{Journal, JournalError, Position, Recorded};
use crate::snapshot::{OwnedEntry, Snapshot};

/// Approximate size of one piece, in bytes.
const PIECE: usize = 1 << 20;

/// Only the version that stored a checkpoint loads it: another version might fold the same events differently.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Increased when the stored states change their shape between two releases.
const FORMAT: u32 = 4;

/// Piece zero: describes the checkpoint and is written after all other pieces.
#[derive(Serialize, Deserialize)]
struct Header {
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
pub(crate) async fn save(journal: &dyn Journal, snapshot: &Snapshot) -> Result<(), JournalError> {
    let at = snapshot.position();
    let Some(event) = event_at(journal, at).await? else { return Ok(()) };
    // A checkpoint at the same position is overwritten: if it could be trusted, the caller would not have come here.
    if let Some(newest) = journal.checkpoints().await?.first()
        && at < *newest
        && trusted_header(journal, *newest).await?.is_ok()
    {
        return Ok(());
    }
    let mut digest = Sha256::new();
    let mut pieces = 0;
    let mut piece = Vec::with_capacity(PIECE + PIECE / 8);
    let mut entries = snapshot.entries();
    loop {
        let entry = entries.next();
        if let Some(entry) = &entry {
            serde_json::to_writer(&mut piece, entry).expect("entries are JSON");
            piece.push(b'\n');
        }
        if PIECE <= piece.len() || (entry.is_none() && !piece.is_empty()) {
            pieces += 1;
            digest.update(&piece);
            let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE + PIECE / 8));
            journal.write_checkpoint(at, pieces, full).await?;
        }
        if entry.is_none() {
            break;
        }
    }
    let header = Header {
        format: FORMAT,
        program: PROGRAM.to_owned(),
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
pub(crate) async fn load(journal: &dyn Journal) -> Result<Fold, JournalError> {
    let mut ignored = Vec::new();
    // Another node may replace the checkpoint while it is being read; then a newer one exists.
    while let Some(at) = journal.checkpoints().await?.into_iter().find(|at| !ignored.contains(at)) {
        match try_load(journal, at).await? {
            Ok(fold) => return Ok(fold),
            Err(reason) => {
                tracing::warn!(%at, reason, "the checkpoint at {at} is ignored: {reason}")
            }
        }
        ignored.push(at);
    }
    Ok(Fold::default())
}

async fn try_load(
    journal: &dyn Journal,
    at: Position,
) -> Result<Result<Fold, &'static str>, JournalError> {
    let header = match trusted_header(journal, at).await? {
        Ok(header) => header,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut fold = Fold::default();
    let mut digest = Sha256::new();
    for number in 1..=header.pieces {
        let Some(piece) = journal.read_checkpoint(at, number).await? else {
            return Ok(Err("a piece is missing"));
        };
        digest.update(&piece);
        for line in piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<OwnedEntry>(line) {
                Ok(entry) => fold.restore(entry),
                Err(_) => return Ok(Err("an entry cannot be read")),
            }
        }
        // Derive the state after each piece, so that a large catalog is never in memory twice.
        fold.settle(journal, &Recent::default()).await?;
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
) -> Result<Result<Header, &'static str>, JournalError> {
    let Some(header) = journal.read_checkpoint(at, 0).await? else { return Ok(Err("it is gone")) };
    let Ok(header) = serde_json::from_slice::<Header>(&header) else {
        return Ok(Err("its header cannot be read"));
    };
    if header.format != FORMAT || header.program != PROGRAM || header.position != at {
        return Ok(Err("it is from another version"));
    }
    if event_at(journal, at).await?.is_none_or(|event| digest_of(&event) != header.event) {
        return Ok(Err("it is from another history"));
    }
    Ok(Ok(header))
}

async fn event_at(journal: &dyn Journal, at: Position) -> Result<Option<Recorded>, JournalError> {
    let Some(before) = at.0.checked_sub(1) else { return Ok(None) };
    let events = journal.read_after(Position(before), 1).await?;
    Ok(events.into_iter().find(|event| event.position == at))
}

fn digest_of(event: &Recorded) -> Digest {
    Digest::of(serde_json::to_string(event).unwrap_or_default())
}
