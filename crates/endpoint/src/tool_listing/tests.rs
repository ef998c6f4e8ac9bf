//! Lists in mode `auto`, over an in-memory catalog with a call log.

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use model::{Agent, Inventory, Manifest, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolcrib::{
    CallLogOptions, CallRecorder, Catalog, ChangeContext, Command, JournalLocation, MemoryCallLog,
    SystemClock, Toolcrib, ToolcribOptions,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::*;

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// An app in which every agent has these tools; their upstream is unreachable.
async fn app(tools: &[&str]) -> AppState {
    let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
    let catalog = Arc::new(Catalog::open(journal).await.unwrap());
    let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
    let recorder =
        CallRecorder::start(Arc::new(MemoryCallLog::default()), CallLogOptions::default());
    let options = ToolcribOptions { recorder: Some(recorder), ..ToolcribOptions::default() };
    let crib = Toolcrib::new(catalog, client, SystemClock, options);
    let manifest = |name: &&str| {
        let execution =
            json!({"mode": "sync_http", "url_template": format!("http://127.0.0.1:9/{name}")});
        let manifest = Manifest {
            name: (*name).into(),
            title: None,
            description: "x".repeat(400).into(),
            method: "GET".into(),
            path: "/".into(),
            tags: Vec::new(),
            input_schema: Schema::new(json!({"type": "object"})).unwrap(),
            output_schema: None,
            execution: from_json(execution),
            deprecated: false,
            security: None,
            extra: Default::default(),
        };
        ((*name).to_owned(), manifest)
    };
    let inventory = Inventory::new("pets".parse().unwrap(), tools.iter().map(manifest)).unwrap();
    let profile =
        json!({"name": "pets", "url": "http://127.0.0.1:9", "settings": {"kind": "openapi"}});
    let group = json!({"id": "all", "profile": {"name": "all"}, "selectors": [{"name": "*"}]});
    let matcher = json!({"claim": "role", "operator": "equals", "value": "x"});
    let policy = json!({"name": "all", "matchers": [matcher], "groups": ["all"]});
    for command in [
        Command::Source("pets".parse().unwrap(), SourceCommand::Register(from_json(profile))),
        Command::Ingest { inventory: Box::new(inventory), force: false },
        Command::Group("all".parse().unwrap(), GroupCommand::Create(Box::new(from_json(group)))),
        Command::Policy("all".parse().unwrap(), PolicyCommand::Define(from_json(policy))),
    ] {
        crib.catalog().execute(command, ChangeContext::by_actor("test"), None).await.unwrap();
    }
    crate::app_state::AppState::without_endpoints(crib)
}

#[tokio::test]
async fn a_list_over_budget_has_the_most_used_tools_that_fit() {
    let app = app(&["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    let agent = Agent::new("ada", Arc::new(from_json(json!({"role": "x"}))));
    let identity = CallerIdentity { agent: agent.clone(), ..CallerIdentity::anonymous() };
    let sight =
        |budget| ListOptions { group: None, mode: ListMode::Auto, format: ToolFormat::Mcp, budget };
    let names = |view: &AgentView| -> Vec<String> {
        view.list().iter().map(|tool| tool.name().to_owned()).collect()
    };
    let whole =
        ToolFormat::Mcp.cached_list(&app.list_cache, &app.crib.view(&agent)).bytes.len() as u64;
    let two = ToolFormat::Mcp
        .cached_list(&app.list_cache, &app.crib.view(&agent).search_only())
        .bytes
        .len() as u64;
    assert_eq!(
        names(&sight(whole / BYTES_PER_TOKEN + 1).current_view(&app, &identity).unwrap()).len(),
        8
    );
    let budget = (two + 1_100) / BYTES_PER_TOKEN;
    let before = sight(budget).current_view(&app, &identity).unwrap();
    assert_eq!(names(&before), ["tool_search", "execute_tool"]);
    for name in ["g", "g", "g", "c", "c", "a"] {
        app.crib.view(&agent).call(name, Map::new()).await.unwrap();
    }
    app.crib.count_usage().await;
    let now = sight(budget).current_view(&app, &identity).unwrap();
    assert_eq!(names(&now), ["tool_search", "execute_tool", "c", "g"]);
    let list = ToolFormat::Mcp.cached_list(&app.list_cache, &now).bytes;
    assert!(list.len() as u64 <= budget * BYTES_PER_TOKEN, "{}", list.len());
    assert_eq!(now.stamp(), sight(budget).current_view(&app, &identity).unwrap().stamp());
    // New usage statistics alone do not change the list of a client that already has one.
    assert!(
        sight(budget).current_view_like(&app, &identity, &before).unwrap().has_same_list(&before)
    );
}
