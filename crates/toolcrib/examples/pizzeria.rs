//! A pizzeria: three sources with eight tools, two groups, two policies and two labels, over two weeks of March 2026.
//!
//! Writes its journal as JSON Lines to the path given. Times are fixed, so the file is the same each time:
//! `cargo run -p toolcrib --example pizzeria -- examples/pizzeria.jsonl`

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use catalog::group::GroupCommand;
use catalog::label::LabelCommand;
use catalog::policy::PolicyCommand;
use catalog::source::{SourceCommand, SyncError};
use catalog::tool::ToolCommand;
use model::{
    BodyEncoding, Execution, HttpRequest, Inventory, Manifest, NewGroup, Schema, SourceId, ToolId,
};
use serde_json::{Value, json};
use toolcrib::{Catalog, ChangeContext, Command, JournalLocation, ManualClock};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let path = std::env::args().nth(1).ok_or("say where to: examples/pizzeria.jsonl")?;
    std::fs::write(path, journal().await?)?;
    Ok(())
}

/// Runs the whole scenario and returns the exported journal.
pub(crate) async fn journal() -> Outcome<String> {
    let clock = Arc::new(ManualClock::starting_at("2026-03-02T09:00:00Z".parse()?));
    let journal = JournalLocation::Memory.open(Arc::clone(&clock)).await?;
    let pizzeria = Pizzeria { catalog: Catalog::open(journal).await?, clock };
    pizzeria.register_menu_and_orders().await?;
    pizzeria.advance_days(1)?;
    pizzeria.create_groups_and_policies().await?;
    pizzeria.advance_days(6)?;
    pizzeria.register_kitchen().await?;
    pizzeria.advance_days(1)?;
    pizzeria.fail_refresh_of_orders().await?;
    pizzeria.advance_days(6)?;
    pizzeria.improve_menu_description().await?;

    let mut lines = String::new();
    toolcrib::export_journal(&**pizzeria.catalog.journal(), |line| {
        lines += line;
        Ok(())
    })
    .await?;
    pizzeria.catalog.close().await;
    Ok(lines)
}

struct Pizzeria {
    catalog: Catalog,
    clock: Arc<ManualClock>,
}

impl Pizzeria {
    /// Registers the menu and the orders: two web APIs with an OpenAPI specification each.
    async fn register_menu_and_orders(&self) -> Outcome {
        self.label("pii", "Personal data", "#b03060").await?;
        self.label("money", "Moves money", "#c0a000").await?;
        let menu = json!({
            "name": "Menu", "description": "What we bake and what it costs.",
            "url": "https://menu.example.com/", "settings": {"kind": "openapi"},
            "refresh_every": 3600,
        });
        self.register("menu", menu).await?;
        let orders = json!({
            "name": "Orders", "description": "What guests ordered and where it is.",
            "url": "https://orders.example.com/", "settings": {"kind": "openapi"},
            "auth": {"kind": "bearer", "token": "sealed:orders-token"}, "refresh_every": 3600,
        });
        self.register("orders", orders).await?;
        self.refresh("menu", menu_tools("Lists the pizzas.")?).await?;
        self.refresh("orders", order_tools()?).await?;
        self.label_tool("menu:set_price", &["money"]).await?;
        self.label_tool("orders:place_order", &["money", "pii"]).await?;
        self.label_tool("orders:get_order", &["pii"]).await
    }

    /// Creates the groups and policies: guests read the menu and their order; staff use every tool but the prices.
    async fn create_groups_and_policies(&self) -> Outcome {
        let guest_read = json!({
            "id": "guest-read", "profile": {"name": "What guests may read"},
            "selectors": [{"source": "menu", "method": "GET"}], "tools": ["orders:get_order"],
        });
        self.group(guest_read).await?;
        let staff = json!({
            "id": "staff", "profile": {"name": "What staff may use"},
            "selectors": [{"source": "*"}],
            "excluded": [{"tool": "menu:set_price", "reason": "the owner sets prices by hand"}],
        });
        self.group(staff).await?;
        let guests = json!({
            "name": "Guests", "groups": ["guest-read"],
            "matchers": [{"claim": "role", "operator": "equals", "value": "guest"}],
        });
        self.policy("guests", guests).await?;
        let staff = json!({
            "name": "Staff", "priority": 10, "groups": ["guest-read", "staff"],
            "matchers": [{"claim": "realm_access.roles", "operator": "contains", "value": "staff"}],
        });
        self.policy("staff", staff).await
    }

    /// Registers the kitchen, an MCP source. Its tools are pending review; one still is at the end.
    async fn register_kitchen(&self) -> Outcome {
        let kitchen = json!({
            "name": "Kitchen", "description": "The oven and what is in it.",
            "url": "https://kitchen.example.com/mcp", "settings": {"kind": "mcp"}, "trust": "review",
        });
        self.register("kitchen", kitchen).await?;
        self.refresh("kitchen", kitchen_tools()?).await?;
        let seen: ToolId = "kitchen:oven_status".parse()?;
        let snapshot = self.catalog.snapshot();
        let fingerprint = snapshot.tool(&seen).ok_or("no such tool")?.tool.fingerprint;
        self.execute_as_admin(Command::Tool(
            seen,
            ToolCommand::Approve { fingerprint, despite_findings: false },
        ))
        .await
    }

    /// A failed refresh leaves the tools unchanged; the next day it succeeds.
    async fn fail_refresh_of_orders(&self) -> Outcome {
        let id: SourceId = "orders".parse()?;
        let error = SyncError {
            code: "spec_fetch_failed".into(),
            message: "orders.example.com did not answer within 10 s".into(),
        };
        self.execute_as_refresher(Command::Source(id.clone(), SourceCommand::StartSync)).await?;
        self.execute_as_refresher(Command::Source(id, SourceCommand::FailSync(error))).await?;
        self.advance_days(1)?;
        self.refresh("orders", order_tools()?).await
    }

    async fn improve_menu_description(&self) -> Outcome {
        let description = "Lists the pizzas of the day with their price and allergens.";
        self.refresh("menu", menu_tools(description)?).await
    }

    fn advance_days(&self, days: i64) -> Outcome {
        self.clock.advance(format!("{}h", days * 24).parse()?);
        Ok(())
    }

    async fn label(&self, id: &str, name: &str, colour: &str) -> Outcome {
        let profile = serde_json::from_value(json!({"name": name, "colour": colour}))?;
        self.execute_as_admin(Command::Label(id.parse()?, LabelCommand::Create(profile))).await
    }

    async fn label_tool(&self, id: &str, labels: &[&str]) -> Outcome {
        let labels =
            labels.iter().map(|label| label.parse()).collect::<Result<BTreeSet<_>, _>>()?;
        self.execute_as_admin(Command::Tool(id.parse()?, ToolCommand::Label(labels))).await
    }

    async fn register(&self, id: &str, profile: Value) -> Outcome {
        let command = SourceCommand::Register(serde_json::from_value(profile)?);
        self.execute_as_admin(Command::Source(id.parse()?, command)).await
    }

    async fn group(&self, group: Value) -> Outcome {
        let group: NewGroup = serde_json::from_value(group)?;
        self.execute_as_admin(Command::Group(
            group.id.clone(),
            GroupCommand::Create(Box::new(group)),
        ))
        .await
    }

    async fn policy(&self, id: &str, rules: Value) -> Outcome {
        let command = PolicyCommand::Define(serde_json::from_value(rules)?);
        self.execute_as_admin(Command::Policy(id.parse()?, command)).await
    }

    /// Ingests the inventory that a discovery would have found.
    async fn refresh(&self, id: &str, tools: Vec<Manifest>) -> Outcome {
        let id: SourceId = id.parse()?;
        let tools = tools.into_iter().map(|manifest| (manifest.name.to_string(), manifest));
        let inventory = Box::new(Inventory::new(id.clone(), tools)?);
        self.execute_as_refresher(Command::Source(id, SourceCommand::StartSync)).await?;
        self.execute_as_refresher(Command::Ingest { inventory, force: false }).await
    }

    async fn execute_as_admin(&self, command: Command) -> Outcome {
        self.catalog.execute(command, ChangeContext::by_actor("admin:luigi"), None).await?;
        Ok(())
    }

    async fn execute_as_refresher(&self, command: Command) -> Outcome {
        self.catalog.execute(command, ChangeContext::by_actor("system:refresher"), None).await?;
        Ok(())
    }
}

fn menu_tools(about_the_list: &str) -> Outcome<Vec<Manifest>> {
    let pizza =
        json!({"type": "string", "description": "Its name on the menu, such as margherita."});
    let nothing = json!({"type": "object", "properties": {}});
    let one = json!({"type": "object", "properties": {"pizza": pizza}, "required": ["pizza"]});
    let price = json!({
        "type": "object", "required": ["pizza", "cents"],
        "properties": {"pizza": pizza, "cents": {"type": "integer", "minimum": 1, "description": "The new price in cents."}},
    });
    let mut set_price = http_tool("set_price", "PUT", "/pizzas/{pizza}/price", price)?;
    set_price.execution =
        http_request("/pizzas/{{ pizza }}/price", Some(r#"{"cents": {{ cents }}}"#));
    Ok(vec![
        with_description(http_tool("list_pizzas", "GET", "/pizzas", nothing)?, about_the_list),
        with_description(
            http_tool("get_pizza", "GET", "/pizzas/{pizza}", one)?,
            "Says what is on a pizza, what it costs and which allergens it has.",
        ),
        with_description(set_price, "Changes the price of a pizza from now on."),
    ])
}

fn order_tools() -> Outcome<Vec<Manifest>> {
    let id = json!({"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]});
    let place = json!({
        "type": "object", "properties": {"order": {"$ref": "#/$defs/Order"}}, "required": ["order"],
        "$defs": {"Order": order()},
    });
    let mut place_order = http_tool("place_order", "POST", "/orders", place)?;
    place_order.execution = http_request("/orders", Some("{{ order | tojson }}"));
    let mut get_order = http_tool("get_order", "GET", "/orders/{order}", id.clone())?;
    get_order.output_schema = Some(Schema::new(json!({
        "type": "object", "properties": {"state": {"enum": ["baking", "on_its_way", "delivered"]}, "order": {"$ref": "#/$defs/Order"}},
        "$defs": {"Order": order()},
    }))?);
    Ok(vec![
        with_description(
            place_order,
            "Orders pizzas for one guest and answers with the order's number.",
        ),
        with_description(get_order, "Says what was ordered and where it is now."),
        with_description(
            http_tool("cancel_order", "DELETE", "/orders/{order}", id)?,
            "Cancels an order that is not in the oven yet.",
        ),
    ])
}

/// A schema that two tools share and that is long enough to be stored once, as a document.
fn order() -> Value {
    json!({
        "type": "object", "required": ["guest", "pizzas"],
        "properties": {
            "guest": {
                "type": "object", "required": ["name", "address"],
                "properties": {
                    "name": {"type": "string", "maxLength": 80, "description": "Who opens the door."},
                    "address": {"type": "string", "maxLength": 200, "description": "Street, number and floor."},
                    "phone": {"type": "string", "pattern": "^\\+?[0-9 ]{5,20}$"},
                },
            },
            "pizzas": {
                "type": "array", "minItems": 1, "maxItems": 20,
                "items": {
                    "type": "object", "required": ["pizza", "count"],
                    "properties": {
                        "pizza": {"type": "string", "description": "Its name on the menu."},
                        "count": {"type": "integer", "minimum": 1, "maximum": 20},
                        "without": {"type": "array", "items": {"type": "string"}, "description": "What to leave out."},
                    },
                },
            },
            "note": {"type": "string", "maxLength": 300, "description": "For the kitchen."},
        },
    })
}

fn kitchen_tools() -> Outcome<Vec<Manifest>> {
    let nothing = json!({"type": "object", "properties": {}});
    let degrees = json!({
        "type": "object", "required": ["celsius"],
        "properties": {"celsius": {"type": "integer", "minimum": 200, "maximum": 500}},
    });
    let mcp = |name: &str, schema| {
        let manifest = http_tool(name, "POST", &format!("/mcp/{name}"), schema)?;
        Outcome::Ok(Manifest { execution: Execution::McpCall, tags: Vec::new(), ..manifest })
    };
    Ok(vec![
        with_description(
            mcp("oven_status", nothing)?,
            "Says how hot the oven is and what is in it.",
        ),
        with_description(mcp("set_oven_temperature", degrees)?, "Makes the oven hotter or cooler."),
    ])
}

fn http_tool(name: &str, method: &str, path: &str, input: Value) -> Outcome<Manifest> {
    let access = if method == "GET" { "read" } else { "write" };
    Ok(Manifest {
        name: name.into(),
        title: None,
        description: "".into(),
        method: method.into(),
        path: path.into(),
        tags: vec![access.into()],
        input_schema: Schema::new(input)?,
        output_schema: None,
        execution: http_request(&path.replace('{', "{{ ").replace('}', " }}"), None),
        deprecated: false,
        security: None,
        extra: BTreeMap::new(),
    })
}

fn http_request(url: &str, body: Option<&str>) -> Execution {
    Execution::SyncHttp(HttpRequest {
        url_template: url.into(),
        headers_template: BTreeMap::new(),
        body_template: body.map(Into::into),
        body_encoding: BodyEncoding::Json,
    })
}

fn with_description(manifest: Manifest, description: &str) -> Manifest {
    Manifest { description: description.into(), ..manifest }
}
