//! Serialization of argument values: nothing is lost, and nothing is added.

use serde_json::json;

use super::{api, call, input, menu};

const FILTER: &str = "parameters: [
    {in: query, name: hot, schema: {type: boolean}},
    {in: query, name: after, schema: {type: integer, format: int64}},
    {in: query, name: text, schema: {type: string, nullable: true, default: tomato}}]";

#[test]
fn false_zero_and_the_empty_string_are_sent() {
    assert_eq!(
        call(&menu(FILTER), json!({"hot": false, "after": 0, "text": ""})),
        "GET https://pizza.example/menu?hot=false&after=0&text="
    );
}

#[test]
fn absent_and_null_values_are_not_sent_and_a_default_is_only_documented() {
    for arguments in [json!({}), json!({"text": null})] {
        assert_eq!(call(&menu(FILTER), arguments), "GET https://pizza.example/menu");
    }
    assert_eq!(input(&menu(FILTER))["properties"]["text"]["default"], "tomato");
}

#[test]
fn an_empty_array_or_object_in_a_query_is_omitted() {
    let specification = menu("parameters: [{in: query, name: with, schema: {}}]");
    for arguments in [json!({"with": []}), json!({"with": {}})] {
        assert_eq!(call(&specification, arguments), "GET https://pizza.example/menu");
    }
}

#[test]
fn long_integers_keep_all_their_digits() {
    assert_eq!(
        call(&menu(FILTER), json!({"after": 9_007_199_254_740_995_i64})),
        "GET https://pizza.example/menu?after=9007199254740995"
    );
}

#[test]
fn every_character_reaches_the_upstream() {
    assert_eq!(
        call(&menu(FILTER), json!({"text": "größe 5+5 & 50% #1 🍕"})),
        "GET https://pizza.example/menu?text=gr%C3%B6%C3%9Fe%205%2B5%20%26%2050%25%20%231%20%F0%9F%8D%95"
    );
}

#[test]
fn parameter_names_are_encoded_too() {
    let specification = menu(
        "parameters: [
        {in: query, name: 'filter[size]', schema: {type: string}},
        {in: query, name: '$top', schema: {type: integer}},
        {in: query, name: 'price<', schema: {type: integer}},
        {in: query, name: 'größe', schema: {type: string}}]",
    );
    assert_eq!(
        call(&specification, json!({"filter[size]": "L", "$top": 2, "price<": 9, "größe": "XL"})),
        "GET https://pizza.example/menu?filter%5Bsize%5D=L&%24top=2&price%3C=9&gr%C3%B6%C3%9Fe=XL"
    );
}

const SLICE: &str = "  /slices/{name}: {get: {operationId: slice, parameters: [
    {in: path, name: name, required: true, schema: {}}]}}";

#[test]
fn a_path_value_stays_in_its_segment() {
    let slice = |name| call(&api(SLICE), json!({"name": name}));
    assert_eq!(slice("a/b c?d#e%2F"), "GET https://pizza.example/slices/a%2Fb%20c%3Fd%23e%252F");
    assert_eq!(slice("../oven"), "GET https://pizza.example/slices/..%2Foven");
}

#[test]
fn a_path_value_that_would_change_the_path_is_refused() {
    for name in [json!("."), json!(".."), json!(""), json!(null), json!([]), json!({})] {
        let sent = call(&api(SLICE), json!({"name": name}));
        assert!(sent.starts_with("refused: "), "{name}: {sent}");
    }
    assert_eq!(call(&api(SLICE), json!({})), "refused:  \"name\" is a required property");
}

#[test]
fn a_header_value_cannot_contain_a_line_break() {
    let specification = menu("parameters: [{in: header, name: X-Guest, schema: {type: string}}]");
    let sent = |guest| call(&specification, json!({"X-Guest": guest}));
    assert_eq!(sent("ann, \"bo\""), "GET https://pizza.example/menu\nX-Guest: ann, \"bo\"");
    for guest in ["a\r\nX-Admin: 1", "a\nb", "a\0", "é"] {
        assert!(sent(guest).starts_with("refused: "), "{guest:?}");
    }
}
