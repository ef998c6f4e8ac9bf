//! Embedding backends: an endpoint, or a model in this process.

use std::sync::Arc;
use std::time::Duration;

use calls::secrets::{SecretError, SecretStore};
use embedding::SentenceModel;
use model::SecretRef;
use search::EmbeddingVector;
use upstream::http::{HttpClient, HttpError, Url};

use super::embedding_endpoint::EmbeddingEndpoint;
use super::local_embedder::LocalEmbedder;

/// What computes vectors.
#[derive(Clone, Debug)]
pub enum EmbeddingBackend {
    /// An endpoint that is compatible with `/v1/embeddings` of `OpenAI`.
    Endpoint {
        /// URL of the endpoint.
        url: Url,
        /// Name of the model.
        model: Box<str>,
        /// API key, if the endpoint needs one.
        key: Option<SecretRef>,
    },
    /// A model in this process; no text leaves it.
    Model(Arc<SentenceModel>),
}

/// Why no vectors were computed.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The endpoint cannot be reached, or must not be.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The endpoint rejected the request.
    #[error("the endpoint for embeddings answered with status {status}")]
    Status {
        /// HTTP status code.
        status: u16,
    },
    /// The response is not one vector for each text.
    #[error("the answer of the endpoint for embeddings has not one vector for each text")]
    InvalidAnswer,
    /// The API key cannot be read.
    #[error("the key for embeddings cannot be read")]
    UnreadableKey(#[from] SecretError),
    /// The API key is not valid in a header.
    #[error("the key for embeddings cannot be sent: it has characters that no header may have")]
    InvalidKey,
    /// This process has no secret store.
    #[error("the key for embeddings cannot be read: there are no secrets here")]
    NoSecretStore,
    /// The local model is overloaded.
    #[error("the model for embeddings took longer than {} ms: it has too much to do", deadline.as_millis())]
    TimedOut {
        /// The deadline of the text.
        deadline: Duration,
    },
    /// The local model returned a zero vector.
    #[error("the model for embeddings gave no vector for a text")]
    ZeroVector,
}

impl EmbeddingError {
    /// Whether another text may succeed. Some endpoints report an overlong text with status 500.
    pub(super) fn may_depend_on_text(&self) -> bool {
        match self {
            Self::Status { status } => matches!(status, 400 | 413 | 422 | 500),
            Self::InvalidAnswer | Self::TimedOut { .. } | Self::ZeroVector => true,
            Self::Http(_) | Self::UnreadableKey(_) | Self::InvalidKey | Self::NoSecretStore => {
                false
            }
        }
    }
}

pub(super) enum TextEmbedder {
    Endpoint(Box<EmbeddingEndpoint>),
    Local(LocalEmbedder),
}

impl TextEmbedder {
    pub(super) fn new(
        maker: EmbeddingBackend,
        client: &HttpClient,
        secrets: Option<Arc<SecretStore>>,
    ) -> Self {
        match maker {
            EmbeddingBackend::Endpoint { url, model, key } => {
                Self::Endpoint(Box::new(EmbeddingEndpoint::new(url, model, key, client, secrets)))
            }
            EmbeddingBackend::Model(model) => Self::Local(LocalEmbedder::new(model)),
        }
    }

    /// Identifies the model: stored vectors of another model are not comparable.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Endpoint(endpoint) => endpoint.name(),
            Self::Local(local) => local.name(),
        }
    }

    /// Computes one vector for each text, in their order.
    pub(super) async fn embed_batch(
        &self,
        texts: &[String],
        deadline: Duration,
    ) -> Result<Vec<EmbeddingVector>, EmbeddingError> {
        match self {
            Self::Endpoint(endpoint) => endpoint.request_vectors(texts, deadline).await,
            Self::Local(local) => local.compute_vectors(texts, deadline).await,
        }
    }
}
