//! Options of `serve` and `stdio`.

use std::path::PathBuf;

use api_types::server_names::PublicUrl;
use clap::Args;
use endpoint::tool_listing::ListMode;
use model::GroupId;
use server::listen_address::{ListenAddress, SocketMode};
use url::Url;

use super::{KEY_FILE_HELP, target_args};

const OTLP_HELP: &str = "A collector of OpenTelemetry for metrics and traces, such as \
    `http://localhost:4318` [env: OTEL_EXPORTER_OTLP_ENDPOINT]";

#[derive(Args, Debug)]
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
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) targets: target_args::TargetArgs,
    /// Serve a pizzeria to try things on, which brings its own API, agents and policies
    #[arg(long, conflicts_with_all = ["targets", "openapi", "mcp", "manifest", "command"])]
    pub(crate) demo: bool,
    /// An address with a port, 0 for a free one, or unix:PATH
    #[arg(long, value_name = "PLACE", default_value = "127.0.0.1:8080")]
    pub(crate) listen: ListenAddress,
    /// Where `/metrics` and `/health` are open to whoever comes, and nothing else is
    #[arg(long, value_name = "PLACE")]
    pub(crate) metrics_listen: Option<ListenAddress>,
    /// Where a collector of OpenTelemetry takes metrics and traces
    #[arg(long, value_name = "URL", help = OTLP_HELP)]
    pub(crate) otlp_endpoint: Option<Url>,
    /// Who may open the socket at unix:PATH, as for chmod
    #[arg(long, value_name = "MODE", default_value = "600")]
    pub(crate) socket_mode: SocketMode,
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
pub(crate) struct StdioArgs {
    #[command(flatten)]
    pub(crate) targets: target_args::TargetArgs,
    /// The claims as JSON, or a file with them
    #[arg(long, value_name = "CLAIMS", conflicts_with_all = ["targets", "openapi", "mcp", "manifest", "command"])]
    pub(crate) claims: Option<String>,
    /// Only the tools of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<GroupId>,
    /// Whether tools are listed, searched, or searched if the list is long
    #[arg(long, value_enum, default_value = "list")]
    pub(crate) mode: ListModeArgument,
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

/// Whether tools are listed or searched.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ListModeArgument {
    /// The tools.
    List,
    /// Nothing but `tool_search` and `execute_tool`, which reach the rest.
    Search,
    /// The tools if the list is short enough, else those two and the most used
    Auto,
}

impl From<ListModeArgument> for ListMode {
    fn from(argument: ListModeArgument) -> Self {
        match argument {
            ListModeArgument::List => Self::List,
            ListModeArgument::Search => Self::Search,
            ListModeArgument::Auto => Self::Auto,
        }
    }
}
