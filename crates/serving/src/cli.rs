//! The command line: every verb and option, and the texts of `--help`.

pub(crate) mod target;
pub(crate) mod targets;
pub(crate) mod things;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use model::{GroupId, SecretRef};
use url::Url;

use crate::client::Client;
use crate::config::Config;
use crate::declared::{schema, written};
use crate::failure::Failure;
use crate::journal::show::At;
use crate::names::PublicUrl;
use crate::serve::listen::{Listen, Mode};
use crate::sight;
use crate::{
    call, client, counter, discover, doctor, eval, explain, import, journal, manual, out, plan,
    record, secret, serve, stdio, workflow,
};

/// How a verb ended when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All is well.
    Fine,
    /// The verb did its work, and what it looked at is not well.
    ProblemsFound,
    /// Nothing was changed, and something would be.
    WouldChange,
}

/// One catalog for the tools of many sources; every agent gets exactly those it may use
#[derive(Debug, Parser)]
#[command(name = "toolcrib", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  toolcrib serve --demo                   # a pizzeria to try things on
  toolcrib serve api.yaml                 # the tools of an API, over MCP
  toolcrib serve                          # a catalog; it says where, and the first key
  toolcrib stdio api.yaml                 # the same for a desktop client
  toolcrib discover api.yaml              # the tools of an API, without a server
  toolcrib call api.yaml get_pet id=7     # call one of them
  toolcrib explain --claims token.json    # which tools an identity has, and why
  toolcrib plan crib.yaml                 # what a configuration file would change, and for whom
  toolcrib apply crib.yaml                # change it, all of it or nothing
  toolcrib journal show                   # what the catalog knows now
  toolcrib journal tail --follow          # watch it change
  toolcrib journal verify                 # check every event ever recorded
  toolcrib journal export backup.jsonl    # keep a copy")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    verb: Verb,
}

impl Cli {
    pub(crate) fn is_verify(&self) -> bool {
        matches!(self.verb, Verb::Journal(JournalVerb::Verify(_)))
    }

    /// Whether the verb itself ends in good order when it is interrupted.
    pub(crate) fn ends_by_itself(&self) -> bool {
        matches!(self.verb, Verb::Serve(_))
    }
}

const JOURNAL_HELP: &str = "Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]";
const KEY_FILE_HELP: &str = "A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]";

const OTLP_HELP: &str = "A collector of OpenTelemetry for metrics and traces, such as \
    `http://localhost:4318` [env: OTEL_EXPORTER_OTLP_ENDPOINT]";

/// For every verb.
#[derive(Args, Debug)]
pub(crate) struct Options {
    // Kept as text: a `postgres://` URL may hold a password, and clap repeats what it cannot parse.
    /// Where the journal is
    #[arg(long, global = true, value_name = "PLACE", help = JOURNAL_HELP, display_order = 100)]
    pub(crate) journal: Option<String>,
    /// Say more on stderr; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 101)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve the catalog, or what TARGETs offer
    #[command(after_help = "\
Each TARGET becomes a source, and all that they offer is for callers without a credential; it is in
memory then, unless --journal says where. A TARGET may be on this machine or on a private network;
what a specification names may not, but for --allow.

Makes the journal if it is not there. If nobody could administer, a key for the first admin is made
and printed once. Callers without a credential are let in only from this machine and only if there
are no issuers, unless --allow-anonymous is given; admins always need one. SIGINT and SIGTERM stop
the server; whoever was let in by then is answered, within 30 seconds. With -v every request is a
line on stderr.

Examples:
  toolcrib serve --demo
  toolcrib serve api.yaml https://api.example.com/openapi.json
  toolcrib serve -- npx -y @modelcontextprotocol/server-everything stdio
  toolcrib serve
  toolcrib serve --config toolcrib.yaml
  toolcrib serve --config toolcrib.yaml --listen 0.0.0.0:8080 --journal postgres://db.example/crib
  toolcrib serve --listen 0.0.0.0:8443 --tls-cert crib.pem --tls-key crib.key

A configuration declares the catalog, which the server keeps to while it runs (see docs/config.md),
and names issuers; their keys are found by OpenID Connect Discovery, or say where:
  issuers:
    - issuer: https://id.example.com/realms/acme
      audience: https://crib.example.com
      keys: {jwks_url: https://id.example.com/realms/acme/certs}")]
    Serve(Serve),
    /// Offer the tools of one identity to a program that starts us, over MCP
    #[command(after_help = "\
Speaks MCP on standard input and output, every version of it, and writes nothing else there. Reads
the journal; a server may be running on it. Who it is for: --claims, or the API key in TOOLCRIB_KEY,
or somebody without a credential. With TARGETs, as for `serve`, no journal is read: all that they
offer is there.

Examples:
  toolcrib stdio api.yaml
  toolcrib stdio http://127.0.0.1:8080/mcp    # what a server has, for a client that starts programs
  toolcrib stdio --claims '{\"role\":\"staff\"}'
  TOOLCRIB_KEY=tcrib_… toolcrib stdio --group billing
  toolcrib stdio --mode search    # only tool_search and execute_tool, which reach the rest

For a desktop client:
  {\"mcpServers\": {\"crib\": {\"command\": \"toolcrib\",
    \"args\": [\"stdio\", \"--journal\", \"/path/to/toolcrib.db\"]}}}")]
    Stdio(Stdio),
    /// List the tools of an API, without a server
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
    Discover(target::Discover),
    /// Call a tool of an API, without a server
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
    Call(target::Call),
    /// Say what Claude, Cursor, VS Code and others are told to use a server
    #[command(after_help = "\
Without NAME it says it for all of them.

Examples:
  toolcrib client
  toolcrib client cursor --url https://crib.example.com/mcp")]
    Client(OfClient),
    /// Take over the MCP servers that other programs know
    #[command(after_help = "\
FILE is the configuration of a desktop client (`mcpServers` of Claude Desktop and Cursor, `servers`
of VS Code) or a `server.json` of the official MCP registry; `-` is standard input. Each server
becomes a source. Values of environments and headers are sealed; `${NAME}` stays a variable.

Examples:
  toolcrib import ~/.cursor/mcp.json --dry-run
  toolcrib import claude_desktop_config.json --sealing-key-file key
  curl -s https://registry.example/v0.1/servers/… | toolcrib import -")]
    Import(ImportServers),
    /// Say which tools an identity has, and why
    #[command(after_help = "\
Reads the journal; a server may be running. Without --tool it lists the tools of the identity. With
--tool it says what grants the tool or what stops it, and the exit code is 0 if it is granted and 3
if it is not.

Examples:
  toolcrib explain --claims '{\"role\":\"staff\"}'
  toolcrib explain --claims token.json --tool get_pet
  toolcrib explain --claims token.json --tool pets:get_pet --at 2026-05-01T12:00:00Z
  toolcrib explain --claims token.json --server http://127.0.0.1:8080")]
    Explain(Explain),
    /// Say what a configuration file would change, and for whom
    #[command(after_help = "\
FILE is YAML, JSON or TOML; docs/config.md has an example, and `toolcrib config schema` what editors
need. Nothing is changed; a server may be running. Compared are the tools of everybody with an API
key, of `identities` in the file, and of --as. The exit code is 0 if all is as declared, 2 if
something would change, and 1 if the plan failed.

Examples:
  toolcrib plan crib.yaml
  toolcrib plan crib.yaml --prune --as '{\"role\":\"staff\"}'
  toolcrib plan crib.yaml --json | jq -r '.changes[].id'")]
    Plan(Plan),
    /// Make the catalog as a configuration file declares it
    #[command(after_help = "\
Shows the plan, asks if there is somebody to ask, and stores all of it in one step or nothing. What
the file does not name stays as it is; --prune removes it, in the sections that the file has. Makes
the journal if it is not there. For a running server on a file: `toolcrib serve --config`.

Examples:
  toolcrib apply crib.yaml
  toolcrib apply crib.yaml --prune --yes")]
    Apply(Apply),
    /// Write the catalog as a configuration file
    #[command(after_help = "\
What `toolcrib apply` reads: sources, labels, groups, policies, and what was said of tools. Secrets
are named and not told. A server may be running.

Examples:
  toolcrib export > crib.yaml
  toolcrib export --format toml > crib.toml")]
    Export(ExportConfig),
    /// Look at what configuration files are
    #[command(subcommand)]
    Config(ConfigVerb),
    /// List, add, change, refresh and remove sources of tools
    Source(things::Done<things::SourceVerb>),
    /// List tools, switch them, say something else of them, and review their changes
    Tool(things::Done<things::ToolVerb>),
    /// List, add, change and remove groups of tools
    Group(things::Done<things::GroupVerb>),
    /// List, add, change and remove policies, which grant groups
    Policy(things::Done<things::PolicyVerb>),
    /// List, add, change and remove labels of tools
    Label(things::Done<things::LabelVerb>),
    /// List, make, change and revoke API keys
    Key(things::Done<things::KeyVerb>),
    /// Look at all that a server needs, and say what is wrong
    #[command(after_help = "\
Looks at the journal, keys, secrets, the clock, issuers, every source, TLS files and limits. Changes
nothing; a server may be running. The exit code is 0 if all works and 3 if something does not; what
will end soon is a warning.

Examples:
  toolcrib doctor
  toolcrib doctor --config toolcrib.yaml --tls-cert crib.pem --tls-key crib.key
  toolcrib doctor --json | jq '.findings[] | select(.state != \"ok\")'")]
    Doctor(Doctor),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  toolcrib completions bash > ~/.local/share/bash-completion/completions/toolcrib
  toolcrib completions zsh > ~/.zfunc/_toolcrib
  toolcrib completions fish > ~/.config/fish/completions/toolcrib.fish")]
    Completions {
        /// Which shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual, as `man` reads it
    #[command(after_help = "\
Examples:
  toolcrib man > ~/.local/share/man/man1/toolcrib.1
  toolcrib man | man -l -")]
    Man,
    /// Measure how well something works on your own examples
    #[command(subcommand)]
    Eval(EvalVerb),
    /// Look into the journal, check it, move it
    #[command(subcommand)]
    Journal(JournalVerb),
    /// Look at the record of calls, check it, write it out
    #[command(after_help = "\
Calls are recorded beside the journal: in FILE.record, or in the same PostgreSQL database. A server
may be running.")]
    #[command(subcommand)]
    Record(RecordVerb),
    /// Keep the secrets that sources need
    #[command(after_help = "\
A source refers to a secret as `sealed:NAME`. The value is encrypted and lies beside the journal,
never in it: it has no history and is not part of an export.")]
    #[command(subcommand)]
    Secret(SecretVerb),
    /// Look at a tool of several steps, and check it
    #[command(after_help = "\
A workflow is a document of the CNCF Serverless Workflow DSL 1.0 whose steps call tools; which part
of the DSL is supported is in docs/workflows.md. Nothing is called.")]
    #[command(subcommand)]
    Workflow(WorkflowVerb),
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

#[derive(Args, Debug)]
pub(crate) struct Plan {
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
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The configuration, in YAML, JSON or TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Remove what the file does not name, in the sections it has
    #[arg(long)]
    pub(crate) prune: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Whose tools to compare too: claims as JSON, or a file with them
    #[arg(long = "as", value_name = "CLAIMS")]
    pub(crate) identities: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct ExportConfig {
    /// In which format
    #[arg(long, value_enum, default_value = "yaml")]
    pub(crate) format: written::Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Say what a workflow would do, step by step, and draw it
    #[command(after_help = "\
The exit code is 3 if the document cannot be run.

Examples:
  toolcrib workflow show order.yaml
  toolcrib workflow show order.yaml --mermaid > order.mmd
  toolcrib workflow show order.yaml --json | jq -r '.tools[]'")]
    Show(ShowWorkflow),
    /// Say all that is wrong with documents
    #[command(after_help = "\
Prints one line for each problem, with its place as a JSON pointer. The exit code is 0 if all is
well and 3 if there are problems.

Examples:
  toolcrib workflow check *.yaml")]
    Check(CheckWorkflows),
}

#[derive(Args, Debug)]
pub(crate) struct ShowWorkflow {
    /// The document in YAML or JSON, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Print only the picture, as Mermaid draws it
    #[arg(long, conflicts_with = "json")]
    pub(crate) mermaid: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct CheckWorkflows {
    /// Documents in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalVerb {
    /// Search tools of a file for queries of another, and say how often the right ones are found
    #[command(after_help = "\
Both files have one JSON object in a line. A tool has a `name`, and may have `tool` (its name within
its `server`), `title`, `description`, `keywords`, `tags`, `input_schema` and a `subset`. A query
has a `query_id`, a `query` and the `relevant` names; it may have a `subset`, whose tools alone are
then searched, a `kind`, `groups` of names of which one is enough, and `grades` of names. The
figures are means over subsets of all queries but those of the kinds `name` and `typo`, which are
told apart.

Examples:
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl --json | jq '.\"ndcg@10\"'
  toolcrib eval search --tools tools.jsonl --queries queries.jsonl --cross-validate")]
    Search(EvalSearch),
}

#[derive(Args, Debug)]
pub(crate) struct EvalSearch {
    /// The tools, one in a line
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: PathBuf,
    /// The queries, one in a line
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Search by what is meant too: an endpoint with `/v1/embeddings`
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) embeddings: Option<Url>,
    /// Which of its models
    #[arg(long, value_name = "NAME", requires = "embeddings")]
    pub(crate) model: Option<String>,
    /// What it is shown: `env:NAME` or `file:PATH`
    #[arg(long, value_name = "REF", requires = "embeddings")]
    pub(crate) key: Option<SecretRef>,
    /// Search by what is meant too: a folder with a sentence model, which is run here
    #[arg(long, value_name = "DIR", conflicts_with = "embeddings")]
    pub(crate) embeddings_folder: Option<PathBuf>,
    /// Try other weights too, each chosen by four fifths of the queries and measured on the rest: those
    /// of words, or with embeddings that of meaning
    #[arg(long)]
    pub(crate) cross_validate: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

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
    Show(Show),
    /// Print the last events, one per line
    #[command(after_help = "\
Examples:
  toolcrib journal tail
  toolcrib journal tail -n 100 --stream tool_group-billing
  toolcrib journal tail --follow --json | jq .type")]
    Tail(Tail),
    /// Check every event, and that a server would serve what they say
    #[command(after_help = "\
Reads the journal from the first event on: the numbering, the documents, the storage. Then compares
the result with what a server serves after a start. Changes nothing; a server may be running.
The exit code is 0 if all is well and 3 if there are problems.

Examples:
  toolcrib journal verify
  toolcrib journal verify --json | jq -r '.problems[]'")]
    Verify(Json),
    /// Write the whole journal as JSON Lines
    #[command(after_help = "\
The file appears when it is complete, and only you can read it. Sealed secrets are not part of it.
A server may be running.

Examples:
  toolcrib journal export backup.jsonl
  toolcrib journal export | gzip > backup.jsonl.gz")]
    Export(Export),
    /// Take in an export
    #[command(after_help = "\
The journal is new, or holds the beginning of the same export: an import that was interrupted goes
on when it is started again.

Examples:
  toolcrib journal import backup.jsonl
  gunzip -c backup.jsonl.gz | toolcrib journal import -
  toolcrib journal export | toolcrib --journal postgres://db.example/crib journal import -")]
    Import(Import),
    /// Remove documents that no event refers to
    #[command(after_help = "\
Documents are the large parts of tools, such as schemas; they are stored beside the events. Events
are never removed.")]
    Collect(Json),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecordVerb {
    /// Print the last calls
    #[command(after_help = "\
Examples:
  toolcrib record list
  toolcrib record list -n 100 --tool pets:get_pet
  toolcrib record list --subject key:ada --json | jq .status")]
    List(ListCalls),
    /// Check that every recorded call is there, and as it was recorded
    #[command(after_help = "\
Each row holds the hash of the row before. Whoever can write the whole database can also make up
another chain: keep the head that is printed somewhere else, and look later whether that row still
has that hash. The exit code is 0 if all is well and 3 if there are problems.

Examples:
  toolcrib record verify
  toolcrib record verify --json | jq -r '.head.hash'")]
    Verify(Json),
    /// Write all recorded calls as JSON Lines, the oldest first
    #[command(after_help = "\
The hash of a line is the SHA-256 of the line without its last member.

Examples:
  toolcrib record export | gzip > calls.jsonl.gz")]
    Export,
}

#[derive(Args, Debug)]
pub(crate) struct ListCalls {
    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) lines: u32,
    /// Only calls of the tool with this id
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Only calls of this caller
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) targets: targets::Targets,
    /// Serve a pizzeria to try things on, which brings its own API, agents and policies
    #[arg(long, conflicts_with_all = ["targets", "openapi", "mcp", "manifest", "command"])]
    pub(crate) demo: bool,
    /// An address with a port, 0 for a free one, or unix:PATH
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8080")]
    pub(crate) listen: Listen,
    /// Where `/metrics` and `/health` are open to whoever comes, and nothing else is
    #[arg(long, value_name = "PLACE")]
    pub(crate) metrics_listen: Option<Listen>,
    /// Where a collector of OpenTelemetry takes metrics and traces, as JSON
    #[arg(long, value_name = "URL", help = OTLP_HELP)]
    pub(crate) otlp_endpoint: Option<Url>,
    /// Who may open the socket at unix:PATH, as for chmod
    #[arg(long, value_name = "MODE", default_value = "600")]
    pub(crate) socket_mode: Mode,
    /// A certificate and those that vouch for it, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Where the server is for everybody else, such as `https://crib.example.com`
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// The catalog as it is to be, issuers, names and limits; applied again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
    /// Make another key for an admin and print it, for whoever lost theirs
    #[arg(long)]
    pub(crate) new_admin_key: bool,
    /// How long to go on after SIGTERM while `/health/ready` says no, so that balancers see it
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) drain_delay: u32,
    /// Let callers without a credential in, wherever they are
    #[arg(long)]
    pub(crate) allow_anonymous: bool,
    /// Start the MCP servers and the tools that are programs, and let admins register such
    #[arg(long)]
    pub(crate) allow_stdio: bool,
    /// Let the files below this folder be resources; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) resource_folder: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Stdio {
    #[command(flatten)]
    pub(crate) targets: targets::Targets,
    /// The claims as JSON, or a file with them
    #[arg(long, value_name = "CLAIMS", conflicts_with_all = ["targets", "openapi", "mcp", "manifest", "command"])]
    pub(crate) claims: Option<String>,
    /// Only the tools of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<GroupId>,
    /// Whether tools are listed, searched, or searched if the list is long
    #[arg(long, value_enum, default_value = "list")]
    pub(crate) mode: sight::Mode,
    /// Start the MCP servers and the tools that are programs
    #[arg(long)]
    pub(crate) allow_stdio: bool,
    /// Let the files below this folder be resources; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) resource_folder: Vec<PathBuf>,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The configuration of the server, for its issuers
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The certificate of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
    /// Do not ask sources whether they are there
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct OfClient {
    /// Which program
    #[arg(value_enum, value_name = "NAME")]
    pub(crate) name: Option<Client>,
    /// Where the server speaks MCP
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/mcp")]
    pub(crate) url: String,
}

#[derive(Args, Debug)]
pub(crate) struct Json {
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// A position, a time or a date instead of now
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<At>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The claims as JSON, a file with them, or `-` for standard input
    #[arg(long, value_name = "CLAIMS")]
    pub(crate) claims: String,
    #[command(flatten)]
    pub(crate) place: things::At,
    /// Only this tool, by its id or any form of its name
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// A position, a time or a date instead of now
    #[arg(long, value_name = "MOMENT")]
    pub(crate) at: Option<At>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Args, Debug)]
pub(crate) struct Tail {
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
pub(crate) struct Export {
    /// Where to; `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// Replace the file if it is there already
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Import {
    /// Where from; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Seal a value, read from standard input, under a name
    #[command(after_help = "\
The key that seals is a long random text, the same one the server gets. A value that is already
there is replaced.

Examples:
  openssl rand -base64 32 > sealing.key
  toolcrib secret set billing-token --sealing-key-file sealing.key < token.txt
  toolcrib secret set billing-token --sealing-key-file sealing.key    # asks for the value")]
    Set(SetSecret),
    /// List the names of the sealed secrets
    List(Json),
    /// Remove a sealed secret
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct SetSecret {
    /// Its name: `billing-token` is referred to as `sealed:billing-token`
    pub(crate) name: String,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ImportServers {
    /// The file, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Say what would be registered, and register nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
}

/// Does what the command line says.
pub(crate) async fn run(cli: Cli, config: Config) -> Result<Ended, Failure> {
    let place = &config.journal;
    match cli.verb {
        Verb::Serve(arguments) => serve::serve(&config, &arguments).await,
        Verb::Stdio(arguments) => stdio::speak(&config, &arguments).await,
        Verb::Discover(arguments) => discover::discover(&arguments.in_place()).await,
        Verb::Call(arguments) => call::call(&arguments.in_place()).await,
        Verb::Client(arguments) => client::print(&arguments),
        Verb::Import(arguments) => import::import(&config, &arguments).await,
        Verb::Explain(arguments) => explain::explain(&config, &arguments).await,
        Verb::Plan(arguments) => plan::plan(place, &arguments).await,
        Verb::Apply(arguments) => plan::apply::apply(place, &arguments).await,
        Verb::Export(arguments) => written::export(place, &arguments).await,
        Verb::Config(ConfigVerb::Schema) => {
            out::print_json(&schema::for_editors()).map(|()| Ended::Fine)
        }
        Verb::Source(done) => counter::source(&config, &done).await,
        Verb::Tool(done) => counter::tool(&config, &done).await,
        Verb::Group(done) => counter::group(&config, &done).await,
        Verb::Policy(done) => counter::policy(&config, &done).await,
        Verb::Label(done) => counter::label(&config, &done).await,
        Verb::Key(done) => counter::key(&config, &done).await,
        Verb::Doctor(arguments) => doctor::examine(&config, &arguments).await,
        Verb::Completions { shell } => manual::completions(shell),
        Verb::Man => manual::print(),
        Verb::Eval(EvalVerb::Search(arguments)) => eval::search(&arguments).await,
        Verb::Journal(JournalVerb::Show(arguments)) => journal::show::show(place, &arguments).await,
        Verb::Journal(JournalVerb::Tail(arguments)) => journal::tail::tail(place, &arguments).await,
        Verb::Journal(JournalVerb::Verify(format)) => journal::verify::verify(place, &format).await,
        Verb::Journal(JournalVerb::Export(arguments)) => {
            journal::export::export(place, &arguments).await
        }
        Verb::Journal(JournalVerb::Import(arguments)) => {
            journal::import::import(place, &arguments).await
        }
        Verb::Journal(JournalVerb::Collect(format)) => {
            journal::collect::collect(place, &format).await
        }
        Verb::Record(RecordVerb::List(arguments)) => record::list::list(place, &arguments).await,
        Verb::Record(RecordVerb::Verify(format)) => record::verify::verify(place, &format).await,
        Verb::Record(RecordVerb::Export) => record::export::export(place).await,
        Verb::Secret(SecretVerb::Set(arguments)) => {
            let key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
            secret::set(place, &arguments.name, key).await
        }
        Verb::Secret(SecretVerb::List(format)) => secret::list(place, &format).await,
        Verb::Secret(SecretVerb::Remove { name }) => secret::remove(place, &name).await,
        Verb::Workflow(WorkflowVerb::Show(arguments)) => workflow::show(&arguments).await,
        Verb::Workflow(WorkflowVerb::Check(arguments)) => workflow::check(&arguments).await,
    }
}
