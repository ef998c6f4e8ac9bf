//! Calls a built-in tool, through the same gate as any other tool.

use std::time::Duration;

use calls::compiled_tool::CompiledBuiltinTool;
use calls::principal::principal_hash;
use calls::source_gates::SourceVerdict;
use catalog::{CataloguedSource, CataloguedTool};
use model::{CallFailure, ErrorCode, Outcome};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::call_result::build_outcome;
use super::tool_failure;
use crate::view::AgentView;

/// Default timeout: enough to fetch a page.
const BUILTIN_TIMEOUT: Duration = Duration::from_secs(30);

impl AgentView {
    pub(super) async fn run_builtin_tool(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
        ready: &CompiledBuiltinTool,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, CallFailure> {
        let source = &source.source;
        let start = Instant::now();
        let time = source.profile.limits.timeout().unwrap_or(BUILTIN_TIMEOUT);
        let until = self.deadline_after(time);
        let pass = self.admit_once(source, &entry.tool.id, BUILTIN_TIMEOUT).await?;
        // Long-running built-in tools run one at a time per agent, so that other agents get their turn.
        let turn = match ready.builtin.is_expensive() {
            true => Some(self.crib.gates().agent_turn(principal_hash(&self.agent))),
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
        pass.finish(SourceVerdict::Works);
        match given {
            Ok(Ok(given)) => {
                Ok(build_outcome(entry.tool.id.clone(), start, Some(given), Vec::new(), None))
            }
            Ok(Err(why)) => Err(tool_failure(format!("Error: {why}"))),
            Err(_) => Err(CallFailure::new(
                ErrorCode::UpstreamTimeout,
                format!("the tool took longer than {} s", (until - start).as_millis() as f64 / 1e3),
                true,
            )),
        }
    }
}
