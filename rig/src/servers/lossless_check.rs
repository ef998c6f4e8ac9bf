//! Compares the direct answers of a server with those through toolcrib, field for field, except the fields that
//! `docs/upstreams.md` names.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::direct_client::DirectClient;
use super::mcp_agent::{AgentEra, McpAgent};
use super::server_trial::tool_names;

/// Calls of `everything` that return every kind of content.
fn calls_to_compare() -> Vec<(&'static str, Value)> {
    let link = "data:text/plain;base64,Y2lhbw==";
    vec![
        ("echo", json!({"message": "ciao \u{1f355} \\ \"\r\n\t\u{200f}\u{feff}"})),
        ("get-sum", json!({"a": 0.1, "b": 0.2})),
        ("get-structured-content", json!({"location": "New York"})),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-annotated-message", json!({"messageType": "success"})),
        ("get-resource-links", json!({"count": 4})),
        ("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 2})),
        ("get-resource-reference", json!({"resourceType": "Text", "resourceId": -2})),
        ("gzip-file-as-resource", json!({"name": "a.gz", "data": link, "outputType": "resource"})),
        ("trigger-sampling-request", json!({"prompt": "Six times seven?"})),
        ("trigger-elicitation-request", json!({})),
    ]
}

/// Compares the tools that an agent sees with the list of the server.
pub(super) fn compare_tools(direct: &[Value], through: &[Value]) -> anyhow::Result<()> {
    let (mut wanted, mut seen) = (tool_names(direct), tool_names(through));
    wanted.sort();
    seen.sort();
    ensure!(seen == wanted, "the tools are {seen:?}, and directly {wanted:?}");
    for tool in direct {
        let name = &tool["name"];
        let found = through.iter().find(|one| one["name"] == *name).context("it was there")?;
        let mut tool = tool.clone();
        remove_task_requirement(&mut tool);
        ensure_equal(&format!("the tool {name}"), found, &tool)?;
    }
    Ok(())
}

/// If a tool requires a task, toolcrib requests the task, so the agent does not see the requirement.
fn remove_task_requirement(tool: &mut Value) {
    if tool["execution"]["taskSupport"] == "required"
        && let Some(tool) = tool.as_object_mut()
    {
        tool.shift_remove("execution");
    }
}

/// Removes and returns the tools whose names have the prefix, without the prefix.
pub(super) fn take_prefixed(tools: &mut Vec<Value>, prefix: &str) -> Vec<Value> {
    let (mut taken, others): (Vec<Value>, Vec<Value>) =
        std::mem::take(tools).into_iter().partition(|tool| {
            let name = tool["name"].as_str();
            name.is_some_and(|name| name.starts_with(prefix))
        });
    *tools = others;
    for tool in &mut taken {
        let rest = tool["name"].as_str().and_then(|name| name.strip_prefix(prefix));
        tool["name"] = json!(rest);
    }
    taken
}

/// Compares the results of calls. Returns the number of calls.
pub(super) async fn compare_calls(
    direct: &mut DirectClient,
    agent: &McpAgent,
    source: &str,
) -> anyhow::Result<usize> {
    let calls = calls_to_compare();
    for (name, arguments) in &calls {
        let wanted = direct.call_tool(name, arguments.clone()).await?;
        let mut seen = agent.call_tool(name, arguments.clone()).await?.result;
        remove_our_fields(&mut seen, agent.era, source)?;
        ensure_equal(&format!("what comes of {name} {arguments}"), &seen, &wanted)?;
    }
    Ok(calls.len())
}

/// Removes the markers of the origin, and the fields that the modern era requires and a legacy server does not send.
fn remove_our_fields(result: &mut Value, era: AgentEra, source: &str) -> anyhow::Result<()> {
    let result = result.as_object_mut().context("a result is an object")?;
    let meta = result.get_mut("_meta").and_then(Value::as_object_mut);
    let meta = meta.context("nothing says whose word it is")?;
    for (name, ours) in [("toolcrib/source", json!(source)), ("toolcrib/untrusted", json!(true))] {
        let said = meta.shift_remove(name);
        ensure!(said.as_ref() == Some(&ours), "`{name}` is {said:?}, and not {ours}");
    }
    if era == AgentEra::Modern {
        meta.shift_remove("io.modelcontextprotocol/serverInfo");
    }
    if meta.is_empty() {
        result.shift_remove("_meta");
    }
    if era == AgentEra::Modern {
        let kind = result.shift_remove("resultType");
        ensure!(kind == Some(json!("complete")), "`resultType` is missing");
    }
    Ok(())
}

/// Fails with the location of each difference.
fn ensure_equal(what: &str, seen: &Value, wanted: &Value) -> anyhow::Result<()> {
    let mut differences = Vec::new();
    collect_differences("", seen, wanted, &mut differences);
    ensure!(differences.is_empty(), "{what} differs:\n{}", differences.join("\n"));
    Ok(())
}

fn collect_differences(at: &str, seen: &Value, wanted: &Value, differences: &mut Vec<String>) {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            for (name, wanted) in wanted {
                match seen.get(name) {
                    Some(seen) => {
                        collect_differences(&format!("{at}/{name}"), seen, wanted, differences)
                    }
                    None => differences.push(format!("{at}/{name} is lost")),
                }
            }
            let more = seen.keys().filter(|name| !wanted.contains_key(*name));
            differences.extend(more.map(|name| format!("{at}/{name} is added: {}", seen[name])));
        }
        (Value::Array(seen), Value::Array(wanted)) if seen.len() == wanted.len() => {
            for (number, (seen, wanted)) in seen.iter().zip(wanted).enumerate() {
                collect_differences(&format!("{at}/{number}"), seen, wanted, differences);
            }
        }
        (seen, wanted) if seen == wanted => {}
        (seen, wanted) => differences.push(format!("{at} is {seen}, and directly {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lost_added_or_changed_field_is_reported_with_its_path() {
        let direct = json!({"a": [1, {"b": 2, "c": 3}], "d": 4});
        let through = json!({"a": [1, {"b": 5, "e": 6}], "d": 4});
        assert!(ensure_equal("it", &direct, &direct).is_ok());
        let error = ensure_equal("it", &through, &direct).unwrap_err().to_string();
        assert_eq!(
            error,
            "it differs:\n/a/1/b is 5, and directly 2\n/a/1/c is lost\n/a/1/e is added: 6"
        );
    }

    #[test]
    fn only_our_own_fields_are_removed() {
        let server = "io.modelcontextprotocol/serverInfo";
        let whose = json!({"toolcrib/source": "disk", "toolcrib/untrusted": true});
        let mut meta = json!({server: {}, "vendor": 1});
        meta.as_object_mut().unwrap().extend(whose.as_object().unwrap().clone());
        let mut result = json!({"resultType": "complete", "content": [], "_meta": meta});
        let mut modern = result.clone();
        remove_our_fields(&mut modern, AgentEra::Modern, "disk").unwrap();
        assert_eq!(modern, json!({"content": [], "_meta": {"vendor": 1}}));
        let mut legacy = json!({"content": [], "_meta": whose});
        remove_our_fields(&mut legacy, AgentEra::Legacy, "disk").unwrap();
        assert_eq!(legacy, json!({"content": []}));
        assert!(remove_our_fields(&mut result, AgentEra::Modern, "other").is_err());
        assert!(remove_our_fields(&mut json!({"content": []}), AgentEra::Legacy, "disk").is_err());
    }
}
