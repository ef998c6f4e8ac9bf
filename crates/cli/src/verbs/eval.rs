//! `toolcrib eval search`: measures how often search finds the right tools, on the user's own tools and queries.

mod cross_validation;
mod dataset_vectors;
mod eval_input;
mod score_summary;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use catalog::tool_set::ToolSet;
use config::config_error::read_limited_file;
use dataset_vectors::DatasetVectors;
use eval_input::{EvalQuery, EvalTool};
use score_summary::{QueryScores, ScoreSummary};
use search::{RankingWeights, SearchHit, SearchIndex, fuse_hits, search_tools as find};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::arguments::VerbOutcome;
use crate::arguments::eval::EvalSearchArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::output::count_noun;

/// Maximum bytes of an input file.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Number of results per query.
const RESULT_COUNT: usize = 10;
/// Number of candidates that are ranked when words and vectors are combined.
const CANDIDATE_COUNT: usize = 100;

/// The tools in one index, each subset as a tool set, and the queries.
struct EvalDataset {
    tools: Vec<EvalTool>,
    index: SearchIndex,
    subsets: BTreeMap<String, ToolSet>,
    all: ToolSet,
    queries: Vec<EvalQuery>,
    vectors: Option<DatasetVectors>,
}

pub(crate) async fn evaluate_search(arguments: &EvalSearchArgs) -> Result<VerbOutcome, CliError> {
    let mut world =
        EvalDataset::new(read_json_lines(&arguments.tools)?, read_json_lines(&arguments.queries)?);
    world.vectors = DatasetVectors::compute(&world, arguments).await?;
    if arguments.cross_validate {
        let validated = cross_validation::cross_validate(&world);
        match arguments.json.json {
            true => output::print_json(&validated)?,
            false => output::print_text(&cross_validation::validation_text(&validated))?,
        }
        return Ok(VerbOutcome::Success);
    }
    let (mut ranked, mut times) = (Vec::new(), Vec::new());
    for (number, query) in world.queries.iter().enumerate() {
        let begin = Instant::now();
        ranked.push(match &world.vectors {
            Some(meaning) => world.rank_by_words_and_vectors(meaning, number, query),
            None => world.rank_by_words(&world.index, query),
        });
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let of_times = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let measured: Vec<QueryScores> = world
        .queries
        .iter()
        .zip(&ranked)
        .map(|(query, ranked)| query.score_ranking(ranked))
        .collect();
    let figures = ScoreSummary::natural(&world.queries, &measured);
    let (name, typo) = (
        ScoreSummary::of_kind("name", &world.queries, &measured),
        ScoreSummary::of_kind("typo", &world.queries, &measured),
    );
    if !arguments.json.json {
        let (tools, queries) = (world.tools.len(), world.queries.len());
        let (tools, queries) =
            (count_noun(tools, "tool", "tools"), count_noun(queries, "query", "queries"));
        let rows = [("natural", figures), ("name", name), ("typo", typo)];
        let text = format!("{tools}, {queries}; half of them in {:.0} µs\n", of_times(50));
        output::print_text(&(text + &score_summary::score_table(&rows)))?;
        return Ok(VerbOutcome::Success);
    }
    let mut answer = json!({"tools": world.tools.len(), "queries": world.queries.len()});
    if let (Some(answer), Value::Object(figures)) = (answer.as_object_mut(), figures.to_json()) {
        answer.extend(figures);
        answer.insert("p50_us".to_owned(), of_times(50).into());
        answer.insert("p99_us".to_owned(), of_times(99).into());
        answer.insert("name".to_owned(), name.to_json());
        answer.insert("typo".to_owned(), typo.to_json());
        let ranked = world.queries.iter().zip(&ranked);
        let ranked =
            ranked.map(|(query, names)| json!({"query_id": query.query_id, "ranked": names}));
        answer.insert("ranked".to_owned(), ranked.collect());
    }
    output::print_json(&answer)?;
    Ok(VerbOutcome::Success)
}

impl EvalDataset {
    fn new(tools: Vec<EvalTool>, queries: Vec<EvalQuery>) -> Self {
        let mut index = SearchIndex::with_weights(RankingWeights::default());
        let mut subsets: BTreeMap<String, ToolSet> = BTreeMap::new();
        index.put_tools((0..).zip(tools.iter().map(|tool| Cow::Owned(tool.document()))));
        for (slot, tool) in (0..).zip(&tools) {
            subsets.entry(tool.subset.clone()).or_default().set_member(slot, true);
        }
        let all = (0..).zip(&tools).map(|(slot, _)| slot).collect();
        Self { tools, index, subsets, all, queries, vectors: None }
    }

    /// The tools that the query searches; `None` if its subset does not exist.
    fn searched_tools(&self, query: &EvalQuery) -> Option<&ToolSet> {
        match &query.subset {
            Some(subset) => self.subsets.get(subset),
            None => Some(&self.all),
        }
    }

    /// The names of the results, best first.
    fn rank_by_words(&self, index: &SearchIndex, query: &EvalQuery) -> Vec<&str> {
        let Some(among) = self.searched_tools(query) else { return Vec::new() };
        self.tool_names(&find(&[(index, among)], &query.query, RESULT_COUNT))
    }

    /// The names of the results by words and vectors, as a server with embeddings ranks them.
    fn rank_by_words_and_vectors(
        &self,
        meaning: &DatasetVectors,
        number: usize,
        query: &EvalQuery,
    ) -> Vec<&str> {
        let Some(among) = self.searched_tools(query) else { return Vec::new() };
        let by_words = find(&[(&self.index, among)], &query.query, CANDIDATE_COUNT);
        let near = meaning.nearest_tools(number, among, CANDIDATE_COUNT);
        self.tool_names(&fuse_hits(
            by_words,
            &near,
            &query.query,
            RESULT_COUNT,
            &RankingWeights::default(),
        ))
    }

    fn tool_names(&self, found: &[SearchHit]) -> Vec<&str> {
        found.iter().filter_map(|it| Some(&*self.tools.get(it.slot as usize)?.name)).collect()
    }
}

fn read_json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CliError> {
    let bytes = read_limited_file(path, MAX_FILE_BYTES)?;
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
    let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
    let read = |(line, number): (&[u8], usize)| {
        serde_json::from_slice(line).map_err(|source| CliError::InvalidLine {
            path: path.to_owned(),
            line: number,
            source,
        })
    };
    lines.map(read).collect()
}
