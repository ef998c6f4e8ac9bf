//! A sentence model in a folder → vectors of texts, by which what says the same in other words is near.
//!
//! Pure but for opening: the folder is read once, within limits, and checked as a whole. Then a text is some
//! milliseconds of arithmetic on the thread that asks, and cannot fail. Only BERT is known, as most small models are
//! one: `WordPiece`, absolute positions, the mean of all tokens or the first of them.

mod bert;
mod folder;
mod shape;
mod tensors;
#[cfg(test)]
mod tests;
mod tokens;

use std::path::{Path, PathBuf};

use model::Digest;

use self::bert::Bert;
use self::folder::Folder;
use self::shape::Shape;
use self::tensors::Tensors;
use self::tokens::Tokenizer;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidModel {
    /// A file is not there, or cannot be read.
    #[error("`{path}` of a sentence model cannot be read")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than any that is known.
    #[error("`{path}` has more than {most} bytes; no model of that size is run here")]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// How many there may be.
        most: u64,
    },
    /// A file is not the JSON that it should be.
    #[error("`{path}` of a sentence model is not as it should be")]
    Json {
        /// Which.
        path: PathBuf,
        /// Where.
        #[source]
        source: serde_json::Error,
    },
    /// A file asks for something that is not done here, or does not fit the others.
    #[error("`{path}` cannot be used: {why}")]
    Unusable {
        /// Which.
        path: PathBuf,
        /// A sentence without an end.
        why: String,
    },
}

/// A model that was read.
#[derive(Debug)]
pub struct SentenceModel {
    tokenizer: Tokenizer,
    bert: Bert,
    digest: Digest,
}

impl SentenceModel {
    /// Reads a folder as `sentence-transformers` writes it: `config.json`, `model.safetensors`, and `tokenizer.json` or
    /// `vocab.txt`. Takes some tenths of a second.
    pub fn open(folder: &Path) -> Result<Self, InvalidModel> {
        let mut folder = Folder::new(folder);
        let shape = Shape::read(&mut folder)?;
        let tokenizer = Tokenizer::read(&mut folder, &shape)?;
        let tensors = Tensors::read(&mut folder)?;
        let bert = Bert::new(shape, &tensors)?;
        let model = Self { tokenizer, bert, digest: folder.digest() };
        let tried = model.vector("Says what the weather is like");
        match tried.iter().all(|number| number.is_finite()) {
            true => Ok(model),
            false => {
                Err(folder.unusable(tensors::FILE, "with its numbers a text has no direction"))
            }
        }
    }

    /// Of all files that were read: the same folder gives the same vectors.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Where a text lies among all meanings: a direction of length 1. What is longer than the model reads is cut.
    pub fn vector(&self, text: &str) -> Vec<f32> {
        self.bert.vector(&self.tokenizer.tokens(text))
    }
}
