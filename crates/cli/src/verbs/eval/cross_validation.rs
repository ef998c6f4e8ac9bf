//! Cross-validation of search weights: each fold is measured with weights chosen on the other four fifths.
//!
//! Use it after changing a weight, to rule out luck: the chosen weights should be similar in every fold. The score on
//! unseen queries should be close to that of the default weights. Without vectors it varies the word weights; with
//! vectors, it varies only the weight of the vectors and keeps the word weights.

use std::collections::BTreeMap;

use catalog::tool_set::Slot;
use search::{RankingWeights, SearchHit, fuse_hits, search_tools as find};
use serde::Serialize;

use super::dataset_vectors::DatasetVectors;
use super::eval_input::EvalQuery;
use super::score_summary::{QueryScores, ScoreSummary, is_natural};
use super::{CANDIDATE_COUNT, EvalDataset, RESULT_COUNT};

const FOLDS: usize = 5;

#[derive(Serialize)]
pub(super) struct CrossValidation {
    /// Mean nDCG@10 over the folds with the default weights.
    usual: f64,
    /// Mean nDCG@10 over the folds with weights chosen without the fold.
    unseen: f64,
    folds: Vec<ValidationFold>,
}

#[derive(Serialize)]
struct ValidationFold {
    #[serde(flatten)]
    chosen: BTreeMap<&'static str, f32>,
    unseen: f64,
}

/// The name of a weight and its getter.
type NamedWeight = (&'static str, fn(&RankingWeights) -> f32);

const WORD_WEIGHTS: [NamedWeight; 4] = [
    ("saturation", |weights| weights.saturation),
    ("naming", |weights| weights.naming),
    ("same_stem", |weights| weights.same_stem),
    ("synonym", |weights| weights.synonym),
];
const VECTOR_WEIGHTS: [NamedWeight; 1] = [("meaning", |weights| weights.meaning)];

pub(super) fn cross_validate(world: &EvalDataset) -> CrossValidation {
    match &world.vectors {
        None => choose_weights(world, &WORD_WEIGHTS, &word_weight_grid(), |weights| {
            score_by_words(world, weights)
        }),
        Some(meaning) => {
            let found = search_separately(world, meaning);
            choose_weights(world, &VECTOR_WEIGHTS, &vector_weight_grid(), |weights| {
                score_combined(world, &found, weights)
            })
        }
    }
}

/// A grid over the weights that do not belong to one field.
fn word_weight_grid() -> Vec<RankingWeights> {
    let mut grid = Vec::new();
    for saturation in [2.0, 3.0, 4.0] {
        for naming in [0.0, 0.25, 0.5] {
            for same_stem in [0.5, 0.7, 1.0] {
                for synonym in [0.1, 0.2, 0.3] {
                    grid.push(RankingWeights {
                        saturation,
                        naming,
                        same_stem,
                        synonym,
                        ..RankingWeights::default()
                    });
                }
            }
        }
    }
    grid
}

fn vector_weight_grid() -> Vec<RankingWeights> {
    let values = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0];
    values.map(|meaning| RankingWeights { meaning, ..RankingWeights::default() }).into()
}

fn score_by_words(world: &EvalDataset, weights: &RankingWeights) -> Vec<QueryScores> {
    let index = world.index.with_query_weights(weights.clone());
    score_natural_queries(world, |_, query| world.rank_by_words(&index, query))
}

/// The results of a query by words and by vectors, before they are combined; weights do not change them.
#[derive(Default)]
struct UncombinedResults {
    by_words: Vec<SearchHit>,
    near: Vec<(Slot, f32)>,
}

fn search_separately(world: &EvalDataset, meaning: &DatasetVectors) -> Vec<UncombinedResults> {
    let found = world.queries.iter().enumerate().map(|(number, query)| {
        let among = world.searched_tools(query).filter(|_| is_natural(query));
        among.map(|among| {
            let by_words = find(&[(&world.index, among)], &query.query, CANDIDATE_COUNT);
            UncombinedResults {
                by_words,
                near: meaning.nearest_tools(number, among, CANDIDATE_COUNT),
            }
        })
    });
    found.map(Option::unwrap_or_default).collect()
}

fn score_combined(
    world: &EvalDataset,
    found: &[UncombinedResults],
    weights: &RankingWeights,
) -> Vec<QueryScores> {
    score_natural_queries(world, |number, query| {
        let UncombinedResults { by_words, near } = &found[number];
        world.tool_names(&fuse_hits(by_words.clone(), near, &query.query, RESULT_COUNT, weights))
    })
}

/// Scores all natural queries. Other queries do not count here, so they are not run.
fn score_natural_queries<'a>(
    world: &'a EvalDataset,
    ranked: impl Fn(usize, &'a EvalQuery) -> Vec<&'a str>,
) -> Vec<QueryScores> {
    let queries = world.queries.iter().enumerate();
    let measured = queries.map(|(number, query)| match is_natural(query) {
        true => query.score_ranking(&ranked(number, query)),
        false => QueryScores::default(),
    });
    measured.collect()
}

fn choose_weights(
    world: &EvalDataset,
    names: &[NamedWeight],
    grid: &[RankingWeights],
    measure: impl Fn(&RankingWeights) -> Vec<QueryScores> + Sync,
) -> CrossValidation {
    let usual = measure(&RankingWeights::default());
    let usual = (0..FOLDS).map(|fold| mean_ndcg(&world.queries, &usual, |it| it == fold));
    let usual = usual.sum::<f64>() / FOLDS as f64;
    let tried = score_grid(grid, measure);
    let folds: Vec<ValidationFold> = (0..FOLDS)
        .filter_map(|fold| {
            let seen =
                |measured: &Vec<QueryScores>| mean_ndcg(&world.queries, measured, |it| it != fold);
            let scored = grid.iter().zip(&tried).map(|it| (seen(it.1), it));
            let (_, (weights, measured)) = scored.max_by(|one, two| one.0.total_cmp(&two.0))?;
            let chosen = names.iter().map(|(name, value)| (*name, value(weights))).collect();
            Some(ValidationFold {
                chosen,
                unseen: mean_ndcg(&world.queries, measured, |it| it == fold),
            })
        })
        .collect();
    let unseen = folds.iter().map(|fold| fold.unseen).sum::<f64>() / FOLDS as f64;
    CrossValidation { usual, unseen, folds }
}

/// Scores all weights of the grid in parallel, on all cores.
fn score_grid(
    grid: &[RankingWeights],
    measure: impl Fn(&RankingWeights) -> Vec<QueryScores> + Sync,
) -> Vec<Vec<QueryScores>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let measure = &measure;
    std::thread::scope(|scope| {
        let parts = grid.chunks(grid.len().div_ceil(cores).max(1));
        let threads =
            parts.map(|part| scope.spawn(|| part.iter().map(measure).collect::<Vec<_>>()));
        let threads: Vec<_> = threads.collect();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.flatten().collect()
    })
}

/// Mean nDCG over the natural queries of the selected folds.
fn mean_ndcg(
    queries: &[EvalQuery],
    measured: &[QueryScores],
    counts: impl Fn(usize) -> bool,
) -> f64 {
    ScoreSummary::natural_where(queries, measured, |number| counts(number % FOLDS)).mean.ndcg
}

pub(super) fn validation_text(validated: &CrossValidation) -> String {
    let names = validated.folds.first().into_iter().flat_map(|fold| fold.chosen.keys());
    let names: Vec<String> = names.map(|name| name.to_uppercase().replace('_', " ")).collect();
    let mut columns: Vec<&str> = names.iter().map(String::as_str).collect();
    columns.insert(0, "FOLD");
    columns.push("NDCG@10 UNSEEN");
    let rows = validated.folds.iter().zip(1..).map(|(fold, number)| {
        let weights = fold.chosen.values().map(ToString::to_string);
        let unseen = format!("{:.3}", fold.unseen);
        [number.to_string()].into_iter().chain(weights).chain([unseen]).collect()
    });
    let CrossValidation { usual, unseen, .. } = validated;
    let text = format!("nDCG@10 {usual:.3} with the usual weights, {unseen:.3} with chosen ones\n");
    text + &crate::text_table::table_section("Chosen by the other folds", &columns, rows.collect())
}
