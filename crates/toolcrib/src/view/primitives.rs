//! Lists, renders and reads the prompts and resources of an agent: those of the catalog, then those of providers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::tool_set::Slot;
use discovery::custom::values_of_uri;
use model::{CustomWork, ErrorCode, Failure, Primitive};
use serde_json::{Map, Value};

use super::AgentView;
use super::call::{failure_of_tool, offer_of_server, without_our_words};
use super::custom::work_of;
use super::offers::{Offer, OfferKind};
use crate::call::{Ability, CallContext, NoAnswer, Question};
use crate::gates::Counted;
use crate::kept_results;
use crate::provider::{Listed, Lists as _, ProviderError, ToolProvider, caught};
use crate::record::{Fate, Recording, Subject};
use crate::telemetry::{CallOutcome, MeasuredCall, NONE, PROVIDER};
use crate::upstreams::bridge::{Bridged, Wanted};
use crate::uri_template::is_like;
use model::json_size::size;

/// The result of a request for a prompt, a resource or a completion.
#[derive(Debug)]
pub enum Got {
    /// The result in the shape of MCP.
    Result(Map<String, Value>),
    /// Input is required from the caller, who repeats the request with the answers.
    Asks(Vec<(Box<str>, Question)>),
    /// The caller lacks a required capability.
    Unable(Ability),
    /// It does not exist, or not for this agent.
    Missing,
    /// The request has invalid arguments; the text explains why.
    Invalid(String),
    /// The request failed.
    Failed(Failure),
}

/// The measurement, record and count of one request for a prompt or a resource.
struct BegunOffer<'a> {
    measured: MeasuredCall<'a>,
    recording: Option<Recording>,
    _counted: Option<Counted>,
}

impl AgentView {
    /// All prompts; of several with one name, the first.
    pub fn prompts(&self) -> Vec<Arc<Listed>> {
        let provided = self.providers().flat_map(|provider| provider.prompts());
        first_of_each(self.listed_offers(OfferKind::Prompt).chain(provided))
    }

    /// All resources; of several with one URI, the first.
    pub fn resources(&self) -> Vec<Arc<Listed>> {
        let provided = self.providers().flat_map(|provider| provider.resources());
        first_of_each(self.listed_offers(OfferKind::Resource).chain(provided))
    }

    /// All resource templates.
    pub fn resource_templates(&self) -> Vec<Arc<Listed>> {
        let provided = self.providers().flat_map(|provider| provider.templates());
        first_of_each(self.listed_offers(OfferKind::Template).chain(provided))
    }

    /// All prompts, or all resources and templates: those of the catalog with their slots, then those of providers.
    pub(super) fn offers_of(&self, kind: Primitive) -> Vec<(Option<Slot>, Arc<Listed>)> {
        let (kinds, all): (&[OfferKind], Vec<_>) = match kind {
            Primitive::Tool => (&[], Vec::new()),
            Primitive::Prompt => (&[OfferKind::Prompt], self.prompts()),
            Primitive::Resource => {
                let both = self.resources().into_iter().chain(self.resource_templates());
                (&[OfferKind::Resource, OfferKind::Template], both.collect())
            }
        };
        let offers = kinds.iter().flat_map(|kind| self.offers(*kind));
        let slots: HashMap<Box<str>, Slot> =
            offers.map(|offer| (offer.key, offer.entry.slot)).collect();
        all.into_iter().map(|offer| (slots.get(&offer.key).copied(), offer)).collect()
    }

    /// Renders the messages of a prompt.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Got {
        // Scanning all prompts takes long, so check the call limit first.
        let counted = self.counted();
        let mut prompts = counted.iter().flat_map(|_| self.offers(OfferKind::Prompt));
        let offer = prompts.find(|offer| *offer.key == *name);
        let asked = (Primitive::Prompt, offer.as_ref());
        match self.begin_offer(counted, asked, Some(&arguments), call) {
            Ok(begun) => {
                let got = self.get_prompt(name, offer, arguments, call).await;
                self.end_offer(begun, got, call).await
            }
            Err(failure) => Got::Failed(failure),
        }
    }

    async fn get_prompt(
        &self,
        name: &str,
        offer: Option<Offer>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Got {
        if let Some(offer) = offer {
            if let Some(CustomWork::Prompt { arguments: known, messages }) = work_of(&offer) {
                return self.custom_prompt(&offer, (known, messages), &arguments).await;
            }
            let params = Map::from_iter([
                ("name".to_owned(), Value::from(&*offer.own)),
                ("arguments".to_owned(), Value::Object(arguments)),
            ]);
            return self.get_offer(&offer, "prompts/get", params, call).await;
        }
        let has = |provider: &&Arc<dyn ToolProvider>| {
            provider.prompts().iter().any(|prompt| *prompt.key == *name)
        };
        match self.providers().find(has) {
            Some(provider) => {
                let _awaited = call.awaited();
                let coming = caught(name, || provider.get_prompt(name, arguments, call)).await;
                coming.map_or_else(|error| not_got(call, error), Got::Result)
            }
            None => Got::Missing,
        }
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str, call: &CallContext) -> Got {
        // Stored results are ours: no source or provider may answer for their addresses.
        let (counted, is_kept) = (self.counted(), kept_results::addressed(uri).is_some());
        let found = counted.iter().filter(|_| !is_kept).find_map(|_| self.resource_of_source(uri));
        let asked = (Primitive::Resource, found.as_ref().map(|(offer, _)| offer));
        match self.begin_offer(counted, asked, None, call) {
            Ok(begun) => {
                let got = self.read_resource(uri, found, call).await;
                self.end_offer(begun, got, call).await
            }
            Err(failure) => Got::Failed(failure),
        }
    }

    /// Begins to measure and record a request for a prompt or a resource. A request over the limit is measured only, as
    /// with tools.
    fn begin_offer(
        &self,
        counted: Result<Option<Counted>, Failure>,
        (kind, offer): (Primitive, Option<&Offer>),
        arguments: Option<&Map<String, Value>>,
        call: &CallContext,
    ) -> Result<BegunOffer<'_>, Failure> {
        let tool = offer.map(|offer| &offer.entry.tool);
        let tool_id = tool.map(|tool| tool.id.as_str());
        let source_id = tool.map(|tool| tool.source.as_str());
        // Over the limit, nothing was looked up, so the request belongs to no source.
        let otherwise = if counted.is_ok() { PROVIDER } else { NONE };
        let (source, trace) = (source_id.unwrap_or(otherwise), self.via.trace.as_ref());
        let measured = self.crib.telemetry().call(source, kind, trace);
        let counted = match counted {
            Ok(_) if self.crib.refuses_calls() => Err(unrecordable()),
            counted => counted,
        };
        match counted {
            Ok(counted) => {
                self.made_again(call);
                call.within(measured.trace().or_else(|| self.via.trace.clone()));
                let recording = self.begin(&Subject { kind, tool_id, source_id }, arguments);
                Ok(BegunOffer { measured, recording, _counted: counted })
            }
            Err(failure) => {
                measured.end(CallOutcome::Failed(failure.code));
                Err(failure)
            }
        }
    }

    async fn end_offer(
        &self,
        BegunOffer { measured, recording, _counted }: BegunOffer<'_>,
        got: Got,
        call: &CallContext,
    ) -> Got {
        match &got {
            Got::Missing => measured.missing(),
            got => measured.end(outcome(got)),
        }
        let Some(recording) = recording else { return got };
        let fate = match &got {
            Got::Asks(_) => {
                self.asked(recording, call);
                return got;
            }
            Got::Result(result) => Fate::completed(size(result)),
            Got::Unable(ability) => {
                Fate::failed(ErrorCode::BuiltinError, &NoAnswer::Unable(*ability).to_string())
            }
            Got::Missing => Fate::failed(ErrorCode::NotGranted, "there is none of that name"),
            Got::Invalid(why) => Fate::failed(ErrorCode::ValidationError, why),
            Got::Failed(failure) => Fate::failed(failure.code, &failure.message),
        };
        match recording.end(fate, self.crib.secrets()).await {
            Err(_) if self.crib.records_strictly() => Got::Failed(unrecordable()),
            _ => got,
        }
    }

    async fn read_resource(
        &self,
        uri: &str,
        found: Option<(Offer, String)>,
        call: &CallContext,
    ) -> Got {
        if let Some((offer, own)) = found {
            if let Some(work) = work_of(&offer) {
                return self.custom_resource((&offer, work), (uri, &own), call).await;
            }
            let params = Map::from_iter([("uri".to_owned(), Value::from(own))]);
            return self.get_offer(&offer, "resources/read", params, call).await;
        }
        if kept_results::addressed(uri).is_some() {
            return self.kept_resource(uri).map_or(Got::Missing, Got::Result);
        }
        let _awaited = call.awaited();
        for provider in self.providers() {
            match caught(uri, || provider.read_resource(uri, call)).await {
                Ok(Some(result)) => return Got::Result(result),
                Ok(None) => {}
                Err(error) => return not_got(call, error),
            }
        }
        Got::Missing
    }

    /// The catalog resource or template that an address belongs to, and the address at its source.
    pub(super) fn resource_of_source(&self, uri: &str) -> Option<(Offer, String)> {
        let resources = self.offers(OfferKind::Resource).into_iter();
        if let Some(offer) = resources.into_iter().find(|offer| *offer.key == *uri) {
            let own = offer.own.to_string();
            return Some((offer, own));
        }
        let templates = self.offers(OfferKind::Template).into_iter();
        templates.into_iter().find(|offer| fits(offer, uri)).map(|offer| {
            // A prefix of the template is a prefix of the address too.
            let added = offer.key.len() - offer.own.len();
            let own = uri.get(added..).unwrap_or_default().to_owned();
            (offer, own)
        })
    }

    async fn get_offer(
        &self,
        offer: &Offer,
        method: &'static str,
        params: Map<String, Value>,
        call: &CallContext,
    ) -> Got {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return Got::Missing;
        };
        let tool = &offer.entry.tool;
        if let Err(failure) = self.check_scopes(&source.source, Some(tool)) {
            return Got::Failed(failure);
        }
        let wanted =
            Wanted { audience: offer.audience().cloned(), ..Wanted::other(params, method) };
        let mut got =
            got_of_server(call, self.ask_server(&source.source, &tool.id, wanted, call).await);
        if let Got::Result(result) = &mut got {
            offer_of_server(&tool.source, result);
        }
        got
    }
}

/// Whether an address matches a template. The check is approximate for MCP servers, which decide themselves; it is
/// exact for custom templates.
fn fits(offer: &Offer, uri: &str) -> bool {
    let Some(CustomWork::Template { uri_template, .. }) = work_of(offer) else {
        return is_like(uri, &offer.key);
    };
    let before = offer.key.strip_suffix(&*offer.own).unwrap_or_default();
    let own = uri.strip_prefix(before);
    own.is_some_and(|own| values_of_uri(own, uri_template).is_some())
}

/// Failure of strict mode: a request that cannot be recorded is not answered.
fn unrecordable() -> Failure {
    let message = "calls cannot be recorded just now, and nothing is handed out without";
    Failure::new(ErrorCode::InternalError, message, true)
}

/// The outcome for telemetry; it matches the call log.
fn outcome(got: &Got) -> CallOutcome {
    match got {
        Got::Result(_) => CallOutcome::Completed,
        Got::Asks(_) => CallOutcome::Asked,
        Got::Unable(_) => CallOutcome::Failed(ErrorCode::BuiltinError),
        Got::Missing => CallOutcome::Failed(ErrorCode::NotGranted),
        Got::Invalid(_) => CallOutcome::Failed(ErrorCode::ValidationError),
        Got::Failed(failure) => CallOutcome::Failed(failure.code),
    }
}

/// Converts the answer of an MCP server to a request for a prompt, a resource or a completion.
pub(super) fn got_of_server(call: &CallContext, bridged: Bridged) -> Got {
    match bridged {
        Bridged::Result(mut result) => {
            // Our endpoints set these fields themselves, for the MCP version of the caller.
            for member in ["resultType", "ttlMs", "cacheScope"] {
                result.shift_remove(member);
            }
            without_our_words(&mut result);
            Got::Result(result)
        }
        Bridged::Asks => Got::Asks(call.take_open()),
        Bridged::Unable(ability) => Got::Unable(ability),
        Bridged::Failed(failed) => Got::Failed(failed.failure),
        // MCP error codes for "not found" and "invalid params"; the message is the server's.
        Bridged::Error(error) => {
            let mut message = error.message().to_owned();
            execution::tame(&mut message);
            match error.code {
                -32602 | -32002 => Got::Invalid(message),
                _ => Got::Failed(Failure::new(ErrorCode::UpstreamError, message, false)),
            }
        }
    }
}

fn first_of_each(offers: impl Iterator<Item = Arc<Listed>>) -> Vec<Arc<Listed>> {
    let mut taken: HashSet<Box<str>> = HashSet::new();
    offers.filter(|offer| taken.insert(offer.key.clone())).collect()
}

fn not_got(call: &CallContext, error: ProviderError) -> Got {
    match error {
        ProviderError::NoAnswer(NoAnswer::Later) => Got::Asks(call.take_open()),
        ProviderError::NoAnswer(NoAnswer::Unable(ability)) => Got::Unable(ability),
        ProviderError::Invalid(why) => Got::Invalid(why),
        ProviderError::NoAnswer(NoAnswer::Refused(why)) | ProviderError::Failed(why) => {
            Got::Failed(failure_of_tool(why))
        }
        ProviderError::ToolNotFound { .. } => Got::Missing,
        ProviderError::Protocol { message, .. } => Got::Failed(failure_of_tool(message)),
    }
}
