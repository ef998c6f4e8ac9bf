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
const IN_THE_OVEN: Duration = Duration::from_millis(300);
/// Bounds the memory that orders take.
const MOST_ORDERS: usize = 1_000;

#[derive(Clone, Default)]
struct Kitchen(Arc<Mutex<Vec<Order>>>);

#[derive(Clone)]
struct Order {
    table: u8,
    pizzas: Vec<String>,
    /// When baking started.
    in_the_oven: Option<Instant>,
}

/// The routes of the pizzeria API.
pub(super) fn router() -> Router {
    let specification = || async { ([(header::CONTENT_TYPE, "application/yaml")], SPECIFICATION) };
    Router::new()
        .route("/openapi.yaml", get(specification))
        .route("/menu", get(menu))
        .route("/orders", get(orders).post(place))
        .route("/orders/{order}", get(order))
        .route("/orders/{order}/bake", post(bake))
        .with_state(Kitchen::default())
}

async fn menu(uri: Uri) -> Json<Value> {
    let is_vegetarian = uri.query().is_some_and(|query| query.contains("vegetarian=true"));
    let wanted = MENU.iter().filter(|(.., vegetarian)| *vegetarian || !is_vegetarian);
    let pizza = |(name, price, vegetarian): &(&str, f64, bool)| json!({"name": name, "price": price, "vegetarian": vegetarian});
    Json(wanted.map(pizza).collect())
}

async fn orders(State(kitchen): State<Kitchen>) -> Json<Value> {
    let orders = kitchen.orders();
    Json(orders.iter().enumerate().map(|(index, order)| order.shown(index + 1)).collect())
}

#[derive(Deserialize)]
struct NewOrder {
    table: u8,
    pizzas: Vec<String>,
}

async fn place(State(kitchen): State<Kitchen>, Json(new): Json<NewOrder>) -> Response {
    let is_on_the_menu = |pizza: &String| MENU.iter().any(|(name, ..)| name == pizza);
    if let Some(pizza) = new.pizzas.iter().find(|pizza| !is_on_the_menu(pizza)) {
        let known = MENU.map(|(name, ..)| name).join(", ");
        return refused(&format!("there is no {pizza}: the menu has {known}"));
    }
    let mut orders = kitchen.orders();
    if MOST_ORDERS <= orders.len() {
        return refused("the kitchen has enough to do");
    }
    orders.push(Order { table: new.table, pizzas: new.pizzas, in_the_oven: None });
    let number = orders.len();
    let shown = orders.last().map(|order| order.shown(number));
    (StatusCode::CREATED, Json(shown)).into_response()
}

async fn order(State(kitchen): State<Kitchen>, Path(number): Path<usize>) -> Response {
    let orders = kitchen.orders();
    match number.checked_sub(1).and_then(|index| orders.get(index)) {
        Some(order) => Json(order.shown(number)).into_response(),
        None => no_order(number),
    }
}

async fn bake(State(kitchen): State<Kitchen>, Path(number): Path<usize>) -> Response {
    let mut orders = kitchen.orders();
    let Some(order) = number.checked_sub(1).and_then(|index| orders.get_mut(index)) else {
        return no_order(number);
    };
    order.in_the_oven.get_or_insert_with(Instant::now);
    (StatusCode::ACCEPTED, Json(order.shown(number))).into_response()
}

fn refused(why: &str) -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"error": why}))).into_response()
}

fn no_order(number: usize) -> Response {
    let why = format!("there is no order {number}");
    (StatusCode::NOT_FOUND, Json(json!({"error": why}))).into_response()
}

impl Kitchen {
    fn orders(&self) -> std::sync::MutexGuard<'_, Vec<Order>> {
        self.0.lock().expect("no one panics while holding it")
    }
}

impl Order {
    fn shown(&self, number: usize) -> Value {
        let state = match self.in_the_oven {
            None => "ordered",
            Some(since) if since.elapsed() < IN_THE_OVEN => "in_the_oven",
            Some(_) => "baked",
        };
        json!({"number": number, "table": self.table, "pizzas": self.pizzas, "state": state})
    }
}
