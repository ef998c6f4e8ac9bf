//! The configuration of a model: its dimensions, its maximum text length and its pooling mode.

use serde::Deserialize;

use crate::InvalidModel;
use crate::folder::Folder;

/// Size limit of a configuration file, in bytes.
const SMALL: u64 = 1 << 20;
const CONFIG: &str = "config.json";
const MODULES: &str = "modules.json";
const POOLING: &str = "1_Pooling/config.json";
const SENTENCES: &str = "sentence_bert_config.json";
/// Upper limit of the maximum text length, regardless of the model.
const MOST_TOKENS: usize = 512;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Shape {
    model_type: String,
    pub(crate) vocab_size: usize,
    #[serde(rename = "hidden_size")]
    pub(crate) width: usize,
    #[serde(rename = "num_hidden_layers")]
    pub(crate) layers: usize,
    #[serde(rename = "num_attention_heads")]
    pub(crate) heads: usize,
    #[serde(rename = "intermediate_size")]
    pub(crate) inner: usize,
    #[serde(rename = "max_position_embeddings")]
    pub(crate) positions: usize,
    #[serde(default = "usual_types", rename = "type_vocab_size")]
    pub(crate) types: usize,
    #[serde(default = "usual_epsilon", rename = "layer_norm_eps")]
    pub(crate) epsilon: f32,
    #[serde(default = "usual_activation", rename = "hidden_act")]
    activation: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    /// Maximum number of tokens of a text, including the first and last special tokens.
    #[serde(skip)]
    pub(crate) most_tokens: usize,
    #[serde(skip)]
    pub(crate) pooling: Pooling,
}

/// How the vectors of all tokens are combined into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pooling {
    #[default]
    Mean,
    First,
}

fn usual_types() -> usize {
    2
}

fn usual_epsilon() -> f32 {
    1e-12
}

fn usual_activation() -> String {
    "gelu".to_owned()
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Sentences {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
    #[serde(default)]
    pooling_mode_mean_sqrt_len_tokens: bool,
    #[serde(default)]
    pooling_mode_weightedmean_tokens: bool,
    #[serde(default)]
    pooling_mode_lasttoken: bool,
}

impl Shape {
    pub(crate) fn read(folder: &mut Folder) -> Result<Self, InvalidModel> {
        let mut shape: Self = folder.json(CONFIG, SMALL)?;
        shape.check().map_err(|why| folder.unusable(CONFIG, why))?;
        shape.most_tokens = shape.positions.min(MOST_TOKENS);
        if folder.has(SENTENCES) {
            let sentences: Sentences = folder.json(SENTENCES, SMALL)?;
            let most = sentences.max_seq_length.unwrap_or(MOST_TOKENS);
            shape.most_tokens = shape.most_tokens.min(most);
        }
        if shape.most_tokens < 3 {
            return Err(folder.unusable(CONFIG, "it reads texts of no token"));
        }
        if folder.has(MODULES) {
            let modules: Vec<Module> = folder.json(MODULES, SMALL)?;
            let known = ["Transformer", "Pooling", "Normalize"];
            let is_other = |it: &&Module| !known.iter().any(|known| it.kind.ends_with(known));
            if let Some(other) = modules.iter().find(is_other) {
                let why = format!("`{}` is not known here; only {known:?} are", other.kind);
                return Err(folder.unusable(MODULES, why));
            }
        }
        if folder.has(POOLING) {
            let pooling: PoolingFile = folder.json(POOLING, SMALL)?;
            let why =
                "it takes neither the mean of all tokens nor the first of them, and nothing else";
            shape.pooling = pooling.one().ok_or_else(|| folder.unusable(POOLING, why))?;
        }
        Ok(shape)
    }

    fn check(&self) -> Result<(), String> {
        let other_positions =
            self.position_embedding_type.as_deref().is_some_and(|it| it != "absolute");
        if self.model_type != "bert" || other_positions {
            return Err(format!(
                "it is a `{}`; only `bert` with absolute positions is known here",
                self.model_type
            ));
        }
        if self.activation != "gelu" {
            return Err(format!("`{}` is not known here; only `gelu` is", self.activation));
        }
        for (what, number, most) in [
            ("vocab_size", self.vocab_size, 1 << 20),
            ("hidden_size", self.width, 4_096),
            ("num_hidden_layers", self.layers, 64),
            ("num_attention_heads", self.heads, 256),
            ("intermediate_size", self.inner, 16_384),
            ("max_position_embeddings", self.positions, 1 << 16),
            ("type_vocab_size", self.types, 64),
        ] {
            if number == 0 || most < number {
                return Err(format!("`{what}` is {number}, and must be from 1 to {most}"));
            }
        }
        match self.width.is_multiple_of(self.heads) {
            true => Ok(()),
            false => Err("`hidden_size` is not a multiple of `num_attention_heads`".to_owned()),
        }
    }
}

impl PoolingFile {
    fn one(&self) -> Option<Pooling> {
        let others = self.pooling_mode_max_tokens
            || self.pooling_mode_mean_sqrt_len_tokens
            || self.pooling_mode_weightedmean_tokens
            || self.pooling_mode_lasttoken;
        match (self.pooling_mode_mean_tokens, self.pooling_mode_cls_token, others) {
            (true, false, false) => Some(Pooling::Mean),
            (false, true, false) => Some(Pooling::First),
            _ => None,
        }
    }
}
