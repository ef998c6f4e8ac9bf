//! The vectors of all tools and queries, from an embeddings endpoint or a local model folder.

use std::sync::Arc;

use catalog::tool_set::{Slot, ToolSet};
use config::sentence_model;
use model::SecretRef;
use search::{EmbeddingVector, most_similar};
use toolcrib::{EmbeddingBackend, JournalLocation, SecretStore, SystemClock, embed_texts};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::EvalDataset;
use crate::arguments::eval::EvalSearchArgs;
use crate::cli_error::CliError;
use crate::environment;

pub(super) struct DatasetVectors {
    tools: Vec<EmbeddingVector>,
    queries: Vec<EmbeddingVector>,
}

impl DatasetVectors {
    /// Computes the vectors; `None` if neither an endpoint nor a model is given.
    pub(super) async fn compute(
        world: &EvalDataset,
        arguments: &EvalSearchArgs,
    ) -> Result<Option<Self>, CliError> {
        let Some(maker) = vector_maker(arguments).await? else { return Ok(None) };
        let journal = JournalLocation::Memory.open(SystemClock).await?;
        let secrets = SecretStore::new(journal, None, SystemClock, environment::secret_variable);
        let secrets = Some(Arc::new(secrets));
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let tools = world.tools.iter().map(super::eval_input::EvalTool::embedding_text);
        let queries = world.queries.iter().map(|query| query.query.clone());
        let texts: Vec<String> = tools.chain(queries).collect();
        let mut tools = embed_texts(maker, &client, secrets, &texts).await?;
        let queries = tools.split_off(world.tools.len());
        Ok(Some(Self { tools, queries }))
    }

    /// The tools of a set with the vectors nearest to a query's.
    pub(super) fn nearest_tools(
        &self,
        query: usize,
        among: &ToolSet,
        limit: usize,
    ) -> Vec<(Slot, f32)> {
        let Some(query) = self.queries.get(query) else { return Vec::new() };
        let near = among.iter().filter_map(|slot| {
            Some((slot, slot, self.tools.get(slot as usize)?.similarity(query)))
        });
        most_similar(near.collect(), limit)
    }
}

async fn vector_maker(arguments: &EvalSearchArgs) -> Result<Option<EmbeddingBackend>, CliError> {
    if let Some(folder) = &arguments.embeddings_folder {
        return Ok(Some(sentence_model::open_sentence_model(folder.clone()).await?));
    }
    if matches!(arguments.key, Some(SecretRef::Sealed(_))) {
        return Err(CliError::CredentialOption);
    }
    let key = arguments.key.clone();
    let endpoint = arguments.embeddings.clone().zip(arguments.model.clone());
    Ok(endpoint.map(|(url, model)| EmbeddingBackend::Endpoint { url, model: model.into(), key }))
}
