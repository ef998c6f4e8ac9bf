//! Calls a built-in tool, through the same gate as any other tool.

use std::time::Duration;

use catalog::{CataloguedSource, CataloguedTool};
use model::{ErrorCode, Failure, Outcome};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::done::told;
use super::failure_of_tool;
use crate::gates::Verdict;
use crate::upstreams::number;
use crate::view::AgentView;
use crate::view::ready::BuiltinReady;

/// Default timeout: enough to fetch a page.
const TIME: Duration = Duration::from_secs(30);

impl AgentView {
    pub(super) async fn do_builtin(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
        ready: &BuiltinReady,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, Failure> {
        let source = &source.source;
        let start = Instant::now();
        let time = source.profile.limits.timeout().unwrap_or(TIME);
        let until = self.until(time);
        let pass = self.enter(source, &entry.tool.id, TIME).await?;
        // Long-running built-in tools run one at a time per agent, so that other agents get their turn.
        let turn = match ready.builtin.is_long() {
            true => Some(self.crib.gates().turn_of(number(&self.agent))),
            false => None,
        };
        let given = async {
            let _turn = match &turn {
                Some(turn) => turn.acquire().await.ok(),
                None => None,
            };
            ready.builtin.call(arguments, self.crib.now(), &ready.client).await
        };
        let given = timeout_at(until, given).await;
        // One page that cannot be fetched says nothing about other pages: do not count it against the source.
        pass.end(Verdict::Works);
        match given {
            Ok(Ok(given)) => Ok(told(entry.tool.id.clone(), start, Some(given), Vec::new(), None)),
            Ok(Err(why)) => Err(failure_of_tool(format!("Error: {why}"))),
            Err(_) => Err(Failure::new(
                ErrorCode::UpstreamTimeout,
                format!("the tool took longer than {} s", (until - start).as_millis() as f64 / 1e3),
                true,
            )),
        }
    }
}
