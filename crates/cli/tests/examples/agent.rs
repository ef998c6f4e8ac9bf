//! Tests of `examples/agent`: with toolcrib and a model, and with failures of either.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolcrib::ProvidedTool;
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::agent::conversation::AgentConversation;
use crate::agent::mcp::McpServer;
use crate::agent::model::ChatModel;
use crate::agent::pace::RetryTiming;
use crate::agent::remote::RemoteServer;
use crate::agent::server::ToolServer as Has;
use crate::agent::toolbox::Toolbox;
use crate::agent::tools::{ToolList, ToolRoute};
use crate::world::{ScriptedModel, Server, text_answer, tool_call_answer};

/// Short intervals for tests.
const PACE: RetryTiming = RetryTiming {
    poll: Duration::from_millis(20),
    first_delay: Duration::from_millis(5),
    longest_delay: Duration::from_millis(20),
    max_attempts: 4,
};
/// Polls too rarely to matter in a test.
const WITHOUT_POLLING: RetryTiming = RetryTiming { poll: Duration::from_secs(3600), ..PACE };

fn client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() })
}

fn remote(url: &str) -> RemoteServer {
    RemoteServer::new(&client(), url, None).unwrap()
}

/// Agent with the background task that refreshes its tools.
struct RunningAgent {
    conversation: AgentConversation,
    toolbox: Arc<Toolbox>,
    keeper: JoinHandle<()>,
}

impl RunningAgent {
    /// Agent that gets its tools from `GET /tools`.
    async fn to(server: &Server, model: &ScriptedModel, pace: RetryTiming) -> Self {
        Self::with(Has::Manifest(remote(&server.url)), model, pace).await
    }

    /// Agent that gets its tools over MCP.
    async fn over_mcp(server: &Server, model: &ScriptedModel, pace: RetryTiming) -> Self {
        let mcp = McpServer::new(&client(), &format!("{}/mcp", server.url), None, PACE).unwrap();
        Self::with(Has::Mcp(mcp), model, pace).await
    }

    async fn with(tools: Has, model: &ScriptedModel, pace: RetryTiming) -> Self {
        let toolbox = Arc::new(Toolbox::with_server(tools).await);
        let kept = Arc::clone(&toolbox);
        let keeper = tokio::spawn(async move { kept.keep_fresh(pace).await });
        let model = ChatModel::new(remote(&model.url), "scripted", PACE);
        let conversation = AgentConversation::new(model, Arc::clone(&toolbox));
        Self { conversation, toolbox, keeper }
    }

    async fn ask(&mut self, question: &str) -> Result<String, String> {
        self.conversation.ask_question(question).await.map_err(|error| error.to_string())
    }

    /// Waits until the agent has this tool, or no longer has it.
    async fn wait_until(&self, name: &str, is_there: bool) {
        let mut changes = self.toolbox.tools.subscribe();
        let known = changes.wait_for(|tools| tools.route_of(name).is_some() == is_there);
        drop(tokio::time::timeout(Duration::from_secs(20), known).await.unwrap().unwrap());
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Names of the functions offered to the model.
fn offered_functions(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// Tool results sent to the model.
fn tool_results(request: &Value) -> Vec<&str> {
    let messages = request["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_model_gets_the_tools_and_their_results() {
    let (server, _crib) = Server::up().await;
    let sum = ("calculate", json!({"expression": "0.1 + 0.2"}));
    let abc = ("hash", json!({"text": "abc"}));
    let model =
        ScriptedModel::with_script(vec![tool_call_answer(&[sum, abc]), text_answer("It is 0.3.")])
            .await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    assert_eq!(agent.ask("What is 0.1 + 0.2?").await.unwrap(), "It is 0.3.");

    let heard = model.requests();
    assert_eq!(heard.len(), 2);
    let calculate = heard[0]["tools"].as_array().unwrap().iter();
    let calculate = calculate.into_iter().find(|it| it["function"]["name"] == "calculate").unwrap();
    assert_eq!(calculate["type"], "function");
    assert_eq!(calculate["function"]["parameters"]["required"], json!(["expression"]));
    let roles = heard[1]["messages"].as_array().unwrap().iter();
    let roles: Vec<&str> = roles.map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
    assert_eq!(heard[1]["messages"][1]["tool_calls"][0]["id"], "call_0");
    assert_eq!(heard[1]["messages"][2]["tool_call_id"], "call_0");
    let told = tool_results(&heard[1]);
    assert!(told[0].contains(r#""result":"0.3""#), "{told:?}");
    assert!(told[1].contains("ba7816bf"), "{told:?}");
}

#[tokio::test]
async fn the_agent_works_without_tools_until_the_server_is_up() {
    let server = Server::down().await;
    let model =
        ScriptedModel::with_script(vec![text_answer("Without tools."), text_answer("With tools.")])
            .await;
    let mut agent = RunningAgent::to(&server, &model, PACE).await;
    assert_eq!(agent.ask("Hello?").await.unwrap(), "Without tools.");
    assert_eq!(model.requests()[0].get("tools"), None, "an empty list is refused by models");
    let keeps_looking = async {
        while server.count("/tools", 503) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), keeps_looking).await.unwrap();
    let _crib = server.start().await;
    agent.wait_until("calculate", true).await;
    assert_eq!(agent.ask("And now?").await.unwrap(), "With tools.");
    assert!(offered_functions(&model.requests()[1]).contains(&"calculate"));
}

#[tokio::test]
async fn a_changed_list_is_noticed_and_an_unchanged_one_is_not_resent() {
    let (server, crib) = Server::up().await;
    let model = ScriptedModel::with_script(vec![text_answer("Yes.")]).await;
    let mut agent = RunningAgent::to(&server, &model, PACE).await;
    let looked = async {
        while server.count("/tools", 304) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looked).await.unwrap();
    assert_eq!(server.count("/tools", 200), 1);
    let tool = ProvidedTool::new("bake", "Bakes bread");
    crib.registry().register_tool(tool, || async { "baked" }, &[]).unwrap();
    agent.wait_until("bake", true).await;
    agent.ask("Can you bake?").await.unwrap();
    assert!(offered_functions(&model.requests()[0]).contains(&"bake"));
}

#[tokio::test]
async fn a_missing_tool_is_reported_and_triggers_a_refresh() {
    let (server, crib) = Server::up().await;
    let own = toolcrib::Registry::new();
    let tool = ProvidedTool::new("bake", "Bakes bread");
    own.register_tool(tool, || async { "baked" }, &[]).unwrap();
    let own: Arc<dyn toolcrib::ToolProvider> = Arc::new(own);
    crib.registry().add_provider(Arc::clone(&own));
    let script = vec![
        tool_call_answer(&[("bake", json!({}))]),
        text_answer("I cannot."),
        text_answer("I cannot."),
    ];
    let model = ScriptedModel::with_script(script).await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    agent.wait_until("bake", true).await;
    crib.registry().remove_provider(&own);
    agent.ask("Bake!").await.unwrap();
    let heard = model.requests();
    assert!(tool_results(&heard[1])[0].starts_with("Error: "), "{:?}", tool_results(&heard[1]));
    assert!(
        tool_results(&heard[1])[0].contains("Tool not found: bake"),
        "{:?}",
        tool_results(&heard[1])
    );
    agent.wait_until("bake", false).await;
}

#[tokio::test]
async fn over_mcp_the_model_gets_the_tools_and_their_results() {
    let (server, _crib) = Server::up().await;
    let script = vec![
        tool_call_answer(&[
            ("calculate", json!({"expression": "0.1 + 0.2"})),
            ("calculate", json!({"expression": "1 / 0"})),
            ("launch_rocket", json!({})),
        ]),
        text_answer("It is 0.3."),
    ];
    let model = ScriptedModel::with_script(script).await;
    let mut agent = RunningAgent::over_mcp(&server, &model, WITHOUT_POLLING).await;
    assert_eq!(agent.ask("What is 0.1 + 0.2?").await.unwrap(), "It is 0.3.");
    let heard = model.requests();
    let calculate = heard[0]["tools"].as_array().unwrap().iter();
    let calculate = calculate.into_iter().find(|it| it["function"]["name"] == "calculate").unwrap();
    assert_eq!(calculate["function"]["parameters"]["required"], json!(["expression"]));
    let told = tool_results(&heard[1]);
    assert!(told[0].contains(r#""result":"0.3""#), "{told:?}");
    assert_eq!(told[1], "Error: this divides by zero");
    assert_eq!(told[2], "Error: Tool not found: launch_rocket");
    assert_eq!(server.count("/tools", 200), 0, "nothing but MCP was spoken");
}

#[tokio::test]
async fn over_mcp_the_agent_works_without_tools_until_the_server_is_up() {
    let server = Server::down().await;
    let model =
        ScriptedModel::with_script(vec![text_answer("Without tools."), text_answer("With tools.")])
            .await;
    let mut agent = RunningAgent::over_mcp(&server, &model, PACE).await;
    assert_eq!(agent.ask("Hello?").await.unwrap(), "Without tools.");
    let _crib = server.start().await;
    agent.wait_until("calculate", true).await;
    assert_eq!(agent.ask("And now?").await.unwrap(), "With tools.");
    assert!(offered_functions(&model.requests()[1]).contains(&"calculate"));
}

#[tokio::test]
async fn over_mcp_the_server_announces_changed_tools() {
    let (server, crib) = Server::up().await;
    let model = ScriptedModel::with_script(vec![text_answer("Yes.")]).await;
    // Without polling.
    let agent = RunningAgent::over_mcp(&server, &model, WITHOUT_POLLING).await;
    agent.wait_until("calculate", true).await;
    let listens = async {
        // Requests so far: `server/discover`, `tools/list`, and the notification stream.
        while server.count("/mcp", 200) < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), listens).await.unwrap();
    let tool = ProvidedTool::new("bake", "Bakes bread");
    crib.registry().register_tool(tool, || async { "baked" }, &[]).unwrap();
    agent.wait_until("bake", true).await;
}

#[tokio::test]
async fn over_mcp_a_missing_tool_is_reported_and_triggers_a_refresh() {
    let (server, crib) = Server::up().await;
    let own = toolcrib::Registry::new();
    let tool = ProvidedTool::new("bake", "Bakes bread");
    own.register_tool(tool, || async { "baked" }, &[]).unwrap();
    let own: Arc<dyn toolcrib::ToolProvider> = Arc::new(own);
    crib.registry().add_provider(Arc::clone(&own));
    let script = vec![tool_call_answer(&[("bake", json!({}))]), text_answer("I cannot.")];
    let model = ScriptedModel::with_script(script).await;
    let mut agent = RunningAgent::over_mcp(&server, &model, WITHOUT_POLLING).await;
    let tools = agent.toolbox.current_tools();
    crib.registry().remove_provider(&own);
    let told = agent.toolbox.call_function(&tools, "bake", "{}").await;
    assert_eq!(told, "Error: Tool not found: bake");
    agent.wait_until("bake", false).await;
    assert_eq!(agent.ask("Bake!").await.unwrap(), "I cannot.");
}

#[tokio::test]
async fn temporary_model_errors_are_retried_and_rejections_are_not() {
    let (server, _crib) = Server::up().await;
    let busy = |status| (status, json!({"error": {"message": "busy"}}));
    let script = vec![busy(503), busy(429), text_answer("At last."), busy(400)];
    let model = ScriptedModel::with_script(script).await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    assert_eq!(agent.ask("Hello?").await.unwrap(), "At last.");
    assert_eq!(model.requests().len(), 3);
    let refused = agent.ask("And?").await.unwrap_err();
    assert!(refused.starts_with("the model answered with status 400, asked 1 times"), "{refused}");
    assert_eq!(model.requests().len(), 4);
}

#[tokio::test]
async fn an_unavailable_model_is_tried_a_limited_number_of_times() {
    let (server, _crib) = Server::up().await;
    let model = ScriptedModel::with_script(vec![(500, json!({}))]).await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    let failed = agent.ask("Hello?").await.unwrap_err();
    assert!(failed.contains("status 500, asked 4 times"), "{failed}");
    assert_eq!(model.requests().len(), 4);
}

#[tokio::test]
async fn tool_errors_and_unknown_tools_are_reported_to_the_model() {
    let (server, _crib) = Server::up().await;
    let script = vec![
        tool_call_answer(&[
            ("calculate", json!({"expression": "1 / 0"})),
            ("calculate", json!({"expressions": "1"})),
            ("launch_rocket", json!({})),
            ("calculate", json!("{not json")),
        ]),
        text_answer("That does not work."),
    ];
    let model = ScriptedModel::with_script(script).await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    assert_eq!(agent.ask("Divide by zero").await.unwrap(), "That does not work.");
    let heard = model.requests();
    let told = tool_results(&heard[1]);
    assert_eq!(told[0], "Error: this divides by zero");
    assert!(told[1].starts_with("Error: ") && told[1].contains("expression"), "{told:?}");
    assert_eq!(told[2], "Error: Tool not found: launch_rocket");
    assert!(told[3].starts_with("Error: the arguments are no JSON object"), "{told:?}");
}

#[tokio::test]
async fn endless_calls_are_stopped_and_the_next_question_starts_fresh() {
    let (server, _crib) = Server::up().await;
    let model = ScriptedModel::with_script(vec![tool_call_answer(&[("uuid", json!({}))])]).await;
    let mut agent = RunningAgent::to(&server, &model, WITHOUT_POLLING).await;
    let endless = agent.ask("Go on").await.unwrap_err();
    assert_eq!(endless, "the model wanted calls 10 times and did not answer");
    assert_eq!((model.requests().len(), server.count("/tools/uuid", 200)), (10, 10));
    agent.ask("Again").await.unwrap_err();
    assert_eq!(model.requests()[10]["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_list_of_any_server_with_the_manifest_convention_is_read() {
    let server = remote("https://travel.example/api");
    let list = json!([
        {"name": "get_weather_forecast", "description": "Weather"},
        {"name": "time", "endpoint": "/clock?zone=utc", "method": "get"},
        {"name": "odd.name/x", "endpoint": "/odd", "inputSchema": {"type": "object"}},
        {"name": "evil", "endpoint": "//elsewhere.example/x"},
        {"name": "time", "endpoint": "/other"},
        {"description": "it has no name"},
    ]);
    for body in [list.clone(), json!({"tools": list})] {
        let tools = ToolList::from_manifest(body.to_string().as_bytes(), None, &server).unwrap();
        let route = |name: &str| match tools.route_of(name)? {
            ToolRoute::Http { method, url } => Some(format!("{method} {url}")),
            ToolRoute::Mcp { .. } => None,
        };
        let weather = "POST https://travel.example/api/weather-forecast";
        assert_eq!(route("get_weather_forecast").unwrap(), weather);
        assert_eq!(route("time").unwrap(), "GET https://travel.example/api/clock?zone=utc");
        assert_eq!(route("odd_name_x").unwrap(), "POST https://travel.example/api/odd");
        // Whatever its endpoint says, a tool is called on the server that published it.
        assert!(route("evil").unwrap().starts_with("POST https://travel.example/api/"));
        assert_eq!(tools.functions.len(), 4);
        let parameters = &tools.functions[0]["function"]["parameters"];
        assert_eq!(*parameters, json!({"type": "object", "properties": {}}));
    }
    assert!(ToolList::from_manifest(b"<html>", None, &server).is_err());
}
