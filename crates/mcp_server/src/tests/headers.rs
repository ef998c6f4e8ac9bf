//! Headers: accepted if and only if they match the body.

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::{
    ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};

use super::{json_value, text};
use crate::header_checks;

fn members(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The headers of a call with these values for the name.
fn named(values: &[&[u8]]) -> Option<HeaderMap> {
    let mut all = HeaderMap::new();
    all.insert(header_checks::METHOD_HEADER, HeaderValue::from_static("tools/call"));
    for value in values {
        all.append(header_checks::NAME_HEADER, HeaderValue::from_bytes(value).ok()?);
    }
    Some(all)
}

fn encoded(name: &str) -> String {
    format!("=?base64?{}?=", STANDARD.encode(name))
}

/// Values that resemble an encoded name.
fn strange() -> impl Strategy<Value = String> {
    prop_oneof![
        text(),
        "=\\?base64\\?[A-Za-z0-9+/=?]{0,12}\\?=",
        "=\\?(base64|BASE64|utf-8)\\?[a-z?=]{0,8}",
        text().prop_map(|name| encoded(&encoded(&name))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_name_can_be_written_in_a_header(name in text(), other in text()) {
        let params = members(json!({"name": name}));
        let check = |sent: &str| {
            let headers = named(&[sent.as_bytes()]).unwrap();
            header_checks::check_method_and_name(&headers, "tools/call", &params).is_ok()
        };
        prop_assert!(check(&encoded(&name)));
        prop_assert_eq!(check(&encoded(&other)), other == name);
    }

    #[test]
    fn accepted_headers_match_the_body(sent in strange(), name in strange()) {
        let Some(headers) = named(&[sent.as_bytes()]) else { return Ok(()) };
        let params = members(json!({"name": name}));
        if header_checks::check_method_and_name(&headers, "tools/call", &params).is_ok() {
            prop_assert!(sent.trim() == name || sent.trim() == encoded(&name), "{sent:?} {name:?}");
        }
    }

    #[test]
    fn no_header_value_causes_a_panic(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3),
        argument in json_value(),
    ) {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let Some(mut headers) = named(&values) else { return Ok(()) };
        let params = members(json!({"name": "x", "uri": argument, "taskId": "x"}));
        for method in ["tools/call", "resources/read", "tasks/get", "tools/list"] {
            header_checks::check_method_and_name(&headers, method, &params).ok();
        }
        for value in values {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append("mcp-param-a", value);
            }
        }
        let (mirrored, arguments) = ([("a".to_owned(), "A".to_owned())], members(json!({"a": argument})));
        let is_same = header_checks::check_parameter_headers(&headers, &mirrored, &arguments).is_ok();
        let count = headers.get_all("mcp-param-a").iter().count();
        prop_assert!(!is_same || count == usize::from(!argument.is_null()));
    }

    #[test]
    fn integers_are_compared_exactly(sent in any::<i64>(), argument in any::<i64>()) {
        let check = |sent: i64, argument: i64| {
            let mut headers = HeaderMap::new();
            headers.insert("mcp-param-a", HeaderValue::from_str(&sent.to_string()).unwrap());
            let arguments = members(json!({"a": argument}));
            let mirrored = [("a".to_owned(), "A".to_owned())];
            header_checks::check_parameter_headers(&headers, &mirrored, &arguments).is_ok()
        };
        prop_assert!(check(sent, sent));
        prop_assert_eq!(check(sent, argument), sent == argument);
        prop_assert_eq!(check(sent, sent.wrapping_add(1)), false);
    }
}
