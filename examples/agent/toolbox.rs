//! Which tools there are now, and calling them.
//!
//! Without an answer there are those of before, or none: an agent goes on without tools rather than not at all.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use toolcrib::BoxError;
use toolcrib::upstream::http::header::ETAG;
use toolcrib::upstream::http::{Answer, Method};

use super::pace::Pace;
use super::remote::Remote;
use super::tools::{Route, Tools};

/// How much of a tool's answer a model is told, in bytes.
const TOLD: usize = 64 * 1024;

/// Which tools there are now.
pub(crate) struct Toolbox {
    server: Remote,
    /// Whoever subscribes is told when they are others.
    pub(crate) tools: watch::Sender<Arc<Tools>>,
    /// A call was answered as if the tool were gone.
    stale: Notify,
}

impl Toolbox {
    /// Asks once, and begins without tools if that fails.
    pub(crate) async fn open(server: Remote) -> Self {
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
    /// later and later, and at once if a tool seems to be gone.
    pub(crate) async fn keep_fresh(&self, pace: Pace) {
        let mut failures = u32::from(!self.tools().is_read);
        loop {
            let rest = if failures == 0 { pace.poll } else { pace.rest(failures) };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.stale.notified() => {}
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
        let answer = self.server.get(self.server.at("/tools"), self.tools().etag.clone()).await?;
        match answer.status {
            304 => return Ok(()),
            200 => {}
            status => return Err(format!("`GET /tools` was answered with {status}").into()),
        }
        let etag = answer.headers.get(ETAG).cloned();
        let tools = Tools::read(&answer.body, etag, &self.server)?;
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
        match self.send(route, arguments).await {
            Ok(answer) => {
                if answer.status == 404 {
                    self.stale.notify_one();
                }
                cut(told(&answer))
            }
            // It may have been done: whether to try again is for the model to say.
            Err(why) => format!("Error: {why}"),
        }
    }

    async fn send(&self, route: Route, arguments: Map<String, Value>) -> Result<Answer, BoxError> {
        let Route { method, mut url } = route;
        if method != Method::GET && method != Method::DELETE {
            let body = Value::Object(arguments);
            return Ok(self.server.send(method, url, Some(&body)).await?);
        }
        for (name, value) in arguments {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            url.query_pairs_mut().append_pair(&name, &text);
        }
        Ok(self.server.send(method, url, None).await?)
    }
}

/// An answer in words: the texts of a tool result, or the JSON that came.
fn told(answer: &Answer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let parts = json["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    let text = match texts.is_empty() {
        true => body.into_owned(),
        false => texts.join("\n"),
    };
    let failed = json["isError"] == true || !(200..300).contains(&answer.status);
    match failed && !text.starts_with("Error: ") {
        true => format!("Error: {text}"),
        false => text,
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
