//! Cross-validation: other weights, each chosen by four fifths of the queries and measured on the rest.
//!
//! Whoever changes a weight looks here whether it was luck: what is chosen should be much the same in every fold, and what
//! is measured on unseen queries should be near what the usual weights give.

use catalog::search::Weights;
use serde::Serialize;

use super::World;
use super::example::Query;
use super::figures::{Figures, Measured};

const FOLDS: usize = 5;

#[derive(Serialize)]
pub(super) struct Validated {
    /// nDCG@10 of the usual weights, in the mean over folds.
    usual: f64,
    /// The same of weights that were chosen without the fold.
    unseen: f64,
    folds: Vec<Fold>,
}

#[derive(Serialize)]
struct Fold {
    saturation: f32,
    naming: f32,
    same_stem: f32,
    synonym: f32,
    unseen: f64,
}

/// Few values of the few weights that are no matter of one field.
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

pub(super) fn validate(world: &World) -> Validated {
    let measure = |weights: &Weights| -> Vec<Measured> {
        let index = world.index.reweighted(weights.clone());
        world.queries.iter().map(|query| query.measure(&world.ranked(&index, query))).collect()
    };
    let usual = measure(&Weights::default());
    let usual = (0..FOLDS).map(|fold| ndcg(&world.queries, &usual, |it| it == fold));
    let usual = usual.sum::<f64>() / FOLDS as f64;
    let grid = grid();
    let tried: Vec<Vec<Measured>> = grid.iter().map(measure).collect();
    let folds: Vec<Fold> = (0..FOLDS)
        .filter_map(|fold| {
            let seen = |measured: &Vec<Measured>| ndcg(&world.queries, measured, |it| it != fold);
            let scored = grid.iter().zip(&tried).map(|it| (seen(it.1), it));
            let (_, (weights, measured)) = scored.max_by(|one, two| one.0.total_cmp(&two.0))?;
            let Weights { saturation, naming, same_stem, synonym, .. } = *weights;
            let unseen = ndcg(&world.queries, measured, |it| it == fold);
            Some(Fold { saturation, naming, same_stem, synonym, unseen })
        })
        .collect();
    let unseen = folds.iter().map(|fold| fold.unseen).sum::<f64>() / FOLDS as f64;
    Validated { usual, unseen, folds }
}

/// Over the natural queries of some folds.
fn ndcg(queries: &[Query], measured: &[Measured], counts: impl Fn(usize) -> bool) -> f64 {
    Figures::natural_where(queries, measured, |number| counts(number % FOLDS)).mean.ndcg
}

pub(super) fn text(validated: &Validated) -> String {
    let columns = ["FOLD", "SATURATION", "NAMING", "SAME STEM", "SYNONYM", "NDCG@10 UNSEEN"];
    let rows = validated.folds.iter().zip(1..).map(|(fold, number)| {
        let Fold { saturation, naming, same_stem, synonym, unseen } = fold;
        let weights = [saturation, naming, same_stem, synonym].map(ToString::to_string);
        let unseen = format!("{unseen:.3}");
        [number.to_string()].into_iter().chain(weights).chain([unseen]).collect()
    });
    let Validated { usual, unseen, .. } = validated;
    let text = format!("nDCG@10 {usual:.3} with the usual weights, {unseen:.3} with chosen ones\n");
    text + &crate::table::section("Chosen by the other folds", &columns, rows.collect())
}
