//! The sentence model for embeddings, loaded from a folder that the operator names.

use std::path::PathBuf;
use std::sync::Arc;

use toolcrib::{EmbeddingBackend, InvalidModel, SentenceModel};

/// Loads the model on the blocking pool: it reads up to several hundred megabytes.
pub async fn open_sentence_model(folder: PathBuf) -> Result<EmbeddingBackend, InvalidModel> {
    let opened = tokio::task::spawn_blocking(move || SentenceModel::open(&folder)).await;
    let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    Ok(EmbeddingBackend::Model(Arc::new(opened)))
}
