//! Benchmarks: ours and the bare driver by turns in one run, so that a noisy machine disturbs both alike.

mod bare;
mod journal;
pub(crate) mod opened;
mod report;

use report::Report;

#[derive(clap::Args)]
pub(crate) struct Orders {
    /// Which: journal. All, if none is named.
    names: Vec<String>,
    /// A tenth of the size, to see that it runs; writes no figures.
    #[arg(long)]
    quick: bool,
    /// Only this part: appends, refresh, start or memory; writes no figures.
    #[arg(long)]
    part: Option<String>,
    /// Only this store: sqlite or postgres; writes no figures.
    #[arg(long)]
    store: Option<String>,
}

pub(crate) async fn run(orders: Orders) -> anyhow::Result<()> {
    let all = ["journal"];
    for name in &orders.names {
        anyhow::ensure!(
            all.contains(&name.as_str()),
            "there is no benchmark `{name}`; there are: {}",
            all.join(", ")
        );
    }
    let mut report = Report::new("journal");
    journal::run(&mut report, &orders).await?;
    report.print()?;
    if !orders.quick && orders.part.is_none() && orders.store.is_none() {
        report.keep()?;
    }
    Ok(())
}
