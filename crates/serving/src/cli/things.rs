//! Admin verbs for the entities of a catalog: `source`, `tool`, `group`, `policy`, `label` and `key`. The verbs have
//! the same names everywhere; this file declares which entity supports which verb.

use clap::{Args, Subcommand};
use url::Url;

use super::Json;

const SERVER_HELP: &str = "A running server, asked with the admin key in TOOLCRIB_KEY; without it, the journal \
    itself is opened";

/// Where it is done.
#[derive(Args, Clone, Debug)]
pub(crate) struct At {
    /// A running server
    #[arg(long, global = true, value_name = "URL", help = SERVER_HELP, display_order = 99, value_parser = server)]
    pub(crate) server: Option<Url>,
}

fn server(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| format!("it begins with http:// or https://, as http://{text} does"))
}

/// The verbs of a thing, and where they are done.
#[derive(Args, Debug)]
pub(crate) struct Done<V: Subcommand> {
    #[command(flatten)]
    pub(crate) at: At,
    #[command(subcommand)]
    pub(crate) verb: V,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SourceVerb {
    /// List sources
    List(List),
    /// Show a source
    Show(One),
    /// List what has happened to a source, and who wanted it; the newest comes last
    History(One),
    /// Register a source
    #[command(after_help = "\
Examples:
  toolcrib source add Pets url=https://pets.example.com/openapi.json settings.kind=openapi
  toolcrib source add Tools url=https://mcp.example.com/mcp settings.kind=mcp refresh_every=3600
  toolcrib source add 'Built-in tools' settings.kind=builtin
  toolcrib source add Local settings.kind=openapi settings.specification.file=/srv/api.yaml
  toolcrib source add --file source.yaml")]
    Add(Add),
    /// Change a source; what is not named stays as it is
    Edit(Edit),
    /// Serve the tools of a source
    Enable(One),
    /// Do not serve the tools of a source
    Disable(One),
    /// Remove a source and its tools
    Remove(Remove),
    /// Ask a source what it offers, and take that in
    Refresh(Refresh),
    /// Have a running server call a source again that it left alone after failures
    Reset(One),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolVerb {
    /// List tools
    List(ListTools),
    /// Show a tool
    Show(One),
    /// List what has happened to a tool, and who wanted it; the newest comes last
    History(One),
    /// Say something else of a tool than its source does; `null` takes it back
    #[command(after_help = "\
Examples:
  toolcrib tool edit pets:get_pet description='How a pet is doing'
  toolcrib tool edit pets:get_pet name=null")]
    Edit(Edit),
    /// Serve a tool
    Enable(One),
    /// Do not serve a tool
    Disable(One),
    /// Compare what is served with what was last seen at the source
    Diff(One),
    /// Serve the version that waits
    Approve(Approve),
    /// Do not serve the version that waits
    Reject(One),
    /// Replace the labels of a tool
    Label(PutLabels),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// List groups
    List(List),
    /// Show a group
    Show(One),
    /// List what has happened to a group, and who wanted it; the newest comes last
    History(One),
    /// Create a group
    #[command(after_help = "\
Examples:
  toolcrib group add Pets selectors='[{\"source\": \"pets\"}]'
  toolcrib group add Readers selectors='[{\"method\": \"GET\"}]' excluded='[{\"tool\": \"pets:get_key\"}]'")]
    Add(Add),
    /// Change a group; what is not named stays as it is
    Edit(Edit),
    /// Let policies grant a group
    Enable(One),
    /// Let no policy grant a group
    Disable(One),
    /// Delete a group that no policy grants
    Remove(Remove),
    /// List the tools of a group, and which of them are served
    Tools(One),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// List policies, those of the highest priority first
    List(List),
    /// Show a policy
    Show(One),
    /// List what has happened to a policy, and who wanted it; the newest comes last
    History(One),
    /// Define a policy
    #[command(after_help = "\
Examples:
  toolcrib policy add Staff groups='[\"pets\"]' \\
    matchers='[{\"claim\": \"role\", \"operator\": \"equals\", \"value\": \"staff\"}]'")]
    Add(Add),
    /// Change a policy; what is not named stays as it is
    Edit(Edit),
    /// Let a policy grant
    Enable(One),
    /// Let a policy grant nothing
    Disable(One),
    /// Delete a policy
    Remove(Remove),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabelVerb {
    /// List labels
    List(List),
    /// Show a label
    Show(One),
    /// List what has happened to a label, and who wanted it; the newest comes last
    History(One),
    /// Create a label
    Add(Add),
    /// Change a label; what is not named stays as it is
    Edit(Edit),
    /// Delete a label and take it off all tools
    Remove(Remove),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// List API keys
    List(List),
    /// Show an API key
    Show(One),
    /// List what has happened to an API key, and who wanted it; the newest comes last
    History(One),
    /// Make an API key; it is shown once
    #[command(after_help = "\
Examples:
  toolcrib key add Ada claims.role=staff
  toolcrib key add Operator admin=true expires_at=2027-01-01T00:00:00Z")]
    Add(Add),
    /// Change what is said of an API key
    Edit(Edit),
    /// Revoke an API key for good
    Revoke(Remove),
    /// Delete an API key
    Remove(Remove),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only what has this text in its id, name or description
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct ListTools {
    #[command(flatten)]
    pub(crate) list: List,
    /// Only those of this source
    #[arg(long, value_name = "ID")]
    pub(crate) source: Option<String>,
    /// Only those that wait for a review: `pending`, `changed`, `approved` or `rejected`
    #[arg(long, value_name = "STATE")]
    pub(crate) review: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct One {
    /// Its id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) one: One,
    /// Do not ask; where there is nobody to ask, nothing is asked
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Add {
    /// Its name; its id is made from it unless there is an `id=…`, and is this word beside a `name=…`
    #[arg(value_name = "NAME", required_unless_present = "file")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) said: Said,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Edit {
    /// Its id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) said: Said,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// What is said of a thing.
#[derive(Args, Debug)]
pub(crate) struct Said {
    /// What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…` is `b` of `a`
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// The same as YAML or JSON, in a file or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Refresh {
    #[command(flatten)]
    pub(crate) one: One,
    /// Even if nothing has changed or much would go
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) one: One,
    /// Even if something was found in its texts
    #[arg(long)]
    pub(crate) despite_findings: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PutLabels {
    #[command(flatten)]
    pub(crate) one: One,
    /// The ids of its labels; none takes them all off
    #[arg(value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
}
