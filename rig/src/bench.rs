//! `bench`: runs ours and the bare driver alternately in one run, so that a noisy machine disturbs both alike.

mod access;
mod bare_driver;
mod call_log_cost;
pub(crate) mod endpoints;
mod journal;
mod library;
pub(crate) mod open_catalog;
pub(crate) mod openapi;
mod overload;
mod peers;
mod plan;
mod report;
mod search;
mod startup;
mod synthetic;
mod tokens;
mod upstreams;

use std::path::Path;

use report::BenchReport;

#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Which: access, doors, journal, library, openapi, overload, plan, record, search, start, upstreams. All, if none is named. A folder after `openapi` has the specifications to measure.
    names: Vec<String>,
    /// A tenth of the size, to see that it runs; writes no figures.
    #[arg(long)]
    quick: bool,
    /// Only this part: appends, refresh, start or memory; toolsets or tokens; speed or streams; processor or source; cost or hostile. Writes no figures.
    #[arg(long)]
    part: Option<String>,
    /// Only this store: sqlite or postgres; writes no figures.
    #[arg(long)]
    store: Option<String>,
}

const BENCHMARKS: [&str; 11] = [
    "access",
    "doors",
    "journal",
    "library",
    "openapi",
    "overload",
    "plan",
    "record",
    "search",
    "start",
    "upstreams",
];

pub(crate) async fn run(orders: BenchArgs) -> anyhow::Result<()> {
    let (names, folders): (Vec<&String>, Vec<&String>) =
        orders.names.iter().partition(|name| BENCHMARKS.contains(&name.as_str()));
    let folder = folders.first().map(|folder| Path::new(folder.as_str()));
    if let Some(folder) = folder {
        anyhow::ensure!(
            folder.is_dir(),
            "there is neither a benchmark nor a folder `{}`; the benchmarks are: {}",
            folder.display(),
            BENCHMARKS.join(", ")
        );
    }
    let mut missed = 0;
    for name in BENCHMARKS {
        if !names.is_empty() && !names.iter().any(|asked| *asked == name) {
            continue;
        }
        let mut report = BenchReport::new(name);
        let is_whole = run_benchmark(name, &mut report, &orders, folder).await?;
        report.print()?;
        if is_whole && !orders.quick && orders.part.is_none() && orders.store.is_none() {
            report.write_to_docs()?;
        }
        missed += if orders.quick { 0 } else { report.missed_count() };
    }
    anyhow::ensure!(missed == 0, "{missed} of the figures are not what must hold");
    Ok(())
}

/// Runs one benchmark. Returns true if its figures belong into docs/benchmarks.md.
async fn run_benchmark(
    name: &str,
    report: &mut BenchReport,
    orders: &BenchArgs,
    folder: Option<&Path>,
) -> anyhow::Result<bool> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    match name {
        "access" => {
            // First, because it is smaller: memory that a large catalog leaves behind would distort the result.
            if wanted("tokens") {
                tokens::run(report).await?;
            }
            if wanted("toolsets") {
                access::run(report, orders).await?;
            }
        }
        "doors" => endpoints::run(report, orders).await?,
        "journal" => journal::run(report, orders).await?,
        "library" => library::run(report, orders).await?,
        // Synthetic specifications are only for a quick look; published figures come from real ones.
        "openapi" => {
            openapi::run(report, folder)?;
            return Ok(folder.is_some());
        }
        "overload" => overload::run(report, orders).await?,
        "plan" => plan::run(report, orders).await?,
        "record" => call_log_cost::run(report, orders).await?,
        "search" => search::run(report, orders)?,
        "start" => startup::run(report, orders).await?,
        _ => upstreams::run(report, orders).await?,
    }
    Ok(true)
}
