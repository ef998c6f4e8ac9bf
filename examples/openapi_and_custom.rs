//! One MCP endpoint that serves the operations of an OpenAPI specification together with tools, prompts and resources
//! of this program.
//!
//! ```console
//! $ cargo run -p toolcrib-cli --example openapi_and_custom
//! listening on http://127.0.0.1:8080/mcp
//! ```
//!
//! The specification is `pizzeria.yaml`. Its API is fictional, so this program also implements it, at `/v1`; a real API
//! would run elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib::{
    BoxError, Credentials, OpenApi, OpenApiOptions, Prompt, ProvidedTool, RegisterError, Registry,
    Resource, ResourceTemplate, Toolcrib,
};
use upstream::egress::EgressPolicy;
use upstream::http::Url;

const SPECIFICATION: &str = include_str!("pizzeria.yaml");
/// Read credentials from a secret store in a real program, never from its source code.
const TOKEN: &str = "a-secret-of-the-pizzeria";

/// Tools for the operations of the API: `list_pizzas`, `place_order` and `get_order`.
fn api_provider(api: Url) -> Result<OpenApi, BoxError> {
    let host = api.host_str().ok_or("the API has no host")?;
    let options = OpenApiOptions {
        egress: EgressPolicy { allowed: vec![host.parse()?], ..EgressPolicy::default() },
        base_url: Some(api),
        // The specification calls this security scheme `token`.
        credentials: Credentials::from([("token".to_owned(), TOKEN.into())]),
        ..OpenApiOptions::default()
    };
    Ok(OpenApi::read("pizzeria", SPECIFICATION, options)?)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Bill")]
struct SharedBill {
    /// What all of it costs, in cents
    cents: u64,
    /// How many pay
    guests: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Shares")]
struct BillShares {
    /// What each of them pays, in cents
    cents: Vec<u64>,
}

/// A tool that is not part of the API. The model gets its error as text.
async fn split_bill(bill: SharedBill) -> Result<toolcrib::Json<BillShares>, &'static str> {
    if bill.guests == 0 || 100 < bill.guests {
        return Err("there must be 1 to 100 guests");
    }
    let (each, left) = (bill.cents / bill.guests, bill.cents % bill.guests);
    let cents = (0..bill.guests).map(|guest| each + u64::from(guest < left)).collect();
    Ok(toolcrib::Json(BillShares { cents }))
}

/// The tools, prompts and resources of this program.
fn own_registry() -> Result<Registry, RegisterError> {
    let registry = Registry::new();
    let tool = ProvidedTool::new("split_bill", "Split a bill so that no cent is left");
    registry.register_tool(tool, split_bill, &["money", "share"])?;
    registry.register_prompt(
        Prompt::new("plan_party", "Plans pizza for a party")
            .required("guests", "How many come")
            .optional("wishes", "What they do not eat")
            .user(
                "Plan pizza for {{guests}} guests. Wishes: {{wishes}}. Look at list_pizzas, order with place_order, \
                 and say with split_bill what each guest pays.",
            ),
    )?;
    let rules = "Half a pizza for children. No pineapple after ten.";
    registry.register_resource(Resource::new(
        "pizzeria://rules",
        "House rules",
        "text/plain",
        rules,
    ))?;
    let receipt = |uri: String, _call| async move {
        let order = uri.strip_prefix("pizzeria://receipts/").ok_or("it is no receipt")?;
        Ok::<_, BoxError>(format!("Order {order}: thank you!"))
    };
    let receipts = "pizzeria://receipts/{order}";
    registry.register_resource_template(ResourceTemplate::read_by(
        receipts,
        "Receipt",
        "text/plain",
        receipt,
    ))?;
    Ok(registry)
}

/// MCP endpoint at `/mcp` for this program and the API at this address.
pub(crate) async fn mcp_app(api: Url) -> Result<Router, BoxError> {
    let registry = own_registry()?;
    registry.add_provider(Arc::new(api_provider(api)?));
    let (mcp, _) = mcp_server::mcp_router(
        Toolcrib::from_registry(registry).await?,
        mcp_server::ServerOptions::local(),
    );
    Ok(mcp)
}

/// The API of the pizzeria, at `/v1`.
pub(crate) fn pizzeria_api() -> Router {
    static ORDERS: AtomicU64 = AtomicU64::new(1);
    let menu = |RawQuery(wish): RawQuery| async move {
        let meat = wish.as_deref() != Some("vegetarian=true");
        let salami = meat.then(|| json!({"name": "Salami", "price": 9.5}));
        let all = [json!({"name": "Margherita", "price": 8})].into_iter().chain(salami);
        Json(Value::Array(all.collect()))
    };
    let order = |headers: HeaderMap, Json(order): Json<Value>| async move {
        if headers.get("authorization").is_none_or(|shown| *shown != format!("Bearer {TOKEN}")) {
            return (StatusCode::UNAUTHORIZED, Json(json!({"error": "who are you?"})));
        }
        let id = ORDERS.fetch_add(1, Ordering::Relaxed);
        let answer = json!({"id": id, "status": "received", "pizzas": order["pizzas"]});
        (StatusCode::CREATED, Json(answer))
    };
    let look = |Path(id): Path<u64>| async move {
        match id < ORDERS.load(Ordering::Relaxed) {
            true => (StatusCode::OK, Json(json!({"id": id, "status": "baking"}))),
            false => (StatusCode::NOT_FOUND, Json(json!({"error": "no such order"}))),
        }
    };
    let routes = Router::new().route("/menu", get(menu)).route("/orders", post(order));
    Router::new().nest("/v1", routes.route("/orders/{id}", get(look)))
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program says where it is")]
async fn main() -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    let here = listener.local_addr()?;
    let app = mcp_app(format!("http://{here}/v1").parse()?).await?.merge(pizzeria_api());
    println!("listening on http://{here}/mcp");
    Ok(axum::serve(listener, app).await?)
}
