//! Cross-validation of search weights: each fold is measured with weights chosen on the other four fifths.
//!
//! Use it after changing a weight, to rule out luck: the chosen weights should be similar in every fold. The score on
//! unseen queries should be close to that of the default weights. Without vectors it varies the word weights; with
//! vectors, it varies only the weight of the vectors and keeps the word weights.

use std::collections::BTreeMap;

use catalog::search::{Found, Weights, fused, search as find};
use catalog::tool_set::Slot;
use serde::Serialize;

use super::example::Query;
use super::figures::{Figures, Measured, is_natural};
use super::meaning::Meaning;
use super::{FOUND, NEAREST, World};

const FOLDS: usize = 5;

#[derive(Serialize)]
pub(super) struct Validated {
    /// Mean nDCG@10 over the folds with the default weights.
    usual: f64,
    /// Mean nDCG@10 over the folds with weights chosen without the fold.
    unseen: f64,
    folds: Vec<Fold>,
}

#[derive(Serialize)]
struct Fold {
    #[serde(flatten)]
    chosen: BTreeMap<&'static str, f32>,
    unseen: f64,
}

/// The name of a weight and its getter.
type Named = (&'static str, fn(&Weights) -> f32);

const OF_WORDS: [Named; 4] = [
    ("saturation", |weights| weights.saturation),
    ("naming", |weights| weights.naming),
    ("same_stem", |weights| weights.same_stem),
    ("synonym", |weights| weights.synonym),
];
const OF_MEANING: [Named; 1] = [("meaning", |weights| weights.meaning)];

pub(super) fn validate(world: &World) -> Validated {
    match &world.meaning {
        None => choose(world, &OF_WORDS, &grid(), |weights| by_words(world, weights)),
        Some(meaning) => {
            let found = found_apart(world, meaning);
            choose(world, &OF_MEANING, &line(), |weights| by_both(world, &found, weights))
        }
    }
}

/// A grid over the weights that do not belong to one field.
fn grid() -> Vec<Weights> {
    let mut grid = Vec::new();
    for saturation in [2.0, 3.0, 4.0] {
        for naming in [0.0, 0.25, 0.5] {
            for same_stem in [0.5, 0.7, 1.0] {
                for synonym in [0.1, 0.2, 0.3] {
                    grid.push(Weights {
                        saturation,
                        naming,
                        same_stem,
                        synonym,
                        ..Weights::default()
                    });
                }
            }
        }
    }
    grid
}

fn line() -> Vec<Weights> {
    let values = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0];
    values.map(|meaning| Weights { meaning, ..Weights::default() }).into()
}

fn by_words(world: &World, weights: &Weights) -> Vec<Measured> {
    let index = world.index.reweighted(weights.clone());
    measured(world, |_, query| world.ranked(&index, query))
}

/// The results of a query by words and by vectors, before they are combined; weights do not change them.
#[derive(Default)]
struct Apart {
    by_words: Vec<Found>,
    near: Vec<(Slot, f32)>,
}

fn found_apart(world: &World, meaning: &Meaning) -> Vec<Apart> {
    let found = world.queries.iter().enumerate().map(|(number, query)| {
        let among = world.among(query).filter(|_| is_natural(query));
        among.map(|among| {
            let by_words = find(&[(&world.index, among)], &query.query, NEAREST);
            Apart { by_words, near: meaning.near(number, among, NEAREST) }
        })
    });
    found.map(Option::unwrap_or_default).collect()
}

fn by_both(world: &World, found: &[Apart], weights: &Weights) -> Vec<Measured> {
    measured(world, |number, query| {
        let Apart { by_words, near } = &found[number];
        world.names(&fused(by_words.clone(), near, &query.query, FOUND, weights))
    })
}

/// Scores all natural queries. Other queries do not count here, so they are not run.
fn measured<'a>(
    world: &'a World,
    ranked: impl Fn(usize, &'a Query) -> Vec<&'a str>,
) -> Vec<Measured> {
    let queries = world.queries.iter().enumerate();
    let measured = queries.map(|(number, query)| match is_natural(query) {
        true => query.measure(&ranked(number, query)),
        false => Measured::default(),
    });
    measured.collect()
}

fn choose(
    world: &World,
    names: &[Named],
    grid: &[Weights],
    measure: impl Fn(&Weights) -> Vec<Measured> + Sync,
) -> Validated {
    let usual = measure(&Weights::default());
    let usual = (0..FOLDS).map(|fold| ndcg(&world.queries, &usual, |it| it == fold));
    let usual = usual.sum::<f64>() / FOLDS as f64;
    let tried = all_at_once(grid, measure);
    let folds: Vec<Fold> = (0..FOLDS)
        .filter_map(|fold| {
            let seen = |measured: &Vec<Measured>| ndcg(&world.queries, measured, |it| it != fold);
            let scored = grid.iter().zip(&tried).map(|it| (seen(it.1), it));
            let (_, (weights, measured)) = scored.max_by(|one, two| one.0.total_cmp(&two.0))?;
            let chosen = names.iter().map(|(name, value)| (*name, value(weights))).collect();
            Some(Fold { chosen, unseen: ndcg(&world.queries, measured, |it| it == fold) })
        })
        .collect();
    let unseen = folds.iter().map(|fold| fold.unseen).sum::<f64>() / FOLDS as f64;
    Validated { usual, unseen, folds }
}

/// Scores all weights of the grid in parallel, on all cores.
fn all_at_once(
    grid: &[Weights],
    measure: impl Fn(&Weights) -> Vec<Measured> + Sync,
) -> Vec<Vec<Measured>> {
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
fn ndcg(queries: &[Query], measured: &[Measured], counts: impl Fn(usize) -> bool) -> f64 {
    Figures::natural_where(queries, measured, |number| counts(number % FOLDS)).mean.ndcg
}

pub(super) fn text(validated: &Validated) -> String {
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
    let Validated { usual, unseen, .. } = validated;
    let text = format!("nDCG@10 {usual:.3} with the usual weights, {unseen:.3} with chosen ones\n");
    text + &crate::table::section("Chosen by the other folds", &columns, rows.collect())
}
