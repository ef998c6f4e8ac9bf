//! The vectors of all tools and queries, from an embeddings endpoint or a local model folder.

use std::sync::Arc;

use catalog::search::{Vector, nearest};
use catalog::tool_set::{Slot, ToolSet};
use model::SecretRef;
use toolcrib::{JournalPlace, Secrets, SystemClock, VectorMaker, vectors};
use upstream::egress::Egress;
use upstream::http::HttpClient;

use super::World;
use crate::cli::eval::EvalSearch;
use crate::config;
use crate::failure::Failure;
use crate::sentence_model;

pub(super) struct Meaning {
    tools: Vec<Vector>,
    queries: Vec<Vector>,
}

impl Meaning {
    /// Computes the vectors; `None` if neither an endpoint nor a model is given.
    pub(super) async fn of(world: &World, arguments: &EvalSearch) -> Result<Option<Self>, Failure> {
        let Some(maker) = maker(arguments).await? else { return Ok(None) };
        let journal = JournalPlace::Memory.open(SystemClock).await?;
        let secrets = Secrets::new(journal, None, SystemClock, config::variable_of_user);
        let secrets = Some(Arc::new(secrets));
        let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
        let tools = world.tools.iter().map(super::example::Tool::text);
        let queries = world.queries.iter().map(|query| query.query.clone());
        let texts: Vec<String> = tools.chain(queries).collect();
        let mut tools = vectors(maker, &client, secrets, &texts).await?;
        let queries = tools.split_off(world.tools.len());
        Ok(Some(Self { tools, queries }))
    }

    /// The tools of a set with the vectors nearest to a query's.
    pub(super) fn near(&self, query: usize, among: &ToolSet, limit: usize) -> Vec<(Slot, f32)> {
        let Some(query) = self.queries.get(query) else { return Vec::new() };
        let near = among
            .iter()
            .filter_map(|slot| Some((slot, slot, self.tools.get(slot as usize)?.nearness(query))));
        nearest(near.collect(), limit)
    }
}

async fn maker(arguments: &EvalSearch) -> Result<Option<VectorMaker>, Failure> {
    if let Some(folder) = &arguments.embeddings_folder {
        return Ok(Some(sentence_model::open(folder.clone()).await?));
    }
    if matches!(arguments.key, Some(SecretRef::Sealed(_))) {
        return Err(Failure::CredentialOption);
    }
    let key = arguments.key.clone();
    let endpoint = arguments.embeddings.clone().zip(arguments.model.clone());
    Ok(endpoint.map(|(url, model)| VectorMaker::Endpoint { url, model: model.into(), key }))
}
