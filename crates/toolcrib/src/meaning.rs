//! Semantic search: vectors of all tools from an embedding endpoint or a local model, so that a query finds tools that
//! use other words. Without a backend, and whenever it does not answer, search uses words alone.
//!
//! Tools are embedded in the background, each text once; queries on arrival, within a short deadline.

mod endpoint;
mod kept;
mod local;
mod maker;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use catalog::search::{Vector, differing, nearest, text_for_meaning};
use catalog::tool_set::{Slot, ToolSet};
use catalog::{Catalog, Snapshot};
use model::{Digest, ToolId};
use upstream::http::HttpClient;

use self::kept::KeptVectors;
use self::maker::Maker;
pub use self::maker::{NoVectors, VectorMaker};
use crate::secrets::Secrets;

/// Number of texts per request, and number of requests after which finished vectors become visible.
const GROUP: usize = 64;
const STEP: usize = 16;
/// Comparing this many vectors takes less than a millisecond and runs inline.
const QUICK: usize = 512;
/// How long a search waits for the vector of its query.
const SOON: Duration = Duration::from_millis(500);
/// The deadline of background requests.
const LATER: Duration = Duration::from_secs(60);
/// Maximum length of an embedded query, in bytes: an endpoint rejects texts with more tokens than its model reads.
const LONGEST: usize = 1_024;
/// Number of tools after which the background task yields.
const LOOKED_AT: usize = 64;
/// Cooldown of searches after a failed request; and the background's first and maximum retry interval.
const LEFT_ALONE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);

/// The embedding backend, and the file for its vectors.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// What computes the vectors.
    pub maker: VectorMaker,
    /// File for the vectors; without it, they are in memory only.
    pub file: Option<PathBuf>,
}

/// Computes the vectors of some texts, in their order.
pub async fn vectors(
    maker: VectorMaker,
    client: &HttpClient,
    secrets: Option<Arc<Secrets>>,
    texts: &[String],
) -> Result<Vec<Vector>, NoVectors> {
    let maker = Maker::new(maker, client, secrets);
    let mut vectors = Vec::new();
    for group in texts.chunks(GROUP) {
        vectors.extend(maker.vectors(group, LATER).await?);
    }
    Ok(vectors)
}

/// The vectors of all tools.
pub(crate) struct Meaning {
    maker: Maker,
    kept: KeptVectors,
    known: ArcSwap<Known>,
    left_alone_until: Mutex<Option<Instant>>,
}

/// The vectors of one snapshot, by slot.
#[derive(Clone, Default)]
struct Known {
    snapshot: Arc<Snapshot>,
    slots: Vec<Option<(ToolId, Arc<Vector>)>>,
}

impl Meaning {
    pub(crate) fn new(
        embeddings: Embeddings,
        client: &HttpClient,
        secrets: Option<Arc<Secrets>>,
    ) -> Self {
        Self {
            maker: Maker::new(embeddings.maker, client, secrets),
            kept: KeptVectors::new(embeddings.file),
            known: ArcSwap::default(),
            left_alone_until: Mutex::default(),
        }
    }

    /// The tools of a set that are nearest to a query; empty if the backend does not answer in time.
    pub(crate) async fn near(
        &self,
        query: &str,
        snapshot: &Arc<Snapshot>,
        among: &ToolSet,
        limit: usize,
    ) -> Vec<(Slot, f32)> {
        let known = self.known.load_full();
        if known.slots.is_empty() || self.is_left_alone() {
            return Vec::new();
        }
        let query = query.get(..query.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned();
        let query = match self.maker.vectors(&[query], SOON).await {
            Ok(mut vectors) => vectors.pop(),
            Err(error) => {
                // An odd query must not disable semantic search for all others.
                if !error.may_be_the_text() {
                    self.leave_alone();
                }
                tracing::warn!(%error, "a search goes by words alone: {error}");
                return Vec::new();
            }
        };
        let Some(query) = query else { return Vec::new() };
        let (snapshot, among) = (Arc::clone(snapshot), among.clone());
        let is_quick = among.len() <= QUICK;
        let work = move || known.nearest(&query, &snapshot, &among, limit);
        if is_quick {
            return work();
        }
        let near = tokio::task::spawn_blocking(work).await;
        near.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn is_left_alone(&self) -> bool {
        let until = *self.left_alone_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn leave_alone(&self) {
        let until = Some(Instant::now() + LEFT_ALONE);
        *self.left_alone_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Keeps the vectors up to date with a catalog, for as long as the future is polled.
    pub(crate) async fn keep_up(&self, catalog: &Catalog) {
        let (mut changes, mut wait) = (catalog.changes(), AGAIN);
        self.kept.read().await;
        loop {
            changes.mark_unchanged();
            let is_old = || changes.has_changed().unwrap_or(true);
            match self.follow(&catalog.snapshot(), is_old).await {
                Ok(()) => {
                    wait = AGAIN;
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "not all tools have a vector: {error}");
                    // New tools need not wait for a text that the backend always rejects.
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        _ = changes.changed(), if error.may_be_the_text() => {}
                    }
                    wait = (wait * 2).min(AGAIN_AT_MOST);
                }
            }
        }
    }

    /// Embeds all tools of a snapshot, or as many as possible before a newer snapshot appears.
    async fn follow(
        &self,
        snapshot: &Arc<Snapshot>,
        is_old: impl Fn() -> bool,
    ) -> Result<(), NoVectors> {
        let mut next = Known::clone(&self.known.load());
        let mut open: Vec<(Slot, ToolId, Digest, String)> = Vec::new();
        let served = snapshot.served();
        let unknown: ToolSet = served.iter().filter(|slot| next.at(*slot).is_none()).collect();
        for (place, slot) in differing(&next.snapshot, snapshot).union(&unknown).iter().enumerate()
        {
            if place % LOOKED_AT == 0 {
                tokio::task::yield_now().await;
            }
            next.put(slot, None);
            // A tool that is not served must not be sent to the backend.
            let Some(entry) = snapshot.tool_at(slot).filter(|_| served.contains(slot)) else {
                continue;
            };
            let text = text_for_meaning(snapshot, entry);
            let digest = Digest::of(format!("{}\n{text}", self.maker.name()));
            match self.kept.get(&digest) {
                Some(vector) => next.put(slot, Some((entry.tool.id.clone(), vector))),
                None => open.push((slot, entry.tool.id.clone(), digest, text)),
            }
        }
        next.snapshot = Arc::clone(snapshot);
        let mut failure = None;
        for (number, group) in open.chunks(GROUP).enumerate() {
            if is_old() {
                break;
            }
            let texts: Vec<String> = group.iter().map(|(.., text)| text.clone()).collect();
            let vectors = match self.group(&texts, &mut failure).await {
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
                next.put(*slot, Some((id.clone(), vector)));
            }
            self.kept.put(fresh).await;
            if number % STEP == STEP - 1 {
                self.known.store(Arc::new(next.clone()));
            }
        }
        self.known.store(Arc::new(next));
        match failure {
            Some(failure) => Err(failure),
            None => {
                self.kept.forget_unused().await;
                Ok(())
            }
        }
    }

    /// Embeds a group of texts. If the backend rejects it, each text is sent alone, so that one bad text affects no
    /// others.
    async fn group(
        &self,
        texts: &[String],
        failure: &mut Option<NoVectors>,
    ) -> Result<Vec<Option<Vector>>, NoVectors> {
        match self.maker.vectors(texts, LATER).await {
            Ok(vectors) => return Ok(vectors.into_iter().map(Some).collect()),
            Err(error) if error.may_be_the_text() => {}
            Err(error) => return Err(error),
        }
        let mut vectors = Vec::new();
        for text in texts {
            vectors.push(match self.maker.vectors(std::slice::from_ref(text), LATER).await {
                Ok(mut vector) => vector.pop(),
                Err(error) if error.may_be_the_text() => {
                    *failure = Some(error);
                    None
                }
                Err(error) => return Err(error),
            });
        }
        Ok(vectors)
    }
}

impl Known {
    fn nearest(
        &self,
        query: &Vector,
        snapshot: &Snapshot,
        among: &ToolSet,
        limit: usize,
    ) -> Vec<(Slot, f32)> {
        let near = among.iter().filter_map(|slot| {
            let (id, vector) = self.slots.get(slot as usize)?.as_ref()?;
            // Another tool may occupy the slot by now.
            let is_same = snapshot.tool_at(slot).is_some_and(|entry| entry.tool.id == *id);
            is_same.then(|| (slot, id, vector.nearness(query)))
        });
        nearest(near.collect(), limit)
    }

    fn at(&self, slot: Slot) -> Option<&(ToolId, Arc<Vector>)> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn put(&mut self, slot: Slot, vector: Option<(ToolId, Arc<Vector>)>) {
        let place = slot as usize;
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        if let Some(it) = self.slots.get_mut(place) {
            *it = vector;
        }
    }
}
