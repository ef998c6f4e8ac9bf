//! An embedding model in this process. It never runs on the async workers, and uses at most half of the cores.
//!
//! Each text takes a turn of its own, so that a query waits for a few background texts and not for all of them.

use std::sync::Arc;
use std::time::Duration;

use embedding::SentenceModel;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use search::EmbeddingVector;
use tokio::sync::Semaphore;

use super::embedding_backend::EmbeddingError;

pub(super) struct LocalEmbedder {
    model: Arc<SentenceModel>,
    turns: Arc<Semaphore>,
    threads: usize,
}

impl LocalEmbedder {
    pub(super) fn new(model: Arc<SentenceModel>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores / 2).max(1);
        Self { model, turns: Arc::new(Semaphore::new(threads)), threads }
    }

    pub(super) fn name(&self) -> String {
        format!("model {}", self.model.digest())
    }

    /// Computes one vector for each text. The deadline applies to each text.
    pub(super) async fn compute_vectors(
        &self,
        texts: &[String],
        deadline: Duration,
    ) -> Result<Vec<EmbeddingVector>, EmbeddingError> {
        let in_time = async |text: &String| {
            let vector = tokio::time::timeout(deadline, self.compute_vector(text)).await;
            vector.unwrap_or(Err(EmbeddingError::TimedOut { deadline }))
        };
        stream::iter(texts).map(in_time).buffered(self.threads).try_collect().await
    }

    /// The work holds the permit, and not the waiter, which may be dropped.
    async fn compute_vector(&self, text: &str) -> Result<EmbeddingVector, EmbeddingError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.expect("nobody closes it");
        let (model, text) = (Arc::clone(&self.model), text.to_owned());
        let work = move || {
            let numbers = model.embed_text(&text);
            drop(turn);
            numbers
        };
        let numbers = tokio::task::spawn_blocking(work).await;
        let numbers = numbers.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        EmbeddingVector::new(&numbers).ok_or(EmbeddingError::ZeroVector)
    }
}
