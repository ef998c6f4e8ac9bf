//! Admin verbs for the entities of a catalog: `source`, `tool`, `group`, `policy`, `label` and `key`. The verbs have
//! the same names everywhere; this file declares which entity supports which verb.

use clap::{Args, Subcommand};
use url::Url;

use super::JsonFlag;

const SERVER_HELP: &str = "A running server, asked with the admin key in TOOLCRIB_KEY; without it, the journal \
    itself is opened";

/// Where it is done.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerOption {
    /// A running server
    #[arg(long, global = true, value_name = "URL", help = SERVER_HELP, display_order = 99, value_parser = parse_server_url)]
    pub(crate) server: Option<Url>,
}

fn parse_server_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| format!("it begins with http:// or https://, as http://{text} does"))
}

/// The verbs of a thing, and where they are done.
#[derive(Args, Debug)]
pub(crate) struct AdminVerbArgs<V: Subcommand> {
    #[command(flatten)]
    pub(crate) at: ServerOption,
    #[command(subcommand)]
    pub(crate) verb: V,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourceVerb {
    /// List sources
    List(ListArgs),
    /// Show a source
    Show(EntityArgs),
    /// List what has happened to a source, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Register a source
    #[command(after_help = "\
Examples:
  toolcrib source add Pets url=https://pets.example.com/openapi.json settings.kind=openapi
  toolcrib source add Tools url=https://mcp.example.com/mcp settings.kind=mcp refresh_every=3600
  toolcrib source add 'Built-in tools' settings.kind=builtin
  toolcrib source add Local settings.kind=openapi settings.specification.file=/srv/api.yaml
  toolcrib source add --file source.yaml")]
    Add(AddArgs),
    /// Change a source; what is not named stays as it is
    Edit(EditArgs),
    /// Serve the tools of a source
    Enable(EntityArgs),
    /// Do not serve the tools of a source
    Disable(EntityArgs),
    /// Remove a source and its tools
    Remove(RemoveArgs),
    /// Ask a source what it offers, and take that in
    Refresh(RefreshArgs),
    /// Have a running server call a source again that it left alone after failures
    Reset(EntityArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolVerb {
    /// List tools
    List(ListToolsArgs),
    /// Show a tool
    Show(EntityArgs),
    /// List what has happened to a tool, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Say something else of a tool than its source does; `null` takes it back
    #[command(after_help = "\
Examples:
  toolcrib tool edit pets:get_pet description='How a pet is doing'
  toolcrib tool edit pets:get_pet name=null")]
    Edit(EditArgs),
    /// Serve a tool
    Enable(EntityArgs),
    /// Do not serve a tool
    Disable(EntityArgs),
    /// Compare what is served with what was last seen at the source
    Diff(EntityArgs),
    /// Serve the version that waits
    Approve(ApproveArgs),
    /// Do not serve the version that waits
    Reject(EntityArgs),
    /// Replace the labels of a tool
    Label(PutLabelsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// List groups
    List(ListArgs),
    /// Show a group
    Show(EntityArgs),
    /// List what has happened to a group, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Create a group
    #[command(after_help = "\
Examples:
  toolcrib group add Pets selectors='[{\"source\": \"pets\"}]'
  toolcrib group add Readers selectors='[{\"method\": \"GET\"}]' excluded='[{\"tool\": \"pets:get_key\"}]'")]
    Add(AddArgs),
    /// Change a group; what is not named stays as it is
    Edit(EditArgs),
    /// Let policies grant a group
    Enable(EntityArgs),
    /// Let no policy grant a group
    Disable(EntityArgs),
    /// Delete a group that no policy grants
    Remove(RemoveArgs),
    /// List the tools of a group, and which of them are served
    Tools(EntityArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// List policies, those of the highest priority first
    List(ListArgs),
    /// Show a policy
    Show(EntityArgs),
    /// List what has happened to a policy, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Define a policy
    #[command(after_help = "\
Examples:
  toolcrib policy add Staff groups='[\"pets\"]' \\
    matchers='[{\"claim\": \"role\", \"operator\": \"equals\", \"value\": \"staff\"}]'")]
    Add(AddArgs),
    /// Change a policy; what is not named stays as it is
    Edit(EditArgs),
    /// Let a policy grant
    Enable(EntityArgs),
    /// Let a policy grant nothing
    Disable(EntityArgs),
    /// Delete a policy
    Remove(RemoveArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabelVerb {
    /// List labels
    List(ListArgs),
    /// Show a label
    Show(EntityArgs),
    /// List what has happened to a label, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Create a label
    Add(AddArgs),
    /// Change a label; what is not named stays as it is
    Edit(EditArgs),
    /// Delete a label and take it off all tools
    Remove(RemoveArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// List API keys
    List(ListArgs),
    /// Show an API key
    Show(EntityArgs),
    /// List what has happened to an API key, and who wanted it; the newest comes last
    History(EntityArgs),
    /// Make an API key; it is shown once
    #[command(after_help = "\
Examples:
  toolcrib key add Ada claims.role=staff
  toolcrib key add Operator admin=true expires_at=2027-01-01T00:00:00Z")]
    Add(AddArgs),
    /// Change what is said of an API key
    Edit(EditArgs),
    /// Revoke an API key for good
    Revoke(RemoveArgs),
    /// Delete an API key
    Remove(RemoveArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only what has this text in its id, name or description
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct ListToolsArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Only those of this source
    #[arg(long, value_name = "ID")]
    pub(crate) source: Option<String>,
    /// Only those that wait for a review: `pending`, `changed`, `approved` or `rejected`
    #[arg(long, value_name = "STATE")]
    pub(crate) review: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct EntityArgs {
    /// Its id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) one: EntityArgs,
    /// Do not ask; where there is nobody to ask, nothing is asked
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// Its name; its id is made from it unless there is an `id=…`, and is this word beside a `name=…`
    #[arg(value_name = "NAME", required_unless_present = "file")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) said: FieldArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Args, Debug)]
pub(crate) struct EditArgs {
    /// Its id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) said: FieldArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What is said of a thing.
#[derive(Args, Debug)]
pub(crate) struct FieldArgs {
    /// What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…` is `b` of `a`
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// The same as YAML or JSON, in a file or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct RefreshArgs {
    #[command(flatten)]
    pub(crate) one: EntityArgs,
    /// Even if nothing has changed or much would go
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) one: EntityArgs,
    /// Even if something was found in its texts
    #[arg(long)]
    pub(crate) despite_findings: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PutLabelsArgs {
    #[command(flatten)]
    pub(crate) one: EntityArgs,
    /// The ids of its labels; none takes them all off
    #[arg(value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
}
