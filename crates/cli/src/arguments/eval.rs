//! Options of `eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use model::SecretRef;
use url::Url;

use super::JsonFlag;

#[derive(Debug, Subcommand)]
pub(crate) enum EvalVerb {
    /// Search tools of a file for queries of another, and say how often the right ones are found
    #[command(after_help = "\
Both files have one JSON object in a line. A tool has a `name`, and may have `tool` (its name within
its `server`), `title`, `description`, `keywords`, `tags`, `input_schema` and a `subset`. A query
has a `query_id`, a `query` and the `relevant` names; it may have a `subset`, whose tools alone are
then searched, a `kind`, `groups` of names of which one is enough, and `grades` of names. The
figures are means over subsets of all queries but those of the kinds `name` and `typo`, which are
told apart.

Examples:
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl --json | jq '.\"ndcg@10\"'
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl --cross-validate")]
    Search(EvalSearchArgs),
}

#[derive(Args, Debug)]
pub(crate) struct EvalSearchArgs {
    /// The tools, one in a line
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: PathBuf,
    /// The queries, one in a line
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Search by what is meant too: an endpoint with `/v1/embeddings`
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) embeddings: Option<Url>,
    /// Which of its models
    #[arg(long, value_name = "NAME", requires = "embeddings")]
    pub(crate) model: Option<String>,
    /// What it is shown: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "embeddings")]
    pub(crate) key: Option<SecretRef>,
    /// Search by what is meant too: a folder with a sentence model, which is run here
    #[arg(long, value_name = "DIR", conflicts_with = "embeddings")]
    pub(crate) embeddings_folder: Option<PathBuf>,
    /// Try other weights too, each chosen by four fifths of the queries and measured on the rest: those
    /// of words, or with embeddings that of meaning
    #[arg(long)]
    pub(crate) cross_validate: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
