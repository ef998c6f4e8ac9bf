//! Options of `explain`.

use api_types::moment_argument::MomentArgument;
use clap::Args;

use super::{JsonFlag, admin_verbs};

#[derive(Args, Debug)]
#[command(after_help = "\
Reads the journal; a server may be running. Without --tool it lists the tools of the identity. With
--tool it says what grants the tool or what stops it, and the exit code is 0 if it is granted and 3
if it is not.

Examples:
  toolcrib explain --claims '{\"role\":\"staff\"}'
  toolcrib explain --claims token.json --tool get_pet
  toolcrib explain --claims token.json --tool pets:get_pet --at 2026-05-01T12:00:00Z
  toolcrib explain --claims token.json --server http://127.0.0.1:8080")]
pub(crate) struct ExplainArgs {
    /// The claims as JSON, a file with them, or `-` for standard input
    #[arg(long, value_name = "CLAIMS")]
    pub(crate) claims: String,
    #[command(flatten)]
    pub(crate) place: admin_verbs::ServerOption,
    /// Only this tool, by its id or any form of its name
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// A position, a time or a date instead of now
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<MomentArgument>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
