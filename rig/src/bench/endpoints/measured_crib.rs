//! The measured crib: tools of a usual size, agents with few or many of them, one tool implemented in code, and one
//! that is forwarded.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::{Catalog, Command};
use model::{Content, SourceId, ToolResult};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolcrib::{
    CallContext, ChangeContext, JournalLocation, ProvidedTool, Registry, SystemClock,
    ToolCallFuture, ToolProvider, Toolcrib, ToolcribOptions, new_api_key,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::bench::overload::AGENTS;
use crate::sample_inventory;

/// Toolset sizes of the agents, each with a key of that name. `echo`, which every agent has, is included.
pub(super) const SIZES: [usize; 3] = [5, 50, 500];
/// Size of a manifest, in bytes; its entry in a list has about 720 bytes.
const MANIFEST_BYTES: usize = 900;
/// Number of subscribed agents: each has different claims, and the same tools.
pub(super) const LISTENERS: usize = 100;
/// A tool that every agent has; the benchmark enables and disables it.
pub(super) const TOGGLED_TOOL: &str = "source-0:operation_0";

/// A crib, and its keys by their purpose.
pub(super) struct MeasuredCrib {
    pub(super) crib: Toolcrib,
    pub(super) keys: BTreeMap<String, String>,
}

pub(super) async fn build_crib(upstream: Option<SocketAddr>) -> anyhow::Result<MeasuredCrib> {
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(EgressPolicy::default());
    let registry = Registry::from_provider(Arc::new(EchoProvider::new()));
    let options = ToolcribOptions { registry, ..ToolcribOptions::default() };
    let crib = Toolcrib::new(catalog, client, SystemClock, options);
    let mut made = MeasuredCrib { crib, keys: BTreeMap::new() };
    made.add_tools().await?;
    for size in SIZES {
        let name = size.to_string();
        made.add_agent(&name, &name, json!({"tools": name})).await?;
    }
    for number in 0..LISTENERS {
        let name = format!("listener-{number}");
        made.add_agent(&name, &SIZES[0].to_string(), json!({"listener": name})).await?;
    }
    if let Some(upstream) = upstream {
        made.add_forwarded_source(upstream).await?;
        made.add_agent("forwarded", "forwarded", json!({"tools": "forwarded"})).await?;
        for number in 0..AGENTS {
            let claims = json!({"tools": "forwarded", "agent": number});
            made.add_key(&format!("forwarded-{number}"), json!({"claims": claims})).await?;
        }
    }
    made.add_key("admin", json!({"admin": true})).await?;
    Ok(made)
}

impl MeasuredCrib {
    async fn execute_command(&self, command: Command) -> anyhow::Result<()> {
        self.crib.catalog().execute(command, ChangeContext::by_actor("bench"), None).await?;
        Ok(())
    }

    async fn add_tools(&self) -> anyhow::Result<()> {
        let most = SIZES.iter().max().expect("there are sizes") - 1;
        let id = sample_inventory::source_id(0);
        let register = SourceCommand::Register(sample_inventory::profile(id.as_str()));
        self.execute_command(Command::Source(id.clone(), register)).await?;
        let inventory = Box::new(sample_inventory::inventory(&id, most, MANIFEST_BYTES, 0));
        self.execute_command(Command::Ingest { inventory, force: false }).await?;
        for size in SIZES {
            let tools: Vec<_> = (1..size).map(|n| format!("{id}:operation_{}", n - 1)).collect();
            self.add_group(&size.to_string(), json!({"tools": tools})).await?;
        }
        Ok(())
    }

    async fn add_group(&self, id: &str, mut group: Value) -> anyhow::Result<()> {
        group["id"] = json!(id);
        group["profile"] = json!({"name": id});
        let create = GroupCommand::Create(Box::new(from_json(group)));
        self.execute_command(Command::Group(id.parse()?, create)).await
    }

    /// Adds a key whose claims are granted a group.
    async fn add_agent(&mut self, name: &str, group: &str, claims: Value) -> anyhow::Result<()> {
        let matcher = |(claim, value): (&String, &Value)| json!({"claim": claim, "operator": "equals", "value": value});
        let matchers: Vec<_> = claims.as_object().into_iter().flatten().map(matcher).collect();
        let rules = json!({"name": name, "matchers": matchers, "groups": [group]});
        let define = PolicyCommand::Define(from_json(rules));
        self.execute_command(Command::Policy(name.parse()?, define)).await?;
        self.add_key(name, json!({"claims": claims})).await
    }

    async fn add_key(&mut self, name: &str, mut profile: Value) -> anyhow::Result<()> {
        profile["name"] = json!(name);
        let (key, create) = new_api_key(&name.parse()?, from_json(profile));
        self.execute_command(Command::Key(name.parse()?, create)).await?;
        self.keys.insert(name.to_owned(), key.expose_secret().to_owned());
        Ok(())
    }

    /// Adds a source with one tool, discovered like any other.
    async fn add_forwarded_source(&self, upstream: SocketAddr) -> anyhow::Result<()> {
        let id: SourceId = "orders".parse()?;
        let profile = json!({
            "name": "orders", "url": format!("http://{upstream}/"), "allow": [upstream.to_string()],
            "settings": {"kind": "openapi", "specification": {"text": SPECIFICATION}},
        });
        let register = SourceCommand::Register(from_json(profile));
        self.execute_command(Command::Source(id.clone(), register)).await?;
        let found =
            self.crib.refresher().refresh(&id, false, &ChangeContext::by_actor("bench")).await?;
        anyhow::ensure!(found.created == 1, "no tool to forward to: {found:?}");
        self.add_group("forwarded", json!({"selectors": [{"source": id}]})).await
    }
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the bench writes what can be read")
}

/// A tool in code that does almost nothing, or uses a processor for the requested number of microseconds.
struct EchoProvider(Arc<ProvidedTool>);

impl EchoProvider {
    fn new() -> Self {
        let schema = json!({
            "type": "object", "properties": {"text": {"type": "string", "maxLength": 1000}}, "required": ["text"],
        });
        Self(Arc::new(ProvidedTool {
            name: "echo".into(),
            description: "Says the same again.".into(),
            input_schema: schema,
            ..ProvidedTool::default()
        }))
    }
}

impl ToolProvider for EchoProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        vec![Arc::clone(&self.0)]
    }

    fn call_tool<'a>(
        &'a self,
        _name: &'a str,
        mut arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        let text = match arguments.remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let busy = arguments.get("busy").and_then(Value::as_u64).unwrap_or_default();
        busy_wait(Duration::from_micros(busy));
        let (content, meta) = (vec![Content::Text { text }], Map::new());
        let result = ToolResult { content, structured_content: None, is_error: false, meta };
        Box::pin(async { Ok(result) })
    }
}

fn busy_wait(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

const SPECIFICATION: &str = r#"
openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /shops/{shop}/orders:
    post:
      operationId: create_order
      summary: Orders something in a shop.
      parameters:
        - {name: shop, in: path, required: true, schema: {type: string, maxLength: 64}}
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [item, count]
              properties:
                item: {type: string, description: What to order., maxLength: 64}
                count: {type: integer, minimum: 1, maximum: 1000}
                note: {type: string, description: For whoever delivers it., maxLength: 500}
      responses:
        "200":
          description: The order.
          content:
            application/json:
              schema:
                type: object
                required: [id, state]
                properties:
                  id: {type: integer}
                  state: {type: string, enum: [accepted, refused]}
                  shop: {type: string}
                  item: {type: string}
                  count: {type: integer}
                  created_at: {type: string, format: date-time}
"#;
