//! Options of the verbs that look at an API without a server: `discover` and `call`.

use clap::{Args, ValueEnum};

use super::Json;

/// Where an API is described, and how it is read.
// Texts are parsed later: URLs and references may hold secrets, and clap repeats what it cannot parse.
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// An OpenAPI specification or http manifest: a file, a URL, or `-` for standard input
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Where the API is, instead of where its specification says
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Which text of an operation describes its tool
    #[arg(long, value_enum, value_name = "TEXT", default_value_t)]
    pub(crate) describe: Describe,
    /// What to send where an operation takes several media types
    #[arg(long, value_name = "TYPE")]
    pub(crate) media_type: Option<String>,
    /// The secret for a security scheme: `env:NAME` or `file:PATH`; for basic it is `user:password`
    #[arg(long = "credential", value_name = "SCHEME=REF")]
    pub(crate) credentials: Vec<String>,
    /// Reach private and loopback addresses too
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// How long to wait for an answer [default: 60 for a specification, 30 for a call]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Describe {
    #[default]
    Summary,
    Description,
    Both,
}

#[derive(Args, Debug)]
pub(crate) struct Discover {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The name of the tool, as `discover` lists it
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// Arguments: a text as it is, anything else as JSON
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// Arguments as a JSON object, `@FILE` or `-` for standard input
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Show the request and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show secrets in a dry run
    #[arg(long, requires = "dry_run")]
    pub(crate) show_secrets: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}
