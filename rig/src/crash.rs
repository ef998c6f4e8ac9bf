//! `crash`: kills a writing process repeatedly at random moments and counts lost events; or kills child processes of
//! sources, or a server while its agents call tools.

mod call_log_loss;
mod children;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use catalog::journal::{Journal, Position};
use catalog::{Catalog, JournalMoment, snapshot_at, verify_journal};
use toolcrib::{JournalLocation, SystemClock};

use crate::postgres;
use crate::seeded_random::SeededRandom;

#[derive(clap::Args)]
pub(crate) struct CrashArgs {
    /// sqlite or postgres
    #[arg(long, default_value = "sqlite")]
    store: CrashStore,
    /// Kills the program behind a source instead, while agents call its tools.
    #[arg(long, conflicts_with = "store")]
    children: bool,
    /// Kills and stops a server instead, while agents call a tool, and looks for the calls in its record.
    #[arg(long, conflicts_with = "children")]
    record: bool,
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Decides when to kill; printed, so that a run can be repeated.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CrashStore {
    Sqlite,
    Postgres,
}

/// Totals over all kills.
#[derive(Default)]
struct CrashDamage {
    acked: usize,
    lost: usize,
    duplicated: usize,
    diverged: usize,
}

pub(crate) async fn run(orders: CrashArgs) -> anyhow::Result<()> {
    let seed = orders.seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("seed {seed}");
    let random = SeededRandom::new(seed);
    match orders {
        CrashArgs { children: true, kills, .. } => children::run(kills, random).await,
        CrashArgs { record: true, store, kills, .. } => {
            call_log_loss::run(store, kills, random).await
        }
        CrashArgs { store, kills, .. } => kill_writers(store, kills, random).await,
    }
}

async fn kill_writers(
    store: CrashStore,
    kills: u32,
    mut random: SeededRandom,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let (place, nodes) = match store {
        CrashStore::Sqlite => (folder.path().join("crash.db").display().to_string(), 1),
        CrashStore::Postgres => (postgres::fresh_database("toolcrib_crash").await?, 2),
    };
    let mut check = JournalCheck::default();
    let started = Instant::now();
    for kill in 1..=kills {
        let mut children = (0..nodes)
            .map(|node| start_worker(&place, folder.path(), node))
            .collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(Duration::from_millis(5 + random.below(800)));
        let server_too = matches!(store, CrashStore::Postgres) && kill.is_multiple_of(5);
        if server_too {
            postgres::crash_server()?;
            // The nodes continue without the database for a moment before they are killed too.
            std::thread::sleep(Duration::from_millis(random.below(1500)));
        }
        for child in &mut children {
            let early = child.try_wait()?;
            ensure!(early.is_none(), "a worker ended by itself: {early:?}; its words are above");
            child.kill()?;
            child.wait()?;
        }
        let notes: Vec<_> = (0..nodes).map(|node| notes_path(folder.path(), node)).collect();
        check.check_notes(&place, &notes).await.context(format!("after kill {kill}"))?;
        if kill.is_multiple_of(20) {
            let CrashDamage { acked, lost, duplicated, diverged } = check.damage;
            let seconds = started.elapsed().as_secs();
            eprintln!(
                "{seconds:>5} s  kills {kill} acked {acked} lost {lost} duplicated {duplicated} diverged {diverged}"
            );
        }
    }
    let CrashDamage { acked, lost, duplicated, diverged } = check.damage;
    println!("kills {kills} acked {acked} lost {lost} duplicated {duplicated} diverged {diverged}");
    ensure!(0 < acked, "nothing was acknowledged, so nothing was shown");
    if 0 < lost + duplicated + diverged {
        std::process::exit(1);
    }
    Ok(())
}

fn notes_path(folder: &Path, node: u32) -> PathBuf {
    folder.join(format!("notes-{node}"))
}

fn start_worker(place: &str, folder: &Path, node: u32) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["worker", "--journal", place, "--node", &node.to_string(), "--notes"])
        .arg(notes_path(folder, node));
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
}

/// Compares the acknowledged commands with the journal.
#[derive(Default)]
struct JournalCheck {
    damage: CrashDamage,
    /// Positions and times of the events of each command key, up to the last position read.
    events_by_key: BTreeMap<String, Vec<(u64, jiff::Timestamp)>>,
    last_read: Position,
    compared: BTreeSet<String>,
}

impl JournalCheck {
    async fn check_notes(&mut self, place: &str, notes: &[PathBuf]) -> anyhow::Result<()> {
        let place: JournalLocation = place.parse()?;
        let journal = place.open(SystemClock).await?;
        self.read_new_events(&*journal).await?;
        let mut acked = 0;
        let mut lost = 0;
        let mut live = Vec::new();
        for file in notes {
            let Ok(text) = std::fs::read_to_string(file) else { continue };
            for line in text.lines() {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["ack", key, position, "changed"] => {
                        acked += 1;
                        lost += usize::from(self.is_lost(key, position.parse()?));
                    }
                    ["live", position, digest] => {
                        live.push((Position(position.parse()?), digest.to_owned()))
                    }
                    _ => {}
                }
            }
        }
        let duplicated = self.events_by_key.values().filter(|run| is_executed_twice(run)).count();
        let mut diverged = 0;
        if let Some((position, digest)) = live.pop()
            && self.compared.insert(digest.clone())
        {
            let rebuilt = snapshot_at(&*journal, JournalMoment::Position(position))
                .await?
                .digest()
                .to_string();
            diverged += usize::from(rebuilt != digest);
        }
        let catalog = Catalog::open(journal).await?;
        let verification =
            verify_journal(&**catalog.journal(), &catalog.snapshot(), |_| {}).await?;
        for problem in &verification.problems {
            eprintln!("problem: {problem}");
        }
        diverged += verification.problems.len();
        catalog.close().await;
        let before = self.damage.diverged;
        self.damage = CrashDamage { acked, lost, duplicated, diverged: before + diverged };
        Ok(())
    }

    async fn read_new_events(&mut self, journal: &dyn Journal) -> anyhow::Result<()> {
        loop {
            let events = journal.read_after(self.last_read, 5000).await?;
            let Some(last) = events.last() else { return Ok(()) };
            self.last_read = last.position;
            for event in events {
                if let Some(key) = event.correlation_id {
                    self.events_by_key
                        .entry(key.to_string())
                        .or_default()
                        .push((event.position.0, event.time));
                }
            }
        }
    }

    /// The last event of the command must be at the acknowledged position.
    fn is_lost(&self, key: &str, position: u64) -> bool {
        self.events_by_key
            .get(key)
            .is_none_or(|run| run.last().map(|(last, _)| *last) != Some(position))
    }
}

/// True if the command was executed twice: its events are not adjacent, or were not stored in one append.
fn is_executed_twice(run: &[(u64, jiff::Timestamp)]) -> bool {
    run.windows(2).any(|pair| pair[1].0 != pair[0].0 + 1 || pair[1].1 != pair[0].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_misplaced_and_duplicated_events_are_detected() {
        let mut check = JournalCheck::default();
        let at = |position, second| (position, jiff::Timestamp::from_second(second).unwrap());
        check.events_by_key.insert("key".to_owned(), vec![at(3, 1), at(4, 1)]);
        assert!(!check.is_lost("key", 4));
        assert!(check.is_lost("key", 5), "the caller was told another position");
        assert!(check.is_lost("other", 4), "nothing of it is there");
        assert!(!is_executed_twice(&[at(3, 1), at(4, 1)]));
        assert!(
            is_executed_twice(&[at(3, 1), at(4, 1), at(9, 1)])
                && is_executed_twice(&[at(3, 1), at(4, 2)])
        );
    }
}
