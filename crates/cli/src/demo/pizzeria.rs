//! The API of the demo pizzeria, with its OpenAPI specification. Orders are kept in memory only.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

const SPECIFICATION: &str = include_str!("pizzeria.yaml");

/// Name, price in euros, and whether it is vegetarian.
const MENU: [(&str, f64, bool); 4] = [
    ("Margherita", 8.5, true),
    ("Funghi", 9.5, true),
    ("Prosciutto", 10.5, false),
    ("Tonno", 11.0, false),
];

/// Baking time; short, so that the demo need not wait.
const BAKING_TIME: Duration = Duration::from_millis(300);
/// Bounds the memory that orders take.
const MAX_ORDERS: usize = 1_000;

#[derive(Clone, Default)]
struct KitchenState(Arc<Mutex<Vec<PizzaOrder>>>);

#[derive(Clone)]
struct PizzaOrder {
    table: u8,
    pizzas: Vec<String>,
    /// When baking started.
    baking_since: Option<Instant>,
}

/// The routes of the pizzeria API.
pub(super) fn pizzeria_router() -> Router {
    let specification = || async { ([(header::CONTENT_TYPE, "application/yaml")], SPECIFICATION) };
    Router::new()
        .route("/openapi.yaml", get(specification))
        .route("/menu", get(get_menu))
        .route("/orders", get(list_orders).post(place_order))
        .route("/orders/{order}", get(get_order))
        .route("/orders/{order}/bake", post(bake_order))
        .with_state(KitchenState::default())
}

async fn get_menu(uri: Uri) -> Json<Value> {
    let is_vegetarian = uri.query().is_some_and(|query| query.contains("vegetarian=true"));
    let wanted = MENU.iter().filter(|(.., vegetarian)| *vegetarian || !is_vegetarian);
    let pizza = |(name, price, vegetarian): &(&str, f64, bool)| json!({"name": name, "price": price, "vegetarian": vegetarian});
    Json(wanted.map(pizza).collect())
}

async fn list_orders(State(kitchen): State<KitchenState>) -> Json<Value> {
    let orders = kitchen.lock_orders();
    Json(orders.iter().enumerate().map(|(index, order)| order.to_json(index + 1)).collect())
}

#[derive(Deserialize)]
struct NewPizzaOrder {
    table: u8,
    pizzas: Vec<String>,
}

async fn place_order(
    State(kitchen): State<KitchenState>,
    Json(new): Json<NewPizzaOrder>,
) -> Response {
    let is_on_the_menu = |pizza: &String| MENU.iter().any(|(name, ..)| name == pizza);
    if let Some(pizza) = new.pizzas.iter().find(|pizza| !is_on_the_menu(pizza)) {
        let known = MENU.map(|(name, ..)| name).join(", ");
        return unprocessable(&format!("there is no {pizza}: the menu has {known}"));
    }
    let mut orders = kitchen.lock_orders();
    if MAX_ORDERS <= orders.len() {
        return unprocessable("the kitchen has enough to do");
    }
    orders.push(PizzaOrder { table: new.table, pizzas: new.pizzas, baking_since: None });
    let number = orders.len();
    let shown = orders.last().map(|order| order.to_json(number));
    (StatusCode::CREATED, Json(shown)).into_response()
}

async fn get_order(State(kitchen): State<KitchenState>, Path(number): Path<usize>) -> Response {
    let orders = kitchen.lock_orders();
    match number.checked_sub(1).and_then(|index| orders.get(index)) {
        Some(order) => Json(order.to_json(number)).into_response(),
        None => order_not_found(number),
    }
}

async fn bake_order(State(kitchen): State<KitchenState>, Path(number): Path<usize>) -> Response {
    let mut orders = kitchen.lock_orders();
    let Some(order) = number.checked_sub(1).and_then(|index| orders.get_mut(index)) else {
        return order_not_found(number);
    };
    order.baking_since.get_or_insert_with(Instant::now);
    (StatusCode::ACCEPTED, Json(order.to_json(number))).into_response()
}

fn unprocessable(why: &str) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"error": why}))).into_response()
}

fn order_not_found(number: usize) -> Response {
    let why = format!("there is no order {number}");
    (StatusCode::NOT_FOUND, Json(json!({"error": why}))).into_response()
}

impl KitchenState {
    fn lock_orders(&self) -> std::sync::MutexGuard<'_, Vec<PizzaOrder>> {
        self.0.lock().expect("no one panics while holding it")
    }
}

impl PizzaOrder {
    fn to_json(&self, number: usize) -> Value {
        let state = match self.baking_since {
            None => "ordered",
            Some(since) if since.elapsed() < BAKING_TIME => "in_the_oven",
            Some(_) => "baked",
        };
        json!({"number": number, "table": self.table, "pizzas": self.pizzas, "state": state})
    }
}
