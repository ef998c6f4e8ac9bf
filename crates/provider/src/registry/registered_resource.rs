//! Resources: a text, bytes, or a function that reads them; and templates for families of addresses.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::completion_values::CompletionValues;
use super::handler_result::BoxError;
use super::tool_handler::restore_pending;
use crate::call_context::CallContext;
use crate::tool_provider::{OfferListing, ProviderError};
use crate::uri_template::{UriTemplate, check_resource_uri};

/// Maximum size of a file, in bytes: base64 makes it a third larger.
const FILE_LIMIT: u64 = 16 << 20;

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContents {
    /// A string.
    Text(String),
    /// Bytes, sent as base64.
    Bytes(Vec<u8>),
}

impl From<String> for ResourceContents {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ResourceContents {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for ResourceContents {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A resource: readable content at one address.
///
/// ```
/// use toolcrib_provider::{Registry, Resource};
///
/// let registry = Registry::new();
/// registry.register_resource(Resource::new("docs://hello", "hello", "text/plain", "Hello!"))?;
/// let now = |_uri, _call| async { Ok::<_, String>("12:00") };
/// registry.register_resource(Resource::read_by("clock://now", "now", "text/plain", now))?;
/// # Ok::<(), toolcrib_provider::RegisterError>(())
/// ```
pub struct Resource {
    listing: Arc<OfferListing>,
    mime_type: Box<str>,
    body: ResourceBody,
}

/// Resources whose addresses match a template: `files:///{path}` (RFC 6570).
///
/// ```
/// use toolcrib_provider::{Registry, ResourceTemplate};
///
/// let user = |uri: String, _call| async move { Ok::<_, String>(format!("you asked for {uri}")) };
/// let template = ResourceTemplate::read_by("users://{id}", "user", "text/plain", user);
/// Registry::new().register_resource_template(template)?;
/// # Ok::<(), toolcrib_provider::RegisterError>(())
/// ```
pub struct ResourceTemplate {
    listing: Arc<OfferListing>,
    /// The template, or its error, which registration returns.
    template: Result<UriTemplate, &'static str>,
    mime_type: Box<str>,
    reader: ContentsReader,
    completions: CompletionValues,
}

enum ResourceBody {
    Contents(ResourceContents),
    Reader(ContentsReader),
}

type ContentsFuture = Pin<Box<dyn Future<Output = Result<ResourceContents, ProviderError>> + Send>>;
type ContentsReader = Box<dyn Fn(String, CallContext) -> ContentsFuture + Send + Sync>;

impl Resource {
    /// A resource with fixed content.
    pub fn new(
        uri: &str,
        name: &str,
        mime_type: &str,
        contents: impl Into<ResourceContents>,
    ) -> Self {
        let holds = ResourceBody::Contents(contents.into());
        Self {
            listing: build_listing("uri", uri, name, mime_type),
            mime_type: mime_type.into(),
            body: holds,
        }
    }

    /// A resource that a function reads on each request. The function receives the address.
    pub fn read_by<F, Answering, C, E>(uri: &str, name: &str, mime_type: &str, reader: F) -> Self
    where
        F: Fn(String, CallContext) -> Answering + Send + Sync + 'static,
        Answering: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<ResourceContents>,
        E: Into<BoxError>,
    {
        let holds = ResourceBody::Reader(box_reader(reader));
        Self {
            listing: build_listing("uri", uri, name, mime_type),
            mime_type: mime_type.into(),
            body: holds,
        }
    }

    /// A resource that is read from a file on each request: a string if it is UTF-8, otherwise bytes; at most 16 MiB.
    pub fn from_file(uri: &str, name: &str, mime_type: &str, path: impl Into<PathBuf>) -> Self {
        let path: Arc<Path> = path.into().into();
        Self::read_by(uri, name, mime_type, move |_, _| {
            let path = Arc::clone(&path);
            async move {
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await?;
                // The path is not for agents.
                read.map_err(|why| BoxError::from(format!("the file cannot be read: {why}")))
            }
        })
    }

    /// Sets the description.
    pub fn description(self, description: &str) -> Self {
        Self { listing: with_description(self.listing, description), ..self }
    }

    pub(super) fn listing(&self) -> &Arc<OfferListing> {
        &self.listing
    }

    /// Checks that the resource has a valid address and a name.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        check_resource_uri(&self.listing.key)?;
        check_name(&self.listing)
    }

    pub(super) async fn read_contents(
        &self,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        let uri = &self.listing.key;
        match &self.body {
            ResourceBody::Contents(contents) => {
                Ok(build_read_result(uri, &self.mime_type, contents))
            }
            ResourceBody::Reader(reader) => {
                let contents = reader(uri.to_string(), call.clone()).await?;
                Ok(build_read_result(uri, &self.mime_type, &contents))
            }
        }
    }
}

fn read_file(path: &Path) -> io::Result<ResourceContents> {
    // Reading a pipe could block.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LIMIT + 1).read_to_end(&mut bytes)?;
    if FILE_LIMIT < bytes.len() as u64 {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::Text(text),
        Err(other) => ResourceContents::Bytes(other.into_bytes()),
    })
}

impl ResourceTemplate {
    /// Resources that a function reads on each request. The function receives the address, and returns an error if
    /// there is nothing. In the template (RFC 6570), `{name}` matches one path segment, without a slash and never `..`;
    /// `{+name}` matches anything. The function itself must percent-decode values, and check them afterwards.
    pub fn read_by<F, Answering, C, E>(
        uri_template: &str,
        name: &str,
        mime_type: &str,
        reader: F,
    ) -> Self
    where
        F: Fn(String, CallContext) -> Answering + Send + Sync + 'static,
        Answering: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<ResourceContents>,
        E: Into<BoxError>,
    {
        let listed = build_listing("uriTemplate", uri_template, name, mime_type);
        let (reader, proposals) = (box_reader(reader), CompletionValues::default());
        let template = UriTemplate::parse(uri_template);
        Self {
            listing: listed,
            template,
            mime_type: mime_type.into(),
            reader,
            completions: proposals,
        }
    }

    /// Sets the values that completion proposes for a name of the template.
    pub fn proposing<V: Into<Box<str>>>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.completions.set_values(name, values);
        self
    }

    pub(super) fn completions(&self) -> &CompletionValues {
        &self.completions
    }

    /// Sets the description.
    pub fn description(self, description: &str) -> Self {
        Self { listing: with_description(self.listing, description), ..self }
    }

    pub(super) fn listing(&self) -> &Arc<OfferListing> {
        &self.listing
    }

    pub(super) fn matches_uri(&self, uri: &str) -> bool {
        self.template.as_ref().is_ok_and(|template| template.matches(uri))
    }

    /// Checks that the template is valid and has a name.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let template = self.template.as_ref().map_err(|why| *why)?;
        check_name(&self.listing)?;
        self.completions.check_names(|name| template.names().iter().any(|known| **known == *name))
    }

    pub(super) async fn read_uri(
        &self,
        uri: &str,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        let contents = (self.reader)(uri.to_owned(), call.clone()).await?;
        Ok(build_read_result(uri, &self.mime_type, &contents))
    }
}

fn box_reader<F, Answering, C, E>(reader: F) -> ContentsReader
where
    F: Fn(String, CallContext) -> Answering + Send + Sync + 'static,
    Answering: Future<Output = Result<C, E>> + Send + 'static,
    C: Into<ResourceContents>,
    E: Into<BoxError>,
{
    Box::new(move |uri, call| {
        let reading = reader(uri, call.clone());
        Box::pin(async move {
            let read = reading.await.map(Into::into);
            read.map_err(|error| {
                restore_pending(ProviderError::from_handler_error(error.into()), &call)
            })
        })
    })
}

fn build_listing(member: &str, key: &str, name: &str, mime_type: &str) -> Arc<OfferListing> {
    let shown = [(member, key), ("name", name), ("mimeType", mime_type)];
    let shown = shown.map(|(member, value)| (member.to_owned(), Value::from(value)));
    Arc::new(OfferListing { key: key.into(), fields: Map::from_iter(shown) })
}

fn check_name(listed: &OfferListing) -> Result<(), &'static str> {
    let name = listed.fields.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.trim().is_empty() { Err("give it a name") } else { Ok(()) }
}

fn with_description(listed: Arc<OfferListing>, description: &str) -> Arc<OfferListing> {
    let mut listed = Arc::unwrap_or_clone(listed);
    listed.fields.insert("description".to_owned(), description.into());
    Arc::new(listed)
}

/// Builds the result of `resources/read`.
fn build_read_result(
    uri: &str,
    mime_type: &str,
    contents: &ResourceContents,
) -> Map<String, Value> {
    let (member, value) = match contents {
        ResourceContents::Text(text) => ("text", text.clone()),
        ResourceContents::Bytes(bytes) => ("blob", STANDARD.encode(bytes)),
    };
    let contents = json!([{"uri": uri, "mimeType": mime_type, member: value}]);
    Map::from_iter([("contents".to_owned(), contents)])
}
