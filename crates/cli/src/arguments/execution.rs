//! Options of `execution`: the call log.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use toolcrib::SavedHead;

use super::JsonFlag;
use super::admin_verbs::ServerOption;

#[derive(Debug, Subcommand)]
pub(crate) enum ExecutionVerb {
    /// List the last calls, the newest last
    #[command(after_help = "\
Examples:
  toolcrib execution list
  toolcrib execution list -n 100 --tool pets:get_pet --status failed
  toolcrib execution list --subject key:ada --since 2026-05-01T00:00:00Z --json | jq '.[].status'")]
    List(ListCallsArgs),
    /// Show a call
    #[command(after_help = "\
Examples:
  toolcrib execution show 12
  toolcrib execution show 12 --json | jq -r .error")]
    Show(ShowCallArgs),
    /// Say how often tools were called, or callers called
    #[command(after_help = "\
Without --tool or --subject, the most used come first. The totals stay when old calls are removed.

Examples:
  toolcrib execution usage
  toolcrib execution usage --by subject -n 100 --json | jq '.[].name'
  toolcrib execution usage --tool pets:get_pet
  toolcrib execution usage --subject key:ada")]
    Usage(CallUsageArgs),
    /// Write recorded calls as JSON Lines, the oldest first
    #[command(after_help = "\
The hash of a line is the SHA-256 of the line without its last member.

Examples:
  toolcrib execution export | gzip > calls.jsonl.gz
  toolcrib execution export --source pets --until 2026-05-01T00:00:00Z > april.jsonl")]
    Export(ExportCallsArgs),
    /// Check that every recorded call is there, and as it was recorded
    #[command(after_help = "\
Each row holds the hash of the row before. Whoever can write the whole database can also make up
another chain: keep the head that is printed somewhere else, and give it later with --head. The exit
code is 0 if all is well and 3 if there are problems. An export that leaves rows out has gaps, which
are problems too.

Examples:
  toolcrib execution verify
  toolcrib execution verify --json | jq -r .keep > head
  toolcrib execution verify --keep-days 90 --head $(cat head)
  toolcrib execution export --server https://crib.example | toolcrib execution verify --file -")]
    Verify(VerifyCallsArgs),
}

/// Which calls, in the words of the API, which also judges them.
#[derive(Args, Debug)]
pub(crate) struct CallFilterArgs {
    /// Only calls of the tool, prompt or resource with this id
    #[arg(long, value_name = "ID")]
    tool: Option<String>,
    /// Only calls of tools of this source
    #[arg(long, value_name = "ID")]
    source: Option<String>,
    /// Only calls of this caller, such as `key:ada`
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only calls of the request with this name, the `X-Request-Id` of its answer
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only calls that are part of this trace
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    /// Only calls with a token of this issuer
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Only calls that came by this way: `mcp`, `stdio`, `rest`, `manifest` or `library`
    #[arg(long, value_name = "DOOR")]
    door: Option<String>,
    /// Only calls that ended so: `completed`, `failed` or `cancelled`
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only calls that failed for this reason, such as `validation_error`
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only calls that began then or later, such as `2026-05-01T12:00:00Z`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only calls that began earlier
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl CallFilterArgs {
    /// The filter as query parameters of the API.
    pub(crate) fn query_pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("tool", &self.tool),
            ("source", &self.source),
            ("subject", &self.subject),
            ("correlation_id", &self.correlation_id),
            ("trace_id", &self.trace_id),
            ("issuer", &self.issuer),
            ("door", &self.door),
            ("status", &self.status),
            ("code", &self.code),
            ("since", &self.since),
            ("until", &self.until),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

#[derive(Args, Debug)]
pub(crate) struct ListCallsArgs {
    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
    #[command(flatten)]
    pub(crate) which: CallFilterArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(flatten)]
    pub(crate) at: ServerOption,
}

#[derive(Args, Debug)]
pub(crate) struct ShowCallArgs {
    /// Its number, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(flatten)]
    pub(crate) at: ServerOption,
}

#[derive(Args, Debug)]
pub(crate) struct CallUsageArgs {
    /// Of all tools, or of all callers: `tool` or `subject`
    #[arg(long, value_name = "WHAT", default_value = "tool")]
    pub(crate) by: String,
    /// How many of them
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
    /// Of the tool, prompt or resource with this id alone
    #[arg(long, value_name = "ID", conflicts_with_all = ["subject", "by", "lines"])]
    pub(crate) tool: Option<String>,
    /// Of this caller alone, such as `key:ada`
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["by", "lines"])]
    pub(crate) subject: Option<String>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(flatten)]
    pub(crate) at: ServerOption,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyCallsArgs {
    /// Check an exported file instead; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A head that was kept, as it was printed: its row must still be the same, or have been old enough to go
    #[arg(long, value_name = "HEAD")]
    pub(crate) head: Option<SavedHead>,
    /// How long rows are kept, as `record.keep_days` says: nothing younger may be gone, and nothing at all if it is 0
    #[arg(long, value_name = "DAYS")]
    pub(crate) keep_days: Option<u32>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct ExportCallsArgs {
    #[command(flatten)]
    pub(crate) which: CallFilterArgs,
    #[command(flatten)]
    pub(crate) at: ServerOption,
}
