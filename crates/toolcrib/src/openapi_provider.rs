//! A provider whose tools are the operations of an OpenAPI specification, for programs that also have tools of their
//! own.
//!
//! The specification is read once, when the provider is created. A catalog source offers the same tools, and adds
//! refresh, review, grants and admission; see `docs/adr/0038-a-specification-can-be-a-provider.md`.

mod provided_operation;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use execution::{Credentials, SourceCredential};
use model::{DiscoveryWarning, InvalidId, OperationDescription, SourceId, Visibility};
use provider::{CallContext, ProvidedTool, ProviderError, ToolCallFuture, ToolProvider};
use serde_json::{Map, Value};
use sources::DiscoveryError;
use sources::openapi::{
    OpenApiSpecification, SpecOptions as Reading, SpecificationAddress, discover_openapi,
};
use upstream::egress::EgressPolicy;
use upstream::http::{ExchangeLimits, HttpClient, Url};

use self::provided_operation::{OperationClient, ProvidedOperation};

/// A provider of the operations in an OpenAPI specification, to be added to a [`Registry`](crate::Registry).
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
    /// Operations by tool name.
    operations: HashMap<Box<str>, Arc<ProvidedOperation>>,
    /// The tools of the operations, in the order of the specification.
    tools: Vec<Arc<ProvidedTool>>,
    warnings: Vec<DiscoveryWarning>,
    client: Arc<OperationClient>,
}

/// How a specification is read, and how its operations are called.
#[derive(Clone, Default)]
pub struct OpenApiOptions {
    /// Base URL of the API; overrides the specification.
    pub base_url: Option<Url>,
    /// Which text of an operation describes the tool.
    pub describe: OperationDescription,
    /// The media type to send if an operation accepts several.
    pub media_type: Option<String>,
    /// Credentials by name of the security scheme; for `basic`, the value is `user:password`.
    pub credentials: Credentials,
    /// A credential for all calls, whatever the operations declare.
    pub own: Option<SourceCredential>,
    /// Non-public addresses that may be reached.
    pub egress: EgressPolicy,
    /// Deadline of a call, and size limit of a response.
    pub limits: ExchangeLimits,
    /// Whether the tools are listed, found by search only, or callable by name only.
    pub visibility: Visibility,
}

/// Why no provider was created from a specification.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidId),
    /// The specification is invalid or cannot be fetched.
    #[error(transparent)]
    Document(#[from] DiscoveryError),
}

impl OpenApi {
    /// Reads a specification in JSON or YAML. Large ones take a while. Results of the tools state `name` as their
    /// source.
    pub fn read(
        name: &str,
        text: impl Into<Vec<u8>>,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        Self::from_specification(
            name,
            &OpenApiSpecification::from_bytes(SpecificationAddress::Inline, text)?,
            options,
        )
    }

    /// Reads a specification from a file, including referenced files below its folder.
    pub fn open(
        name: &str,
        path: impl AsRef<Path>,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        Self::from_specification(name, &OpenApiSpecification::open_file(path.as_ref())?, options)
    }

    /// Fetches a specification, without the documents it refers to. Credentials go to its origin, unless `base_url` is
    /// set.
    pub async fn fetch(
        name: &str,
        url: &Url,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        let client = HttpClient::new(options.egress.clone());
        let (address, bytes) =
            sources::fetch_document(&client, url, sources::DOCUMENT_LIMITS).await?;
        let name = name.to_owned();
        // Parsing a large specification takes too long for an async worker.
        let read = tokio::task::spawn_blocking(move || {
            Self::from_specification(
                &name,
                &OpenApiSpecification::from_bytes(address, bytes)?,
                options,
            )
        });
        read.await.expect("reading a specification does not panic")
    }

    fn from_specification(
        name: &str,
        specification: &OpenApiSpecification,
        options: OpenApiOptions,
    ) -> Result<Self, OpenApiError> {
        let reading = Reading {
            base_url: options.base_url.clone(),
            describe: options.describe,
            media_type: options.media_type.clone(),
            ..Reading::default()
        };
        let found =
            discover_openapi(SourceId::from_name(name)?, specification, &reading)?.inventory;
        for warning in &found.warnings {
            let DiscoveryWarning { code, at, message } = warning;
            tracing::warn!(name, %code, %at, "the specification `{name}`: {message}");
        }
        // The operator who named the address decides where credentials may go (requirement O7).
        let origin = options.base_url.as_ref().or(specification.url()).map(Url::origin);
        let all = found.tools.into_iter();
        let all = all
            .map(|(id, tool)| ProvidedOperation::new(id, tool, options.visibility))
            .map(Arc::new);
        let operations: Vec<Arc<ProvidedOperation>> = all.collect();
        Ok(Self {
            tools: operations.iter().map(|operation| Arc::clone(&operation.tool)).collect(),
            operations: operations.into_iter().map(|it| (it.tool.name.clone(), it)).collect(),
            warnings: found.warnings,
            client: Arc::new(OperationClient::new(options, origin)),
        })
    }

    /// The parts of the specification that gave no tool, or a limited one, with reasons. They are logged too.
    pub fn warnings(&self) -> &[DiscoveryWarning] {
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
    ) -> ToolCallFuture<'a> {
        Box::pin(async move {
            match self.operations.get(name) {
                Some(operation) => {
                    Ok(operation.call_operation(&self.client, arguments, call).await)
                }
                None => Err(ProviderError::ToolNotFound { name: name.into() }),
            }
        })
    }
}
