//! Reads a `safetensors` file: the length of the header, the header, and the numbers.

use std::collections::HashMap;

use ndarray::{Array1, Array2};
use serde::Deserialize;

use crate::InvalidModel;
use crate::model_folder::ModelFolder;

pub(crate) const MODEL_FILE: &str = "model.safetensors";
/// Size limit of the file in bytes: a model of 250 million 32-bit numbers.
const MAX_FILE_SIZE: u64 = 1 << 30;
/// Size limit of the header in bytes: parsed JSON takes a multiple of its text.
const MAX_HEADER_SIZE: usize = 1 << 20;
/// Prefix of the tensor names if the model was saved with a task head.
const PREFIX: &str = "bert.";

pub(crate) struct TensorFile {
    header: HashMap<String, TensorEntry>,
    numbers: Vec<u8>,
    /// Path of the file, for error messages.
    path: std::path::PathBuf,
}

#[derive(Deserialize)]
struct TensorEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl TensorFile {
    pub(crate) fn read_file(folder: &mut ModelFolder) -> Result<Self, InvalidModel> {
        let mut numbers = folder.read_bytes(MODEL_FILE, MAX_FILE_SIZE)?;
        let header = numbers.split_first_chunk::<8>().and_then(|(length, rest)| {
            rest.get(..usize::try_from(u64::from_le_bytes(*length)).ok()?)
        });
        let header =
            header.ok_or_else(|| folder.unusable_file(MODEL_FILE, "it ends before its header"))?;
        if MAX_HEADER_SIZE < header.len() {
            return Err(
                folder.unusable_file(MODEL_FILE, "its header is larger than that of any model")
            );
        }
        let begin = 8 + header.len();
        let mut header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header)
            .map_err(|source| InvalidModel::Json { path: folder.file_path(MODEL_FILE), source })?;
        header.remove("__metadata__");
        let header: HashMap<String, TensorEntry> = serde_json::from_value(header.into())
            .map_err(|source| InvalidModel::Json { path: folder.file_path(MODEL_FILE), source })?;
        numbers.drain(..begin);
        // Tensors that share bytes could make a small file take as much memory as its header claims.
        let lengths = header.values().map(|it| it.data_offsets.1.saturating_sub(it.data_offsets.0));
        if numbers.len() < lengths.fold(0, usize::saturating_add) {
            return Err(folder
                .unusable_file(MODEL_FILE, "its tensors have more bytes together than it has"));
        }
        Ok(Self { header, numbers, path: folder.file_path(MODEL_FILE) })
    }

    pub(crate) fn read_matrix(
        &self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Array2<f32>, InvalidModel> {
        let numbers = self.read_numbers(name, &[rows, columns])?;
        Array2::from_shape_vec((rows, columns), numbers)
            .map_err(|error| self.unusable_file(format!("`{name}`: {error}")))
    }

    pub(crate) fn read_row(&self, name: &str, length: usize) -> Result<Array1<f32>, InvalidModel> {
        self.read_numbers(name, &[length]).map(Array1::from)
    }

    fn read_numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, InvalidModel> {
        let entry = self.header.get(name).or_else(|| self.header.get(&format!("{PREFIX}{name}")));
        let entry = entry.ok_or_else(|| self.unusable_file(format!("it has no `{name}`")))?;
        if entry.shape != shape {
            let why = format!("`{name}` has the shape {:?} instead of {shape:?}", entry.shape);
            return Err(self.unusable_file(why));
        }
        let (begin, end) = entry.data_offsets;
        let bytes = self.numbers.get(begin..end);
        let bytes = bytes.ok_or_else(|| self.unusable_file(format!("`{name}` is not in it")))?;
        let numbers: Vec<f32> = match entry.dtype.as_str() {
            "F32" => parse_chunks(bytes, f32::from_le_bytes),
            "F16" => parse_chunks(bytes, |it| parse_f16(u16::from_le_bytes(it))),
            "BF16" => {
                parse_chunks(bytes, |it| f32::from_bits(u32::from(u16::from_le_bytes(it)) << 16))
            }
            other => {
                let why = format!(
                    "`{name}` has numbers of the kind `{other}`; F32, F16 and BF16 are read"
                );
                return Err(self.unusable_file(why));
            }
        };
        let count = shape.iter().product::<usize>();
        if numbers.len() != count || !numbers.iter().all(|number| number.is_finite()) {
            return Err(self.unusable_file(format!("`{name}` has not {count} finite numbers")));
        }
        Ok(numbers)
    }

    pub(crate) fn unusable_file(&self, why: String) -> InvalidModel {
        InvalidModel::Unusable { path: self.path.clone(), why }
    }
}

fn parse_chunks<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> f32) -> Vec<f32> {
    let (chunks, _) = bytes.as_chunks::<SIZE>();
    chunks.iter().map(|chunk| number(*chunk)).collect()
}

/// Converts an IEEE 754 half-precision number: a sign bit, five bits of exponent and ten of mantissa.
fn parse_f16(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, rest) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff) / 1024.0);
    match exponent {
        0 => sign * rest * 2_f32.powi(-14),
        31 if rest == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + rest) * 2_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_numbers_are_converted() {
        for (bits, number) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(parse_f16(bits), number, "{bits:#x}");
        }
        assert!(parse_f16(0x7e00).is_nan());
    }
}
