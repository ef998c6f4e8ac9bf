//! `toolcrib eval search`: measures how often search finds the right tools, on the user's own tools and queries.

mod cross;
mod example;
mod figures;
mod meaning;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use catalog::search::{Found, SearchIndex, Weights, fused, search as find};
use catalog::tool_set::ToolSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::Ended;
use crate::cli::eval::EvalSearch;
use crate::failure::Failure;
use crate::out::{self, counted};
use crate::target;
use example::{Query, Tool};
use figures::{Figures, Measured};
use meaning::Meaning;

/// Maximum bytes of an input file.
const LIMIT: u64 = 1 << 30;
/// Number of results per query.
const FOUND: usize = 10;
/// Number of candidates that are ranked when words and vectors are combined.
const NEAREST: usize = 100;

/// The tools in one index, each subset as a tool set, and the queries.
struct World {
    tools: Vec<Tool>,
    index: SearchIndex,
    subsets: BTreeMap<String, ToolSet>,
    all: ToolSet,
    queries: Vec<Query>,
    meaning: Option<Meaning>,
}

pub(crate) async fn search(arguments: &EvalSearch) -> Result<Ended, Failure> {
    let mut world = World::new(lines(&arguments.tools)?, lines(&arguments.queries)?);
    world.meaning = Meaning::of(&world, arguments).await?;
    if arguments.cross_validate {
        let validated = cross::validate(&world);
        match arguments.json.json {
            true => out::print_json(&validated)?,
            false => out::print(&cross::text(&validated))?,
        }
        return Ok(Ended::Fine);
    }
    let (mut ranked, mut times) = (Vec::new(), Vec::new());
    for (number, query) in world.queries.iter().enumerate() {
        let begin = Instant::now();
        ranked.push(match &world.meaning {
            Some(meaning) => world.ranked_by_meaning(meaning, number, query),
            None => world.ranked(&world.index, query),
        });
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let of_times = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let measured: Vec<Measured> =
        world.queries.iter().zip(&ranked).map(|(query, ranked)| query.measure(ranked)).collect();
    let figures = Figures::natural(&world.queries, &measured);
    let (name, typo) = (
        Figures::of_kind("name", &world.queries, &measured),
        Figures::of_kind("typo", &world.queries, &measured),
    );
    if !arguments.json.json {
        let (tools, queries) = (world.tools.len(), world.queries.len());
        let (tools, queries) =
            (counted(tools, "tool", "tools"), counted(queries, "query", "queries"));
        let rows = [("natural", figures), ("name", name), ("typo", typo)];
        let text = format!("{tools}, {queries}; half of them in {:.0} µs\n", of_times(50));
        out::print(&(text + &figures::table(&rows)))?;
        return Ok(Ended::Fine);
    }
    let mut answer = json!({"tools": world.tools.len(), "queries": world.queries.len()});
    if let (Some(answer), Value::Object(figures)) = (answer.as_object_mut(), figures.json()) {
        answer.extend(figures);
        answer.insert("p50_us".to_owned(), of_times(50).into());
        answer.insert("p99_us".to_owned(), of_times(99).into());
        answer.insert("name".to_owned(), name.json());
        answer.insert("typo".to_owned(), typo.json());
        let ranked = world.queries.iter().zip(&ranked);
        let ranked =
            ranked.map(|(query, names)| json!({"query_id": query.query_id, "ranked": names}));
        answer.insert("ranked".to_owned(), ranked.collect());
    }
    out::print_json(&answer)?;
    Ok(Ended::Fine)
}

impl World {
    fn new(tools: Vec<Tool>, queries: Vec<Query>) -> Self {
        let mut index = SearchIndex::with(Weights::default());
        let mut subsets: BTreeMap<String, ToolSet> = BTreeMap::new();
        index.put_all((0..).zip(tools.iter().map(|tool| Cow::Owned(tool.document()))));
        for (slot, tool) in (0..).zip(&tools) {
            subsets.entry(tool.subset.clone()).or_default().set(slot, true);
        }
        let all = (0..).zip(&tools).map(|(slot, _)| slot).collect();
        Self { tools, index, subsets, all, queries, meaning: None }
    }

    /// The tools that the query searches; `None` if its subset does not exist.
    fn among(&self, query: &Query) -> Option<&ToolSet> {
        match &query.subset {
            Some(subset) => self.subsets.get(subset),
            None => Some(&self.all),
        }
    }

    /// The names of the results, best first.
    fn ranked(&self, index: &SearchIndex, query: &Query) -> Vec<&str> {
        let Some(among) = self.among(query) else { return Vec::new() };
        self.names(&find(&[(index, among)], &query.query, FOUND))
    }

    /// The names of the results by words and vectors, as a server with embeddings ranks them.
    fn ranked_by_meaning(&self, meaning: &Meaning, number: usize, query: &Query) -> Vec<&str> {
        let Some(among) = self.among(query) else { return Vec::new() };
        let by_words = find(&[(&self.index, among)], &query.query, NEAREST);
        let near = meaning.near(number, among, NEAREST);
        self.names(&fused(by_words, &near, &query.query, FOUND, &Weights::default()))
    }

    fn names(&self, found: &[Found]) -> Vec<&str> {
        found.iter().filter_map(|it| Some(&*self.tools.get(it.slot as usize)?.name)).collect()
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let bytes = target::from_file(path, LIMIT)?;
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
    let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
    let read = |(line, number): (&[u8], usize)| {
        serde_json::from_slice(line).map_err(|source| Failure::Line {
            path: path.to_owned(),
            line: number,
            source,
        })
    };
    lines.map(read).collect()
}
