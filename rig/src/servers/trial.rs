//! The calls that an agent makes to each server, and the expected answers.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::agent::{Agent, Era, Told};
use super::server::{Place, Server};

/// Tests one server with one agent. Returns the number of calls.
pub(super) async fn run(server: Server, agent: &Agent, place: &Place) -> anyhow::Result<usize> {
    let names = names(&agent.tools().await?);
    let count = names.len();
    ensure!(count == server.tools(), "{count} tools are listed: {}", names.join(" "));
    let mut calls = Calls { agent, place, made: 0 };
    match server {
        Server::Everything => {
            calls.environment().await?;
            calls.everything().await?;
            calls.task().await?;
        }
        Server::EverythingHttp => {
            calls.everything().await?;
            calls.task().await?;
        }
        Server::EverythingSse => calls.everything().await?,
        Server::Filesystem | Server::FilesystemAlone => calls.filesystem().await?,
        Server::Memory => calls.memory().await?,
        Server::Time => calls.time().await?,
        Server::Git => calls.git().await?,
        Server::Fetch => calls.fetch().await?,
        Server::Sqlite => calls.sqlite().await?,
    }
    Ok(calls.made)
}

pub(super) fn names(tools: &[Value]) -> Vec<String> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or("?").to_owned()).collect()
}

struct Calls<'a> {
    agent: &'a Agent,
    place: &'a Place,
    made: usize,
}

impl Calls<'_> {
    /// Makes a call that must succeed.
    async fn call(&mut self, name: &str, arguments: Value) -> anyhow::Result<Told> {
        self.made += 1;
        let told = self.agent.call(name, arguments).await;
        let told = told.with_context(|| format!("`{name}` failed"))?;
        ensure!(told.result["isError"] != true, "`{name}` failed: {}", told.result);
        Ok(told)
    }

    /// Makes a call whose text content must contain a word.
    async fn says(&mut self, name: &str, arguments: Value, word: &str) -> anyhow::Result<()> {
        let told = self.call(name, arguments).await?;
        let texts = texts(&told.result);
        ensure!(texts.contains(word), "`{name}` says `{texts}`, and not `{word}`");
        Ok(())
    }

    /// The program inherits only `PATH`.
    async fn environment(&mut self) -> anyhow::Result<()> {
        let told = self.call("get-env", json!({})).await?;
        let mut environment: Value = serde_json::from_str(&texts(&told.result))?;
        // Everything else of the server's own environment must be absent.
        let path = environment.as_object_mut().and_then(|all| all.shift_remove("PATH"));
        anyhow::ensure!(path.is_some(), "the program has no PATH");
        same("the environment", &environment, &json!({"GREETING": "hello"}))
    }

    async fn everything(&mut self) -> anyhow::Result<()> {
        let told = self.call("echo", json!({"message": "ciao, città"})).await?;
        let content = json!([{"type": "text", "text": "Echo: ciao, città"}]);
        same("echo", &told.result["content"], &content)?;
        self.says("get-sum", json!({"a": 2, "b": 0.5}), "The sum of 2 and 0.5 is 2.5.").await?;
        let told = self.call("get-structured-content", json!({"location": "Chicago"})).await?;
        let weather =
            json!({"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82});
        same("the weather", &told.result["structuredContent"], &weather)?;
        let told = self.call("get-tiny-image", json!({})).await?;
        let image = &told.result["content"][1];
        same("the kind of the image", &image["mimeType"], &json!("image/png"))?;
        let is_png = image["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo"));
        ensure!(is_png, "the image is {image}");
        self.progress().await?;
        self.questions().await?;
        self.completion().await?;
        self.subscription().await
    }

    async fn progress(&mut self) -> anyhow::Result<()> {
        let arguments = json!({"duration": 0.2, "steps": 4});
        let told = self.call("trigger-long-running-operation", arguments).await?;
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

    async fn questions(&mut self) -> anyhow::Result<()> {
        let told = self.call("trigger-elicitation-request", json!({})).await?;
        same("what is asked", &json!(asked(&told)), &json!(["elicitation/create"]))?;
        let texts_of_form = texts(&told.result);
        ensure!(texts_of_form.contains("- Name: Ada"), "the form says `{texts_of_form}`");
        let arguments = json!({"prompt": "Six times seven?", "maxTokens": 10});
        let told = self.call("trigger-sampling-request", arguments).await?;
        same("what is asked", &json!(asked(&told)), &json!(["sampling/createMessage"]))?;
        let texts = texts(&told.result);
        ensure!(texts.contains("Forty-two."), "the sample is `{texts}`");
        Ok(())
    }

    /// Completes a prompt argument. The arguments already known determine the proposals.
    async fn completion(&mut self) -> anyhow::Result<()> {
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "completable-prompt"},
            "argument": {"name": "name", "value": "D"},
            "context": {"arguments": {"department": "Sales"}},
        });
        let found = self.agent.ask("completion/complete", params).await?;
        same("what is proposed", &found["completion"]["values"], &json!(["David"]))
    }

    /// Starts and receives updates of a resource; only subscribed clients get them.
    async fn subscription(&mut self) -> anyhow::Result<()> {
        let uri = "demo://resource/static/document/features.md";
        let mut stream = self.agent.follow(uri).await?;
        self.call("toggle-subscriber-updates", json!({})).await?;
        let mut told = stream.next().await?;
        // Legacy agents receive list changes without a subscription: skip them.
        while told["method"].as_str().is_some_and(|method| method.ends_with("/list_changed")) {
            told = stream.next().await?;
        }
        same("what is told", &told["method"], &json!("notifications/resources/updated"))?;
        same("of what", &told["params"]["uri"], &json!(uri))?;
        self.call("toggle-subscriber-updates", json!({})).await?;
        Ok(())
    }

    /// A tool that its server runs only as a task, with a question on the way.
    async fn task(&mut self) -> anyhow::Result<()> {
        let arguments = json!({"topic": "capers", "ambiguous": true});
        let told = self.call("simulate-research-query", arguments).await?;
        same("what is asked", &json!(asked(&told)), &json!(["elicitation/create"]))?;
        let texts = texts(&told.result);
        let word = "# Research Report: capers (User accepted without selection)";
        ensure!(texts.starts_with(word), "the report is `{texts}`");
        Ok(())
    }

    async fn filesystem(&mut self) -> anyhow::Result<()> {
        let path = self.place.text("files/order.txt");
        let content = "One Margherita, per favore.\n";
        self.call("write_file", json!({"path": path, "content": content})).await?;
        same("the file", &json!(std::fs::read_to_string(&path)?), &json!(content))?;
        let told = self.call("read_text_file", json!({"path": path})).await?;
        same("what is read", &json!(texts(&told.result)), &json!(content))?;
        // Refused even for an agent that names `/` as its root.
        let outside = self.place.text("memory.secret");
        let told = self.agent.call("read_text_file", json!({"path": outside})).await?;
        same("a file outside", &told.result["isError"], &json!(true))
    }

    async fn memory(&mut self) -> anyhow::Result<()> {
        let name = match self.agent.era {
            Era::Legacy => "Ada",
            Era::Modern => "Grace",
        };
        let entity = json!({"name": name, "entityType": "guest", "observations": ["likes capers"]});
        self.call("create_entities", json!({"entities": [entity]})).await?;
        let told = self.call("open_nodes", json!({"names": [name]})).await?;
        same("the entity", &told.result["structuredContent"]["entities"], &json!([entity]))?;
        let kept = std::fs::read_to_string(self.place.path("memory.jsonl"))?;
        ensure!(kept.contains(name), "the memory is `{kept}`");
        Ok(())
    }

    async fn time(&mut self) -> anyhow::Result<()> {
        let zones =
            json!({"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "20:30"});
        let told = self.call("convert_time", zones).await?;
        let converted = &told.result["structuredContent"];
        same("the difference", &converted["time_difference"], &json!("+9.0h"))?;
        let time = converted["target"]["datetime"].as_str().unwrap_or_default();
        ensure!(time.contains("T05:30:00+09:00"), "it is {converted}");
        Ok(())
    }

    async fn git(&mut self) -> anyhow::Result<()> {
        let repository = json!({"repo_path": self.place.text("repository")});
        self.says("git_log", repository, "Open the pizzeria").await
    }

    async fn fetch(&mut self) -> anyhow::Result<()> {
        self.place.page.take_requests();
        let url = format!("{}/orders/7", self.place.page.url);
        self.says("fetch", json!({"url": url}), "in the oven").await?;
        let asked = self.place.page.take_requests();
        same("what is fetched", &json!(asked), &json!(["GET /robots.txt", "GET /orders/7"]))
    }

    async fn sqlite(&mut self) -> anyhow::Result<()> {
        let table = match self.agent.era {
            Era::Legacy => "pizzas",
            Era::Modern => "drinks",
        };
        let query = |text: String| json!({"query": text});
        let create = query(format!("CREATE TABLE {table} (name TEXT, price INTEGER)"));
        self.call("create_table", create).await?;
        let insert = query(format!("INSERT INTO {table} VALUES ('Marinara', 7)"));
        self.says("write_query", insert, "'affected_rows': 1").await?;
        let select = query(format!("SELECT name, price FROM {table}"));
        self.says("read_query", select, "'name': 'Marinara', 'price': 7").await
    }
}

/// The methods of the questions, without the roots that `everything` requests once, at a time of its own choice.
fn asked(told: &Told) -> Vec<&str> {
    told.asked.iter().map(String::as_str).filter(|method| *method != "roots/list").collect()
}

/// The concatenated text content of a result.
fn texts(result: &Value) -> String {
    let content = result["content"].as_array().into_iter().flatten();
    content.filter_map(|block| block["text"].as_str()).collect()
}

fn same(what: &str, seen: &Value, wanted: &Value) -> anyhow::Result<()> {
    ensure!(seen == wanted, "{what} is {seen}, and must be {wanted}");
    Ok(())
}
