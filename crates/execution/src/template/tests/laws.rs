//! Properties for any arguments: values stay in their position, and decode to the original.

use model::BodyEncoding;
use percent_encoding::percent_decode_str;
use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};

use super::{get, render, with_body, with_header};

/// Texts with a special meaning in URLs, headers, cookies or templates, and arbitrary ones.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-./?#&=+%;:@\\\\\"'{}|\\[\\]a\r\n\t\u{7f}\u{202e} ]{0,12}",
        Just("..".to_owned()),
        Just("{{ args.b }}".to_owned()),
    ]
}

pub(super) fn json_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |number| number.is_finite().then(|| json!(number))),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

proptest! {
    #[test]
    fn a_path_keeps_its_segments_and_decodes_to_the_arguments(a in text(), b in text()) {
        let url = "https://api.test/v1/{{ simple(args.a) }}/x/{{ args.b }}.json";
        match render(&get(url), &json!({"a": a, "b": b})) {
            Ok(request) => {
                prop_assert_eq!(request.url.origin().ascii_serialization(), "https://api.test");
                prop_assert_eq!(request.url.query().or(request.url.fragment()), None);
                let segments: Vec<String> = request.url.path().split('/').map(decoded).collect();
                let expected = ["", "v1", &a, "x", &format!("{b}.json")].map(str::to_owned);
                prop_assert_eq!(segments, expected);
            }
            Err(_) => prop_assert!(a.is_empty() || a == "." || a == ".." || b.is_empty()),
        }
    }

    #[test]
    fn a_query_has_one_pair_for_each_value(a in text(), b in text(), list in prop::collection::vec(text(), 0..4)) {
        let url = r#"https://api.test/{{ query(form("a b", args.a), pipe_delimited("b", args.b), form("l", args.l)) }}"#;
        let request = render(&get(url), &json!({"a": a, "b": b, "l": list})).unwrap();
        let query = request.url.query().unwrap();
        let pairs: Vec<(String, String)> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let mut expected = vec![("a b".to_owned(), a), ("b".to_owned(), b)];
        expected.extend(list.into_iter().map(|item| ("l".to_owned(), item)));
        prop_assert_eq!(pairs, expected);
        prop_assert_eq!(request.url.fragment(), None);
        prop_assert_eq!(request.url.path(), "/");
    }

    #[test]
    fn the_sent_url_has_a_fixed_structure_for_any_value(value in json_value()) {
        let url = r#"https://api.test/{{ label(args.v, explode=true) }}/{{ matrix("m", args.v) }}{{ query(form("f", args.v, reserved=true), deep_object("d", args.v), json_pair("j", args.v)) }}"#;
        if let Ok(request) = render(&get(url), &json!({"v": value})) {
            prop_assert_eq!(request.url.origin().ascii_serialization(), "https://api.test");
            prop_assert_eq!(request.url.path().split('/').count(), 3);
            prop_assert_eq!(request.url.fragment(), None);
            prop_assert!(request.url.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }

    #[test]
    fn a_json_body_equals_the_arguments(value in json_value(), other in json_value()) {
        let arguments = json!({"a": value, "b": other});
        let whole = with_body("{{ json(rest()) }}", BodyEncoding::Json);
        let body = render(&whole, &arguments).unwrap().body.unwrap();
        prop_assert_eq!(&body, &arguments.to_string().into_bytes());
        prop_assert_eq!(&serde_json::from_slice::<Value>(&body).unwrap(), &arguments);
        let by_hand = with_body(r#"{"b": [{{ args.b }}], "a": {{ json(args.a) }}}"#, BodyEncoding::Json);
        let body = render(&by_hand, &arguments).unwrap().body.unwrap();
        let expected = json!({"b": [arguments["b"]], "a": arguments["a"]});
        prop_assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn a_header_is_one_line_of_visible_text(value in json_value()) {
        for template in ["{{ header(args.v) }}", "{{ header_json(args.v) }}", "a {{ args.v }}"] {
            if let Ok(request) = render(&with_header("X-A", template), &json!({"v": value})) {
                let sent = request.header("X-A").unwrap_or_default();
                prop_assert!(sent.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", sent);
            }
        }
    }

    #[test]
    fn a_cookie_is_one_cookie(value in text()) {
        let templates = with_header("Cookie", r#"{{ cookies(cookie("a", args.v), cookie("z", 1)) }}"#);
        let request = render(&templates, &json!({"v": value})).unwrap();
        let cookies: Vec<&str> = request.header("Cookie").unwrap().split("; ").collect();
        prop_assert_eq!(cookies.len(), 2);
        prop_assert_eq!(decoded(cookies[0].strip_prefix("a=").unwrap()), value);
        prop_assert_eq!(cookies[1], "z=1");
    }

    #[test]
    fn no_template_causes_a_panic(template in r#"(\{\{|\}\}|\{%|[ -~]|args|json\(|simple\(|[(){}\[\]"'.,]){0,24}"#) {
        let url = format!("https://api.test/{template}");
        drop(render(&get(&url), &json!({"a": "b"})));
        drop(render(&with_body(&template, BodyEncoding::Text), &json!({"a": "b"})));
    }
}
