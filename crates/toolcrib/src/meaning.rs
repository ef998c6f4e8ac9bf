//! Meaning: vectors of all tools from an endpoint or a model that an operator has named, so that a question finds what says
//! the same in other words. Without one, and whenever it does not answer, search goes by words alone.
//!
//! Tools become vectors in the background, each text once; queries as they come, within a short deadline.

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

/// How many texts are told at once, and how many groups are waited for before they count.
const GROUP: usize = 64;
const STEP: usize = 16;
/// So many vectors are compared in less than a millisecond; more of them, aside.
const QUICK: usize = 512;
/// How long a search waits for what its query means.
const SOON: Duration = Duration::from_millis(500);
/// The same where nobody waits.
const LATER: Duration = Duration::from_secs(60);
/// How much of a question counts, in bytes: an endpoint refuses what has more tokens than its model reads.
const LONGEST: usize = 1_024;
/// So many tools are looked at before others get a turn.
const LOOKED_AT: usize = 64;
/// How long searches leave alone who did not answer one of them; and the background, at first and at most.
const LEFT_ALONE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);

/// Where vectors come from, and where they stay.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// Who makes them.
    pub maker: VectorMaker,
    /// Where they are kept; without it, only in memory.
    pub file: Option<PathBuf>,
}

/// The vectors of some texts, in their order.
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

/// What is known of a snapshot.
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

    /// The tools of a set that are nearest to a query; none if nobody can say so soon.
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
                // One odd question must not have all others go without meaning.
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

    /// Follows a catalog for as long as it is polled.
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
                    // New tools need not wait for a text that is always refused.
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        _ = changes.changed(), if error.may_be_the_text() => {}
                    }
                    wait = (wait * 2).min(AGAIN_AT_MOST);
                }
            }
        }
    }

    /// Knows all tools of a snapshot, or as many as it could before there was a newer one.
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
            // What no agent may have is nobody's business.
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

    /// One text that is refused must not keep all others from having a vector: they are told one by one then.
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
            // Another tool may have the place by now.
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
