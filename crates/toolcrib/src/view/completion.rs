//! Argument completion (`completion/complete`): from the MCP server or provider that offers the prompt or template.

use std::sync::Arc;

use calls::upstream_connections::mcp_bridge;
use calls::upstream_connections::mcp_bridge::{BridgeOutcome, BridgeRequest};
use model::{CallFailure, ErrorCode};
use provider::{
    CallContext, CompletionRequest, CompletionTarget, GuardedLists as _, OfferListing, ToolProvider,
};
use serde_json::{Map, Value, json};

use super::AgentView;
use super::catalog_offers::{CatalogOffer, OfferKind};
use super::custom_offers::custom_work;
use super::prompts_and_resources::{OfferResult, mcp_offer_result};

/// Maximum number of values in one result, as MCP specifies.
const MAX_COMPLETIONS: usize = 100;
/// JSON-RPC error code "method not found".
const METHOD_NOT_FOUND: i64 = -32601;

impl AgentView {
    /// Completes an argument; the result has the shape of `completion/complete`.
    pub async fn complete(
        &self,
        unfinished: &CompletionRequest,
        call: &CallContext,
    ) -> OfferResult {
        if let Some(offer) = self.find_completion_offer(&unfinished.target) {
            if let Some(work) = custom_work(&offer) {
                let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
                    return OfferResult::Missing;
                };
                return match self.admit_local(source, &offer.entry).await {
                    Ok(()) => {
                        let values = work.suggested_values(&unfinished.argument).iter();
                        OfferResult::Result(completion_result(
                            unfinished.matching_values(values.map(|value| &**value)),
                        ))
                    }
                    Err(failure) => OfferResult::Failed(failure),
                };
            }
            return self.complete_at_mcp_server(&offer, unfinished, call).await;
        }
        // If several providers offer the same prompt or template, the first completes it.
        match self
            .tool_providers()
            .find(|provider| has_completion_target(&***provider, &unfinished.target))
        {
            Some(provider) => OfferResult::Result(completion_result(
                provider.complete(unfinished).unwrap_or_default(),
            )),
            None => OfferResult::Missing,
        }
    }

    fn find_completion_offer(&self, of: &CompletionTarget) -> Option<CatalogOffer> {
        let (kind, key) = match of {
            CompletionTarget::Prompt(name) => (OfferKind::Prompt, name),
            CompletionTarget::Template(uri) => (OfferKind::Template, uri),
        };
        self.catalog_offers(kind).into_iter().find(|offer| offer.key == *key)
    }

    /// Asks the MCP server. A server without the completion capability yields no values instead of an error.
    async fn complete_at_mcp_server(
        &self,
        offer: &CatalogOffer,
        unfinished: &CompletionRequest,
        call: &CallContext,
    ) -> OfferResult {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return OfferResult::Missing;
        };
        let tool = &offer.entry.tool;
        if let Err(failure) = self.check_scopes(&source.source, Some(tool)) {
            return OfferResult::Failed(failure);
        }
        let mut stay =
            match self.admit_once(&source.source, &tool.id, mcp_bridge::DEFAULT_DEADLINE).await {
                Ok(stay) => stay,
                Err(failure) => return OfferResult::Failed(failure),
            };
        let until = self.mcp_deadline(&source.source);
        let upstream = match self.connect_mcp(&source.source, offer.audience(), until).await {
            Ok(upstream) => upstream,
            Err(failed) => {
                stay.finish(failed.verdict());
                return mcp_offer_result(call, failed);
            }
        };
        if !upstream.connection.server_description().has_capability("completions") {
            return OfferResult::Result(completion_result(Vec::new()));
        }
        let params = completion_params(offer, unfinished);
        let wanted = BridgeRequest::for_method(params, "completion/complete");
        let bridged = self.bridge_mcp_request(upstream, wanted, call, &mut stay).await;
        stay.finish(bridged.verdict());
        match bridged {
            BridgeOutcome::Error(error) if error.code == METHOD_NOT_FOUND => {
                OfferResult::Result(completion_result(Vec::new()))
            }
            bridged => match mcp_offer_result(call, bridged) {
                OfferResult::Result(result) => limit_completion(result),
                other => other,
            },
        }
    }
}

/// Whether the provider offers this prompt or template; a resource with a fixed address has no arguments to complete.
fn has_completion_target(provider: &dyn ToolProvider, of: &CompletionTarget) -> bool {
    let is_one = |all: Vec<Arc<OfferListing>>, key: &str| all.iter().any(|one| *one.key == *key);
    match of {
        CompletionTarget::Prompt(name) => is_one(provider.prompts_or_empty(), name),
        CompletionTarget::Template(uri) => {
            is_one(provider.templates_or_empty(), uri) || is_one(provider.resources_or_empty(), uri)
        }
    }
}

/// Parameters of the request, with the name or address that the server uses.
fn completion_params(offer: &CatalogOffer, unfinished: &CompletionRequest) -> Map<String, Value> {
    let of = match unfinished.target {
        CompletionTarget::Prompt(_) => json!({"type": "ref/prompt", "name": offer.source_key}),
        CompletionTarget::Template(_) => json!({"type": "ref/resource", "uri": offer.source_key}),
    };
    let argument = json!({"name": unfinished.argument, "value": unfinished.value});
    let mut params = Map::from_iter([("ref".to_owned(), of), ("argument".to_owned(), argument)]);
    if !unfinished.known_arguments.is_empty() {
        params.insert("context".to_owned(), json!({"arguments": unfinished.known_arguments}));
    }
    params
}

fn completion_result(mut values: Vec<String>) -> Map<String, Value> {
    let total = values.len();
    values.truncate(MAX_COMPLETIONS);
    let completion = json!({"values": values, "total": total, "hasMore": MAX_COMPLETIONS < total});
    Map::from_iter([("completion".to_owned(), completion)])
}

/// Passes the server's result through, with at most as many values as MCP clients accept.
fn limit_completion(mut result: Map<String, Value>) -> OfferResult {
    let completion = result.get_mut("completion").and_then(Value::as_object_mut);
    let values = completion.as_ref().and_then(|it| it.get("values")?.as_array());
    let (Some(values), Some(completion)) = (values.cloned(), completion) else {
        return invalid_completion();
    };
    if !values.iter().all(Value::is_string) {
        return invalid_completion();
    }
    if MAX_COMPLETIONS < values.len() {
        completion.insert("values".to_owned(), values.into_iter().take(MAX_COMPLETIONS).collect());
        completion.insert("hasMore".to_owned(), true.into());
    }
    OfferResult::Result(result)
}

fn invalid_completion() -> OfferResult {
    let message = "the server's proposals are not what MCP says";
    OfferResult::Failed(CallFailure::new(ErrorCode::UpstreamError, message, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(result: Value) -> OfferResult {
        limit_completion(result.as_object().cloned().unwrap())
    }

    #[test]
    fn completions_of_a_server_pass_unchanged_up_to_the_limit() {
        let few = json!({"completion": {"values": ["a"], "total": 7, "x": 1}, "_meta": {"y": 2}});
        assert!(
            matches!(bounded(few.clone()), OfferResult::Result(result) if json!(result) == few)
        );
        let many: Vec<String> = (0..=MAX_COMPLETIONS).map(|number| number.to_string()).collect();
        let OfferResult::Result(result) = bounded(json!({"completion": {"values": many}})) else {
            panic!("they are texts")
        };
        assert_eq!(result["completion"]["values"].as_array().unwrap().len(), MAX_COMPLETIONS);
        assert_eq!(result["completion"]["hasMore"], true);
        for odd in [json!({}), json!({"completion": []}), json!({"completion": {"values": [1]}})] {
            assert!(matches!(bounded(odd), OfferResult::Failed(_)));
        }
    }
}
