//! Inference with BERT (Devlin et al. 2018): from tokens through the encoder layers to one vector.
//!
//! It processes one text at a time, so it needs no padding. Matrix products take most of the time.

use ndarray::{Array1, Array2, ArrayView1, ArrayViewMut1, Axis, Slice};

use crate::InvalidModel;
use crate::bert_config::{BertConfig, PoolingMode};
use crate::safetensors_file::TensorFile;
use crate::word_piece::TokenId;

#[derive(Debug)]
pub(crate) struct BertModel {
    words: Array2<f32>,
    /// Position embeddings, with the embedding of token type 0 added.
    positions: Array2<f32>,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
    heads: usize,
    pooling: PoolingMode,
}

#[derive(Debug)]
struct EncoderLayer {
    query: LinearLayer,
    key: LinearLayer,
    value: LinearLayer,
    attended: LinearLayer,
    attended_norm: LayerNorm,
    inner: LinearLayer,
    outer: LinearLayer,
    outer_norm: LayerNorm,
}

/// A linear layer: a weight matrix and a bias.
#[derive(Debug)]
struct LinearLayer {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

/// Layer normalisation: scales each row to mean 0 and variance 1, then applies a learned scale and shift.
#[derive(Debug)]
struct LayerNorm {
    scale: Array1<f32>,
    shift: Array1<f32>,
    epsilon: f32,
}

impl BertModel {
    pub(crate) fn new(shape: BertConfig, tensors: &TensorFile) -> Result<Self, InvalidModel> {
        let table = |name: &str, rows| {
            tensors.read_matrix(&format!("embeddings.{name}_embeddings.weight"), rows, shape.width)
        };
        let types = table("token_type", shape.types)?;
        let positions = table("position", shape.positions)? + types.row(0);
        let layers = (0..shape.layers).map(|number| EncoderLayer::new(number, &shape, tensors));
        Ok(Self {
            words: table("word", shape.vocab_size)?,
            positions,
            norm: LayerNorm::new("embeddings.LayerNorm", &shape, tensors)?,
            layers: layers.collect::<Result<_, _>>()?,
            heads: shape.heads,
            pooling: shape.pooling,
        })
    }

    /// The embedding of the tokens: at least one, and at most as many as there are positions.
    pub(crate) fn embed_tokens(&self, tokens: &[TokenId]) -> Vec<f32> {
        let mut rows = Array2::zeros((tokens.len(), self.words.ncols()));
        for ((mut row, token), position) in
            rows.rows_mut().into_iter().zip(tokens).zip(self.positions.rows())
        {
            row.assign(&self.words.row(*token as usize));
            row += &position;
            self.norm.normalize_row(row);
        }
        for layer in &self.layers {
            rows = layer.apply_layer(rows, self.heads);
        }
        let pooled = match self.pooling {
            PoolingMode::Mean => rows.sum_axis(Axis(0)),
            PoolingMode::First => rows.row(0).to_owned(),
        };
        let length = pooled.dot(&pooled).sqrt().max(f32::MIN_POSITIVE);
        (pooled / length).to_vec()
    }
}

impl EncoderLayer {
    fn new(number: usize, shape: &BertConfig, tensors: &TensorFile) -> Result<Self, InvalidModel> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let linear = |part: &str, from, to| LinearLayer::new(&name(part), from, to, tensors);
        let norm = |part: &str| LayerNorm::new(&name(part), shape, tensors);
        let (width, inner) = (shape.width, shape.inner);
        Ok(Self {
            query: linear("attention.self.query", width, width)?,
            key: linear("attention.self.key", width, width)?,
            value: linear("attention.self.value", width, width)?,
            attended: linear("attention.output.dense", width, width)?,
            attended_norm: norm("attention.output.LayerNorm")?,
            inner: linear("intermediate.dense", width, inner)?,
            outer: linear("output.dense", inner, width)?,
            outer_norm: norm("output.LayerNorm")?,
        })
    }

    fn apply_layer(&self, rows: Array2<f32>, heads: usize) -> Array2<f32> {
        let mut attended = self.attended.apply_linear(&self.self_attention(&rows, heads)) + rows;
        attended.rows_mut().into_iter().for_each(|row| self.attended_norm.normalize_row(row));
        let mut inner = self.inner.apply_linear(&attended);
        inner.mapv_inplace(gelu);
        let mut outer = self.outer.apply_linear(&inner) + attended;
        outer.rows_mut().into_iter().for_each(|row| self.outer_norm.normalize_row(row));
        outer
    }

    /// Multi-head self-attention.
    fn self_attention(&self, rows: &Array2<f32>, heads: usize) -> Array2<f32> {
        let (query, key, value) = (
            self.query.apply_linear(rows),
            self.key.apply_linear(rows),
            self.value.apply_linear(rows),
        );
        let size = rows.ncols() / heads;
        let scale = 1.0 / (size as f32).sqrt();
        let mut attention = Array2::zeros(rows.raw_dim());
        for head in 0..heads {
            let columns = Slice::from(head * size..(head + 1) * size);
            let of_head = |all: &Array2<f32>| all.slice_axis(Axis(1), columns).to_owned();
            let mut shares = of_head(&query).dot(&of_head(&key).t()) * scale;
            shares.rows_mut().into_iter().for_each(softmax);
            attention.slice_axis_mut(Axis(1), columns).assign(&shares.dot(&of_head(&value)));
        }
        attention
    }
}

impl LinearLayer {
    fn new(name: &str, from: usize, to: usize, tensors: &TensorFile) -> Result<Self, InvalidModel> {
        let weight = tensors.read_matrix(&format!("{name}.weight"), to, from)?;
        Ok(Self { weight, bias: tensors.read_row(&format!("{name}.bias"), to)? })
    }

    fn apply_linear(&self, rows: &Array2<f32>) -> Array2<f32> {
        rows.dot(&self.weight.t()) + &self.bias
    }
}

impl LayerNorm {
    fn new(name: &str, shape: &BertConfig, tensors: &TensorFile) -> Result<Self, InvalidModel> {
        let scale = tensors.read_row(&format!("{name}.weight"), shape.width)?;
        let shift = tensors.read_row(&format!("{name}.bias"), shape.width)?;
        Ok(Self { scale, shift, epsilon: shape.epsilon })
    }

    fn normalize_row(&self, mut row: ArrayViewMut1<'_, f32>) {
        let count = row.len().max(1) as f32;
        let mean = row.sum() / count;
        row -= mean;
        let spread = (squared_norm(row.view()) / count + self.epsilon).sqrt();
        row /= spread;
        row *= &self.scale;
        row += &self.shift;
    }
}

fn squared_norm(row: ArrayView1<'_, f32>) -> f32 {
    row.dot(&row)
}

/// Turns a row into weights that add up to 1. Subtracting the maximum first prevents overflow.
fn softmax(mut row: ArrayViewMut1<'_, f32>) {
    let largest = row.fold(f32::NEG_INFINITY, |one, two| one.max(*two));
    row.mapv_inplace(|number| (number - largest).exp());
    let sum = row.sum();
    row /= sum;
}

/// Gaussian error linear unit: x · Φ(x).
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function by Abramowitz and Stegun 7.1.26; the error is below 2e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let sum = t
        * (0.254_829_6
            + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_agrees_with_tables() {
        for (x, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (3.0, 0.999_977_9)]
        {
            assert!((erf(x) - expected).abs() < 1e-6 && (erf(-x) + expected).abs() < 1e-6, "{x}");
        }
    }
}
