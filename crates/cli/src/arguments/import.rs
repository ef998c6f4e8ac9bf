//! Options of `import` and `client`: the configuration of other MCP clients.

use std::path::PathBuf;

use clap::Args;

use super::KEY_FILE_HELP;
use crate::arguments::mcp_client_program::McpClientProgram;

#[derive(Args, Debug)]
#[command(after_help = "\
FILE is the configuration of a desktop client (`mcpServers` of Claude Desktop and Cursor, `servers`
of VS Code) or a `server.json` of the official MCP registry; `-` is standard input. Each server
becomes a source. Values of environments and headers are sealed; `${NAME}` stays a variable.

Examples:
  toolcrib import ~/.cursor/mcp.json --dry-run
  toolcrib import claude_desktop_config.json --sealing-key-file key
  curl -s https://registry.example/v0.1/servers/… | toolcrib import -")]
pub(crate) struct ImportServersArgs {
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

#[derive(Args, Debug)]
#[command(after_help = "\
Without NAME it says it for all of them.

Examples:
  toolcrib client
  toolcrib client cursor --url https://crib.example.com/mcp")]
pub(crate) struct ClientArgs {
    /// Which program
    #[arg(value_enum, value_name = "NAME")]
    pub(crate) name: Option<McpClientProgram>,
    /// Where the server speaks MCP
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/mcp")]
    pub(crate) url: String,
}
