//! The server that clients are tested with: a real `toolcrib serve` with its own journal, set up over its API.
//!
//! An agent of the staff has two of its three tools: `get_order` is listed, `place_order` is searchable, and
//! `cancel_order` is granted to no agent.

use anyhow::Context as _;
use serde_json::json;

use super::order_api::OrderApi;
use crate::toolcrib_server::{AdminClient, RunningToolcrib};

const SPECIFICATION: &str = r#"
openapi: 3.1.0
info: {title: Pizzeria, version: 1.0.0}
servers: [{url: UPSTREAM}]
paths:
  "/orders/{id}":
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get: {operationId: get_order, summary: How far an order is}
    delete: {operationId: cancel_order, summary: Cancel an order of pizzas}
  /orders:
    post:
      operationId: place_order
      summary: Order pizzas
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              properties:
                address: {type: string}
                pizzas: {type: array, items: {type: string}}
              required: [address, pizzas]
"#;

pub(super) struct PizzeriaServer {
    pub(super) upstream: OrderApi,
    pub(super) served: RunningToolcrib,
    /// The key of a staff agent.
    pub(super) key: String,
}

impl PizzeriaServer {
    pub(super) async fn open() -> anyhow::Result<Self> {
        let upstream = OrderApi::open()?;
        let served = RunningToolcrib::open(&[]).await?;
        let key = set_up_agent(&served.admin, &upstream.url).await?;
        Ok(Self { upstream, served, key })
    }
}

/// Registers the source and the policy. Returns the key of an agent.
async fn set_up_agent(admin: &AdminClient, upstream: &str) -> anyhow::Result<String> {
    let text = SPECIFICATION.replace("UPSTREAM", upstream);
    let settings = json!({"kind": "openapi", "specification": {"text": text}});
    let source = json!({"name": "Pizzeria", "settings": settings, "allow": ["127.0.0.1"]});
    admin.post("sources", source).await?;
    admin.wait_for_inventory("pizzeria").await?;
    let listed = json!({"name": "Look", "tools": ["pizzeria:get_order"]});
    admin.post("groups", listed).await?;
    let found =
        json!({"name": "Order", "tools": ["pizzeria:place_order"], "visibility": "searchable"});
    admin.post("groups", found).await?;
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "Staff", "groups": ["look", "order"], "matchers": matchers});
    admin.post("policies", policy).await?;
    let made = admin.post("keys", json!({"name": "Agent", "claims": {"role": "staff"}})).await?;
    Ok(made["key"].as_str().context("a new key is shown")?.to_owned())
}
