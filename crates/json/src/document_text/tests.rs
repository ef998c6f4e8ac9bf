//! Tests of reading documents: accepted ones, their values, and the errors of rejected ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DocumentError, MAX_BYTES, MAX_DEPTH, read_document, yaml};

fn read_text(text: &str) -> Result<Value, DocumentError> {
    read_document(text.as_bytes())
}

fn refusal(text: &str) -> String {
    read_text(text).unwrap_err().to_string()
}

#[test]
fn a_document_is_json_or_yaml() {
    let document = json!({"openapi": "3.1.0", "paths": {"/a": {"get": {}}}});
    assert_eq!(read_text(&document.to_string()), Ok(document.clone()));
    assert_eq!(read_text("openapi: 3.1.0\npaths:\n  /a:\n    get: {}\n"), Ok(document));
}

#[test]
fn fields_keep_their_order() {
    for text in ["{\"b\": 1, \"a\": 2}", "b: 1\na: 2\n"] {
        assert_eq!(read_text(text).unwrap().to_string(), "{\"b\":1,\"a\":2}");
    }
}

#[test]
fn a_key_reserved_by_serde_json_is_rejected() {
    let name = "$serde_json::private::RawValue";
    for (text, at) in [
        (format!(r#"{{"a": {{"{name}": "[1]"}}}}"#), "line 1 column 8"),
        (format!("a:\n  - {name}: '[1]'\n"), "line 2 column 5"),
    ] {
        let told = format!("no key is called `{name}`, as at {at}: give it another name");
        assert_eq!(refusal(&text), told);
    }
    let only_json = format!(r#"{{"a": "\ud83d\ude00", "{name}": "[1]"}}"#);
    assert!(refusal(&only_json).contains("no member is called"), "{}", refusal(&only_json));
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_document() {
    assert_eq!(read_text("\u{feff}{\"a\": 1}"), Ok(json!({"a": 1})));
    assert_eq!(read_text("\u{feff}a: 1\n"), Ok(json!({"a": 1})));
}

#[test]
fn only_utf_8_is_read() {
    assert_eq!(read_document(b"a: \xe4\n"), Err(DocumentError::NotUtf8 { offset: 3 }));
    assert_eq!(read_document(b"\xff\xfea\0:\0"), Err(DocumentError::Utf16));
    assert_eq!(read_document(b"\xfe\xff\0a\0:"), Err(DocumentError::Utf16));
}

#[test]
fn a_document_without_a_value_is_rejected() {
    for text in ["", "  \n", "# nothing\n", "...\n"] {
        assert_eq!(read_text(text), Err(DocumentError::Empty), "{text:?}");
    }
}

#[test]
fn a_document_that_is_too_long_is_rejected() {
    let bytes = vec![b' '; MAX_BYTES + 1];
    assert_eq!(read_document(&bytes), Err(DocumentError::TooLong { bytes: MAX_BYTES + 1 }));
}

#[test]
fn json_may_write_a_character_as_two_surrogates() {
    assert_eq!(read_text(r#"["\ud83d\ude00"]"#), Ok(json!(["😀"])));
}

#[test]
fn the_last_of_two_json_fields_with_one_name_counts() {
    assert_eq!(read_text("{\"a\": 1, \"a\": 2}"), Ok(json!({"a": 2})));
}

#[test]
fn a_document_that_starts_like_json_may_be_yaml() {
    assert_eq!(read_text("{a: [b, 'c'], d: 012}"), Ok(json!({"a": ["b", "c"], "d": 12})));
    assert_eq!(read_text("{\n\t\"a\": [1, 2,], # why\n}\n"), Ok(json!({"a": [1, 2]})));
}

#[test]
fn an_error_is_reported_for_the_language_that_was_meant() {
    let json = "the document is not JSON: expected `:` at line 2 column 5";
    assert_eq!(refusal("{\"a\": 1,\n\"b\" 2}"), json);
    let json = "the document is not JSON: EOF while parsing a list at line 1 column 2";
    assert_eq!(refusal("[1"), json);
    let yaml = "the document is not YAML: while parsing a flow mapping, did not find expected ',' or '}' \
                at line 1 column 9";
    assert_eq!(refusal("{a: [b] c}"), yaml);
}

#[test]
fn the_nesting_depth_is_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let in_yaml = |depth: usize| format!("a: {}", nested(depth - 1));
    assert!(read_text(&nested(MAX_DEPTH)).is_ok());
    assert!(read_text(&in_yaml(MAX_DEPTH)).is_ok());
    for text in [nested(MAX_DEPTH + 1), in_yaml(MAX_DEPTH + 1), nested(100_000), in_yaml(100_000)] {
        assert!(matches!(read_text(&text), Err(DocumentError::TooDeep { .. })));
    }
}

/// Any text without U+FEFF, which YAML replaces.
fn any_text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\u{feff}', ""))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
        "[-<~.:,#&*!|>'\"%@`0-9a-z \n]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..6).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn json_has_the_same_value_when_read_as_yaml(value in any_value()) {
        let text = value.to_string();
        prop_assert_eq!(read_text(&text), Ok(value.clone()));
        prop_assert_eq!(read_text(&format!("- {text}")), Ok(json!([value])));
        let text = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(yaml::read_yaml(&text).map(|node| node.to_value()), Ok(value));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "([-a-c:,{}&*!|>'\"#%? \n\t]|\\[|\\]|<<: |- |: |\n  ){0,40}") {
        let _either = read_text(&text);
    }
}
