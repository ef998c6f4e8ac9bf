//! Argument completion (`completion/complete`): from the MCP server or provider that offers the prompt or template.

use std::sync::Arc;

use model::{ErrorCode, Failure};
use serde_json::{Map, Value, json};

use super::AgentView;
use super::custom::work_of;
use super::offers::{Offer, OfferKind};
use super::primitives::{Got, got_of_server};
use crate::call::CallContext;
use crate::provider::{Listed, Lists as _, ToolProvider, Unfinished, UnfinishedOf};
use crate::upstreams::bridge::{self, Bridged, Wanted};

/// Maximum number of values in one result, as MCP specifies.
const MOST: usize = 100;
/// JSON-RPC error code "method not found".
const NO_METHOD: i64 = -32601;

impl AgentView {
    /// Completes an argument; the result has the shape of `completion/complete`.
    pub async fn complete(&self, unfinished: &Unfinished, call: &CallContext) -> Got {
        if let Some(offer) = self.unfinished_offer(&unfinished.of) {
            if let Some(work) = work_of(&offer) {
                let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
                    return Got::Missing;
                };
                return match self.let_in(source, &offer.entry).await {
                    Ok(()) => {
                        let values = work.values(&unfinished.argument).iter();
                        Got::Result(completion(unfinished.among(values.map(|value| &**value))))
                    }
                    Err(failure) => Got::Failed(failure),
                };
            }
            return self.complete_at_server(&offer, unfinished, call).await;
        }
        // If several providers offer the same prompt or template, the first completes it.
        match self.providers().find(|provider| offers(&***provider, &unfinished.of)) {
            Some(provider) => {
                Got::Result(completion(provider.complete(unfinished).unwrap_or_default()))
            }
            None => Got::Missing,
        }
    }

    fn unfinished_offer(&self, of: &UnfinishedOf) -> Option<Offer> {
        let (kind, key) = match of {
            UnfinishedOf::Prompt(name) => (OfferKind::Prompt, name),
            UnfinishedOf::Template(uri) => (OfferKind::Template, uri),
        };
        self.offers(kind).into_iter().find(|offer| offer.key == *key)
    }

    /// Asks the MCP server. A server without the completion capability yields no values instead of an error.
    async fn complete_at_server(
        &self,
        offer: &Offer,
        unfinished: &Unfinished,
        call: &CallContext,
    ) -> Got {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return Got::Missing;
        };
        let tool = &offer.entry.tool;
        if let Err(failure) = self.check_scopes(&source.source, Some(tool)) {
            return Got::Failed(failure);
        }
        let mut stay = match self.enter(&source.source, &tool.id, bridge::DEADLINE).await {
            Ok(stay) => stay,
            Err(failure) => return Got::Failed(failure),
        };
        let until = self.until_of_server(&source.source);
        let upstream = match self.upstream(&source.source, offer.audience(), until).await {
            Ok(upstream) => upstream,
            Err(failed) => {
                stay.end(failed.verdict());
                return got_of_server(call, failed);
            }
        };
        if !upstream.connection.about().can("completions") {
            return Got::Result(completion(Vec::new()));
        }
        let params = params(offer, unfinished);
        let wanted = Wanted::other(params, "completion/complete");
        let bridged = self.ask(upstream, wanted, call, &mut stay).await;
        stay.end(bridged.verdict());
        match bridged {
            Bridged::Error(error) if error.code == NO_METHOD => Got::Result(completion(Vec::new())),
            bridged => match got_of_server(call, bridged) {
                Got::Result(result) => within_bounds(result),
                other => other,
            },
        }
    }
}

/// Whether the provider offers this prompt or template; a resource with a fixed address has no arguments to complete.
fn offers(provider: &dyn ToolProvider, of: &UnfinishedOf) -> bool {
    let is_one = |all: Vec<Arc<Listed>>, key: &str| all.iter().any(|one| *one.key == *key);
    match of {
        UnfinishedOf::Prompt(name) => is_one(provider.prompts(), name),
        UnfinishedOf::Template(uri) => {
            is_one(provider.templates(), uri) || is_one(provider.resources(), uri)
        }
    }
}

/// Parameters of the request, with the name or address that the server uses.
fn params(offer: &Offer, unfinished: &Unfinished) -> Map<String, Value> {
    let of = match unfinished.of {
        UnfinishedOf::Prompt(_) => json!({"type": "ref/prompt", "name": offer.own}),
        UnfinishedOf::Template(_) => json!({"type": "ref/resource", "uri": offer.own}),
    };
    let argument = json!({"name": unfinished.argument, "value": unfinished.value});
    let mut params = Map::from_iter([("ref".to_owned(), of), ("argument".to_owned(), argument)]);
    if !unfinished.known.is_empty() {
        params.insert("context".to_owned(), json!({"arguments": unfinished.known}));
    }
    params
}

fn completion(mut values: Vec<String>) -> Map<String, Value> {
    let total = values.len();
    values.truncate(MOST);
    let completion = json!({"values": values, "total": total, "hasMore": MOST < total});
    Map::from_iter([("completion".to_owned(), completion)])
}

/// Passes the server's result through, with at most as many values as MCP clients accept.
fn within_bounds(mut result: Map<String, Value>) -> Got {
    let completion = result.get_mut("completion").and_then(Value::as_object_mut);
    let values = completion.as_ref().and_then(|it| it.get("values")?.as_array());
    let (Some(values), Some(completion)) = (values.cloned(), completion) else { return unusable() };
    if !values.iter().all(Value::is_string) {
        return unusable();
    }
    if MOST < values.len() {
        completion.insert("values".to_owned(), values.into_iter().take(MOST).collect());
        completion.insert("hasMore".to_owned(), true.into());
    }
    Got::Result(result)
}

fn unusable() -> Got {
    let message = "the server's proposals are not what MCP says";
    Got::Failed(Failure::new(ErrorCode::UpstreamError, message, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(result: Value) -> Got {
        within_bounds(result.as_object().cloned().unwrap())
    }

    #[test]
    fn completions_of_a_server_pass_unchanged_up_to_the_limit() {
        let few = json!({"completion": {"values": ["a"], "total": 7, "x": 1}, "_meta": {"y": 2}});
        assert!(matches!(bounded(few.clone()), Got::Result(result) if json!(result) == few));
        let many: Vec<String> = (0..=MOST).map(|number| number.to_string()).collect();
        let Got::Result(result) = bounded(json!({"completion": {"values": many}})) else {
            panic!("they are texts")
        };
        assert_eq!(result["completion"]["values"].as_array().unwrap().len(), MOST);
        assert_eq!(result["completion"]["hasMore"], true);
        for odd in [json!({}), json!({"completion": []}), json!({"completion": {"values": [1]}})] {
            assert!(matches!(bounded(odd), Got::Failed(_)));
        }
    }
}
