//! Doors: what a request costs the server, beside a bare handler with the same answer, and what idle streams cost.
//!
//! Servers are processes of their own, so that their CPU time can be told from ours. Ours and the bare one take turns;
//! the median of all rounds counts.

mod crib;
mod load;
pub(crate) mod process;
pub(crate) mod server;
mod speed;
mod streams;
pub(crate) mod wire;

use super::Orders;
use super::report::Report;

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    if wanted("speed") {
        speed::run(report, orders).await?;
    }
    if wanted("streams") {
        streams::run(report, orders).await?;
    }
    Ok(())
}
