//! The tools and queries in the input files, and the scores of one ranking for a query.

use std::collections::{BTreeMap, BTreeSet};

use search::{SearchDocument, SearchField, embedding_text_from};
use serde::Deserialize;
use serde_json::Value;

use super::score_summary::QueryScores;

#[derive(Deserialize)]
pub(super) struct EvalTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) subset: String,
    /// The name within its server, if `name` contains both.
    #[serde(default)]
    tool: Option<String>,
    #[serde(default, alias = "source")]
    server: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default, alias = "inputSchema")]
    input_schema: Value,
}

impl EvalTool {
    pub(super) fn document(&self) -> SearchDocument {
        let mut document =
            SearchDocument::new(&self.name, self.tool.as_deref().unwrap_or(&self.name));
        document.add_text(SearchField::Title, &self.title);
        document.add_text(SearchField::Source, &self.server);
        document.add_text(SearchField::Description, &self.description);
        self.keywords.iter().chain(&self.tags).for_each(|keyword| document.add_keyword(keyword));
        document.add_parameters(&self.input_schema);
        document
    }
}

impl EvalTool {
    /// The text that the embedding model receives.
    pub(super) fn embedding_text(&self) -> String {
        let name = self.tool.as_deref().unwrap_or(&self.name);
        embedding_text_from(
            if self.title.is_empty() { name } else { &self.title },
            &self.server,
            &self.description,
        )
    }
}

#[derive(Deserialize)]
pub(super) struct EvalQuery {
    pub(super) query_id: Value,
    pub(super) query: String,
    #[serde(default)]
    pub(super) subset: Option<String>,
    #[serde(default)]
    pub(super) kind: String,
    relevant: Vec<String>,
    /// Needs, each met by any of its names. If there are none, every relevant name is one need.
    #[serde(default)]
    groups: Vec<Vec<String>>,
    #[serde(default)]
    grades: BTreeMap<String, f64>,
}

impl EvalQuery {
    /// Scores a ranking of distinct names.
    pub(super) fn score_ranking(&self, ranked: &[&str]) -> QueryScores {
        let place = |name: &String| ranked.iter().position(|found| *found == name.as_str());
        let first: Vec<Option<usize>> = match self.groups.is_empty() {
            true => self.relevant.iter().map(place).collect(),
            false => self.groups.iter().map(|need| need.iter().filter_map(place).min()).collect(),
        };
        let recall = |within: usize| {
            let met = first.iter().flatten().filter(|place| **place < within).count();
            met as f64 / first.len().max(1) as f64
        };
        let is_relevant = |name: &&str| self.relevant.iter().any(|relevant| relevant == name);
        let best = ranked.iter().take(10).position(is_relevant);
        QueryScores {
            recall: [recall(1), recall(5), recall(10)],
            ndcg: self.ndcg_at_10(ranked, &first),
            mrr: best.map_or(0.0, |place| 1.0 / (place + 1) as f64),
        }
    }

    fn ndcg_at_10(&self, ranked: &[&str], first: &[Option<usize>]) -> f64 {
        let discount = |place: usize| ((place + 2) as f64).log2();
        let (gained, ideal): (f64, f64) = if self.grades.is_empty() {
            // One tool that meets two needs counts once.
            let met: BTreeSet<usize> =
                first.iter().flatten().copied().filter(|it| *it < 10).collect();
            let ideal = (0..first.len().min(10)).map(|place| 1.0 / discount(place)).sum();
            (met.into_iter().map(|place| 1.0 / discount(place)).sum(), ideal)
        } else {
            let grade = |name: &&str| self.grades.get(*name).copied().unwrap_or_default();
            let mut grades: Vec<f64> = self.grades.values().copied().collect();
            grades.sort_by(|one, two| two.total_cmp(one));
            let sum = |grades: &mut dyn Iterator<Item = f64>| -> f64 {
                grades.take(10).enumerate().map(|(place, grade)| grade / discount(place)).sum()
            };
            (sum(&mut ranked.iter().map(grade)), sum(&mut grades.into_iter()))
        };
        if ideal == 0.0 { 0.0 } else { (gained / ideal).min(1.0) }
    }
}
