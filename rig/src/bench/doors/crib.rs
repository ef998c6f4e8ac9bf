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
use toolcrib::upstream::egress::Egress;
use toolcrib::upstream::http::HttpClient;
use toolcrib::{
    CallContext, Calling, Context, JournalPlace, Options, ProvidedTool, Registry, SystemClock,
    ToolProvider, Toolcrib, new_key,
};

use crate::bench::overload::AGENTS;
use crate::world;

/// Toolset sizes of the agents, each with a key of that name. `echo`, which every agent has, is included.
pub(super) const SIZES: [usize; 3] = [5, 50, 500];
/// Size of a manifest, in bytes; its entry in a list has about 720 bytes.
const BYTES_OF_A_MANIFEST: usize = 900;
/// Number of subscribed agents: each has different claims, and the same tools.
pub(super) const LISTENERS: usize = 100;
/// A tool that every agent has; the benchmark enables and disables it.
pub(super) const SWITCHED: &str = "source-0:operation_0";

/// A crib, and its keys by their purpose.
pub(super) struct Made {
    pub(super) crib: Toolcrib,
    pub(super) keys: BTreeMap<String, String>,
}

pub(super) async fn make(upstream: Option<SocketAddr>) -> anyhow::Result<Made> {
    let journal = JournalPlace::Memory.open(SystemClock).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(Egress::default());
    let registry = Registry::of(Arc::new(Echo::new()));
    let options = Options { registry, ..Options::default() };
    let crib = Toolcrib::new(catalog, client, SystemClock, options);
    let mut made = Made { crib, keys: BTreeMap::new() };
    made.tools().await?;
    for size in SIZES {
        let name = size.to_string();
        made.agent(&name, &name, json!({"tools": name})).await?;
    }
    for number in 0..LISTENERS {
        let name = format!("listener-{number}");
        made.agent(&name, &SIZES[0].to_string(), json!({"listener": name})).await?;
    }
    if let Some(upstream) = upstream {
        made.forwarded(upstream).await?;
        made.agent("forwarded", "forwarded", json!({"tools": "forwarded"})).await?;
        for number in 0..AGENTS {
            let claims = json!({"tools": "forwarded", "agent": number});
            made.key(&format!("forwarded-{number}"), json!({"claims": claims})).await?;
        }
    }
    made.key("admin", json!({"admin": true})).await?;
    Ok(made)
}

impl Made {
    async fn execute(&self, command: Command) -> anyhow::Result<()> {
        self.crib.catalog().execute(command, Context::by("bench"), None).await?;
        Ok(())
    }

    async fn tools(&self) -> anyhow::Result<()> {
        let most = SIZES.iter().max().expect("there are sizes") - 1;
        let id = world::source_id(0);
        let register = SourceCommand::Register(world::profile(id.as_str()));
        self.execute(Command::Source(id.clone(), register)).await?;
        let inventory = Box::new(world::inventory(&id, most, BYTES_OF_A_MANIFEST, 0));
        self.execute(Command::Ingest { inventory, force: false }).await?;
        for size in SIZES {
            let tools: Vec<_> = (1..size).map(|n| format!("{id}:operation_{}", n - 1)).collect();
            self.group(&size.to_string(), json!({"tools": tools})).await?;
        }
        Ok(())
    }

    async fn group(&self, id: &str, mut group: Value) -> anyhow::Result<()> {
        group["id"] = json!(id);
        group["profile"] = json!({"name": id});
        let create = GroupCommand::Create(Box::new(from_json(group)));
        self.execute(Command::Group(id.parse()?, create)).await
    }

    /// Adds a key whose claims are granted a group.
    async fn agent(&mut self, name: &str, group: &str, claims: Value) -> anyhow::Result<()> {
        let matcher = |(claim, value): (&String, &Value)| json!({"claim": claim, "operator": "equals", "value": value});
        let matchers: Vec<_> = claims.as_object().into_iter().flatten().map(matcher).collect();
        let rules = json!({"name": name, "matchers": matchers, "groups": [group]});
        let define = PolicyCommand::Define(from_json(rules));
        self.execute(Command::Policy(name.parse()?, define)).await?;
        self.key(name, json!({"claims": claims})).await
    }

    async fn key(&mut self, name: &str, mut profile: Value) -> anyhow::Result<()> {
        profile["name"] = json!(name);
        let (key, create) = new_key(&name.parse()?, from_json(profile));
        self.execute(Command::Key(name.parse()?, create)).await?;
        self.keys.insert(name.to_owned(), key.expose_secret().to_owned());
        Ok(())
    }

    /// Adds a source with one tool, discovered like any other.
    async fn forwarded(&self, upstream: SocketAddr) -> anyhow::Result<()> {
        let id: SourceId = "orders".parse()?;
        let profile = json!({
            "name": "orders", "url": format!("http://{upstream}/"), "allow": [upstream.to_string()],
            "settings": {"kind": "openapi", "specification": {"text": SPECIFICATION}},
        });
        let register = SourceCommand::Register(from_json(profile));
        self.execute(Command::Source(id.clone(), register)).await?;
        let found = self.crib.refresher().refresh(&id, false, &Context::by("bench")).await?;
        anyhow::ensure!(found.created == 1, "no tool to forward to: {found:?}");
        self.group("forwarded", json!({"selectors": [{"source": id}]})).await
    }
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the bench writes what can be read")
}

/// A tool in code that does almost nothing, or uses a processor for the requested number of microseconds.
struct Echo(Arc<ProvidedTool>);

impl Echo {
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

impl ToolProvider for Echo {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        vec![Arc::clone(&self.0)]
    }

    fn call_tool<'a>(
        &'a self,
        _name: &'a str,
        mut arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> Calling<'a> {
        let text = match arguments.remove("text") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let busy = arguments.get("busy").and_then(Value::as_u64).unwrap_or_default();
        spin(Duration::from_micros(busy));
        let (content, meta) = (vec![Content::Text { text }], Map::new());
        let result = ToolResult { content, structured_content: None, is_error: false, meta };
        Box::pin(async { Ok(result) })
    }
}

fn spin(time: Duration) {
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
