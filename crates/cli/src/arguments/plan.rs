//! Options of `plan`, `apply`, `export` and `config`: the catalog as a configuration file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use config::declared_config::config_export::ExportFormat;

use super::JsonFlag;
use super::admin_verbs::ServerOption;

/// What is to be planned, and where.
#[derive(Args, Debug)]
pub(crate) struct PlanOptions {
    /// The configuration, in YAML, JSON or TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Remove what the file does not name, in the sections it has
    #[arg(long)]
    pub(crate) prune: bool,
    /// Whose tools to compare too: claims as JSON, or a file with them
    #[arg(long = "as", value_name = "CLAIMS")]
    pub(crate) identities: Vec<String>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(flatten)]
    pub(crate) at: ServerOption,
}

#[derive(Args, Debug)]
#[command(after_help = "\
FILE is YAML, JSON or TOML; docs/config.md has an example, and `toolcrib config schema` what editors
need. Nothing is changed; a server may be running. Compared are the tools of everybody with an API
key, of `identities` in the file, and of --as. The exit code is 0 if all is as declared, 2 if
something would change, and 1 if the plan failed.

Examples:
  toolcrib plan crib.yaml
  toolcrib plan crib.yaml --server https://crib.example.com
  toolcrib plan crib.yaml --prune --as '{\"role\":\"staff\"}'
  toolcrib plan crib.yaml --json | jq -r '.changes[].id'")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) wanted: PlanOptions,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Shows the plan, asks if there is somebody to ask, and stores all of it in one step or nothing. What
the file does not name stays as it is; --prune removes it, in the sections that the file has. Makes
the journal if it is not there. While a server runs on the journal, it is asked: --server. For one
that keeps to a file: `toolcrib serve --config`.

Examples:
  toolcrib apply crib.yaml
  toolcrib apply crib.yaml --server https://crib.example.com
  toolcrib apply crib.yaml --prune --yes")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) wanted: PlanOptions,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
What `toolcrib apply` reads: sources, labels, groups, policies, and what was said of tools. Secrets
are named and not told. A server may be running.

Examples:
  toolcrib export > crib.yaml
  toolcrib export --format toml > crib.toml")]
pub(crate) struct ExportConfigArgs {
    /// In which format
    #[arg(long, value_enum, default_value = "yaml")]
    pub(crate) format: ExportFormatArgument,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print the JSON Schema of configuration files, for editors
    #[command(after_help = "\
Examples:
  toolcrib config schema > crib.schema.json
  # yaml-language-server: $schema=crib.schema.json    # as the first line of a file")]
    Schema,
}

/// How a configuration is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ExportFormatArgument {
    Yaml,
    Toml,
}

impl From<ExportFormatArgument> for ExportFormat {
    fn from(argument: ExportFormatArgument) -> Self {
        match argument {
            ExportFormatArgument::Yaml => Self::Yaml,
            ExportFormatArgument::Toml => Self::Toml,
        }
    }
}
