//! Options of the verbs that read an API without a server: `discover` and `call`.

use clap::{Args, ValueEnum};
use model::SecretRef;

use super::JsonFlag;
use crate::shell_text;
use crate::shell_text::shell_quote;

/// Where an API is described, and how it is read.
// Values are parsed later: URLs and references may hold secrets, and clap repeats values that it cannot parse.
#[derive(Args, Debug, Default)]
pub(crate) struct TargetOptions {
    /// Not with a command.
    #[arg(skip)]
    pub(crate) target: Option<String>,
    /// Where the API is, instead of where its specification says
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Which text of an operation describes its tool
    #[arg(long, value_enum, value_name = "TEXT", default_value_t)]
    pub(crate) describe: DescribeChoice,
    /// What to send where an operation takes several media types
    #[arg(long, value_name = "TYPE")]
    pub(crate) media_type: Option<String>,
    /// The secret for a security scheme: `env:NAME` or `file:PATH`; for basic it is `user:password`
    #[arg(long = "credential", value_name = "SCHEME=REF")]
    pub(crate) credentials: Vec<String>,
    /// Reach private and loopback addresses too
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// A header for TARGET if it is a URL: `NAME=REF`, where REF is `env:NAME` or `file:PATH`
    #[arg(long = "header", value_name = "NAME=REF")]
    pub(crate) headers: Vec<String>,
    /// A token or API key for TARGET if it is a URL: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF")]
    pub(crate) bearer: Option<String>,
    /// How long to wait for an answer [default: 60 for a specification, 30 for a call]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: Option<u64>,
    /// Of every verb, and of no use to these; whoever always gives it can go on.
    #[arg(id = "journal", long, hide = true)]
    _journal: Option<String>,
    /// A program that speaks MCP, instead of TARGET; of the environment it gets PATH, HOME, LANG and TMPDIR
    #[arg(last = true, value_name = "COMMAND", num_args = 1..)]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum DescribeChoice {
    #[default]
    Summary,
    Description,
    Both,
}

#[derive(Args, Debug)]
#[command(after_help = "\
TARGET is an OpenAPI 3 or Swagger 2.0 specification in JSON or YAML, the http manifest behind
`GET /tools`, or the URL of an MCP server. After `--` comes a program that speaks MCP. What cannot
become a tool is a warning.

Examples:
  toolcrib discover api.yaml
  toolcrib discover https://api.example.com/openapi.json
  toolcrib discover https://mcp.example.com/mcp --header authorization=env:TOKEN
  toolcrib discover -- npx -y @modelcontextprotocol/server-everything stdio
  curl -s https://api.example.com/openapi.json | toolcrib discover - --json | jq -r '.tools[].name'")]
pub(crate) struct DiscoverArgs {
    /// A specification or http manifest (file, URL, or `-` for standard input), or the URL of an MCP server
    #[arg(value_name = "TARGET", required_unless_present = "command")]
    given: Option<String>,
    /// Most likely the arguments of a program.
    #[arg(hide = true)]
    pub(crate) more: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl TargetOptions {
    /// The options for a target without any other option.
    pub(crate) fn for_target(target: &str) -> Self {
        Self { target: Some(target.to_owned()), ..Self::default() }
    }

    /// The target as the user typed it.
    pub(crate) fn display_text(&self) -> String {
        match &self.target {
            Some(target) if self.command.is_empty() => target.clone(),
            _ => format!("-- {}", self.command.join(" ")),
        }
    }
}

impl TargetOptions {
    /// The options that a call of the same target needs. Values that may be secrets themselves are omitted.
    pub(crate) fn options_for_call(&self) -> String {
        let is_reference = |text: &str| text.parse::<SecretRef>().is_ok();
        let named =
            |pair: &&String| pair.split_once('=').is_some_and(|(_, value)| is_reference(value));
        let mut words = Vec::new();
        for (option, pairs) in [("--credential", &self.credentials), ("--header", &self.headers)] {
            words.extend(pairs.iter().filter(named).map(|pair| (option, pair.clone())));
        }
        let bearer = self.bearer.iter().filter(|text| is_reference(text));
        words.extend(bearer.map(|reference| ("--bearer", reference.clone())));
        let base_url =
            self.base_url.iter().map(|url| ("--base-url", shell_text::display_target(url)));
        words.extend(base_url);
        let words = words.iter().map(|(option, value)| format!(" {option} {}", shell_quote(value)));
        let private = if self.allow_private { " --allow-private" } else { "" };
        words.collect::<String>() + private
    }
}

impl DiscoverArgs {
    /// Moves the positional argument into the target options.
    pub(crate) fn normalize_arguments(mut self) -> Self {
        self.target.target = self.given.take();
        self
    }
}

impl CallArgs {
    /// Distributes the positional arguments. With a command there is no TARGET: the first word is the tool.
    pub(crate) fn normalize_arguments(mut self) -> Self {
        let mut words = std::mem::take(&mut self.words).into_iter();
        if self.target.command.is_empty() {
            self.target.target = words.next();
        }
        (self.tool, self.pairs) = (words.next().unwrap_or_default(), words.collect());
        self
    }
}

#[derive(Args, Debug)]
#[command(override_usage = "\
toolcrib call [OPTIONS] TARGET TOOL [KEY=VALUE]...
       toolcrib call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARGUMENT]...")]
#[command(after_help = "\
A text argument takes VALUE as it is; any other takes JSON. --json prints the whole outcome:
`tool_id`, `status`, `result` or `content`, `error` with its `code`, `execution_time_ms` and
`upstream_status`. With --dry-run it prints `method`, `url`, `headers`, `content_type` and `body`
(`body_base64` if it is not UTF-8). The exit code is 1 if the call failed.

Examples:
  toolcrib call api.yaml get_pet id=7
  toolcrib call api.yaml add_pet name=Rex tags='[\"dog\"]' --dry-run
  toolcrib call api.yaml add_pet --args @pet.json
  toolcrib call echo message=hi -- npx -y @modelcontextprotocol/server-everything stdio
  TOKEN=… toolcrib call api.yaml add_pet name=Rex --credential bearer=env:TOKEN")]
pub(crate) struct CallArgs {
    /// The target as for `discover`, the tool as `discover` lists it, and arguments
    #[arg(value_name = "TARGET TOOL KEY=VALUE", required = true, num_args = 1..)]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    #[arg(skip)]
    pub(crate) tool: String,
    #[arg(skip)]
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
    pub(crate) json: JsonFlag,
}
