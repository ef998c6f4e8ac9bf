//! Properties of untrusted input: the server reads it as intended or rejects it, and opens only values that it sealed
//! itself (FZ-05, FZ-23).

mod headers;
mod messages;
mod sealed;

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use serde_json::{Map, Value, json};

/// Strings with a meaning in some format, and arbitrary others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z/_.-]{0,20}",
        "[\\\\\"{}\\[\\]:,\u{0}\u{1}\r\n\t\u{7f}\u{202e}\u{feff} ]{0,12}",
        Just("=?base64?YQ==?=".to_owned()),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |number| number.is_finite().then(|| json!(number))),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            object(inner).prop_map(Value::Object),
        ]
    })
}

fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((text(), values), 0..5).prop_map(|members| members.into_iter().collect())
}
