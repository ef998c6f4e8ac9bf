//! Serves custom prompts and resources, which an admin wrote. Only files and HTTP requests need I/O.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use calls::compiled_tool::CompiledTool;
use calls::source_gates::SourceVerdict;
use catalog::{CataloguedSource, CataloguedTool};
use model::placeholder::{FilledTextTooLong, fill_all};
use model::{
    CallFailure, Content, CustomHolds, CustomMessage, CustomWork, ErrorCode, Manifest,
    PromptArgument, RawJson, SchemaRef,
};
use provider::CallContext;
use serde_json::{Map, Value, json};
use sources::custom::values_of_uri;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use upstream::readable_folders::FileReadError;

use super::AgentView;
use super::catalog_offers::CatalogOffer;
use super::prompts_and_resources::OfferResult;

/// Maximum size of a file in bytes, and the time limit for reading it.
const MAX_FILE_BYTES: usize = 4 << 20;
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits concurrent file reads: one that hangs blocks its thread for as long.
static FILE_READS: Semaphore = Semaphore::const_new(16);

/// The values for the placeholders in the address of a resource.
type PlaceholderValues<'a> = Vec<(&'a str, String)>;

impl AgentView {
    /// Renders the messages of a custom prompt.
    pub(super) async fn render_custom_prompt(
        &self,
        offer: &CatalogOffer,
        (arguments, messages): (&[PromptArgument], &[CustomMessage]),
        given: &Map<String, Value>,
    ) -> OfferResult {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return OfferResult::Missing;
        };
        if let Err(why) = check_prompt_arguments(&offer.key, arguments, given) {
            return OfferResult::Invalid(why);
        }
        if let Err(failure) = self.admit_local(source, &offer.entry).await {
            return OfferResult::Failed(failure);
        }
        let is_name = |name: &str| arguments.iter().any(|argument| *argument.name == *name);
        let value = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default();
        let texts = messages.iter().filter_map(|message| message.text.as_deref());
        let texts = match fill_all(texts, is_name, value) {
            Ok(texts) => texts,
            Err(error) => return OfferResult::Invalid(error.to_string()),
        };
        let mut texts = texts.into_iter();
        let messages = messages.iter().map(|message| {
            let text = message.text.as_ref().and_then(|_| texts.next());
            let text = text.map(|text| json!({"type": "text", "text": text}));
            json!({"role": message.role, "content": text.or_else(|| Some(json!(message.content)))})
        });
        let messages: Vec<_> = messages.collect();
        let mut result = Map::from_iter([("messages".to_owned(), messages.into())]);
        let manifest = offer.entry.tool.served_manifest();
        let description = manifest.map(|manifest| &manifest.description);
        if let Some(description) = description.filter(|text| !text.is_empty()) {
            result
                .insert("description".to_owned(), model::sanitize_description(description).into());
        }
        OfferResult::Result(result)
    }

    /// Reads a custom resource. `own` is its address within the source.
    pub(super) async fn read_custom_resource(
        &self,
        (offer, work): (&CatalogOffer, &CustomWork),
        (uri, own): (&str, &str),
        call: &CallContext,
    ) -> OfferResult {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return OfferResult::Missing;
        };
        let (holds, values) = match work {
            CustomWork::Resource { holds, .. } => (holds, PlaceholderValues::new()),
            CustomWork::Template { uri_template, holds, .. } => {
                let Some(values) = values_of_uri(own, uri_template) else {
                    return OfferResult::Missing;
                };
                (holds, values)
            }
            CustomWork::Answer(_) | CustomWork::Command(_) | CustomWork::Prompt { .. } => {
                return OfferResult::Missing;
            }
        };
        if let CustomHolds::Request(_) = holds {
            return self.fetch_custom_resource((source, &offer.entry), uri, values, call).await;
        }
        if let Err(failure) = self.admit_local(source, &offer.entry).await {
            return OfferResult::Failed(failure);
        }
        let mime_type = declared_mime_type(&offer.entry);
        let (member, value) = match holds {
            CustomHolds::Text(text) => match fill_placeholders(text, &values) {
                Ok(text) => ("text", text),
                Err(error) => return OfferResult::Invalid(error.to_string()),
            },
            CustomHolds::Blob(blob) => ("blob", blob.to_string()),
            CustomHolds::File(template) => match self.read_resource_file(template, &values).await {
                Ok(contents) => contents,
                Err(got) => return got,
            },
            CustomHolds::Request(_) => return OfferResult::Missing,
        };
        OfferResult::Result(resource_result(uri, mime_type.as_deref(), member, value))
    }

    /// Checks scopes and limits of a request that is answered without an upstream.
    pub(super) async fn admit_local(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
    ) -> Result<(), CallFailure> {
        self.check_scopes(&source.source, Some(&entry.tool))?;
        self.admit_once(&source.source, &entry.tool.id, READ_TIMEOUT)
            .await?
            .finish(SourceVerdict::Works);
        Ok(())
    }

    /// Reads a file; returns the result field (`text` or `blob`) and its value.
    async fn read_resource_file(
        &self,
        template: &str,
        values: &PlaceholderValues<'_>,
    ) -> Result<(&'static str, String), OfferResult> {
        let Ok(path) = fill_placeholders(template, values) else {
            return Err(OfferResult::Missing);
        };
        // A value must stay within one path segment and must not lead to another folder.
        let is_odd = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        let mut parts = path.split('/').skip(1);
        if path.split('/').count() != template.split('/').count() || parts.any(is_odd) {
            return Err(OfferResult::Missing);
        }
        let folders = self.crib.resource_folders().clone();
        let (place, by) = (FILE_READS.acquire(), Instant::now() + READ_TIMEOUT);
        let reading = async {
            // The permit is held until the read ends, also without a waiter: the folder may be on an unreachable
            // machine.
            let place = place.await.ok();
            let read = move || {
                let _place = place;
                folders.read_file(Path::new(&path), MAX_FILE_BYTES)
            };
            spawn_blocking(read).await
        };
        let failed = |message: String, retryable| {
            OfferResult::Failed(CallFailure::new(ErrorCode::UpstreamError, message, retryable))
        };
        match timeout_at(by, reading).await {
            Ok(Ok(Ok(bytes))) => Ok(match String::from_utf8(bytes) {
                Ok(text) => ("text", text),
                Err(error) => ("blob", STANDARD.encode(error.into_bytes())),
            }),
            Ok(Ok(Err(error @ FileReadError::TooLarge { .. }))) => {
                Err(failed(error.to_string(), false))
            }
            Ok(Ok(Err(error))) => {
                // The reason goes to our log only, so that agents learn nothing about other files.
                tracing::warn!(%error, "the file of a resource is not read: {error}");
                Err(OfferResult::Missing)
            }
            Ok(Err(_)) => Err(failed("the file could not be read".to_owned(), false)),
            Err(_) => Err(failed("the file could not be read in time".to_owned(), true)),
        }
    }

    async fn fetch_custom_resource(
        &self,
        (source, entry): (&Arc<CataloguedSource>, &Arc<CataloguedTool>),
        uri: &str,
        values: PlaceholderValues<'_>,
        call: &CallContext,
    ) -> OfferResult {
        if let Err(failure) = self.check_scopes(&source.source, Some(&entry.tool)) {
            return OfferResult::Failed(failure);
        }
        let ready = match self.crib.ready_tool(entry, source) {
            Ok(ready) => ready,
            Err(failure) => return OfferResult::Failed(failure),
        };
        let CompiledTool::Http(http) = &*ready else { return OfferResult::Missing };
        let arguments =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let request = match http.tool.render_request(&arguments) {
            Ok(request) => request,
            Err(error) => return OfferResult::Invalid(error.to_string()),
        };
        let outcome =
            match self.send_tool_request(&source.source, http, request, call.trace()).await {
                Ok(reply) => reply.outcome,
                Err(failure) => return OfferResult::Failed(failure),
            };
        if let Some(failure) = outcome.error {
            return OfferResult::Failed(failure);
        }
        let said = declared_mime_type(entry);
        let (member, value, found) = match outcome.content.into_iter().next() {
            Some(Content::Text { text }) => ("text", text, None),
            Some(Content::Image(media) | Content::Audio(media)) => {
                ("blob", media.data, Some(media.mime_type))
            }
            Some(Content::Resource { resource }) => {
                ("blob", resource.blob, Some(resource.mime_type))
            }
            Some(Content::Other(_)) | None => ("text", String::new(), None),
        };
        OfferResult::Result(resource_result(uri, said.or(found).as_deref(), member, value))
    }
}

/// The custom work of an offer, if an admin wrote it.
pub(super) fn custom_work(offer: &CatalogOffer) -> Option<&CustomWork> {
    offer.entry.tool.served_manifest()?.execution.custom_work()
}

/// Checks that all required arguments are present and all arguments are strings.
fn check_prompt_arguments(
    name: &str,
    arguments: &[PromptArgument],
    given: &Map<String, Value>,
) -> Result<(), String> {
    for argument in arguments {
        let why = match given.get(&*argument.name) {
            None if argument.required => "needs the argument",
            Some(value) if !value.is_string() => "takes only a text as",
            _ => continue,
        };
        return Err(format!("the prompt `{name}` {why} `{}`", argument.name));
    }
    Ok(())
}

fn fill_placeholders(
    text: &str,
    values: &PlaceholderValues<'_>,
) -> Result<String, FilledTextTooLong> {
    let value = |name: &str| values.iter().find(|(known, _)| *known == name);
    let text_of = |name: &str| value(name).map_or("", |(_, value)| value.as_str());
    let filled = fill_all(std::iter::once(text), |name| value(name).is_some(), text_of)?;
    Ok(filled.concat())
}

fn declared_mime_type(entry: &CataloguedTool) -> Option<String> {
    let manifest: &Manifest<SchemaRef> = entry.tool.served_manifest()?;
    let said = manifest.extra.get("mimeType").map(RawJson::to_value);
    said.and_then(|said| said.as_str().map(str::to_owned))
}

fn resource_result(
    uri: &str,
    mime_type: Option<&str>,
    member: &str,
    value: String,
) -> Map<String, Value> {
    let mut contents = Map::from_iter([("uri".to_owned(), Value::from(uri))]);
    contents.extend(mime_type.map(|it| ("mimeType".to_owned(), it.into())));
    contents.insert(member.to_owned(), value.into());
    Map::from_iter([("contents".to_owned(), json!([contents]))])
}
