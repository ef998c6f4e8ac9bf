//! A toolcrib with sources, tools, groups and policies, created by admin commands.

use std::sync::Arc;

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::{ToolCommand, ToolOverride};
use model::{Agent, Inventory, Manifest, Schema, Visibility};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{
    AgentView, Catalog, ChangeContext, Command, ExecutedCommand, JournalLocation, SystemClock,
    Toolcrib, ToolcribOptions,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

pub(crate) struct World {
    pub(crate) crib: Toolcrib,
    catalog: Arc<Catalog>,
    client: HttpClient,
}

pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

pub(crate) fn agent(claims: Value) -> Agent {
    Agent::new("somebody", Arc::new(from_json(claims)))
}

impl World {
    pub(crate) async fn empty() -> Self {
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let catalog = Arc::new(Catalog::open(journal).await.unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        let crib = Toolcrib::new(
            Arc::clone(&catalog),
            client.clone(),
            SystemClock,
            ToolcribOptions::default(),
        );
        Self { crib, catalog, client }
    }

    /// A second toolcrib over the same catalog.
    pub(crate) fn with_options(&self, options: ToolcribOptions) -> Toolcrib {
        Toolcrib::new(Arc::clone(&self.catalog), self.client.clone(), SystemClock, options)
    }

    /// A world with these sources and their tools.
    pub(crate) async fn with_tools(sources: &[(&str, &[&str])]) -> Self {
        Self::with_tools_at("https://api.example", sources).await
    }

    /// A world with these sources and their tools at an upstream.
    pub(crate) async fn with_tools_at(url: &str, sources: &[(&str, &[&str])]) -> Self {
        let world = Self::empty().await;
        for (source, tools) in sources {
            let profile = json!({"name": source, "url": url, "settings": {"kind": "openapi"}});
            let register = SourceCommand::Register(from_json(profile));
            world.execute(Command::Source(source.parse().unwrap(), register)).await;
            let manifests = tools.iter().map(|name| ((*name).to_owned(), manifest(url, name)));
            let inventory = Inventory::new(source.parse().unwrap(), manifests).unwrap();
            world.execute(Command::Ingest { inventory: Box::new(inventory), force: false }).await;
        }
        world
    }

    pub(crate) async fn execute(&self, command: Command) -> ExecutedCommand {
        self.crib.catalog().execute(command, ChangeContext::by_actor("admin"), None).await.unwrap()
    }

    /// Creates a group with these `selectors`, `tools`, `excluded` and `visibility`.
    pub(crate) async fn group(&self, id: &str, mut group: Value) {
        let visibility = group["visibility"].take();
        group["id"] = json!(id);
        group["profile"] = json!({"name": id, "visibility": visibility});
        let create = GroupCommand::Create(Box::new(from_json(group)));
        self.execute(Command::Group(id.parse().unwrap(), create)).await;
    }

    /// Creates a policy that grants these groups to agents with these claims.
    pub(crate) async fn policy(&self, id: &str, claims: Value, groups: &[&str]) {
        let matcher = |(claim, value): (&String, &Value)| json!({"claim": claim, "operator": "equals", "value": value});
        let matchers: Vec<_> = claims.as_object().unwrap().iter().map(matcher).collect();
        let rules = json!({"name": id, "matchers": matchers, "groups": groups});
        let define = PolicyCommand::Define(from_json(rules));
        self.execute(Command::Policy(id.parse().unwrap(), define)).await;
    }

    pub(crate) async fn rename(&self, tool: &str, name: &str) {
        let other = ToolOverride { name: Some(name.into()), ..ToolOverride::default() };
        self.execute(Command::Tool(tool.parse().unwrap(), ToolCommand::Override(other))).await;
    }

    pub(crate) async fn set_visibility(&self, tool: &str, visibility: Visibility) {
        let other = ToolOverride { visibility: Some(visibility), ..ToolOverride::default() };
        self.execute(Command::Tool(tool.parse().unwrap(), ToolCommand::Override(other))).await;
    }

    pub(crate) fn view(&self, claims: Value) -> AgentView {
        self.crib.view(&agent(claims))
    }
}

pub(crate) fn manifest(url: &str, name: &str) -> Manifest {
    Manifest {
        name: name.into(),
        title: None,
        description: "".into(),
        method: "GET".into(),
        path: format!("/{name}").into(),
        tags: Vec::new(),
        input_schema: Schema::new(json!({"type": "object"})).unwrap(),
        output_schema: None,
        execution: from_json(json!({"mode": "sync_http", "url_template": format!("{url}/{name}")})),
        deprecated: false,
        security: None,
        extra: Default::default(),
    }
}
