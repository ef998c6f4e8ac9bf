//! The MCP client programs for which configuration can be printed.

use clap::ValueEnum;

/// A program or a library that speaks MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClientProgram {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Langchain,
    OpenaiAgents,
    Vscode,
}
