//! Embedding backends: an endpoint, or a model in this process.

use std::sync::Arc;
use std::time::Duration;

use catalog::search::Vector;
use embedding::SentenceModel;
use model::SecretRef;
use upstream::http::{HttpClient, HttpError, Url};

use super::endpoint::Endpoint;
use super::local::Local;
use crate::secrets::{SecretError, Secrets};

/// What computes vectors.
#[derive(Clone, Debug)]
pub enum VectorMaker {
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
pub enum NoVectors {
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
    Answer,
    /// The API key cannot be read.
    #[error("the key for embeddings cannot be read")]
    Key(#[from] SecretError),
    /// The API key is not valid in a header.
    #[error("the key for embeddings cannot be sent: it has characters that no header may have")]
    NoHeader,
    /// This process has no secret store.
    #[error("the key for embeddings cannot be read: there are no secrets here")]
    NoSecrets,
    /// The local model is overloaded.
    #[error("the model for embeddings took longer than {} ms: it has too much to do", deadline.as_millis())]
    Late {
        /// The deadline of the text.
        deadline: Duration,
    },
    /// The local model returned a zero vector.
    #[error("the model for embeddings gave no vector for a text")]
    NoDirection,
}

impl NoVectors {
    /// Whether another text may succeed. Some endpoints report an overlong text with status 500.
    pub(super) fn may_be_the_text(&self) -> bool {
        match self {
            Self::Status { status } => matches!(status, 400 | 413 | 422 | 500),
            Self::Answer | Self::Late { .. } | Self::NoDirection => true,
            Self::Http(_) | Self::Key(_) | Self::NoHeader | Self::NoSecrets => false,
        }
    }
}

pub(super) enum Maker {
    Endpoint(Box<Endpoint>),
    Local(Local),
}

impl Maker {
    pub(super) fn new(
        maker: VectorMaker,
        client: &HttpClient,
        secrets: Option<Arc<Secrets>>,
    ) -> Self {
        match maker {
            VectorMaker::Endpoint { url, model, key } => {
                Self::Endpoint(Box::new(Endpoint::new(url, model, key, client, secrets)))
            }
            VectorMaker::Model(model) => Self::Local(Local::new(model)),
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
    pub(super) async fn vectors(
        &self,
        texts: &[String],
        deadline: Duration,
    ) -> Result<Vec<Vector>, NoVectors> {
        match self {
            Self::Endpoint(endpoint) => endpoint.vectors(texts, deadline).await,
            Self::Local(local) => local.vectors(texts, deadline).await,
        }
    }
}
