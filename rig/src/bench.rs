//! Benchmarks: ours and the bare driver by turns in one run, so that a noisy machine disturbs both alike.

mod access;
mod bare;
pub(crate) mod doors;
mod journal;
pub(crate) mod openapi;
pub(crate) mod opened;
mod peers;
mod record;
mod report;
mod search;
mod synthetic;
mod tokens;
mod upstreams;

use std::path::Path;

use report::Report;

#[derive(clap::Args)]
pub(crate) struct Orders {
    /// Which: access, doors, journal, openapi, record, search, upstreams. All, if none is named. A folder after `openapi` has the specifications to measure.
    names: Vec<String>,
    /// A tenth of the size, to see that it runs; writes no figures.
    #[arg(long)]
    quick: bool,
    /// Only this part: appends, refresh, start or memory; toolsets or tokens; speed or streams; cost or hostile. Writes no figures.
    #[arg(long)]
    part: Option<String>,
    /// Only this store: sqlite or postgres; writes no figures.
    #[arg(long)]
    store: Option<String>,
}

pub(crate) async fn run(orders: Orders) -> anyhow::Result<()> {
    let all = ["access", "doors", "journal", "openapi", "record", "search", "upstreams"];
    let (names, folders): (Vec<&String>, Vec<&String>) =
        orders.names.iter().partition(|name| all.contains(&name.as_str()));
    let folder = folders.first().map(|folder| Path::new(folder.as_str()));
    if let Some(folder) = folder {
        anyhow::ensure!(
            folder.is_dir(),
            "there is neither a benchmark nor a folder `{}`; the benchmarks are: {}",
            folder.display(),
            all.join(", ")
        );
    }
    let asked = |name: &str| names.is_empty() || names.iter().any(|asked| *asked == name);
    if asked("access") {
        let mut report = Report::new("access");
        let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
        // First, because it is the smaller: what a large catalog leaves of memory would count here.
        if wanted("tokens") {
            tokens::run(&mut report).await?;
        }
        if wanted("toolsets") {
            access::run(&mut report, &orders).await?;
        }
        report.print()?;
        if !orders.quick && orders.part.is_none() {
            report.keep()?;
        }
    }
    if asked("doors") {
        let mut report = Report::new("doors");
        doors::run(&mut report, &orders).await?;
        report.print()?;
        if !orders.quick && orders.part.is_none() {
            report.keep()?;
        }
    }
    if asked("journal") {
        let mut report = Report::new("journal");
        journal::run(&mut report, &orders).await?;
        report.print()?;
        if !orders.quick && orders.part.is_none() && orders.store.is_none() {
            report.keep()?;
        }
    }
    if asked("openapi") {
        // Specifications of our own making are for a look; the figures that are kept are those of real ones.
        let mut report = Report::new("openapi");
        openapi::run(&mut report, folder)?;
        report.print()?;
        if folder.is_some() && !orders.quick {
            report.keep()?;
        }
    }
    if asked("record") {
        let mut report = Report::new("record");
        record::run(&mut report, &orders).await?;
        report.print()?;
        if !orders.quick {
            report.keep()?;
        }
    }
    if asked("search") {
        let mut report = Report::new("search");
        search::run(&mut report, &orders)?;
        report.print()?;
        if !orders.quick {
            report.keep()?;
        }
    }
    if asked("upstreams") {
        let mut report = Report::new("upstreams");
        upstreams::run(&mut report, &orders).await?;
        report.print()?;
        if !orders.quick && orders.part.is_none() {
            report.keep()?;
        }
    }
    Ok(())
}
