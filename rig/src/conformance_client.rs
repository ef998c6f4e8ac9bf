//! `rig conformance-client`: our MCP client as the conformance suite starts it. It gets the URL of a server, lists
//! everything and uses each item once. Further input is in environment variables.

mod consenting_user;
mod suite_answers;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use mcp_client::{
    CallNotification, ConnectionSettings, McpAnswer, McpCallOptions, McpConnection, McpItemKind,
    McpTarget,
};
use oauth::McpAuthorization;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use upstream::egress::EgressPolicy;
use upstream::http::header::HeaderMap;
use upstream::http::{HttpClient, Url};

/// Maximum number of calls of a tool that requires more input.
const MAX_ROUNDS: usize = 5;

#[derive(clap::Args)]
pub(crate) struct ConformanceClientArgs {
    /// The server
    url: Url,
}

pub(crate) async fn run(orders: &ConformanceClientArgs) -> anyhow::Result<()> {
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("the context is no JSON")?,
        Err(_) => Value::Null,
    };
    let connection = open_connection(&orders.url, &context).await?;
    let about = connection.server_description();
    println!("{:?} {}", about.era, about.version);
    let listed = connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await?;
    for warning in &listed.warnings {
        println!("{warning:?}");
    }
    let tools: Vec<_> = listed.items.into_iter().map(Value::Object).collect();
    for (name, arguments) in calls_to_make(&context, &tools) {
        // The suite may name a tool that cannot be called and therefore is not listed: skip it.
        let Some(tool) = tools.iter().find(|tool| tool["name"] == *name) else { continue };
        let arguments = arguments_with(&name, arguments, &tools);
        let params = json!({"name": name, "arguments": arguments});
        request_until_complete(&connection, "tools/call", params, Some(&tool["inputSchema"]))
            .await?;
    }
    use_all_items(&connection, McpItemKind::Prompts, "prompts/get", "name").await?;
    use_all_items(&connection, McpItemKind::Resources, "resources/read", "uri").await?;
    connection.close();
    Ok(())
}

async fn open_connection(url: &Url, context: &Value) -> anyhow::Result<McpConnection> {
    let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
    let oauth = consenting_user::oauth_settings(&client, context)?;
    let authorization = Some(McpAuthorization::new(client.clone(), url.clone(), oauth));
    let capabilities =
        json!({"elicitation": {"form": {"applyDefaults": true}}, "sampling": {}, "roots": {}});
    let capabilities = capabilities.as_object().cloned().unwrap_or_default();
    let settings =
        ConnectionSettings { capabilities, authorization, ..ConnectionSettings::default() };
    let target = McpTarget::Http { client, url: url.clone(), headers: HeaderMap::new() };
    Ok(McpConnection::open(&target, &settings).await?)
}

/// The calls that the suite specifies; otherwise one call of each tool.
fn calls_to_make(context: &Value, tools: &[Value]) -> Vec<(String, Value)> {
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    match context["toolCalls"].as_array() {
        Some(calls) => calls.iter().map(|call| (name(call), call["arguments"].clone())).collect(),
        None => tools
            .iter()
            .map(|it| (name(it), suite_answers::fill_in_form(&it["inputSchema"])))
            .collect(),
    }
}

/// One tool expects the schema of another tool as we received it.
fn arguments_with(name: &str, arguments: Value, tools: &[Value]) -> Value {
    let other = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
    match (name, other) {
        ("json_schema_echo", Some(other)) => json!({"schema": other["inputSchema"]}),
        _ => arguments,
    }
}

async fn use_all_items(
    connection: &McpConnection,
    list: McpItemKind,
    method: &str,
    member: &str,
) -> anyhow::Result<()> {
    // A server may not support this list.
    let Ok(listed) = connection.fetch_list(list, McpCallOptions::default()).await else {
        return Ok(());
    };
    for item in &listed.items {
        request_until_complete(connection, method, json!({member: item.get(member)}), None).await?;
    }
    Ok(())
}

/// Repeats the request until the server requires no more input.
async fn request_until_complete(
    connection: &McpConnection,
    method: &str,
    params: Value,
    schema: Option<&Value>,
) -> anyhow::Result<()> {
    let mut params = params.as_object().cloned().unwrap_or_default();
    for _ in 0..MAX_ROUNDS {
        let (heard, hears) = mpsc::channel(64);
        let schema = schema.cloned().map(Arc::new);
        let call =
            McpCallOptions { notifications: Some(heard), schema, ..McpCallOptions::default() };
        let request = connection.call_method(method, params.clone(), call);
        let (answer, ()) = tokio::join!(request, answer_questions(hears));
        let answer = answer?;
        println!(
            "{method}: {}",
            if matches!(answer, McpAnswer::Result(_)) { "done" } else { "refused" }
        );
        let McpAnswer::Result(result) = answer else { return Ok(()) };
        if result.get("resultType") != Some(&json!("input_required")) {
            return Ok(());
        }
        let asked = result.get("inputRequests").and_then(Value::as_object);
        ensure!(asked.is_some() || result.contains_key("requestState"), "it asks for nothing");
        let responses = asked.into_iter().flatten();
        let responses = responses.map(|(key, asked)| {
            let method = asked["method"].as_str().unwrap_or_default();
            (key.clone(), Value::Object(suite_answers::answer_question(method, &asked["params"])))
        });
        params.insert("inputResponses".to_owned(), responses.collect::<Map<_, _>>().into());
        match result.get("requestState") {
            Some(state) => params.insert("requestState".to_owned(), state.clone()),
            None => params.remove("requestState"),
        };
    }
    anyhow::bail!("`{method}` asks for ever")
}

async fn answer_questions(mut hears: mpsc::Receiver<CallNotification>) {
    while let Some(heard) = hears.recv().await {
        if let CallNotification::Question { method, params, reply } = heard {
            // The server may already be gone: ignore the error.
            reply
                .send(Ok(suite_answers::answer_question(&method, &Value::Object(params))))
                .unwrap_or_default();
        }
    }
}
