//! Options of `journal`.

use std::path::PathBuf;

use api_types::moment_argument::MomentArgument;
use clap::{Args, Subcommand};

use super::JsonFlag;

#[derive(Debug, Subcommand)]
pub(crate) enum JournalVerb {
    /// Show what the catalog knows, now or at an earlier moment
    #[command(after_help = "\
Examples:
  toolcrib journal show
  toolcrib journal show --at 120                     # right after event 120
  toolcrib journal show --at 2026-05-01T12:00:00Z
  toolcrib journal show --at 2026-05-01              # when that day began (UTC)
  toolcrib journal show --json | jq '.groups[].id'")]
    Show(JournalShowArgs),
    /// Print the last events, one per line
    #[command(after_help = "\
Examples:
  toolcrib journal tail
  toolcrib journal tail -n 100 --stream tool_group-billing
  toolcrib journal tail --follow --json | jq .type")]
    Tail(JournalTailArgs),
    /// Check every event, and that a server would serve what they say
    #[command(after_help = "\
Reads the journal from the first event on: the numbering, the documents, the storage. Then compares
the result with what a server serves after a start. Changes nothing; a server may be running.
The exit code is 0 if all is well and 3 if there are problems.

Examples:
  toolcrib journal verify
  toolcrib journal verify --json | jq -r '.problems[]'")]
    Verify(JsonFlag),
    /// Write the whole journal as JSON Lines
    #[command(after_help = "\
The file appears when it is complete, and only you can read it. Sealed secrets are not part of it.
A server may be running.

Examples:
  toolcrib journal export backup.jsonl
  toolcrib journal export | gzip > backup.jsonl.gz")]
    Export(JournalExportArgs),
    /// Take in an export
    #[command(after_help = "\
The journal is new, or holds the beginning of the same export: an import that was interrupted goes
on when it is started again.

Examples:
  toolcrib journal import backup.jsonl
  gunzip -c backup.jsonl.gz | toolcrib journal import -
  toolcrib journal export | toolcrib --journal postgres://db.example/crib journal import -")]
    Import(JournalImportArgs),
    /// Remove documents that no event refers to
    #[command(after_help = "\
Documents are the large parts of tools, such as schemas; they are stored beside the events. Events
are never removed.")]
    Collect(JsonFlag),
}

#[derive(Args, Debug)]
pub(crate) struct JournalShowArgs {
    /// A position, a time or a date instead of now
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<MomentArgument>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct JournalTailArgs {
    /// How many events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
    /// Go on with new events until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of this stream
    #[arg(long, value_name = "STREAM")]
    pub(crate) stream: Option<String>,
    /// Print one JSON object per line, with the data of the event
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct JournalExportArgs {
    /// Where to; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Replace the file if it is there already
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct JournalImportArgs {
    /// Where from; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
