//! Many tools, none of which is listed: agents find tools by search. Some users have tools of their own.
//!
//! ```console
//! $ cargo run -p toolcrib-cli --example tool_discovery
//! listening on http://127.0.0.1:8080/mcp
//! ```
//!
//! The list of an agent contains only `tool_search` and `execute_tool`. With the header `x-user: ada`, its searches
//! also find the tools of that user. In production, the component that authenticates users must set such a header.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{BoxError, Json, ProvidedTool, RegisterError, Registry, ToolProvider, Toolcrib};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Query")]
struct SqlQuery {
    /// SQL query to execute
    query: String,
    /// Database name
    database: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Mail")]
struct EmailMessage {
    /// Recipient email
    to: String,
    /// Email subject
    subject: String,
    /// Email body
    body: String,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Search")]
struct DocumentQuery {
    /// Words that the document contains
    words: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Documents")]
struct DocumentTitles {
    titles: Vec<&'static str>,
}

fn register_database_tools(registry: &Registry) -> Result<(), RegisterError> {
    let query = |it: SqlQuery| async move {
        if !it.query.to_lowercase().starts_with("select") {
            return Err("only SELECT is allowed");
        }
        let database = it.database.unwrap_or_else(|| "main".to_owned());
        Ok(format!("Executed on {database}: {}", it.query))
    };
    let tool = ProvidedTool::new("sql_query", "Execute SQL queries").searchable();
    registry.register_tool(tool, query, &["database", "sql", "query"])?;
    let tool = ProvidedTool::new("list_tables", "List the tables of a database").searchable();
    registry.register_tool(tool, || async { "customers, orders" }, &["database", "schema"])
}

fn register_email_tools(registry: &Registry) -> Result<(), RegisterError> {
    let send = |mail: EmailMessage| async move {
        format!("Email sent to {}: {} ({} letters)", mail.to, mail.subject, mail.body.len())
    };
    let tool = ProvidedTool::new("send_email", "Send an email to a recipient").searchable();
    registry.register_tool(tool, send, &["email", "communication", "smtp"])
}

fn register_document_tools(registry: &Registry) -> Result<(), RegisterError> {
    let find = |search: DocumentQuery| async move {
        let all = ["Price list", "House rules", "Opening hours"];
        let has = |title: &&str| title.to_lowercase().contains(&search.words.to_lowercase());
        Json(DocumentTitles { titles: all.into_iter().filter(has).collect() })
    };
    let tool = ProvidedTool::new("find_document", "Find documents by their words").searchable();
    registry.register_tool(tool, find, &["document", "file", "text"])
}

/// Tools of three domains, for all users.
fn shared_registry() -> Result<Registry, RegisterError> {
    let registry = Registry::new();
    register_database_tools(&registry)?;
    register_email_tools(&registry)?;
    register_document_tools(&registry)?;
    Ok(registry)
}

/// Tools of one user. A registry is also a provider, so it can be added to single requests.
fn user_provider(name: &str, note: &'static str) -> Result<Arc<dyn ToolProvider>, RegisterError> {
    let registry = Registry::new();
    let tool = ProvidedTool::new("my_notes", format!("Read the notes of {name}")).searchable();
    registry.register_tool(tool, move || std::future::ready(note), &["notes", "personal"])?;
    Ok(Arc::new(registry))
}

/// MCP endpoint at `/mcp` with shared tools and tools of single users.
pub(crate) async fn mcp_app() -> Result<Router, BoxError> {
    mcp_server::introduce_as("tool-discovery", "1.0");
    let mut users = HashMap::new();
    for (name, note) in [("ada", "Buy milk"), ("eve", "Call Ada")] {
        users.insert(name, user_provider(name, note)?);
    }
    let crib = Toolcrib::from_registry(shared_registry()?).await?;
    let (mcp, _) = mcp_server::mcp_router(crib, mcp_server::ServerOptions::local());
    Ok(mcp.layer(mcp_server::providers_per_request(move |request| {
        let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
        user.and_then(|user| users.get(user)).cloned().into_iter().collect()
    })))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program says where it is")]
async fn main() -> Result<(), BoxError> {
    let app = mcp_app().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
