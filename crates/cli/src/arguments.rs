//! The command line: every verb. The options and help texts of a verb are in a file of their own.

pub(crate) mod admin_verbs;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod execution;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod journal;
pub(crate) mod mcp_client_program;
pub(crate) mod plan;
pub(crate) mod search;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod target_args;
pub(crate) mod target_options;
pub(crate) mod workflow;

use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;

use self::eval::EvalVerb;
use self::execution::ExecutionVerb;
use self::journal::JournalVerb;
use self::plan::ConfigVerb;
use self::secret::SecretVerb;
use self::workflow::WorkflowVerb;

/// The outcome of a verb that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerbOutcome {
    /// The verb succeeded.
    Success,
    /// The verb succeeded, and found problems in the checked object.
    ProblemsFound,
    /// The plan would change something; nothing was changed.
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
  toolcrib search how is my pet           # among all tools, or with --claims those of an identity
  toolcrib plan crib.yaml                 # what a configuration file would change, and for whom
  toolcrib apply crib.yaml                # change it, all of it or nothing
  toolcrib journal show                   # what the catalog knows now
  toolcrib journal tail --follow          # watch it change
  toolcrib journal verify                 # check every event ever recorded
  toolcrib journal export backup.jsonl    # keep a copy")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: GlobalOptions,
    #[command(subcommand)]
    pub verb: CliVerb,
}

impl Cli {
    pub(crate) fn is_verify(&self) -> bool {
        matches!(self.verb, CliVerb::Journal(JournalVerb::Verify(_)))
    }

    /// Whether the verb itself handles interrupts and shuts down gracefully.
    pub(crate) fn handles_interrupts(&self) -> bool {
        matches!(self.verb, CliVerb::Serve(_))
    }
}

const JOURNAL_HELP: &str = "Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]";

const KEY_FILE_HELP: &str = "A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]";

/// For every verb.
#[derive(Args, Debug)]
pub(crate) struct GlobalOptions {
    // Kept as a string: a `postgres://` URL may hold a password, and clap repeats values that it cannot parse.
    /// Where the journal is
    #[arg(long, global = true, value_name = "PLACE", help = JOURNAL_HELP, display_order = 100)]
    pub(crate) journal: Option<String>,
    /// Say more on stderr; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 101)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliVerb {
    /// Serve the catalog, or what TARGETs offer
    Serve(serve::ServeArgs),
    /// Offer the tools of one identity to a program that starts us, over MCP
    Stdio(serve::StdioArgs),
    /// List the tools of an API, without a server
    Discover(target_options::DiscoverArgs),
    /// Call a tool of an API, without a server
    Call(target_options::CallArgs),
    /// Say what Claude, Cursor, VS Code and others are told to use a server
    Client(import::ClientArgs),
    /// Take over the MCP servers that other programs know
    Import(import::ImportServersArgs),
    /// Say which tools an identity has, and why
    Explain(explain::ExplainArgs),
    /// Search the tools of an identity, or all tools
    Search(search::SearchArgs),
    /// Say what a configuration file would change, and for whom
    Plan(plan::PlanArgs),
    /// Make the catalog as a configuration file declares it
    Apply(plan::ApplyArgs),
    /// Write the catalog as a configuration file
    Export(plan::ExportConfigArgs),
    /// Look at what configuration files are
    #[command(subcommand)]
    Config(ConfigVerb),
    /// List, add, change, refresh and remove sources of tools
    Source(admin_verbs::AdminVerbArgs<admin_verbs::SourceVerb>),
    /// List tools, switch them, say something else of them, and review their changes
    Tool(admin_verbs::AdminVerbArgs<admin_verbs::ToolVerb>),
    /// List, add, change and remove groups of tools
    Group(admin_verbs::AdminVerbArgs<admin_verbs::GroupVerb>),
    /// List, add, change and remove policies, which grant groups
    Policy(admin_verbs::AdminVerbArgs<admin_verbs::PolicyVerb>),
    /// List, add, change and remove labels of tools
    Label(admin_verbs::AdminVerbArgs<admin_verbs::LabelVerb>),
    /// List, make, change and revoke API keys
    Key(admin_verbs::AdminVerbArgs<admin_verbs::KeyVerb>),
    /// List, show, count and write out the calls that were made, and check their record
    #[command(after_help = "\
Calls are recorded beside the journal: in FILE.record, or in the same PostgreSQL database. A server
may be running.")]
    #[command(subcommand)]
    Execution(ExecutionVerb),
    /// Look at all that a server needs, and say what is wrong
    Doctor(doctor::DoctorArgs),
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
    /// Keep the secrets that sources need
    #[command(after_help = "\
A source refers to a secret as `sealed:NAME`. The value is encrypted and lies beside the journal,
never in it: it has no history and is not part of an export.")]
    Secret(admin_verbs::AdminVerbArgs<SecretVerb>),
    /// Look at a tool of several steps, and check it
    #[command(after_help = "\
A workflow is a document of the CNCF Serverless Workflow DSL 1.0 whose steps call tools; which part
of the DSL is supported is in docs/workflows.md. Nothing is called.")]
    #[command(subcommand)]
    Workflow(WorkflowVerb),
}

#[derive(Args, Debug)]
pub(crate) struct JsonFlag {
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
