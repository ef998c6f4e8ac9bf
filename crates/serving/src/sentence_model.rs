//! A model that makes vectors of texts, read from a folder that an operator has named.

use std::path::PathBuf;
use std::sync::Arc;

use toolcrib::{InvalidModel, SentenceModel, VectorMaker};

/// Reads some hundred megabytes at most, aside.
pub(crate) async fn open(folder: PathBuf) -> Result<VectorMaker, InvalidModel> {
    let opened = tokio::task::spawn_blocking(move || SentenceModel::open(&folder)).await;
    let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    Ok(VectorMaker::Model(Arc::new(opened)))
}
