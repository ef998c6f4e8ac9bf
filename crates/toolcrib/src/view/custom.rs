//! Serves custom prompts and resources, which an admin wrote. Only files and HTTP requests need I/O.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::{CataloguedSource, CataloguedTool};
use discovery::custom::values_of_uri;
use model::placeholder::{TooLong, all_filled};
use model::{
    Content, CustomHolds, CustomMessage, CustomWork, ErrorCode, Failure, Manifest, PromptArgument,
    RawJson, SchemaRef,
};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use upstream::files::FileError;

use super::AgentView;
use super::offers::Offer;
use super::primitives::Got;
use super::ready::Ready;
use crate::call::CallContext;
use crate::gates::Verdict;

/// Maximum size of a file in bytes, and the time limit for reading it.
const FILE: usize = 4 << 20;
const TIME: Duration = Duration::from_secs(10);
/// Limits concurrent file reads: one that hangs blocks its thread for as long.
static READING: Semaphore = Semaphore::const_new(16);

/// The values for the placeholders in the address of a resource.
type Values<'a> = Vec<(&'a str, String)>;

impl AgentView {
    /// Renders the messages of a custom prompt.
    pub(super) async fn custom_prompt(
        &self,
        offer: &Offer,
        (arguments, messages): (&[PromptArgument], &[CustomMessage]),
        given: &Map<String, Value>,
    ) -> Got {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return Got::Missing;
        };
        if let Err(why) = check(&offer.key, arguments, given) {
            return Got::Invalid(why);
        }
        if let Err(failure) = self.let_in(source, &offer.entry).await {
            return Got::Failed(failure);
        }
        let is_name = |name: &str| arguments.iter().any(|argument| *argument.name == *name);
        let value = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default();
        let texts = messages.iter().filter_map(|message| message.text.as_deref());
        let texts = match all_filled(texts, is_name, value) {
            Ok(texts) => texts,
            Err(error) => return Got::Invalid(error.to_string()),
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
            result.insert("description".to_owned(), model::shown_description(description).into());
        }
        Got::Result(result)
    }

    /// Reads a custom resource. `own` is its address within the source.
    pub(super) async fn custom_resource(
        &self,
        (offer, work): (&Offer, &CustomWork),
        (uri, own): (&str, &str),
        call: &CallContext,
    ) -> Got {
        let Some(source) = self.snapshot.source(&offer.entry.tool.source) else {
            return Got::Missing;
        };
        let (holds, values) = match work {
            CustomWork::Resource { holds, .. } => (holds, Values::new()),
            CustomWork::Template { uri_template, holds, .. } => {
                let Some(values) = values_of_uri(own, uri_template) else { return Got::Missing };
                (holds, values)
            }
            CustomWork::Answer(_) | CustomWork::Command(_) | CustomWork::Prompt { .. } => {
                return Got::Missing;
            }
        };
        if let CustomHolds::Request(_) = holds {
            return self.fetched_resource((source, &offer.entry), uri, values, call).await;
        }
        if let Err(failure) = self.let_in(source, &offer.entry).await {
            return Got::Failed(failure);
        }
        let mime_type = mime_type(&offer.entry);
        let (member, value) = match holds {
            CustomHolds::Text(text) => match filled_in(text, &values) {
                Ok(text) => ("text", text),
                Err(error) => return Got::Invalid(error.to_string()),
            },
            CustomHolds::Blob(blob) => ("blob", blob.to_string()),
            CustomHolds::File(template) => match self.file(template, &values).await {
                Ok(contents) => contents,
                Err(got) => return got,
            },
            CustomHolds::Request(_) => return Got::Missing,
        };
        Got::Result(contents_of(uri, mime_type.as_deref(), member, value))
    }

    /// Checks scopes and limits of a request that is answered without an upstream.
    pub(super) async fn let_in(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
    ) -> Result<(), Failure> {
        self.check_scopes(&source.source, Some(&entry.tool))?;
        self.enter(&source.source, &entry.tool.id, TIME).await?.end(Verdict::Works);
        Ok(())
    }

    /// Reads a file; returns the result field (`text` or `blob`) and its value.
    async fn file(
        &self,
        template: &str,
        values: &Values<'_>,
    ) -> Result<(&'static str, String), Got> {
        let Ok(path) = filled_in(template, values) else { return Err(Got::Missing) };
        // A value must stay within one path segment and must not lead to another folder.
        let is_odd = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        let mut parts = path.split('/').skip(1);
        if path.split('/').count() != template.split('/').count() || parts.any(is_odd) {
            return Err(Got::Missing);
        }
        let folders = self.crib.resource_folders().clone();
        let (place, by) = (READING.acquire(), Instant::now() + TIME);
        let reading = async {
            // The permit is held until the read ends, also without a waiter: the folder may be on an unreachable
            // machine.
            let place = place.await.ok();
            let read = move || {
                let _place = place;
                folders.read(Path::new(&path), FILE)
            };
            spawn_blocking(read).await
        };
        let failed = |message: String, retryable| {
            Got::Failed(Failure::new(ErrorCode::UpstreamError, message, retryable))
        };
        match timeout_at(by, reading).await {
            Ok(Ok(Ok(bytes))) => Ok(match String::from_utf8(bytes) {
                Ok(text) => ("text", text),
                Err(error) => ("blob", STANDARD.encode(error.into_bytes())),
            }),
            Ok(Ok(Err(error @ FileError::TooLarge { .. }))) => {
                Err(failed(error.to_string(), false))
            }
            Ok(Ok(Err(error))) => {
                // The reason goes to our log only, so that agents learn nothing about other files.
                tracing::warn!(%error, "the file of a resource is not read: {error}");
                Err(Got::Missing)
            }
            Ok(Err(_)) => Err(failed("the file could not be read".to_owned(), false)),
            Err(_) => Err(failed("the file could not be read in time".to_owned(), true)),
        }
    }

    async fn fetched_resource(
        &self,
        (source, entry): (&Arc<CataloguedSource>, &Arc<CataloguedTool>),
        uri: &str,
        values: Values<'_>,
        call: &CallContext,
    ) -> Got {
        if let Err(failure) = self.check_scopes(&source.source, Some(&entry.tool)) {
            return Got::Failed(failure);
        }
        let ready = match self.crib.ready(entry, source) {
            Ok(ready) => ready,
            Err(failure) => return Got::Failed(failure),
        };
        let Ready::Http(http) = &*ready else { return Got::Missing };
        let arguments =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let request = match http.tool.request(&arguments) {
            Ok(request) => request,
            Err(error) => return Got::Invalid(error.to_string()),
        };
        let outcome = match self.send(&source.source, http, request, call.trace()).await {
            Ok(reply) => reply.outcome,
            Err(failure) => return Got::Failed(failure),
        };
        if let Some(failure) = outcome.error {
            return Got::Failed(failure);
        }
        let said = mime_type(entry);
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
        Got::Result(contents_of(uri, said.or(found).as_deref(), member, value))
    }
}

/// The custom work of an offer, if an admin wrote it.
pub(super) fn work_of(offer: &Offer) -> Option<&CustomWork> {
    offer.entry.tool.served_manifest()?.execution.work()
}

/// Checks that all required arguments are present and all arguments are strings.
fn check(
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

fn filled_in(text: &str, values: &Values<'_>) -> Result<String, TooLong> {
    let value = |name: &str| values.iter().find(|(known, _)| *known == name);
    let text_of = |name: &str| value(name).map_or("", |(_, value)| value.as_str());
    let filled = all_filled(std::iter::once(text), |name| value(name).is_some(), text_of)?;
    Ok(filled.concat())
}

fn mime_type(entry: &CataloguedTool) -> Option<String> {
    let manifest: &Manifest<SchemaRef> = entry.tool.served_manifest()?;
    let said = manifest.extra.get("mimeType").map(RawJson::to_value);
    said.and_then(|said| said.as_str().map(str::to_owned))
}

fn contents_of(
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
