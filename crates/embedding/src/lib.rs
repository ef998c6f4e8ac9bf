//! Embeds texts with a local sentence model: texts of similar meaning get vectors that are close to each other.
//!
//! Only opening does I/O: it reads the model folder once, within size limits, and validates it as a whole. Embedding
//! a text then takes a few milliseconds on the calling thread and cannot fail. The only architecture is BERT, which
//! most small models use: `WordPiece`, absolute positions, and mean or first-token pooling.

mod bert_config;
mod bert_model;
mod model_folder;
mod safetensors_file;
#[cfg(test)]
mod tests;
mod word_piece;

use std::path::{Path, PathBuf};

use model::Digest;

use self::bert_config::BertConfig;
use self::bert_model::BertModel;
use self::model_folder::ModelFolder;
use self::safetensors_file::TensorFile;
use self::word_piece::WordPieceTokenizer;

/// Why a model folder is not usable.
#[derive(Debug, thiserror::Error)]
pub enum InvalidModel {
    /// A file is missing or not readable.
    #[error("`{path}` of a sentence model cannot be read")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// A file exceeds its size limit.
    #[error("`{path}` has more than {most} bytes; no model of that size is run here")]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The limit, in bytes.
        most: u64,
    },
    /// A file does not have the expected JSON structure.
    #[error("`{path}` of a sentence model is not as it should be")]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// A file needs an unsupported feature, or contradicts the other files.
    #[error("`{path}` cannot be used: {why}")]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The reason, without a full stop.
        why: String,
    },
}

/// A sentence model in memory.
#[derive(Debug)]
pub struct SentenceModel {
    tokenizer: WordPieceTokenizer,
    bert: BertModel,
    digest: Digest,
}

impl SentenceModel {
    /// Opens a folder in the layout of `sentence-transformers`: `config.json`, `model.safetensors`, and
    /// `tokenizer.json` or `vocab.txt`. Takes a few tenths of a second.
    pub fn open(folder: &Path) -> Result<Self, InvalidModel> {
        let mut folder = ModelFolder::new(folder);
        let shape = BertConfig::read_config(&mut folder)?;
        let tokenizer = WordPieceTokenizer::read_tokenizer(&mut folder, &shape)?;
        let tensors = TensorFile::read_file(&mut folder)?;
        let bert = BertModel::new(shape, &tensors)?;
        let model = Self { tokenizer, bert, digest: folder.combined_digest() };
        let tried = model.embed_text("Says what the weather is like");
        match tried.iter().all(|number| number.is_finite()) {
            true => Ok(model),
            false => Err(folder.unusable_file(
                safetensors_file::MODEL_FILE,
                "with its numbers a text has no direction",
            )),
        }
    }

    /// Digest of all files that were read: equal digests mean equal vectors.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The embedding of a text: a vector of length 1. Text beyond the model's maximum length is ignored.
    pub fn embed_text(&self, text: &str) -> Vec<f32> {
        self.bert.embed_tokens(&self.tokenizer.tokenize_text(text))
    }
}
