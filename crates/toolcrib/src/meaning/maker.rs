//! Who makes vectors of texts: an endpoint, or a model in this process.

use std::sync::Arc;
use std::time::Duration;

use catalog::search::Vector;
use embedding::SentenceModel;
use model::SecretRef;
use upstream::http::{HttpClient, HttpError, Url};

use super::endpoint::Endpoint;
use super::local::Local;
use crate::secrets::{SecretError, Secrets};

/// Who makes vectors.
#[derive(Clone, Debug)]
pub enum VectorMaker {
    /// An address that speaks like `/v1/embeddings` of `OpenAI`.
    Endpoint {
        /// Where it is.
        url: Url,
        /// Which model it is to use.
        model: Box<str>,
        /// What it is shown, if anything.
        key: Option<SecretRef>,
    },
    /// A model of this process; nothing goes anywhere.
    Model(Arc<SentenceModel>),
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
pub enum NoVectors {
    /// The endpoint cannot be reached, or may not be.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// It refused.
    #[error("the endpoint for embeddings answered with status {status}")]
    Status {
        /// Its status.
        status: u16,
    },
    /// It said something else.
    #[error("the answer of the endpoint for embeddings has not one vector for each text")]
    Answer,
    /// There is no key where it should be.
    #[error("the key for embeddings cannot be read")]
    Key(#[from] SecretError),
    /// The key is none.
    #[error("the key for embeddings cannot be sent: it has characters that no header may have")]
    NoHeader,
    /// Nobody reads secrets here.
    #[error("the key for embeddings cannot be read: there are no secrets here")]
    NoSecrets,
    /// Too many want something of the model.
    #[error("the model for embeddings took longer than {} ms: it has too much to do", deadline.as_millis())]
    Late {
        /// How long it had.
        deadline: Duration,
    },
    /// The model gave no direction.
    #[error("the model for embeddings gave no vector for a text")]
    NoDirection,
}

impl NoVectors {
    /// Whether another text may fare better. Some endpoints say that a text is too long with a status of 500.
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

    /// What its vectors are kept under: those of another are not the same.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Endpoint(endpoint) => endpoint.name(),
            Self::Local(local) => local.name(),
        }
    }

    /// One for each text, in their order.
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
