//! Options of `workflow`.

use clap::{Args, Subcommand};

use super::JsonFlag;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Say what a workflow would do, step by step, and draw it
    #[command(after_help = "\
The exit code is 3 if the document cannot be run.

Examples:
  toolcrib workflow show order.yaml
  toolcrib workflow show order.yaml --mermaid > order.mmd
  toolcrib workflow show order.yaml --json | jq -r '.tools[]'")]
    Show(ShowWorkflowArgs),
    /// Say all that is wrong with documents
    #[command(after_help = "\
Prints one line for each problem, with its place as a JSON pointer. The exit code is 0 if all is
well and 3 if there are problems.

Examples:
  toolcrib workflow check *.yaml")]
    Check(CheckWorkflowsArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ShowWorkflowArgs {
    /// The document in YAML or JSON, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Print only the picture, as Mermaid draws it
    #[arg(long, conflicts_with = "json")]
    pub(crate) mermaid: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct CheckWorkflowsArgs {
    /// Documents in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
}
