//! Resources: a text, bytes, or a function that reads them; and templates for families of addresses.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::handler::later;
use super::proposals::Proposals;
use super::result::BoxError;
use crate::call::CallContext;
use crate::provider::{Listed, ProviderError};
use crate::uri_template::{UriTemplate, check_address};

/// Maximum size of a file, in bytes: base64 makes it a third larger.
const FILE_LIMIT: u64 = 16 << 20;

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A string.
    Text(String),
    /// Bytes, sent as base64.
    Bytes(Vec<u8>),
}

impl From<String> for Contents {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Contents {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A resource: readable content at one address.
///
/// ```
/// use toolcrib::{Contents, Registry, Resource};
///
/// let registry = Registry::new();
/// registry.register_resource(Resource::new("docs://hello", "hello", "text/plain", "Hello!"))?;
/// let now = |_uri, _call| async { Ok::<_, String>("12:00") };
/// registry.register_resource(Resource::read_by("clock://now", "now", "text/plain", now))?;
/// # Ok::<(), toolcrib::RegisterError>(())
/// ```
pub struct Resource {
    listed: Arc<Listed>,
    mime_type: Box<str>,
    holds: Holds,
}

/// Resources whose addresses match a template: `files:///{path}` (RFC 6570).
///
/// ```
/// use toolcrib::{Registry, ResourceTemplate};
///
/// let user = |uri: String, _call| async move { Ok::<_, String>(format!("you asked for {uri}")) };
/// let template = ResourceTemplate::read_by("users://{id}", "user", "text/plain", user);
/// Registry::new().register_resource_template(template)?;
/// # Ok::<(), toolcrib::RegisterError>(())
/// ```
pub struct ResourceTemplate {
    listed: Arc<Listed>,
    /// The template, or its error, which registration returns.
    template: Result<UriTemplate, &'static str>,
    mime_type: Box<str>,
    reader: Reader,
    proposals: Proposals,
}

enum Holds {
    Contents(Contents),
    Reader(Reader),
}

type Reading = Pin<Box<dyn Future<Output = Result<Contents, ProviderError>> + Send>>;
type Reader = Box<dyn Fn(String, CallContext) -> Reading + Send + Sync>;

impl Resource {
    /// A resource with fixed content.
    pub fn new(uri: &str, name: &str, mime_type: &str, contents: impl Into<Contents>) -> Self {
        let holds = Holds::Contents(contents.into());
        Self { listed: listed("uri", uri, name, mime_type), mime_type: mime_type.into(), holds }
    }

    /// A resource that a function reads on each request. The function receives the address.
    pub fn read_by<F, Answering, C, E>(uri: &str, name: &str, mime_type: &str, reader: F) -> Self
    where
        F: Fn(String, CallContext) -> Answering + Send + Sync + 'static,
        Answering: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<Contents>,
        E: Into<BoxError>,
    {
        let holds = Holds::Reader(boxed(reader));
        Self { listed: listed("uri", uri, name, mime_type), mime_type: mime_type.into(), holds }
    }

    /// A resource that is read from a file on each request: a string if it is UTF-8, otherwise bytes; at most 16 MiB.
    pub fn of_file(uri: &str, name: &str, mime_type: &str, path: impl Into<PathBuf>) -> Self {
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
        Self { listed: described(self.listed, description), ..self }
    }

    pub(super) fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    /// Checks that the resource has a valid address and a name.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        check_address(&self.listed.key)?;
        check_name(&self.listed)
    }

    pub(super) async fn read(
        &self,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        let uri = &self.listed.key;
        match &self.holds {
            Holds::Contents(contents) => Ok(written(uri, &self.mime_type, contents)),
            Holds::Reader(reader) => {
                let contents = reader(uri.to_string(), call.clone()).await?;
                Ok(written(uri, &self.mime_type, &contents))
            }
        }
    }
}

fn read_file(path: &Path) -> io::Result<Contents> {
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
        Ok(text) => Contents::Text(text),
        Err(other) => Contents::Bytes(other.into_bytes()),
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
        C: Into<Contents>,
        E: Into<BoxError>,
    {
        let listed = listed("uriTemplate", uri_template, name, mime_type);
        let (reader, proposals) = (boxed(reader), Proposals::default());
        let template = UriTemplate::read(uri_template);
        Self { listed, template, mime_type: mime_type.into(), reader, proposals }
    }

    /// Sets the values that completion proposes for a name of the template.
    pub fn proposing<V: Into<Box<str>>>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.proposals.put(name, values);
        self
    }

    pub(super) fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Sets the description.
    pub fn description(self, description: &str) -> Self {
        Self { listed: described(self.listed, description), ..self }
    }

    pub(super) fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    pub(super) fn has(&self, uri: &str) -> bool {
        self.template.as_ref().is_ok_and(|template| template.has(uri))
    }

    /// Checks that the template is valid and has a name.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let template = self.template.as_ref().map_err(|why| *why)?;
        check_name(&self.listed)?;
        self.proposals.check(|name| template.names().iter().any(|known| **known == *name))
    }

    pub(super) async fn read(
        &self,
        uri: &str,
        call: &CallContext,
    ) -> Result<Map<String, Value>, ProviderError> {
        let contents = (self.reader)(uri.to_owned(), call.clone()).await?;
        Ok(written(uri, &self.mime_type, &contents))
    }
}

fn boxed<F, Answering, C, E>(reader: F) -> Reader
where
    F: Fn(String, CallContext) -> Answering + Send + Sync + 'static,
    Answering: Future<Output = Result<C, E>> + Send + 'static,
    C: Into<Contents>,
    E: Into<BoxError>,
{
    Box::new(move |uri, call| {
        let reading = reader(uri, call.clone());
        Box::pin(async move {
            let read = reading.await.map(Into::into);
            read.map_err(|error| later(ProviderError::of(error.into()), &call))
        })
    })
}

fn listed(member: &str, key: &str, name: &str, mime_type: &str) -> Arc<Listed> {
    let shown = [(member, key), ("name", name), ("mimeType", mime_type)];
    let shown = shown.map(|(member, value)| (member.to_owned(), Value::from(value)));
    Arc::new(Listed { key: key.into(), shown: Map::from_iter(shown) })
}

fn check_name(listed: &Listed) -> Result<(), &'static str> {
    let name = listed.shown.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.trim().is_empty() { Err("give it a name") } else { Ok(()) }
}

fn described(listed: Arc<Listed>, description: &str) -> Arc<Listed> {
    let mut listed = Arc::unwrap_or_clone(listed);
    listed.shown.insert("description".to_owned(), description.into());
    Arc::new(listed)
}

/// Builds the result of `resources/read`.
fn written(uri: &str, mime_type: &str, contents: &Contents) -> Map<String, Value> {
    let (member, value) = match contents {
        Contents::Text(text) => ("text", text.clone()),
        Contents::Bytes(bytes) => ("blob", STANDARD.encode(bytes)),
    };
    let contents = json!([{"uri": uri, "mimeType": mime_type, member: value}]);
    Map::from_iter([("contents".to_owned(), contents)])
}
