//! `rig conformance-client`: our MCP client as the conformance suite starts it. It gets the URL of a server, lists
//! everything and uses each item once. Further input is in environment variables.

mod answers;
mod user;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use toolcrib::upstream::egress::Egress;
use toolcrib::upstream::http::{HttpClient, Url, header::HeaderMap};
use toolcrib::upstream::mcp::oauth::Authorization;
use toolcrib::upstream::mcp::{Answer, Call, Connection, Heard, ListOf, Settings, Target};

/// Maximum number of calls of a tool that requires more input.
const MAX_ROUNDS: usize = 5;

#[derive(clap::Args)]
pub(crate) struct Orders {
    /// The server
    url: Url,
}

pub(crate) async fn run(orders: &Orders) -> anyhow::Result<()> {
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("the context is no JSON")?,
        Err(_) => Value::Null,
    };
    let connection = open(&orders.url, &context).await?;
    let about = connection.about();
    println!("{:?} {}", about.era, about.version);
    let listed = connection.list(ListOf::Tools, Call::default()).await?;
    for warning in &listed.warnings {
        println!("{warning:?}");
    }
    let tools: Vec<_> = listed.items.into_iter().map(Value::Object).collect();
    for (name, arguments) in calls(&context, &tools) {
        // The suite may name a tool that cannot be called and therefore is not listed: skip it.
        let Some(tool) = tools.iter().find(|tool| tool["name"] == *name) else { continue };
        let arguments = arguments_with(&name, arguments, &tools);
        let params = json!({"name": name, "arguments": arguments});
        converse(&connection, "tools/call", params, Some(&tool["inputSchema"])).await?;
    }
    use_all(&connection, ListOf::Prompts, "prompts/get", "name").await?;
    use_all(&connection, ListOf::Resources, "resources/read", "uri").await?;
    connection.close();
    Ok(())
}

async fn open(url: &Url, context: &Value) -> anyhow::Result<Connection> {
    let client = HttpClient::new(Egress { allow_private: true, allowed: Vec::new() });
    let oauth = user::oauth(&client, context)?;
    let authorization = Some(Authorization::new(client.clone(), url.clone(), oauth));
    let capabilities =
        json!({"elicitation": {"form": {"applyDefaults": true}}, "sampling": {}, "roots": {}});
    let capabilities = capabilities.as_object().cloned().unwrap_or_default();
    let settings = Settings { capabilities, authorization, ..Settings::default() };
    let target = Target::Http { client, url: url.clone(), headers: HeaderMap::new() };
    Ok(Connection::open(&target, &settings).await?)
}

/// The calls that the suite specifies; otherwise one call of each tool.
fn calls(context: &Value, tools: &[Value]) -> Vec<(String, Value)> {
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    match context["toolCalls"].as_array() {
        Some(calls) => calls.iter().map(|call| (name(call), call["arguments"].clone())).collect(),
        None => tools.iter().map(|it| (name(it), answers::form(&it["inputSchema"]))).collect(),
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

async fn use_all(
    connection: &Connection,
    list: ListOf,
    method: &str,
    member: &str,
) -> anyhow::Result<()> {
    // A server may not support this list.
    let Ok(listed) = connection.list(list, Call::default()).await else { return Ok(()) };
    for item in &listed.items {
        converse(connection, method, json!({member: item.get(member)}), None).await?;
    }
    Ok(())
}

/// Repeats the request until the server requires no more input.
async fn converse(
    connection: &Connection,
    method: &str,
    params: Value,
    schema: Option<&Value>,
) -> anyhow::Result<()> {
    let mut params = params.as_object().cloned().unwrap_or_default();
    for _ in 0..MAX_ROUNDS {
        let (heard, hears) = mpsc::channel(64);
        let schema = schema.cloned().map(Arc::new);
        let call = Call { heard: Some(heard), schema, ..Call::default() };
        let request = connection.request(method, params.clone(), call);
        let (answer, ()) = tokio::join!(request, answer_questions(hears));
        let answer = answer?;
        println!(
            "{method}: {}",
            if matches!(answer, Answer::Result(_)) { "done" } else { "refused" }
        );
        let Answer::Result(result) = answer else { return Ok(()) };
        if result.get("resultType") != Some(&json!("input_required")) {
            return Ok(());
        }
        let asked = result.get("inputRequests").and_then(Value::as_object);
        ensure!(asked.is_some() || result.contains_key("requestState"), "it asks for nothing");
        let responses = asked.into_iter().flatten();
        let responses = responses.map(|(key, asked)| {
            let method = asked["method"].as_str().unwrap_or_default();
            (key.clone(), Value::Object(answers::to(method, &asked["params"])))
        });
        params.insert("inputResponses".to_owned(), responses.collect::<Map<_, _>>().into());
        match result.get("requestState") {
            Some(state) => params.insert("requestState".to_owned(), state.clone()),
            None => params.remove("requestState"),
        };
    }
    anyhow::bail!("`{method}` asks for ever")
}

async fn answer_questions(mut hears: mpsc::Receiver<Heard>) {
    while let Some(heard) = hears.recv().await {
        if let Heard::Asks { method, params, reply } = heard {
            // The server may already be gone: ignore the error.
            reply.send(Ok(answers::to(&method, &Value::Object(params)))).unwrap_or_default();
        }
    }
}
