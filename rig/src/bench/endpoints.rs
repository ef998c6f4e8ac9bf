//! Endpoints: the cost of a request for the server, compared with a bare handler that gives the same answer, and the
//! cost of idle streams.
//!
//! Servers run in separate processes, so that their CPU time can be measured separately. Ours and the bare one take
//! turns; the median of all rounds counts.

pub(crate) mod bench_server;
mod load;
mod measured_crib;
pub(crate) mod server_process;
mod speed;
mod streams;
pub(crate) mod wire;

use super::BenchArgs;
use super::report::BenchReport;

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let wanted = |name| orders.part.as_deref().is_none_or(|part| part == name);
    if wanted("speed") {
        speed::run(report, orders).await?;
    }
    if wanted("streams") {
        streams::run(report, orders).await?;
    }
    Ok(())
}
