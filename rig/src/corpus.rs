//! `corpus`: runs discovery on the real specifications of a folder, and checks its request cases.
//!
//! The folder holds specifications, `expected/` (the counts of an independent reader) and `cases/` (calls and the
//! requests they must become); or `corpus.tar.xz` with the first two. None of these files is part of the repository.

mod cases;
mod checks;
mod specification;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;

use self::checks::CorpusTotals;
pub(crate) use self::checks::list_bytes;
pub(crate) use self::specification::KnownSpecification;

/// What to look at.
#[derive(Args)]
pub(crate) struct CorpusArgs {
    /// The folder
    folder: PathBuf,
    /// Only specifications and cases whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Write the entries of `tools/list` of every specification into this folder
    #[arg(long)]
    dump: Option<PathBuf>,
    /// Print every shortcoming
    #[arg(long)]
    verbose: bool,
}

pub(crate) fn run(orders: &CorpusArgs) -> anyhow::Result<()> {
    let folder = CorpusFolder::open(&orders.folder)?;
    let mut totals = CorpusTotals::default();
    for known in specifications(&folder)? {
        if orders.only.as_deref().is_some_and(|only| !known.id.contains(only)) {
            continue;
        }
        let counts = checks::check_specification(&known, orders.verbose, orders.dump.as_deref());
        println!("{}", counts.summary_line(&known.id));
        totals.add(&counts);
    }
    println!("{}", totals.summary_line());
    let cases = orders.folder.join("cases");
    if cases.is_dir() {
        let totals = cases::run_cases(&cases, orders.only.as_deref())?;
        println!("{}", totals.summary_line());
        ensure!(totals.all_exact(), "a case is not exact");
    }
    ensure!(totals.has_no_violations(), "the figures above are not what must hold");
    Ok(())
}

pub(crate) fn specifications(folder: &CorpusFolder) -> anyhow::Result<Vec<KnownSpecification>> {
    specification::list_specifications(&folder.specifications)
}

/// The folder of the specifications, unpacked if necessary.
pub(crate) struct CorpusFolder {
    specifications: PathBuf,
    _unpacked: Option<tempfile::TempDir>,
}

impl CorpusFolder {
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let archive = folder.join("corpus.tar.xz");
        if !archive.is_file() {
            return Ok(Self { specifications: folder.to_owned(), _unpacked: None });
        }
        let unpacked = tempfile::tempdir()?;
        let done = Command::new("tar")
            .arg("-xJf")
            .arg(&archive)
            .arg("-C")
            .arg(unpacked.path())
            .status()
            .context("`tar` unpacks the specifications")?;
        ensure!(done.success(), "`tar` failed on {}", archive.display());
        // The archive has one top-level folder.
        let top =
            std::fs::read_dir(unpacked.path())?.next().context("the archive is empty")??.path();
        let list = folder.join("corpus.json");
        if list.is_file() {
            std::fs::copy(list, top.join("corpus.json"))?;
        }
        Ok(Self { specifications: top, _unpacked: Some(unpacked) })
    }
}
