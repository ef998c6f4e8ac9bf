//! Lists, renders and reads the prompts and resources of an agent: those of the catalog, then those of providers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use calls::call_recorder::{CallRecording, CallSubject, RecordedOutcome};
use calls::source_gates::QuotaCharge;
use calls::telemetry::{CallOutcome, LABEL_NONE, LABEL_PROVIDER, MeasuredCall};
use calls::upstream_connections::mcp_bridge::{BridgeOutcome, BridgeRequest};
use catalog::tool_set::Slot;
use json::json_size::serialized_size;
use model::{CallFailure, CustomWork, ErrorCode, McpPrimitive};
use provider::uri_template::may_match_template;
use provider::{
    CallContext, CallerCapability, GuardedLists as _, InputError, InputRequest, OfferListing,
    ProviderError, ToolProvider, catch_provider_panic,
};
use serde_json::{Map, Value};
use sources::custom::values_of_uri;

use super::AgentView;
use super::call::{remove_reserved_fields, shape_mcp_offer, tool_failure};
use super::catalog_offers::{CatalogOffer, OfferKind};
use super::custom_offers::custom_work;
use crate::stored_results;

/// The result of a request for a prompt, a resource or a completion.
#[derive(Debug)]
pub enum OfferResult {
    /// The result in the shape of MCP.
    Result(Map<String, Value>),
    /// Input is required from the caller, who repeats the request with the answers.
    InputRequired(Vec<(Box<str>, InputRequest)>),
    /// The caller lacks a required capability.
    MissingCapability(CallerCapability),
    /// It does not exist, or not for this agent.
    Missing,
    /// The request has invalid arguments; the text explains why.
    Invalid(String),
    /// The request failed.
    Failed(CallFailure),
}

/// The measurement, record and count of one request for a prompt or a resource.
struct OfferRequest<'a> {
    measured: MeasuredCall<'a>,
    recording: Option<CallRecording>,
    _counted: Option<QuotaCharge>,
}

impl AgentView {
    /// All prompts; of several with one name, the first.
    pub fn prompts(&self) -> Vec<Arc<OfferListing>> {
        let provided = self.tool_providers().flat_map(|provider| provider.prompts_or_empty());
        first_per_key(self.listed_offers(OfferKind::Prompt).chain(provided))
    }

    /// All resources; of several with one URI, the first.
    pub fn resources(&self) -> Vec<Arc<OfferListing>> {
        let provided = self.tool_providers().flat_map(|provider| provider.resources_or_empty());
        first_per_key(self.listed_offers(OfferKind::Resource).chain(provided))
    }

    /// All resource templates.
    pub fn resource_templates(&self) -> Vec<Arc<OfferListing>> {
        let provided = self.tool_providers().flat_map(|provider| provider.templates_or_empty());
        first_per_key(self.listed_offers(OfferKind::Template).chain(provided))
    }

    /// All prompts, or all resources and templates: those of the catalog with their slots, then those of providers.
    pub(super) fn offers_of_kind(
        &self,
        kind: McpPrimitive,
    ) -> Vec<(Option<Slot>, Arc<OfferListing>)> {
        let (kinds, all): (&[OfferKind], Vec<_>) = match kind {
            McpPrimitive::Tool => (&[], Vec::new()),
            McpPrimitive::Prompt => (&[OfferKind::Prompt], self.prompts()),
            McpPrimitive::Resource => {
                let both = self.resources().into_iter().chain(self.resource_templates());
                (&[OfferKind::Resource, OfferKind::Template], both.collect())
            }
        };
        let offers = kinds.iter().flat_map(|kind| self.catalog_offers(*kind));
        let slots: HashMap<Box<str>, Slot> =
            offers.map(|offer| (offer.key, offer.entry.slot)).collect();
        all.into_iter().map(|offer| (slots.get(&offer.key).copied(), offer)).collect()
    }

    /// Renders the messages of a prompt.
    pub async fn render_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> OfferResult {
        // Scanning all prompts takes long, so check the call limit first.
        let counted = self.count_call();
        let mut prompts = counted.iter().flat_map(|_| self.catalog_offers(OfferKind::Prompt));
        let offer = prompts.find(|offer| *offer.key == *name);
        let asked = (McpPrimitive::Prompt, offer.as_ref());
        match self.begin_offer(counted, asked, Some(&arguments), call) {
            Ok(begun) => {
                let got = self.fetch_prompt(name, offer, arguments, call).await;
                self.end_offer(begun, got, call).await
            }
            Err(failure) => OfferResult::Failed(failure),
        }
    }

    async fn fetch_prompt(
        &self,
        name: &str,
        offer: Option<CatalogOffer>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> OfferResult {
        if let Some(offer) = offer {
            if let Some(CustomWork::Prompt { arguments: known, messages }) = custom_work(&offer) {
                return self.render_custom_prompt(&offer, (known, messages), &arguments).await;
            }
            let params = Map::from_iter([
                ("name".to_owned(), Value::from(&*offer.source_key)),
                ("arguments".to_owned(), Value::Object(arguments)),
            ]);
            return self.request_mcp_offer(&offer, "prompts/get", params, call).await;
        }
        let has = |provider: &&Arc<dyn ToolProvider>| {
            provider.prompts_or_empty().iter().any(|prompt| *prompt.key == *name)
        };
        match self.tool_providers().find(has) {
            Some(provider) => {
                let _awaited = call.guard();
                let coming =
                    catch_provider_panic(name, || provider.get_prompt(name, arguments, call)).await;
                coming.map_or_else(|error| provider_failure(call, error), OfferResult::Result)
            }
            None => OfferResult::Missing,
        }
    }

    /// Reads a resource.
    pub async fn read_resource_uri(&self, uri: &str, call: &CallContext) -> OfferResult {
        // Stored results are ours: no source or provider may answer for their addresses.
        let (counted, is_kept) =
            (self.count_call(), stored_results::parse_result_uri(uri).is_some());
        let found =
            counted.iter().filter(|_| !is_kept).find_map(|_| self.find_catalog_resource(uri));
        let asked = (McpPrimitive::Resource, found.as_ref().map(|(offer, _)| offer));
        match self.begin_offer(counted, asked, None, call) {
            Ok(begun) => {
                let got = self.fetch_resource(uri, found, call).await;
                self.end_offer(begun, got, call).await
            }
            Err(failure) => OfferResult::Failed(failure),
        }
    }

    /// Begins to measure and record a request for a prompt or a resource. A request over the limit is measured only, as
    /// with tools.
    fn begin_offer(
        &self,
        counted: Result<Option<QuotaCharge>, CallFailure>,
        (kind, offer): (McpPrimitive, Option<&CatalogOffer>),
        arguments: Option<&Map<String, Value>>,
        call: &CallContext,
    ) -> Result<OfferRequest<'_>, CallFailure> {
        let tool = offer.map(|offer| &offer.entry.tool);
        let tool_id = tool.map(|tool| tool.id.as_str());
        let source_id = tool.map(|tool| tool.source.as_str());
        // Over the limit, nothing was looked up, so the request belongs to no source.
        let otherwise = if counted.is_ok() { LABEL_PROVIDER } else { LABEL_NONE };
        let (source, trace) = (source_id.unwrap_or(otherwise), self.via.trace.as_ref());
        let measured = self.crib.telemetry().start_call(source, kind, trace);
        let counted = match counted {
            Ok(_) if self.crib.refuses_calls() => Err(offer_recording_unavailable()),
            counted => counted,
        };
        match counted {
            Ok(counted) => {
                self.resume_recording(call);
                call.set_trace(measured.trace_context().or_else(|| self.via.trace.clone()));
                let recording =
                    self.begin_recording(&CallSubject { kind, tool_id, source_id }, arguments);
                Ok(OfferRequest { measured, recording, _counted: counted })
            }
            Err(failure) => {
                measured.finish(CallOutcome::Failed(failure.code));
                Err(failure)
            }
        }
    }

    async fn end_offer(
        &self,
        OfferRequest { measured, recording, _counted }: OfferRequest<'_>,
        got: OfferResult,
        call: &CallContext,
    ) -> OfferResult {
        match &got {
            OfferResult::Missing => measured.finish_as_missing(),
            got => measured.finish(offer_telemetry_outcome(got)),
        }
        let Some(recording) = recording else { return got };
        let fate = match &got {
            OfferResult::InputRequired(_) => {
                self.suspend_recording(recording, call);
                return got;
            }
            OfferResult::Result(result) => RecordedOutcome::completed(serialized_size(result)),
            OfferResult::MissingCapability(ability) => RecordedOutcome::failed(
                ErrorCode::BuiltinError,
                &InputError::Unsupported(*ability).to_string(),
            ),
            OfferResult::Missing => {
                RecordedOutcome::failed(ErrorCode::NotGranted, "there is none of that name")
            }
            OfferResult::Invalid(why) => RecordedOutcome::failed(ErrorCode::ValidationError, why),
            OfferResult::Failed(failure) => RecordedOutcome::failed(failure.code, &failure.message),
        };
        match recording.finish(fate, self.crib.secrets()).await {
            Err(_) if self.crib.records_strictly() => {
                OfferResult::Failed(offer_recording_unavailable())
            }
            _ => got,
        }
    }

    async fn fetch_resource(
        &self,
        uri: &str,
        found: Option<(CatalogOffer, String)>,
        call: &CallContext,
    ) -> OfferResult {
        if let Some((offer, own)) = found {
            if let Some(work) = custom_work(&offer) {
                return self.read_custom_resource((&offer, work), (uri, &own), call).await;
            }
            let params = Map::from_iter([("uri".to_owned(), Value::from(own))]);
            return self.request_mcp_offer(&offer, "resources/read", params, call).await;
        }
        if stored_results::parse_result_uri(uri).is_some() {
            return self
                .stored_result_resource(uri)
                .map_or(OfferResult::Missing, OfferResult::Result);
        }
        let _awaited = call.guard();
        for provider in self.tool_providers() {
            match catch_provider_panic(uri, || provider.read_resource(uri, call)).await {
                Ok(Some(result)) => return OfferResult::Result(result),
                Ok(None) => {}
                Err(error) => return provider_failure(call, error),
            }
        }
        OfferResult::Missing
    }

    /// The catalog resource or template that an address belongs to, and the address at its source.
    pub(super) fn find_catalog_resource(&self, uri: &str) -> Option<(CatalogOffer, String)> {
        let resources = self.catalog_offers(OfferKind::Resource).into_iter();
        if let Some(offer) = resources.into_iter().find(|offer| *offer.key == *uri) {
            let own = offer.source_key.to_string();
            return Some((offer, own));
        }
        let templates = self.catalog_offers(OfferKind::Template).into_iter();
        templates.into_iter().find(|offer| template_matches(offer, uri)).map(|offer| {
            // A prefix of the template is a prefix of the address too.
            let added = offer.key.len() - offer.source_key.len();
            let own = uri.get(added..).unwrap_or_default().to_owned();
            (offer, own)
        })
    }

    async fn request_mcp_offer(
        &self,
        offer: &CatalogOffer,
        method: &'static str,
        params: Map<String, Value>,
        call: &CallContext,
    ) -> OfferResult {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return OfferResult::Missing;
        };
        let tool = &offer.entry.tool;
        if let Err(failure) = self.check_scopes(&source.source, Some(tool)) {
            return OfferResult::Failed(failure);
        }
        let wanted = BridgeRequest {
            audience: offer.audience().cloned(),
            ..BridgeRequest::for_method(params, method)
        };
        let mut got = mcp_offer_result(
            call,
            self.call_mcp_server(&source.source, &tool.id, wanted, call).await,
        );
        if let OfferResult::Result(result) = &mut got {
            shape_mcp_offer(&tool.source, result);
        }
        got
    }
}

/// Whether an address matches a template. The check is approximate for MCP servers, which decide themselves; it is
/// exact for custom templates.
fn template_matches(offer: &CatalogOffer, uri: &str) -> bool {
    let Some(CustomWork::Template { uri_template, .. }) = custom_work(offer) else {
        return may_match_template(uri, &offer.key);
    };
    let before = offer.key.strip_suffix(&*offer.source_key).unwrap_or_default();
    let own = uri.strip_prefix(before);
    own.is_some_and(|own| values_of_uri(own, uri_template).is_some())
}

/// Failure of strict mode: a request that cannot be recorded is not answered.
fn offer_recording_unavailable() -> CallFailure {
    let message = "calls cannot be recorded just now, and nothing is handed out without";
    CallFailure::new(ErrorCode::InternalError, message, true)
}

/// The outcome for telemetry; it matches the call log.
fn offer_telemetry_outcome(got: &OfferResult) -> CallOutcome {
    match got {
        OfferResult::Result(_) => CallOutcome::Completed,
        OfferResult::InputRequired(_) => CallOutcome::Asked,
        OfferResult::MissingCapability(_) => CallOutcome::Failed(ErrorCode::BuiltinError),
        OfferResult::Missing => CallOutcome::Failed(ErrorCode::NotGranted),
        OfferResult::Invalid(_) => CallOutcome::Failed(ErrorCode::ValidationError),
        OfferResult::Failed(failure) => CallOutcome::Failed(failure.code),
    }
}

/// Converts the answer of an MCP server to a request for a prompt, a resource or a completion.
pub(super) fn mcp_offer_result(call: &CallContext, bridged: BridgeOutcome) -> OfferResult {
    match bridged {
        BridgeOutcome::Result(mut result) => {
            // Our endpoints set these fields themselves, for the MCP version of the caller.
            for member in ["resultType", "ttlMs", "cacheScope"] {
                result.shift_remove(member);
            }
            remove_reserved_fields(&mut result);
            OfferResult::Result(result)
        }
        BridgeOutcome::NeedsAnswers => OfferResult::InputRequired(call.take_pending_input()),
        BridgeOutcome::Unable(ability) => OfferResult::MissingCapability(ability),
        BridgeOutcome::Failed(failed) => OfferResult::Failed(failed.failure),
        // MCP error codes for "not found" and "invalid params"; the message is the server's.
        BridgeOutcome::Error(error) => {
            let mut message = error.message().to_owned();
            execution::escape_dangerous(&mut message);
            match error.code {
                -32602 | -32002 => OfferResult::Invalid(message),
                _ => {
                    OfferResult::Failed(CallFailure::new(ErrorCode::UpstreamError, message, false))
                }
            }
        }
    }
}

fn first_per_key(offers: impl Iterator<Item = Arc<OfferListing>>) -> Vec<Arc<OfferListing>> {
    let mut taken: HashSet<Box<str>> = HashSet::new();
    offers.filter(|offer| taken.insert(offer.key.clone())).collect()
}

fn provider_failure(call: &CallContext, error: ProviderError) -> OfferResult {
    match error {
        ProviderError::Input(InputError::Pending) => {
            OfferResult::InputRequired(call.take_pending_input())
        }
        ProviderError::Input(InputError::Unsupported(ability)) => {
            OfferResult::MissingCapability(ability)
        }
        ProviderError::Invalid(why) => OfferResult::Invalid(why),
        ProviderError::Input(InputError::Refused(why)) | ProviderError::Failed(why) => {
            OfferResult::Failed(tool_failure(why))
        }
        ProviderError::ToolNotFound { .. } => OfferResult::Missing,
        ProviderError::Protocol { message, .. } => OfferResult::Failed(tool_failure(message)),
    }
}
