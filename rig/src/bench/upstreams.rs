//! Upstreams: what a call costs on its way to an MCP server and back, and what sources notice of one that does harm.

mod cost;
mod pipes;

use std::time::Duration;

use super::Orders;
use super::report::{Bound, Report};
use crate::upstreams::hostile::{self, Look};

/// Looks at each way to do harm; the medians count.
const LOOKS: usize = 3;

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    if wanted("cost") {
        cost::run(report, orders.quick).await?;
    }
    if wanted("hostile") {
        harm(report, orders.quick).await?;
    }
    Ok(())
}

async fn harm(report: &mut Report, is_quick: bool) -> anyhow::Result<()> {
    let time = Duration::from_millis(if is_quick { 500 } else { 3_000 });
    for (over, manner) in hostile::all() {
        let mut looks = Vec::new();
        for _ in 0..if is_quick { 1 } else { LOOKS } {
            looks.push(hostile::look(over, manner, time).await?);
        }
        let name = hostile::name(over, manner);
        let errors: usize = looks.iter().map(|look| look.errors).sum();
        let calls: usize = looks.iter().map(|look| look.calls).sum();
        eprintln!("  {name}: {errors} errors in {calls} calls of the nine");
        let (p99, calm) = (median(&looks, |look| look.p99), median(&looks, |look| look.calm_p99));
        report.add(format!("{name}: p99 of the other nine"), p99, calm, "µs", Bound::AtMost(1.1));
        let memory = looks.iter().map(|look| look.memory).fold(0.0, f64::max);
        let what = format!("{name}: more memory, against 64 MiB");
        report.add(what, memory, 64.0, "MiB", Bound::AtMost(1.0));
        anyhow::ensure!(errors == 0, "{name}: the other nine had errors");
    }
    Ok(())
}

fn median(looks: &[Look], of: impl Fn(&Look) -> f64) -> f64 {
    let mut all: Vec<f64> = looks.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
