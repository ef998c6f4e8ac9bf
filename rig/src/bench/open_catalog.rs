//! `opened`: opens a catalog in a separate process and prints the time and memory that this takes.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use toolcrib::{Catalog, JournalLocation, SystemClock};

#[derive(clap::Args)]
pub(crate) struct OpenedArgs {
    /// Which journal.
    journal: JournalLocation,
}

/// Time and memory of opening a catalog.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpenedCatalog {
    pub(crate) seconds: f64,
    pub(crate) resident_bytes: f64,
    pub(crate) position: u64,
    pub(crate) tools: usize,
}

pub(crate) async fn run(orders: OpenedArgs) -> anyhow::Result<()> {
    let start = Instant::now();
    let catalog = Catalog::open(orders.journal.open(SystemClock).await?).await?;
    let seconds = start.elapsed().as_secs_f64();
    let snapshot = catalog.snapshot();
    // Measure the steady state: memory use settles shortly after opening.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let opened = OpenedCatalog {
        seconds,
        resident_bytes: resident_bytes_of("self")?,
        position: snapshot.position().0,
        tools: snapshot.tool_count(),
    };
    println!("{}", serde_json::to_string(&opened)?);
    Ok(())
}

/// Resident memory of a process, in bytes.
pub(super) fn resident_bytes_of(process: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

/// Opens the catalog in another process.
pub(crate) fn open_in_child_process(place: &str) -> anyhow::Result<OpenedCatalog> {
    let output = Command::new(std::env::current_exe()?)
        .args(["opened", place])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "opening `{place}` failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}
