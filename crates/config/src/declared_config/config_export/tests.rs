//! Properties: an exported file is read back as the same value.

use json::document_text;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{toml_writer, yaml_writer};
use crate::declared_config::config_document::ConfigDocument;

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        "[a-z :#\\-\\n\\t'\"\\\\\\[\\]{},&*!|>%@`~]{0,16}",
        prop::sample::select(vec![
            "",
            "true",
            "no",
            "~",
            "null",
            "12",
            "1e3",
            "0x1f",
            "- a",
            "a: b",
            "a #b",
            " a",
            "a ",
            "a\nb",
            "a\nb\n",
            "\na",
            "a\n\n",
            "a\n b\n\nc",
            "env:TOKEN",
            "https://a.example/b?c=d",
            "\u{85}\u{2028}\u{feff}\u{7f}\u{0}",
            "a\r\nb",
            "---",
            "...",
            "é",
            "\"\"\"",
            "a\n \nb",
        ])
        .prop_map(str::to_owned),
    ]
}

fn values(with_null: bool) -> impl Strategy<Value = Value> {
    let null = if with_null { Just(Value::Null).boxed() } else { Just(json!(true)).boxed() };
    let leaf = prop_oneof![
        null,
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(texts(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn element(value: Value) -> Map<String, Value> {
    let json = json!({"sources": [{"id": "a", "value": value}], "labels": []});
    json.as_object().cloned().unwrap_or_default()
}

proptest! {
    #[test]
    fn yaml_is_read_back_the_same(value in values(true)) {
        let sections = element(value);
        let written = yaml_writer::write_yaml(&sections);
        let read = document_text::read_document(written.as_bytes());
        prop_assert_eq!(read, Ok(Value::Object(sections)), "{}", written);
    }

    #[test]
    fn toml_is_read_back_the_same(value in values(false)) {
        let sections = element(value);
        let written = toml_writer::write_toml(&sections).expect("there is no null");
        let read = ConfigDocument::parse_bytes("a.toml".as_ref(), written.clone().into_bytes());
        let (_, read) = read.map_err(|failure| TestCaseError::fail(format!("{written}\n{failure}")))?;
        prop_assert_eq!(read, Value::Object(sections), "{}", written);
    }
}

#[test]
fn toml_cannot_express_null() {
    assert_eq!(toml_writer::write_toml(&element(json!([null]))), None);
}

#[test]
fn yaml_is_formatted_for_people() {
    let value = json!({
        "kind": "workflow", "documents": ["a: 1\nb:\n  - c\n"], "allow": ["10.0.0.0/8", "db.internal:80"],
        "nothing": {}, "matchers": [{"claim": "role", "value": "yes"}, {"claim": "age", "value": 7}],
    });
    insta::assert_snapshot!(yaml_writer::write_yaml(&element(value)), @r#"
    sources:
      - id: a
        value:
          kind: workflow
          documents:
            - |
              a: 1
              b:
                - c
          allow: ["10.0.0.0/8", db.internal:80]
          nothing: {}
          matchers:
            - claim: role
              value: "yes"
            - claim: age
              value: 7
    labels: []
    "#);
}
