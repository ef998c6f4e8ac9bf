//! The calls that an agent makes to each server, and the expected answers.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::foreign_server::{ForeignServer, ServerWorkspace};
use super::mcp_agent::{AgentEra, CallReport, McpAgent};

/// Tests one server with one agent. Returns the number of calls.
pub(super) async fn run_trial(
    server: ForeignServer,
    agent: &McpAgent,
    place: &ServerWorkspace,
) -> anyhow::Result<usize> {
    let names = tool_names(&agent.list_tools().await?);
    let count = names.len();
    ensure!(count == server.tool_count(), "{count} tools are listed: {}", names.join(" "));
    let mut calls = TrialCalls { agent, place, call_count: 0 };
    match server {
        ForeignServer::Everything => {
            calls.check_environment().await?;
            calls.check_everything().await?;
            calls.check_task().await?;
        }
        ForeignServer::EverythingHttp => {
            calls.check_everything().await?;
            calls.check_task().await?;
        }
        ForeignServer::EverythingSse => calls.check_everything().await?,
        ForeignServer::Filesystem | ForeignServer::FilesystemAlone => {
            calls.check_filesystem().await?
        }
        ForeignServer::Memory => calls.check_memory().await?,
        ForeignServer::Time => calls.check_time().await?,
        ForeignServer::Git => calls.check_git().await?,
        ForeignServer::Fetch => calls.check_fetch().await?,
        ForeignServer::Sqlite => calls.check_sqlite().await?,
    }
    Ok(calls.call_count)
}

pub(super) fn tool_names(tools: &[Value]) -> Vec<String> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or("?").to_owned()).collect()
}

struct TrialCalls<'a> {
    agent: &'a McpAgent,
    place: &'a ServerWorkspace,
    call_count: usize,
}

impl TrialCalls<'_> {
    /// Makes a call that must succeed.
    async fn call_tool(&mut self, name: &str, arguments: Value) -> anyhow::Result<CallReport> {
        self.call_count += 1;
        let told = self.agent.call_tool(name, arguments).await;
        let told = told.with_context(|| format!("`{name}` failed"))?;
        ensure!(told.result["isError"] != true, "`{name}` failed: {}", told.result);
        Ok(told)
    }

    /// Makes a call whose text content must contain a word.
    async fn expect_text(
        &mut self,
        name: &str,
        arguments: Value,
        word: &str,
    ) -> anyhow::Result<()> {
        let told = self.call_tool(name, arguments).await?;
        let texts = text_content(&told.result);
        ensure!(texts.contains(word), "`{name}` says `{texts}`, and not `{word}`");
        Ok(())
    }

    /// The program inherits only `PATH`.
    async fn check_environment(&mut self) -> anyhow::Result<()> {
        let told = self.call_tool("get-env", json!({})).await?;
        let mut environment: Value = serde_json::from_str(&text_content(&told.result))?;
        // Everything else of the server's own environment must be absent.
        let path = environment.as_object_mut().and_then(|all| all.shift_remove("PATH"));
        anyhow::ensure!(path.is_some(), "the program has no PATH");
        ensure_same("the environment", &environment, &json!({"GREETING": "hello"}))
    }

    async fn check_everything(&mut self) -> anyhow::Result<()> {
        let told = self.call_tool("echo", json!({"message": "ciao, città"})).await?;
        let content = json!([{"type": "text", "text": "Echo: ciao, città"}]);
        ensure_same("echo", &told.result["content"], &content)?;
        self.expect_text("get-sum", json!({"a": 2, "b": 0.5}), "The sum of 2 and 0.5 is 2.5.")
            .await?;
        let told = self.call_tool("get-structured-content", json!({"location": "Chicago"})).await?;
        let weather =
            json!({"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82});
        ensure_same("the weather", &told.result["structuredContent"], &weather)?;
        let told = self.call_tool("get-tiny-image", json!({})).await?;
        let image = &told.result["content"][1];
        ensure_same("the kind of the image", &image["mimeType"], &json!("image/png"))?;
        let is_png = image["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo"));
        ensure!(is_png, "the image is {image}");
        self.check_progress().await?;
        self.check_questions().await?;
        self.check_completion().await?;
        self.check_subscription().await
    }

    async fn check_progress(&mut self) -> anyhow::Result<()> {
        let arguments = json!({"duration": 0.2, "steps": 4});
        let told = self.call_tool("trigger-long-running-operation", arguments).await?;
        // Compare the numbers, whatever their notation.
        let number = |told: &Value, name: &str| told[name].as_f64().unwrap_or(f64::NAN);
        let steps: Vec<[f64; 2]> = told
            .progress
            .iter()
            .map(|told| [number(told, "progress"), number(told, "total")])
            .collect();
        let wanted = [1.0, 2.0, 3.0, 4.0].map(|step| [step, 4.0]);
        ensure!(steps == wanted, "progress is {steps:?}, and must be {wanted:?}");
        Ok(())
    }

    async fn check_questions(&mut self) -> anyhow::Result<()> {
        let told = self.call_tool("trigger-elicitation-request", json!({})).await?;
        ensure_same("what is asked", &json!(questions_of(&told)), &json!(["elicitation/create"]))?;
        let texts_of_form = text_content(&told.result);
        ensure!(texts_of_form.contains("- Name: Ada"), "the form says `{texts_of_form}`");
        let arguments = json!({"prompt": "Six times seven?", "maxTokens": 10});
        let told = self.call_tool("trigger-sampling-request", arguments).await?;
        ensure_same(
            "what is asked",
            &json!(questions_of(&told)),
            &json!(["sampling/createMessage"]),
        )?;
        let texts = text_content(&told.result);
        ensure!(texts.contains("Forty-two."), "the sample is `{texts}`");
        Ok(())
    }

    /// Completes a prompt argument. The arguments already known determine the proposals.
    async fn check_completion(&mut self) -> anyhow::Result<()> {
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "completable-prompt"},
            "argument": {"name": "name", "value": "D"},
            "context": {"arguments": {"department": "Sales"}},
        });
        let found = self.agent.send_request("completion/complete", params).await?;
        ensure_same("what is proposed", &found["completion"]["values"], &json!(["David"]))
    }

    /// Starts and receives updates of a resource; only subscribed clients get them.
    async fn check_subscription(&mut self) -> anyhow::Result<()> {
        let uri = "demo://resource/static/document/features.md";
        let mut stream = self.agent.subscribe_resource(uri).await?;
        self.call_tool("toggle-subscriber-updates", json!({})).await?;
        let mut told = stream.next().await?;
        // Legacy agents receive list changes without a subscription: skip them.
        while told["method"].as_str().is_some_and(|method| method.ends_with("/list_changed")) {
            told = stream.next().await?;
        }
        ensure_same("what is told", &told["method"], &json!("notifications/resources/updated"))?;
        ensure_same("of what", &told["params"]["uri"], &json!(uri))?;
        self.call_tool("toggle-subscriber-updates", json!({})).await?;
        Ok(())
    }

    /// A tool that its server runs only as a task, with a question on the way.
    async fn check_task(&mut self) -> anyhow::Result<()> {
        let arguments = json!({"topic": "capers", "ambiguous": true});
        let told = self.call_tool("simulate-research-query", arguments).await?;
        ensure_same("what is asked", &json!(questions_of(&told)), &json!(["elicitation/create"]))?;
        let texts = text_content(&told.result);
        let word = "# Research Report: capers (User accepted without selection)";
        ensure!(texts.starts_with(word), "the report is `{texts}`");
        Ok(())
    }

    async fn check_filesystem(&mut self) -> anyhow::Result<()> {
        let path = self.place.path_text("files/order.txt");
        let content = "One Margherita, per favore.\n";
        self.call_tool("write_file", json!({"path": path, "content": content})).await?;
        ensure_same("the file", &json!(std::fs::read_to_string(&path)?), &json!(content))?;
        let told = self.call_tool("read_text_file", json!({"path": path})).await?;
        ensure_same("what is read", &json!(text_content(&told.result)), &json!(content))?;
        // Refused even for an agent that names `/` as its root.
        let outside = self.place.path_text("memory.secret");
        let told = self.agent.call_tool("read_text_file", json!({"path": outside})).await?;
        ensure_same("a file outside", &told.result["isError"], &json!(true))
    }

    async fn check_memory(&mut self) -> anyhow::Result<()> {
        let name = match self.agent.era {
            AgentEra::Legacy => "Ada",
            AgentEra::Modern => "Grace",
        };
        let entity = json!({"name": name, "entityType": "guest", "observations": ["likes capers"]});
        self.call_tool("create_entities", json!({"entities": [entity]})).await?;
        let told = self.call_tool("open_nodes", json!({"names": [name]})).await?;
        ensure_same("the entity", &told.result["structuredContent"]["entities"], &json!([entity]))?;
        let kept = std::fs::read_to_string(self.place.path("memory.jsonl"))?;
        ensure!(kept.contains(name), "the memory is `{kept}`");
        Ok(())
    }

    async fn check_time(&mut self) -> anyhow::Result<()> {
        let zones =
            json!({"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "20:30"});
        let told = self.call_tool("convert_time", zones).await?;
        let converted = &told.result["structuredContent"];
        ensure_same("the difference", &converted["time_difference"], &json!("+9.0h"))?;
        let time = converted["target"]["datetime"].as_str().unwrap_or_default();
        ensure!(time.contains("T05:30:00+09:00"), "it is {converted}");
        Ok(())
    }

    async fn check_git(&mut self) -> anyhow::Result<()> {
        let repository = json!({"repo_path": self.place.path_text("repository")});
        self.expect_text("git_log", repository, "Open the pizzeria").await
    }

    async fn check_fetch(&mut self) -> anyhow::Result<()> {
        self.place.page.take_requests();
        let url = format!("{}/orders/7", self.place.page.url);
        self.expect_text("fetch", json!({"url": url}), "in the oven").await?;
        let asked = self.place.page.take_requests();
        ensure_same("what is fetched", &json!(asked), &json!(["GET /robots.txt", "GET /orders/7"]))
    }

    async fn check_sqlite(&mut self) -> anyhow::Result<()> {
        let table = match self.agent.era {
            AgentEra::Legacy => "pizzas",
            AgentEra::Modern => "drinks",
        };
        let query = |text: String| json!({"query": text});
        let create = query(format!("CREATE TABLE {table} (name TEXT, price INTEGER)"));
        self.call_tool("create_table", create).await?;
        let insert = query(format!("INSERT INTO {table} VALUES ('Marinara', 7)"));
        self.expect_text("write_query", insert, "'affected_rows': 1").await?;
        let select = query(format!("SELECT name, price FROM {table}"));
        self.expect_text("read_query", select, "'name': 'Marinara', 'price': 7").await
    }
}

/// The methods of the questions, without the roots that `everything` requests once, at a time of its own choice.
fn questions_of(told: &CallReport) -> Vec<&str> {
    told.asked.iter().map(String::as_str).filter(|method| *method != "roots/list").collect()
}

/// The concatenated text content of a result.
fn text_content(result: &Value) -> String {
    let content = result["content"].as_array().into_iter().flatten();
    content.filter_map(|block| block["text"].as_str()).collect()
}

fn ensure_same(what: &str, seen: &Value, wanted: &Value) -> anyhow::Result<()> {
    ensure!(seen == wanted, "{what} is {seen}, and must be {wanted}");
    Ok(())
}
