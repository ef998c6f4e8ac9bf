//! The operations of an OpenAPI specification as tools of a provider: for a program that has them beside tools of its own.
//!
//! A specification is read once, when the provider is made. A source of the catalog has the same tools, and is refreshed,
//! reviewed, granted and gated besides; see `docs/adr/0038-a-specification-can-be-a-provider.md`.

mod operation;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use discovery::DiscoveryError;
use discovery::openapi::{Address, Options as Reading, Specification, discover};
use execution::{Credentials, Own};
use model::{Describe, InvalidId, SourceId, Visibility, Warning};
use serde_json::{Map, Value};
use upstream::egress::Egress;
use upstream::http::{HttpClient, Limits, Url};

use self::operation::{Operation, Wire};
use crate::call::CallContext;
use crate::provider::{Calling, ProvidedTool, ProviderError, ToolProvider};

/// The tools of an OpenAPI specification, to be added to a [`Registry`](crate::Registry).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use toolcrib::{OpenApi, OpenApiOptions, Registry, ToolProvider as _};
///
/// let specification = "
/// openapi: 3.1.0
/// servers: [{url: 'https://pizzeria.example.com'}]
/// paths:
///   /menu: {get: {operationId: list_pizzas, summary: What is on the menu}}
/// ";
/// let pizzeria = OpenApi::read("pizzeria", specification, OpenApiOptions::default())?;
/// let registry = Registry::new();
/// registry.add_provider(Arc::new(pizzeria));
/// assert_eq!(*registry.get_tool("list_pizzas").unwrap().description, *"What is on the menu");
/// # Ok(())
/// # }
/// ```
pub struct OpenApi {
    /// By name.
    operations: HashMap<Box<str>, Arc<Operation>>,
    /// The same, as they are listed.
    tools: Vec<Arc<ProvidedTool>>,
    warnings: Vec<Warning>,
    wire: Arc<Wire>,
}

/// How a specification is read, and how its operations are called.
#[derive(Clone, Default)]
pub struct OpenApiOptions {
    /// Where the API is, instead of what the specification says.
    pub base_url: Option<Url>,
    /// Which of its texts describes a tool.
    pub describe: Describe,
    /// The media type to send where an operation takes several.
    pub media_type: Option<String>,
    /// What operations ask for, by the name of the security scheme; for `basic` it is `user:password`.
    pub credentials: Credentials,
    /// Shown with every call, whatever operations ask for.
    pub own: Option<Own>,
    /// What may be reached although it is not public.
    pub egress: Egress,
    /// When a call is over, and how much of an answer is read.
    pub limits: Limits,
    /// Where agents meet the tools: in their list, by search only, or by name only.
    pub visibility: Visibility,
}

/// Why a specification gave no tools.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    /// What results say they are from.
    #[error(transparent)]
    Name(#[from] InvalidId),
    /// The document.
    #[error(transparent)]
    Document(#[from] DiscoveryError),
}

impl OpenApi {
    /// Reads a specification, JSON or YAML. A large one takes a while. Results of its tools say that they are from
    /// `name`.
    pub fn read(
        name: &str,
        text: impl Into<Vec<u8>>,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        Self::of(name, &Specification::read(Address::Inline, text)?, options)
    }

    /// Reads one from a file, with the files below its folder that it refers to.
    pub fn open(
        name: &str,
        path: impl AsRef<Path>,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        Self::of(name, &Specification::open(path.as_ref())?, options)
    }

    /// Fetches one, and nothing that it refers to. Credentials go to its own origin, unless there is a `base_url`.
    pub async fn fetch(
        name: &str,
        url: &Url,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        let client = HttpClient::new(options.egress.clone());
        let (address, bytes) = discovery::fetch(&client, url, discovery::LIMITS).await?;
        let name = name.to_owned();
        // A large one takes longer than others should wait.
        let read = tokio::task::spawn_blocking(move || {
            Self::of(&name, &Specification::read(address, bytes)?, options)
        });
        read.await.expect("reading a specification does not panic")
    }

    fn of(
        name: &str,
        specification: &Specification,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        let reading = Reading {
            base_url: options.base_url.clone(),
            describe: options.describe,
            media_type: options.media_type.clone(),
            ..Reading::default()
        };
        let found = discover(SourceId::from_name(name)?, specification, &reading)?.inventory;
        for warning in &found.warnings {
            let Warning { code, at, message } = warning;
            tracing::warn!(name, %code, %at, "the specification `{name}`: {message}");
        }
        // Whoever wrote it down, or said where the API is, has said where credentials may go (requirement O7).
        let origin = options.base_url.as_ref().or(specification.url()).map(Url::origin);
        let all = found.tools.into_iter();
        let all = all.map(|(id, tool)| Operation::new(id, tool, options.visibility)).map(Arc::new);
        let operations: Vec<Arc<Operation>> = all.collect();
        Ok(Self {
            tools: operations.iter().map(|operation| Arc::clone(&operation.tool)).collect(),
            operations: operations.into_iter().map(|it| (it.tool.name.clone(), it)).collect(),
            warnings: found.warnings,
            wire: Arc::new(Wire::new(options, origin)),
        })
    }

    /// What of the specification is no tool, or not as it was meant, and why. The log has it too.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl ToolProvider for OpenApi {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.tools.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.operations.get(name).map(|operation| Arc::clone(&operation.tool))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Calling<'a> {
        Box::pin(async move {
            match self.operations.get(name) {
                Some(operation) => Ok(operation.call(&self.wire, arguments, call).await),
                None => Err(ProviderError::ToolNotFound { name: name.into() }),
            }
        })
    }
}
