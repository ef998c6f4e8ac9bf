//! Which tools there are now, and calling them.
//!
//! Without an answer there are those of before, or none: an agent goes on without tools rather than not at all.

use std::sync::Arc;

use serde_json::Map;
use tokio::sync::{Notify, watch};
use toolcrib::BoxError;

use super::pace::Pace;
use super::server::{Called, Server};
use super::tools::Tools;

/// How much of a tool's answer a model is told, in bytes.
const TOLD: usize = 64 * 1024;

/// Which tools there are now.
pub(crate) struct Toolbox {
    server: Server,
    /// Whoever subscribes is told when they are others.
    pub(crate) tools: watch::Sender<Arc<Tools>>,
    /// A call was answered as if the tool were gone.
    stale: Notify,
}

impl Toolbox {
    /// Asks once, and begins without tools if that fails.
    pub(crate) async fn open(server: Server) -> Self {
        let toolbox = Self { server, tools: watch::Sender::default(), stale: Notify::new() };
        if let Err(why) = toolbox.load().await {
            tracing::warn!("there are no tools yet: {why}");
        }
        toolbox
    }

    /// Those that are known now.
    pub(crate) fn tools(&self) -> Arc<Tools> {
        self.tools.borrow().clone()
    }

    /// Asks again and again, for as long as it is polled: now and then while all is well, sooner after a failure and then
    /// later and later, and at once if a tool seems to be gone or the server says that its tools are others.
    pub(crate) async fn keep_fresh(&self, pace: Pace) {
        let mut failures = u32::from(!self.tools().is_read);
        loop {
            let rest = if failures == 0 { pace.poll } else { pace.rest(failures) };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.stale.notified() => {}
                // After a failure it may go on saying what it said before.
                () = self.server.changed(), if failures == 0 => {}
            }
            match self.load().await {
                Ok(()) => failures = 0,
                Err(why) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(failures, "tools are as they were: {why}");
                }
            }
        }
    }

    async fn load(&self) -> Result<(), BoxError> {
        let Some(tools) = self.server.list(&self.tools()).await? else { return Ok(()) };
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

    /// Calls a tool once, and says what came of it in words for the model; whatever went wrong, too.
    pub(crate) async fn call(&self, tools: &Tools, function: &str, arguments: &str) -> String {
        let Some(route) = tools.route(function) else {
            return format!("Error: Tool not found: {function}");
        };
        let arguments = match arguments.trim() {
            "" => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(arguments) => arguments,
                Err(why) => return format!("Error: the arguments are no JSON object: {why}"),
            },
        };
        match self.server.call(route, arguments).await {
            Ok(Called { told, is_gone }) => {
                if is_gone {
                    self.stale.notify_one();
                }
                cut(told)
            }
            // It may have been done: whether to try again is for the model to say.
            Err(why) => format!("Error: {why}"),
        }
    }
}

fn cut(mut text: String) -> String {
    if TOLD < text.len() {
        let all = text.len();
        text.truncate(text.floor_char_boundary(TOLD));
        text.push_str(&format!("… (the first {TOLD} of {all} bytes)"));
    }
    text
}
