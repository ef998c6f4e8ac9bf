//! Mean scores, first over the queries of a subset, then over subsets, so that a large subset does not dominate.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::eval_input::EvalQuery;

/// The scores of one query, or their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QueryScores {
    /// Recall at 1, 5 and 10.
    pub(super) recall: [f64; 3],
    pub(super) ndcg: f64,
    pub(super) mrr: f64,
}

/// The mean scores of many queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ScoreSummary {
    pub(super) queries: usize,
    pub(super) mean: QueryScores,
}

impl QueryScores {
    fn add_weighted(&mut self, other: &Self, share: f64) {
        for (one, two) in self.recall.iter_mut().zip(other.recall) {
            *one += two * share;
        }
        self.ndcg += other.ndcg * share;
        self.mrr += other.mrr * share;
    }
}

impl ScoreSummary {
    /// Over the queries in natural language.
    pub(super) fn natural(queries: &[EvalQuery], measured: &[QueryScores]) -> Self {
        Self::natural_where(queries, measured, |_| true)
    }

    /// Over the natural queries with selected indices.
    pub(super) fn natural_where(
        queries: &[EvalQuery],
        measured: &[QueryScores],
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        Self::from_selected(queries, measured, |number, query| is_natural(query) && counts(number))
    }

    pub(super) fn of_kind(kind: &str, queries: &[EvalQuery], measured: &[QueryScores]) -> Self {
        Self::from_selected(queries, measured, |_, query| query.kind == kind)
    }

    fn from_selected(
        queries: &[EvalQuery],
        measured: &[QueryScores],
        counts: impl Fn(usize, &EvalQuery) -> bool,
    ) -> Self {
        let mut subsets: BTreeMap<Option<&str>, Vec<&QueryScores>> = BTreeMap::new();
        for (number, (query, measured)) in queries.iter().zip(measured).enumerate() {
            if !counts(number, query) {
                continue;
            }
            subsets.entry(query.subset.as_deref()).or_default().push(measured);
        }
        let mut figures = Self::default();
        for of_subset in subsets.values() {
            figures.queries += of_subset.len();
            let share = 1.0 / of_subset.len() as f64 / subsets.len() as f64;
            of_subset.iter().for_each(|measured| figures.mean.add_weighted(measured, share));
        }
        figures
    }

    pub(super) fn to_json(self) -> Value {
        let [recall_1, recall_5, recall_10] = self.mean.recall;
        json!({
            "recall@1": recall_1, "recall@5": recall_5, "recall@10": recall_10,
            "ndcg@10": self.mean.ndcg, "mrr": self.mean.mrr,
        })
    }
}

pub(super) fn score_table(rows: &[(&str, ScoreSummary)]) -> String {
    let columns = ["KIND", "QUERIES", "RECALL@1", "RECALL@5", "RECALL@10", "NDCG@10", "MRR"];
    let rows = rows.iter().filter(|(_, figures)| 0 < figures.queries).map(|(kind, figures)| {
        let QueryScores { recall: [one, five, ten], ndcg, mrr } = figures.mean;
        let numbers = [one, five, ten, ndcg, mrr].map(|number| format!("{number:.3}"));
        [(*kind).to_owned(), figures.queries.to_string()].into_iter().chain(numbers).collect()
    });
    crate::text_table::table_section("Found", &columns, rows.collect())
}

/// Whether the query is in natural language, that is, was not derived from a tool name.
pub(super) fn is_natural(query: &EvalQuery) -> bool {
    !["name", "typo"].contains(&query.kind.as_str())
}
