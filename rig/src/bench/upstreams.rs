//! Upstreams: what a call costs on its way to an MCP server and back, and what sources notice of one that does harm.

mod cost;
mod pipes;

use std::time::Duration;

use super::Orders;
use super::report::{Bound, Report};
use crate::upstreams::hostile;

/// Looks at each way to do harm, of which the one in the middle counts: machines have better and worse seconds.
const LOOKS: usize = 5;

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
    let time = Duration::from_millis(if is_quick { 500 } else { 8_000 });
    for (over, manner) in hostile::all().filter(|(_, manner)| manner.is_measured()) {
        let name = hostile::name(over, manner);
        let (mut looks, mut calls, mut errors, mut memory) = (Vec::new(), 0, 0, 0.0_f64);
        for _ in 0..if is_quick { 1 } else { LOOKS } {
            let look = hostile::look(over, manner, time).await?;
            calls += look.noticed.len();
            looks.push((hostile::p99(look.noticed), hostile::p99(look.calm)));
            errors += look.errors;
            memory = memory.max(look.memory);
        }
        eprintln!("  {name}: {errors} errors in {calls} calls of the nine");
        looks.sort_by(|(one, before), (two, then)| f64::total_cmp(&(one / before), &(two / then)));
        let (p99, before) = looks.get(looks.len() / 2).copied().unwrap_or_default();
        report.add(format!("{name}: p99 of the other nine"), p99, before, "µs", Bound::AtMost(1.1));
        let what = format!("{name}: more memory, against 64 MiB");
        report.add(what, memory, 64.0, "MiB", Bound::AtMost(1.0));
        anyhow::ensure!(errors == 0, "{name}: the other nine had errors");
    }
    Ok(())
}
