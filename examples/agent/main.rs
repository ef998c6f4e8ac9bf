//! An agent that knows no tool in advance. It gets its tools from a server: toolcrib, any other server with the same
//! `GET /tools` convention, or an MCP server. A model chooses the tools, and the agent calls them.
//!
//! ```console
//! $ export TOOLCRIB_AGENT_KEY=tcrib_… OPENAI_API_KEY=…  # either may be left out
//! $ cargo run -p toolcrib-cli --example agent -- http://127.0.0.1:8080 https://api.openai.com/v1 gpt-5
//! What is 17 % of 2,340?
//! 17 % of 2,340 is 397.8.
//! ```
//!
//! To get the tools from an MCP server, pass `--mcp http://127.0.0.1:8080/mcp` instead of the first address.
//!
//! - `remote`: sends requests to one server, with limits on time and size.
//! - `server`: the tool server, either `GET /tools` or MCP (`mcp`); an MCP server also announces changed tools.
//! - `tools`: turns a list of tools into functions for a model, and remembers where each one is called.
//! - `toolbox`: the current tools. Starts empty if the server is unreachable, and keeps refreshing in the background.
//! - `model`: any model behind `POST /v1/chat/completions`; retries temporary failures.
//! - `conversation`: question, tool calls and answer, in a bounded number of rounds.

pub(crate) mod conversation;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod pace;
pub(crate) mod remote;
pub(crate) mod server;
pub(crate) mod toolbox;
pub(crate) mod tools;

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use toolcrib::BoxError;
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use self::conversation::AgentConversation;
use self::mcp::McpServer;
use self::model::ChatModel;
use self::pace::RetryTiming;
use self::remote::RemoteServer;
use self::server::ToolServer;
use self::toolbox::Toolbox;

/// Longest question, in bytes.
const MAX_QUESTION_BYTES: u64 = 64 * 1024;

#[expect(clippy::disallowed_methods, reason = "it is a program of its own")]
fn read_key(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|key| !key.is_empty())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an agent answers")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_mcp = words.first().is_some_and(|word| word == "--mcp");
    words.drain(..usize::from(is_mcp));
    let [tools_at, model_at, name] = words.as_slice() else {
        return Err("say where tools are, where the model is and what it is called: \
                    agent http://127.0.0.1:8080 https://api.openai.com/v1 gpt-5, \
                    or agent --mcp http://127.0.0.1:8080/mcp …"
            .into());
    };
    // The user chooses both addresses, so private ones are allowed.
    let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
    let shown = read_key("TOOLCRIB_AGENT_KEY");
    let tools_at = match is_mcp {
        true => ToolServer::Mcp(McpServer::new(
            &client,
            tools_at,
            shown.as_deref(),
            RetryTiming::default(),
        )?),
        false => ToolServer::Manifest(RemoteServer::new(&client, tools_at, shown.as_deref())?),
    };
    let model_at = RemoteServer::new(&client, model_at, read_key("OPENAI_API_KEY").as_deref())?;
    let toolbox = Arc::new(Toolbox::with_server(tools_at).await);
    let kept = Arc::clone(&toolbox);
    tokio::spawn(async move { kept.keep_fresh(RetryTiming::default()).await });

    let model = ChatModel::new(model_at, name, RetryTiming::default());
    let mut conversation = AgentConversation::new(model, toolbox);
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        let mut question = String::new();
        if (&mut input).take(MAX_QUESTION_BYTES).read_line(&mut question).await? == 0 {
            return Ok(());
        }
        match conversation.ask_question(question.trim()).await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("There is no answer: {error}"),
        }
    }
}
