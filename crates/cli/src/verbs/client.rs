//! `toolcrib client`: prints the configuration that other programs need to use a server.

use clap::ValueEnum;
use serde_json::json;

use crate::arguments::VerbOutcome;
use crate::arguments::import::ClientArgs;
use crate::arguments::mcp_client_program::McpClientProgram;
use crate::cli_error::CliError;
use crate::output::escape_for_terminal;
use crate::shell_text::shell_quote;
use crate::{environment, output};

/// Prints the configuration of one client, or of all clients.
pub(crate) fn print_client_configs(arguments: &ClientArgs) -> Result<VerbOutcome, CliError> {
    let url = escape_for_terminal(&arguments.url);
    match arguments.name {
        Some(client) => output::print_text(&client.configuration(&url))?,
        None => {
            let one = |client: &McpClientProgram| {
                format!(
                    "{} ({})\n  {}\n",
                    client.title(),
                    client.config_location(),
                    client.configuration(&url)
                )
            };
            let all: Vec<String> = McpClientProgram::value_variants().iter().map(one).collect();
            output::print_text(&all.join("\n"))?;
        }
    }
    Ok(VerbOutcome::Success)
}

impl McpClientProgram {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Langchain => "LangChain",
            Self::OpenaiAgents => "OpenAI Agents",
            Self::Vscode => "VS Code",
        }
    }

    /// The file or language the configuration belongs in.
    fn config_location(self) -> &'static str {
        match self {
            Self::ClaudeCode => "a command",
            Self::ClaudeDesktop => "claude_desktop_config.json",
            Self::Cursor => "~/.cursor/mcp.json",
            Self::Langchain => "Python, langchain-mcp-adapters",
            Self::OpenaiAgents => "Python, openai-agents",
            Self::Vscode => ".vscode/mcp.json",
        }
    }

    /// The configuration or command on one line.
    pub(crate) fn configuration(self, url: &str) -> String {
        let text = json!(url);
        match self {
            Self::ClaudeCode => {
                format!("claude mcp add --transport http toolcrib {}", shell_quote(url))
            }
            // Claude Desktop starts programs and connects to no local URL, therefore it starts us as a stdio proxy.
            Self::ClaudeDesktop => {
                let command = json!({"command": own_absolute_path(), "args": ["stdio", url]});
                json!({"mcpServers": {"toolcrib": command}}).to_string()
            }
            Self::Cursor => json!({"mcpServers": {"toolcrib": {"url": url}}}).to_string(),
            Self::Langchain => format!(
                "MultiServerMCPClient({{\"toolcrib\": {{\"transport\": \"streamable_http\", \"url\": {text}}}}})"
            ),
            Self::OpenaiAgents => {
                format!("MCPServerStreamableHttp(name=\"toolcrib\", params={{\"url\": {text}}})")
            }
            Self::Vscode => {
                json!({"servers": {"toolcrib": {"type": "http", "url": url}}}).to_string()
            }
        }
    }
}

/// Our own absolute path, for programs that start us from a different folder.
fn own_absolute_path() -> String {
    let name = environment::program_name();
    let path = name.contains('/').then(|| std::fs::canonicalize(&name).ok()).flatten();
    path.map_or(name, |path| path.to_string_lossy().into_owned())
}
