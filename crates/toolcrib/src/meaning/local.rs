//! A model in this process: never on the workers that answer requests, and on half of the cores at most.
//!
//! Everybody gets a turn for one text, so that a question waits for a few texts of the background and not for all of them.

use std::sync::Arc;
use std::time::Duration;

use catalog::search::Vector;
use embedding::SentenceModel;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Semaphore;

use super::maker::NoVectors;

pub(super) struct Local {
    model: Arc<SentenceModel>,
    turns: Arc<Semaphore>,
    threads: usize,
}

impl Local {
    pub(super) fn new(model: Arc<SentenceModel>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores / 2).max(1);
        Self { model, turns: Arc::new(Semaphore::new(threads)), threads }
    }

    pub(super) fn name(&self) -> String {
        format!("model {}", self.model.digest())
    }

    /// The deadline is for each text.
    pub(super) async fn vectors(
        &self,
        texts: &[String],
        deadline: Duration,
    ) -> Result<Vec<Vector>, NoVectors> {
        let in_time = async |text: &String| {
            let vector = tokio::time::timeout(deadline, self.vector(text)).await;
            vector.unwrap_or(Err(NoVectors::Late { deadline }))
        };
        stream::iter(texts).map(in_time).buffered(self.threads).try_collect().await
    }

    /// The turn is held by the work, not by who waits for it.
    async fn vector(&self, text: &str) -> Result<Vector, NoVectors> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.expect("nobody closes it");
        let (model, text) = (Arc::clone(&self.model), text.to_owned());
        let work = move || {
            let numbers = model.vector(&text);
            drop(turn);
            numbers
        };
        let numbers = tokio::task::spawn_blocking(work).await;
        let numbers = numbers.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        Vector::new(&numbers).ok_or(NoVectors::NoDirection)
    }
}
