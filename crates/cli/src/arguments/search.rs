//! Options of `search`.

use clap::Args;

use super::{JsonFlag, admin_verbs};

#[derive(Args, Debug)]
#[command(after_help = "\
With --claims it finds what an agent with these claims finds by `tool_search`, under the names that
the agent knows; without, it searches all tools, served or not. Reads the journal; a server may be
running. Search by what is meant, and not only by words, needs the server that has embeddings:
--server.

Examples:
  toolcrib search how is my pet
  toolcrib search refund an order --claims '{\"role\":\"staff\"}'
  toolcrib search weather --claims token.json --json | jq -r '.[].name'
  toolcrib search weather --server http://127.0.0.1:8080")]
pub(crate) struct SearchArgs {
    /// What is looked for, in plain words
    #[arg(value_name = "WORDS", required = true)]
    pub(crate) words: Vec<String>,
    /// Of whom: the claims as JSON, a file with them, or `-` for standard input
    #[arg(long, value_name = "CLAIMS")]
    pub(crate) claims: Option<String>,
    /// How many at most, up to 100
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(flatten)]
    pub(crate) at: admin_verbs::ServerOption,
}
