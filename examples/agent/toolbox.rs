//! The current tools of the agent, and calling them.
//!
//! If the server is unreachable, the agent keeps the previous tools, or works without any.

use std::sync::Arc;

use serde_json::Map;
use tokio::sync::{Notify, watch};
use toolcrib::BoxError;

use super::pace::RetryTiming;
use super::server::{ToolOutcome, ToolServer};
use super::tools::ToolList;

/// Longest tool result that the model gets, in bytes.
const TOLD: usize = 64 * 1024;

/// The current tools of the agent.
pub(crate) struct Toolbox {
    server: ToolServer,
    /// Current list; subscribers are notified when it changes.
    pub(crate) tools: watch::Sender<Arc<ToolList>>,
    /// Notified when a call shows that the list is out of date.
    stale: Notify,
}

impl Toolbox {
    /// Lists the tools once; starts without any if that fails.
    pub(crate) async fn with_server(server: ToolServer) -> Self {
        let toolbox = Self { server, tools: watch::Sender::default(), stale: Notify::new() };
        if let Err(why) = toolbox.refresh().await {
            tracing::warn!("there are no tools yet: {why}");
        }
        toolbox
    }

    /// The current tools.
    pub(crate) fn current_tools(&self) -> Arc<ToolList> {
        self.tools.borrow().clone()
    }

    /// Refreshes the list until the future is dropped: at intervals while requests succeed, with growing delays after
    /// failures, and at once if a tool is missing or the server announces a change.
    pub(crate) async fn keep_fresh(&self, pace: RetryTiming) {
        let mut failures = u32::from(!self.current_tools().is_read);
        loop {
            let rest = if failures == 0 { pace.poll } else { pace.retry_delay(failures) };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.stale.notified() => {}
                // Not after a failure: the announcement is still pending, so this branch would be ready at once.
                () = self.server.wait_for_change(), if failures == 0 => {}
            }
            match self.refresh().await {
                Ok(()) => failures = 0,
                Err(why) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(failures, "tools are as they were: {why}");
                }
            }
        }
    }

    async fn refresh(&self) -> Result<(), BoxError> {
        let Some(tools) = self.server.list_tools(&self.current_tools()).await? else {
            return Ok(());
        };
        self.tools.send_if_modified(|known| {
            let is_other = known.functions != tools.functions;
            if is_other {
                tracing::info!("there are {} tools now", tools.functions.len());
            }
            *known = Arc::new(tools);
            is_other
        });
        Ok(())
    }

    /// Calls a tool once and returns the result as text for the model. Errors are returned as text too.
    pub(crate) async fn call_function(
        &self,
        tools: &ToolList,
        function: &str,
        arguments: &str,
    ) -> String {
        let Some(route) = tools.route_of(function) else {
            return format!("Error: Tool not found: {function}");
        };
        let arguments = match arguments.trim() {
            "" => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(why) => return format!("Error: the arguments are no JSON object: {why}"),
            },
        };
        match self.server.call_tool(route, arguments).await {
            Ok(ToolOutcome { text: told, is_unknown_tool: is_gone }) => {
                if is_gone {
                    self.stale.notify_one();
                }
                truncate_result(told)
            }
            // The tool may have run, so only the model can decide whether to call it again.
            Err(why) => format!("Error: {why}"),
        }
    }
}

fn truncate_result(mut text: String) -> String {
    if TOLD < text.len() {
        let all = text.len();
        text.truncate(text.floor_char_boundary(TOLD));
        text.push_str(&format!("… (the first {TOLD} of {all} bytes)"));
    }
    text
}
