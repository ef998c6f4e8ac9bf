//! Snapshots of earlier moments: as of any position or time, they equal the snapshot that was live then.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::Digest;
use serde_json::json;
use toolcrib_catalog::clock::{Clock as _, ManualClock};
use toolcrib_catalog::journal::{Journal, MemoryJournal, Position, SqliteJournal};
use toolcrib_catalog::source::SourceCommand;
use toolcrib_catalog::tool::ToolCommand;
use toolcrib_catalog::{Catalog, Command, JournalMoment, snapshot_at};

use crate::world::{create_group, done, ingest, register};

fn commands() -> Vec<Command> {
    let pets = || "pets".parse().unwrap();
    let tool = |command| Command::Tool("pets:list".parse().unwrap(), command);
    vec![
        register("pets"),
        create_group("all", json!([{"name": "*"}])),
        ingest("pets", &[("list", 1), ("get", 1), ("put", 1)]),
        tool(ToolCommand::Disable),
        ingest("pets", &[("list", 2), ("get", 1)]),
        tool(ToolCommand::Enable),
        Command::Source(pets(), SourceCommand::Disable),
        Command::Source(pets(), SourceCommand::Remove),
        register("pets"),
        ingest("pets", &[("put", 3)]),
    ]
}

/// The digest of the live snapshot at one position and time.
struct LiveMoment {
    position: Position,
    time: Timestamp,
    digest: Digest,
}

async fn history(journal: Arc<dyn Journal>, clock: &ManualClock) -> Vec<LiveMoment> {
    let catalog = Catalog::open(journal).await.unwrap();
    let mut live = Vec::new();
    for command in commands() {
        clock.advance(SignedDuration::from_mins(1));
        done(&catalog, command).await;
        let snapshot = catalog.snapshot();
        let (position, digest) = (snapshot.position(), snapshot.digest());
        live.push(LiveMoment { position, time: clock.now(), digest });
    }
    live
}

async fn check(journal: Arc<dyn Journal>, clock: &ManualClock) {
    let live = history(Arc::clone(&journal), clock).await;
    let journal = &*journal;
    let nothing = snapshot_at(journal, JournalMoment::Position(Position(0))).await.unwrap();
    assert_eq!((nothing.position(), nothing.tool_count()), (Position(0), 0));
    let mut before = nothing.digest();
    let second = SignedDuration::from_secs(1);
    for LiveMoment { position, time, digest } in &live {
        let at = |moment: JournalMoment| async move { snapshot_at(journal, moment).await.unwrap() };
        let then = at(JournalMoment::Position(*position)).await;
        assert_eq!((then.position(), then.digest()), (*position, *digest));
        assert_eq!(at(JournalMoment::Time(*time)).await.digest(), *digest);
        assert_eq!(at(JournalMoment::Time(*time + second)).await.digest(), *digest);
        assert_eq!(at(JournalMoment::Time(*time - second)).await.digest(), before);
        before = *digest;
    }
    let end = snapshot_at(journal, JournalMoment::Position(Position(u64::MAX))).await.unwrap();
    assert_eq!(end.digest(), before);
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at("2026-05-01T09:00:00Z".parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_an_earlier_moment_equals_the_live_snapshot_of_that_time() {
    let time = clock();
    check(Arc::new(MemoryJournal::new(time.clone())), &time).await;
    let (time, folder) = (clock(), tempfile::tempdir().unwrap());
    let journal = SqliteJournal::open(&folder.path().join("journal.db"), time.clone()).unwrap();
    check(Arc::new(journal), &time).await;
}

/// A position inside a multi-event step was never live, but can be requested.
#[tokio::test]
async fn a_snapshot_can_be_requested_for_a_position_within_a_step() {
    let clock = clock();
    let journal = Arc::new(MemoryJournal::new(clock.clone()));
    history(journal.clone(), &clock).await;
    let head = journal.head_position().await.unwrap();
    for position in (0..=head.0).map(Position) {
        let snapshot = snapshot_at(&*journal, JournalMoment::Position(position)).await.unwrap();
        assert_eq!(snapshot.position(), position);
    }
}
