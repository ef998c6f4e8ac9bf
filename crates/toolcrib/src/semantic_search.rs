//! Semantic search: vectors of all tools from an embedding endpoint or a local model, so that a query finds tools that
//! use other words. Without a backend, and whenever it does not answer, search uses words alone.
//!
//! Tools are embedded in the background, each text once; queries on arrival, within a short deadline.

mod embedding_backend;
mod embedding_endpoint;
mod local_embedder;
mod vector_store;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use catalog::tool_set::{Slot, ToolSet};
use catalog::{Catalog, Snapshot};
use model::{Digest, ToolId};
use search::{EmbeddingVector, changed_tools, embedding_text, most_similar};
use upstream::http::HttpClient;

use self::embedding_backend::TextEmbedder;
pub use self::embedding_backend::{EmbeddingBackend, EmbeddingError};
use calls::secrets::SecretStore;

use self::vector_store::VectorStore;

/// Number of texts per request, and number of requests after which finished vectors become visible.
const TEXTS_PER_REQUEST: usize = 64;
const REQUESTS_PER_STORE: usize = 16;
/// Comparing this many vectors takes less than a millisecond and runs inline.
const MAX_INLINE_VECTORS: usize = 512;
/// How long a search waits for the vector of its query.
const QUERY_DEADLINE: Duration = Duration::from_millis(500);
/// The deadline of background requests.
const BACKGROUND_DEADLINE: Duration = Duration::from_secs(60);
/// Maximum length of an embedded query, in bytes: an endpoint rejects texts with more tokens than its model reads.
const MAX_QUERY_BYTES: usize = 1_024;
/// Number of tools after which the background task yields.
const TOOLS_PER_YIELD: usize = 64;
/// Cooldown of searches after a failed request; and the background's first and maximum retry interval.
const SEARCH_COOLDOWN: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_secs(300);

/// The embedding backend, and the file for its vectors.
#[derive(Clone, Debug)]
pub struct EmbeddingOptions {
    /// What computes the vectors.
    pub backend: EmbeddingBackend,
    /// File for the vectors; without it, they are in memory only.
    pub file: Option<PathBuf>,
}

/// Computes the vectors of some texts, in their order.
pub async fn embed_texts(
    maker: EmbeddingBackend,
    client: &HttpClient,
    secrets: Option<Arc<SecretStore>>,
    texts: &[String],
) -> Result<Vec<EmbeddingVector>, EmbeddingError> {
    let maker = TextEmbedder::new(maker, client, secrets);
    let mut vectors = Vec::new();
    for group in texts.chunks(TEXTS_PER_REQUEST) {
        vectors.extend(maker.embed_batch(group, BACKGROUND_DEADLINE).await?);
    }
    Ok(vectors)
}

/// The vectors of all tools.
pub(crate) struct SemanticIndex {
    embedder: TextEmbedder,
    store: VectorStore,
    known: ArcSwap<SnapshotVectors>,
    cooldown_until: Mutex<Option<Instant>>,
}

/// The vectors of one snapshot, by slot.
#[derive(Clone, Default)]
struct SnapshotVectors {
    snapshot: Arc<Snapshot>,
    slots: Vec<Option<(ToolId, Arc<EmbeddingVector>)>>,
}

impl SemanticIndex {
    pub(crate) fn new(
        embeddings: EmbeddingOptions,
        client: &HttpClient,
        secrets: Option<Arc<SecretStore>>,
    ) -> Self {
        Self {
            embedder: TextEmbedder::new(embeddings.backend, client, secrets),
            store: VectorStore::new(embeddings.file),
            known: ArcSwap::default(),
            cooldown_until: Mutex::default(),
        }
    }

    /// The tools of a set that are nearest to a query; empty if the backend does not answer in time.
    pub(crate) async fn find_nearest(
        &self,
        query: &str,
        snapshot: &Arc<Snapshot>,
        among: &ToolSet,
        limit: usize,
    ) -> Vec<(Slot, f32)> {
        let known = self.known.load_full();
        if known.slots.is_empty() || self.is_cooling_down() {
            return Vec::new();
        }
        let query =
            query.get(..query.floor_char_boundary(MAX_QUERY_BYTES)).unwrap_or_default().to_owned();
        let query = match self.embedder.embed_batch(&[query], QUERY_DEADLINE).await {
            Ok(mut vectors) => vectors.pop(),
            Err(error) => {
                // An odd query must not disable semantic search for all others.
                if !error.may_depend_on_text() {
                    self.start_cooldown();
                }
                tracing::warn!(%error, "a search goes by words alone: {error}");
                return Vec::new();
            }
        };
        let Some(query) = query else { return Vec::new() };
        let (snapshot, among) = (Arc::clone(snapshot), among.clone());
        let is_quick = among.len() <= MAX_INLINE_VECTORS;
        let work = move || known.nearest_slots(&query, &snapshot, &among, limit);
        if is_quick {
            return work();
        }
        let near = tokio::task::spawn_blocking(work).await;
        near.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn is_cooling_down(&self) -> bool {
        let until = *self.cooldown_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn start_cooldown(&self) {
        let until = Some(Instant::now() + SEARCH_COOLDOWN);
        *self.cooldown_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Keeps the vectors up to date with a catalog, for as long as the future is polled.
    pub(crate) async fn follow_catalog(&self, catalog: &Catalog) {
        let (mut changes, mut wait) = (catalog.subscribe(), FIRST_RETRY);
        self.store.load_file().await;
        loop {
            changes.mark_unchanged();
            let is_old = || changes.has_changed().unwrap_or(true);
            match self.embed_snapshot(&catalog.snapshot(), is_old).await {
                Ok(()) => {
                    wait = FIRST_RETRY;
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "not all tools have a vector: {error}");
                    // New tools need not wait for a text that the backend always rejects.
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        _ = changes.changed(), if error.may_depend_on_text() => {}
                    }
                    wait = (wait * 2).min(MAX_RETRY);
                }
            }
        }
    }

    /// Embeds all tools of a snapshot, or as many as possible before a newer snapshot appears.
    async fn embed_snapshot(
        &self,
        snapshot: &Arc<Snapshot>,
        is_old: impl Fn() -> bool,
    ) -> Result<(), EmbeddingError> {
        let mut next = SnapshotVectors::clone(&self.known.load());
        let mut open: Vec<(Slot, ToolId, Digest, String)> = Vec::new();
        let served = snapshot.served();
        let unknown: ToolSet =
            served.iter().filter(|slot| next.vector_at(*slot).is_none()).collect();
        for (place, slot) in
            changed_tools(&next.snapshot, snapshot).union(&unknown).iter().enumerate()
        {
            if place % TOOLS_PER_YIELD == 0 {
                tokio::task::yield_now().await;
            }
            next.set_vector(slot, None);
            // A tool that is not served must not be sent to the backend.
            let Some(entry) = snapshot.tool_at(slot).filter(|_| served.contains(slot)) else {
                continue;
            };
            let text = embedding_text(snapshot, entry);
            let digest = Digest::of_bytes(format!("{}\n{text}", self.embedder.name()));
            match self.store.get(&digest) {
                Some(vector) => next.set_vector(slot, Some((entry.tool.id.clone(), vector))),
                None => open.push((slot, entry.tool.id.clone(), digest, text)),
            }
        }
        next.snapshot = Arc::clone(snapshot);
        let mut failure = None;
        for (number, group) in open.chunks(TEXTS_PER_REQUEST).enumerate() {
            if is_old() {
                break;
            }
            let texts: Vec<String> = group.iter().map(|(.., text)| text.clone()).collect();
            let vectors = match self.embed_group(&texts, &mut failure).await {
                Ok(vectors) => vectors,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            let mut fresh = Vec::new();
            for ((slot, id, digest, _), vector) in group.iter().zip(vectors) {
                let Some(vector) = vector.map(Arc::new) else { continue };
                fresh.push((*digest, Arc::clone(&vector)));
                next.set_vector(*slot, Some((id.clone(), vector)));
            }
            self.store.store_vectors(fresh).await;
            if number % REQUESTS_PER_STORE == REQUESTS_PER_STORE - 1 {
                self.known.store(Arc::new(next.clone()));
            }
        }
        self.known.store(Arc::new(next));
        match failure {
            Some(failure) => Err(failure),
            None => {
                self.store.forget_unused().await;
                Ok(())
            }
        }
    }

    /// Embeds a group of texts. If the backend rejects it, each text is sent alone, so that one bad text affects no
    /// others.
    async fn embed_group(
        &self,
        texts: &[String],
        failure: &mut Option<EmbeddingError>,
    ) -> Result<Vec<Option<EmbeddingVector>>, EmbeddingError> {
        match self.embedder.embed_batch(texts, BACKGROUND_DEADLINE).await {
            Ok(vectors) => return Ok(vectors.into_iter().map(Some).collect()),
            Err(error) if error.may_depend_on_text() => {}
            Err(error) => return Err(error),
        }
        let mut vectors = Vec::new();
        for text in texts {
            vectors.push(
                match self
                    .embedder
                    .embed_batch(std::slice::from_ref(text), BACKGROUND_DEADLINE)
                    .await
                {
                    Ok(mut vector) => vector.pop(),
                    Err(error) if error.may_depend_on_text() => {
                        *failure = Some(error);
                        None
                    }
                    Err(error) => return Err(error),
                },
            );
        }
        Ok(vectors)
    }
}

impl SnapshotVectors {
    fn nearest_slots(
        &self,
        query: &EmbeddingVector,
        snapshot: &Snapshot,
        among: &ToolSet,
        limit: usize,
    ) -> Vec<(Slot, f32)> {
        let near = among.iter().filter_map(|slot| {
            let (id, vector) = self.slots.get(slot as usize)?.as_ref()?;
            // Another tool may occupy the slot by now.
            let is_same = snapshot.tool_at(slot).is_some_and(|entry| entry.tool.id == *id);
            is_same.then(|| (slot, id, vector.similarity(query)))
        });
        most_similar(near.collect(), limit)
    }

    fn vector_at(&self, slot: Slot) -> Option<&(ToolId, Arc<EmbeddingVector>)> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn set_vector(&mut self, slot: Slot, vector: Option<(ToolId, Arc<EmbeddingVector>)>) {
        let place = slot as usize;
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        if let Some(it) = self.slots.get_mut(place) {
            *it = vector;
        }
    }
}
