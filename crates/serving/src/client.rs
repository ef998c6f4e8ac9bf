//! `toolcrib client`: what other programs are to be told so that they use a server.

use clap::ValueEnum;
use serde_json::json;

use crate::cli::Ended;
use crate::cli::import::OfClient;
use crate::failure::Failure;
use crate::out::{plain, quoted};
use crate::{config, out};

/// A program or a library that speaks MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Langchain,
    OpenaiAgents,
    Vscode,
}

/// What is printed.
pub(crate) fn print(arguments: &OfClient) -> Result<Ended, Failure> {
    let url = plain(&arguments.url);
    match arguments.name {
        Some(client) => out::print(&client.configuration(&url))?,
        None => {
            let one = |client: &Client| {
                format!(
                    "{} ({})\n  {}\n",
                    client.title(),
                    client.place(),
                    client.configuration(&url)
                )
            };
            let all: Vec<String> = Client::value_variants().iter().map(one).collect();
            out::print(&all.join("\n"))?;
        }
    }
    Ok(Ended::Fine)
}

impl Client {
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

    /// Where it is to stand.
    fn place(self) -> &'static str {
        match self {
            Self::ClaudeCode => "a command",
            Self::ClaudeDesktop => "claude_desktop_config.json",
            Self::Cursor => "~/.cursor/mcp.json",
            Self::Langchain => "Python, langchain-mcp-adapters",
            Self::OpenaiAgents => "Python, openai-agents",
            Self::Vscode => ".vscode/mcp.json",
        }
    }

    /// What it is told, on one line.
    pub(crate) fn configuration(self, url: &str) -> String {
        let text = json!(url);
        match self {
            Self::ClaudeCode => {
                format!("claude mcp add --transport http toolcrib {}", quoted(url))
            }
            // It starts programs and asks no address of this machine: we are the program.
            Self::ClaudeDesktop => {
                let command = json!({"command": absolute(), "args": ["stdio", url]});
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

/// Ourselves, for programs that start us from elsewhere.
fn absolute() -> String {
    let name = config::own_name();
    let path = name.contains('/').then(|| std::fs::canonicalize(&name).ok()).flatten();
    path.map_or(name, |path| path.to_string_lossy().into_owned())
}
