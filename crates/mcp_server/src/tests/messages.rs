//! Messages: read as intended, or rejected.

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Value, json};

use super::{json_value, object, text};
use crate::incoming_message::{IncomingMessage, IncomingRequest};

/// The message as a client would send it.
fn written(message: &IncomingMessage) -> Value {
    match message {
        IncomingMessage::Request(IncomingRequest { id, method, params, .. }) => {
            json!({"jsonrpc": "2.0", "id": id.to_value(), "method": method, "params": params})
        }
        IncomingMessage::Notification { method, params, .. } => {
            json!({"jsonrpc": "2.0", "method": method, "params": params})
        }
        IncomingMessage::Response { id, outcome: Ok(result) } => {
            json!({"jsonrpc": "2.0", "id": id.to_value(), "result": result})
        }
        IncomingMessage::Response { id, outcome: Err(error) } => {
            json!({"jsonrpc": "2.0", "id": id.to_value(), "error": error})
        }
    }
}

/// An accepted message survives a round trip, and a rejected one has a valid id or none.
fn holds(bytes: &[u8]) {
    match IncomingMessage::from_bytes(bytes) {
        Ok(message) => {
            let again = IncomingMessage::from_bytes(written(&message).to_string().as_bytes());
            assert_eq!(written(&again.unwrap()), written(&message));
        }
        Err(unusable) => {
            let id = unusable.id.map(|id| id.to_value());
            assert!(id.is_none_or(|id| id.is_string() || id.is_i64() || id.is_u64()));
            assert!([-32700, -32600].contains(&unusable.error.code));
            assert!(unusable.error.message.len() < 1_000, "{}", unusable.error.message);
        }
    }
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let params = || object(json_value()).prop_map(Value::Object);
    prop_oneof![
        (id(), text(), params()).prop_map(|(id, method, params)| {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        }),
        (text(), params()).prop_map(|(method, params)| {
            json!({"jsonrpc": "2.0", "method": method, "params": params})
        }),
        (id(), json_value(), prop_oneof![Just("result"), Just("error")])
            .prop_map(|(id, outcome, member)| json!({"jsonrpc": "2.0", "id": id, member: outcome})),
    ]
}

/// An object with a duplicate name, nested to some depth.
fn twice() -> impl Strategy<Value = String> {
    let escaped = |name: &str| {
        let units = name.encode_utf16();
        units.map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    let pair = (text(), json_value(), json_value(), any::<bool>());
    let pair = pair.prop_map(move |(name, one, two, is_escaped)| {
        let plain = Value::from(name.clone()).to_string();
        let again = if is_escaped { format!("\"{}\"", escaped(&name)) } else { plain.clone() };
        format!("{{{plain}:{one},{again}:{two}}}")
    });
    pair.prop_recursive(6, 6, 1, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("[1,{inner}]")),
            inner.prop_map(|inner| format!("{{\"a\":1,\"b\":{inner}}}")),
        ]
    })
}

#[test]
fn a_message_has_a_value_limit_and_objects_weigh_more() {
    let read = |elements: String| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":[{elements}0]}}}}"#);
        IncomingMessage::from_bytes(text.as_bytes()).map_err(|unusable| unusable.error.message)
    };
    assert!(read("0,".repeat(99_000)).is_ok() && read("{},".repeat(19_000)).is_ok());
    let told = "there may be 100000 values, where an object counts for four: send less at once";
    for elements in ["0,".repeat(100_000), "{},".repeat(21_000)] {
        assert_eq!(read(elements).unwrap_err(), told);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_message_is_read_as_intended(message in message()) {
        let read = IncomingMessage::from_bytes(message.to_string().as_bytes());
        prop_assert_eq!(written(&read.unwrap()), message);
    }

    #[test]
    fn no_byte_sequence_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        holds(&bytes);
    }

    #[test]
    fn json_like_input_is_accepted_or_rejected(text in "[\\[\\]{}:,\"0-9.eE+\\-\\\\a-z ]{0,60}") {
        holds(text.as_bytes());
        holds(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{text}}}"#).as_bytes());
        holds(format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"a"}}"#).as_bytes());
    }

    #[test]
    fn a_corrupted_message_is_accepted_or_rejected(
        message in message(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = message.to_string().into_bytes();
        let at = at.index(bytes.len());
        if is_cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        holds(&bytes);
    }

    #[test]
    fn a_message_with_a_duplicate_field_is_rejected(twice in twice()) {
        for text in [
            twice.clone(),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{twice}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{twice}}}"#),
        ] {
            let refused = IncomingMessage::from_bytes(text.as_bytes()).unwrap_err();
            prop_assert!(refused.error.code == -32700 && refused.id.is_none(), "{text}");
        }
    }

    #[test]
    fn a_message_without_method_and_outcome_is_rejected(members in object(json_value())) {
        let holds_one = ["method", "result", "error"].iter().any(|name| members.contains_key(*name));
        let mut message = Value::Object(members);
        message["jsonrpc"] = json!("2.0");
        prop_assert!(holds_one || IncomingMessage::from_bytes(message.to_string().as_bytes()).is_err());
    }
}
