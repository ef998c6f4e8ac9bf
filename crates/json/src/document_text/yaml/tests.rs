//! Tests of YAML mappings, anchors and limits, including attacks on memory.

use serde_json::{Value, json};

use crate::document_text::DocumentError;

fn read(text: &str) -> Result<Value, DocumentError> {
    super::read_yaml(text).map(|node| node.to_value())
}

fn refusal(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn keys_keep_their_spelling() {
    let text = "200: a\n1.10: b\nnull: c\n0x10: d\nyes: e\n~: f\n2024-01-01: g\n";
    let keys = ["200", "1.10", "null", "0x10", "yes", "~", "2024-01-01"];
    assert_eq!(read(text).unwrap().as_object().unwrap().keys().collect::<Vec<_>>(), keys);
}

#[test]
fn a_key_must_be_text() {
    assert_eq!(
        refusal("a:\n  [b]: c\n"),
        "the key at line 2 column 3 is a list or a mapping: write a text"
    );
    assert_eq!(
        refusal("? {a: b}\n: c\n"),
        "the key at line 1 column 3 is a list or a mapping: write a text"
    );
    assert_eq!(
        refusal("a: &a [b]\n*a : c\n"),
        "the key at line 2 column 1 is a list or a mapping: write a text"
    );
}

#[test]
fn a_duplicate_key_is_rejected() {
    assert_eq!(
        refusal("a: 1\nb: 2\na: 3\n"),
        "the key `a` at line 3 column 1 was there before: remove one of them"
    );
    assert!(matches!(read("{a: 1, 'a': 2}"), Err(DocumentError::DuplicateKey { .. })));
}

#[test]
fn an_alias_copies_the_anchored_value() {
    let text = "a: &list [1, {b: c}]\nd: *list\ne: &text 012\nf: *text\n";
    let expected = json!({"a": [1, {"b": "c"}], "d": [1, {"b": "c"}], "e": 12, "f": 12});
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn a_key_may_have_an_anchor_or_be_an_alias() {
    assert_eq!(read("&key a: *key\nb: {*key : c}\n"), Ok(json!({"a": "a", "b": {"a": "c"}})));
    assert_eq!(read("a: &number 12\nb: {*number : c}\n"), Ok(json!({"a": 12, "b": {"12": "c"}})));
}

#[test]
fn the_last_anchor_with_a_name_counts() {
    assert_eq!(read("[&a 1, *a, &a 2, *a]"), Ok(json!([1, 1, 2, 2])));
}

#[test]
fn an_alias_needs_an_anchor_before_it() {
    assert_eq!(
        refusal("a: *b\n"),
        "the document is not YAML: while parsing node, found unknown anchor at line 1 column 4"
    );
    assert_eq!(
        refusal("a: &a\n  - *a\n"),
        "the alias at line 2 column 5 stands inside the value it means: write that value out"
    );
}

#[test]
fn own_keys_of_a_mapping_take_precedence_over_merged_ones() {
    let text = "base: &base {a: 1, b: 2}\nfirst: {<<: *base, a: 3}\nlast:\n  a: 3\n  <<: *base\n";
    let merged = json!({"a": 3, "b": 2});
    assert_eq!(read(text), Ok(json!({"base": {"a": 1, "b": 2}, "first": merged, "last": merged})));
}

#[test]
fn the_first_of_several_merged_mappings_takes_precedence() {
    let text =
        "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nlist: {<<: [*x, *y]}\ntwice:\n  <<: *y\n  <<: *x\n";
    let read = read(text).unwrap();
    assert_eq!(read["list"], json!({"a": 1, "b": 2}));
    assert_eq!(read["twice"], json!({"a": 2, "b": 2}));
}

#[test]
fn only_mappings_can_be_merged() {
    assert_eq!(
        refusal("a:\n  <<: b\n"),
        "`<<` at line 2 column 3 takes a mapping or a list of mappings"
    );
    assert_eq!(
        refusal("<<: [{a: b}, c]\n"),
        "`<<` at line 1 column 1 takes a mapping or a list of mappings"
    );
}

#[test]
fn a_quoted_merge_key_is_a_key() {
    assert_eq!(read("'<<': {a: b}\n"), Ok(json!({"<<": {"a": "b"}})));
}

#[test]
fn a_second_document_is_rejected() {
    assert_eq!(read("%YAML 1.2\n---\na: b\n...\n"), Ok(json!({"a": "b"})));
    assert_eq!(
        refusal("---\na: b\n---\nc: d\n"),
        "a second document starts at line 3 column 1: keep one, and serve the others by themselves"
    );
}

#[test]
fn tags_of_other_schemas_are_ignored() {
    let text =
        "- !!python/object:os.system {a: 1}\n- !local b\n- !!binary 12\n- !<tag:x,1:y> [c]\n";
    assert_eq!(read(text), Ok(json!([{"a": 1}, "b", 12, ["c"]])));
}

#[test]
fn a_block_scalar_may_start_with_a_line_of_tabs() {
    assert_eq!(read("a: |-\n  \t\n  b\nc: d\n"), Ok(json!({"a": "\t\nb", "c": "d"})));
}

#[test]
fn brackets_may_close_at_the_indentation_of_the_key() {
    let expected = json!({"a": {"b": {"c": {}, "d": "e"}, "f": ["g", "h"]}});
    let text = "a:\n  b: {\n    c: {},\n    d: e\n  }\n  f: [\n    g\n  , h\n  ]\n";
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn brackets_in_text_are_not_moved() {
    for header in ["|", "|-", ">2", "| # }"] {
        let text = format!("a: {header}\n\n  }}\n  ]\nb: \"\n  }}\"\nc: d\n  ]\n");
        let read = read(&text).unwrap();
        let lines = read["a"].as_str().unwrap().split_whitespace();
        assert_eq!(lines.collect::<Vec<_>>(), ["}", "]"], "{header}");
        assert_eq!((&read["b"], &read["c"]), (&json!(" }"), &json!("d ]")), "{header}");
    }
    assert_eq!(read("a: |\n  }\n   ]\n"), Ok(json!({"a": "}\n ]\n"})));
    assert_eq!(read("\"a #b\": |- # c #d\n  ,\n  *\n"), Ok(json!({"a #b": ",\n*"})));
}

#[test]
fn control_characters_are_text() {
    let text = "a: b\u{80}\u{7}c\nd: |\n  \u{1}\u{9f}\n";
    assert_eq!(read(text), Ok(json!({"a": "b\u{80}\u{7}c", "d": "\u{1}\u{9f}\n"})));
}

#[test]
fn characters_the_parser_rejects_are_replaced() {
    assert_eq!(
        read("a: b\0c\nd: |\n  e\u{feff}f\n"),
        Ok(json!({"a": "b\u{fffd}c", "d": "e\u{2060}f\n"}))
    );
}

/// Ten levels, each nine times the size of the previous one ("billion laughs").
fn laughs(first: &str, level: impl Fn(&str) -> String) -> String {
    let mut text = format!("a0: &a0 {first}\n");
    for depth in 1..10 {
        text += &format!("a{depth}: &a{depth} {}\n", level(&format!("*a{}", depth - 1)));
    }
    text
}

fn copies_too_much(text: &str) -> bool {
    matches!(read(text), Err(DocumentError::TooManyCopies { .. }))
}

#[test]
fn a_few_lines_cannot_ask_for_a_billion_copies() {
    let list = |alias: &str| format!("[{}]", [alias; 9].join(", "));
    let mapping = |alias: &str| {
        let member = |name: usize| format!("k{name}: {alias}");
        format!("{{{}}}", (0..9).map(member).collect::<Vec<_>>().join(", "))
    };
    assert!(copies_too_much(&laughs("x", list)));
    assert!(copies_too_much(&laughs("{x: y}", mapping)));
}

#[test]
fn a_long_text_cannot_be_copied_often() {
    let text = format!("a: &a {}\nb:\n{}", "x".repeat(1_000_000), "- *a\n".repeat(1_500));
    assert!(copies_too_much(&text));
}

#[test]
fn anchors_inside_anchors_are_copies_too() {
    let mut text = String::new();
    for depth in 0..100 {
        text += &format!("{}a: &a{depth}\n", " ".repeat(depth));
    }
    text += &format!("{}b: {}", " ".repeat(100), "x".repeat(1_000_000));
    assert!(copies_too_much(&text));
}

#[test]
fn merging_is_copying() {
    let members: Vec<_> = (0..1_000).map(|name| format!("k{name}: 1")).collect();
    let text = format!("a: &a {{{}}}\nb:\n{}", members.join(", "), "- <<: *a\n".repeat(5_000));
    assert!(copies_too_much(&text));
}

#[test]
fn aliases_cannot_nest_deeper_than_brackets() {
    let level = |alias: &str| format!("{}{alias}{}", "[".repeat(50), "]".repeat(50));
    assert!(matches!(read(&laughs("x", level)), Err(DocumentError::TooDeep { .. })));
}

#[test]
fn a_small_value_may_be_copied_many_times() {
    let text = format!("a: &a {{b: c, d: [e, f]}}\ng:\n{}", "- *a\n".repeat(5_000));
    assert_eq!(read(&text).unwrap()["g"].as_array().map(Vec::len), Some(5_000));
}

#[test]
fn a_flow_list_that_could_be_a_key_is_limited() {
    for part in ["1, ", "a: b, ", "*a ", "? ", "!a "] {
        let text = format!("- [{}]", part.repeat(300_000));
        assert!(matches!(read(&text), Err(DocumentError::FlowTooLong { .. })), "{part}");
    }
}

#[test]
fn long_texts_and_comments_are_not_limited_by_the_step_count() {
    let words = "a, [b]: c # ".repeat(50_000);
    let text = format!("#{words}\na: '{words}'\nb: |\n  {words}\n");
    let read = read(&text).unwrap();
    assert_eq!(read["a"].as_str().map(str::len), Some(words.len()));
    assert_eq!(read["b"].as_str().map(str::len), Some(words.len() + 1));
}

#[test]
fn a_missing_value_is_null() {
    assert_eq!(read("a:\nb: [c, ]\n? d\n"), Ok(json!({"a": null, "b": ["c"], "d": null})));
    assert_eq!(read("---\n"), Ok(Value::Null));
}
