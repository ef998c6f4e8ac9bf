//! The configuration of a model: its dimensions, its maximum text length and its pooling mode.

use serde::Deserialize;

use crate::InvalidModel;
use crate::model_folder::ModelFolder;

/// Size limit of a configuration file, in bytes.
const MAX_CONFIG_SIZE: u64 = 1 << 20;
const CONFIG_FILE: &str = "config.json";
const MODULES_FILE: &str = "modules.json";
const POOLING_FILE: &str = "1_Pooling/config.json";
const SENTENCE_FILE: &str = "sentence_bert_config.json";
/// Upper limit of the maximum text length, regardless of the model.
const MOST_TOKENS: usize = 512;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BertConfig {
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
    #[serde(default = "default_type_count", rename = "type_vocab_size")]
    pub(crate) types: usize,
    #[serde(default = "default_epsilon", rename = "layer_norm_eps")]
    pub(crate) epsilon: f32,
    #[serde(default = "default_activation", rename = "hidden_act")]
    activation: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    /// Maximum number of tokens of a text, including the first and last special tokens.
    #[serde(skip)]
    pub(crate) most_tokens: usize,
    #[serde(skip)]
    pub(crate) pooling: PoolingMode,
}

/// How the vectors of all tokens are combined into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PoolingMode {
    #[default]
    Mean,
    First,
}

fn default_type_count() -> usize {
    2
}

fn default_epsilon() -> f32 {
    1e-12
}

fn default_activation() -> String {
    "gelu".to_owned()
}

#[derive(Deserialize)]
struct ModelModule {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct PoolingConfig {
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

impl BertConfig {
    pub(crate) fn read_config(folder: &mut ModelFolder) -> Result<Self, InvalidModel> {
        let mut shape: Self = folder.read_json(CONFIG_FILE, MAX_CONFIG_SIZE)?;
        shape.validate_dimensions().map_err(|why| folder.unusable_file(CONFIG_FILE, why))?;
        shape.most_tokens = shape.positions.min(MOST_TOKENS);
        if folder.has_file(SENTENCE_FILE) {
            let sentences: SentenceConfig = folder.read_json(SENTENCE_FILE, MAX_CONFIG_SIZE)?;
            let most = sentences.max_seq_length.unwrap_or(MOST_TOKENS);
            shape.most_tokens = shape.most_tokens.min(most);
        }
        if shape.most_tokens < 3 {
            return Err(folder.unusable_file(CONFIG_FILE, "it reads texts of no token"));
        }
        if folder.has_file(MODULES_FILE) {
            let modules: Vec<ModelModule> = folder.read_json(MODULES_FILE, MAX_CONFIG_SIZE)?;
            let known = ["Transformer", "Pooling", "Normalize"];
            let is_other = |it: &&ModelModule| !known.iter().any(|known| it.kind.ends_with(known));
            if let Some(other) = modules.iter().find(is_other) {
                let why = format!("`{}` is not known here; only {known:?} are", other.kind);
                return Err(folder.unusable_file(MODULES_FILE, why));
            }
        }
        if folder.has_file(POOLING_FILE) {
            let pooling: PoolingConfig = folder.read_json(POOLING_FILE, MAX_CONFIG_SIZE)?;
            let why =
                "it takes neither the mean of all tokens nor the first of them, and nothing else";
            shape.pooling =
                pooling.selected_mode().ok_or_else(|| folder.unusable_file(POOLING_FILE, why))?;
        }
        Ok(shape)
    }

    fn validate_dimensions(&self) -> Result<(), String> {
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

impl PoolingConfig {
    fn selected_mode(&self) -> Option<PoolingMode> {
        let others = self.pooling_mode_max_tokens
            || self.pooling_mode_mean_sqrt_len_tokens
            || self.pooling_mode_weightedmean_tokens
            || self.pooling_mode_lasttoken;
        match (self.pooling_mode_mean_tokens, self.pooling_mode_cls_token, others) {
            (true, false, false) => Some(PoolingMode::Mean),
            (false, true, false) => Some(PoolingMode::First),
            _ => None,
        }
    }
}
