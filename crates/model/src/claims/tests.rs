//! Claim paths: which values they select, which strings are rejected, and that printing and parsing agree.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn path(text: &str) -> ClaimPath {
    text.parse().unwrap()
}

fn rule(text: &str) -> &'static str {
    text.parse::<ClaimPath>().unwrap_err().rule
}

fn find(text: &str, claims: Value) -> Value {
    let claims: Claims = serde_json::from_value(claims).unwrap();
    path(text).find(&claims).into_iter().cloned().collect()
}

#[test]
fn a_path_leads_through_objects() {
    let claims = json!({"realm_access": {"roles": ["a", "b"]}, "sub": "s"});
    assert_eq!(find("sub", claims.clone()), json!(["s"]));
    assert_eq!(find("realm_access.roles", claims.clone()), json!([["a", "b"]]));
    assert_eq!(find("realm_access.groups", claims.clone()), json!([]));
    assert_eq!(find("sub.length", claims), json!([]));
}

#[test]
fn quotes_hold_names_with_dots_together() {
    let claims = json!({"https://example.com/roles": 1, "a": {"b.c": {"d": 2}}, "\"\\ ": 3});
    assert_eq!(find(r#""https://example.com/roles""#, claims.clone()), json!([1]));
    assert_eq!(find(r#"a."b.c".d"#, claims.clone()), json!([2]));
    assert_eq!(find(r#""\"\\ ""#, claims.clone()), json!([3]));
    assert_eq!(find("a.b.c.d", claims), json!([]));
}

#[test]
fn a_path_continues_in_each_element_of_a_list() {
    let claims =
        json!({"groups": [{"name": "a"}, {"name": "b"}, "c", {"other": 1}, {"name": ["d", "e"]}]});
    assert_eq!(find("groups.name", claims.clone()), json!(["a", "b", ["d", "e"]]));
    assert_eq!(find("groups", claims.clone()), json!([claims["groups"]]));
}

#[test]
fn a_list_directly_in_a_list_is_not_entered() {
    assert_eq!(find("a.b", json!({"a": [[{"b": 1}], {"b": 2}]})), json!([2]));
    assert_eq!(find("a.b.c", json!({"a": [{"b": [{"c": 1}]}, {"b": {"c": 2}}]})), json!([1, 2]));
}

#[test]
fn a_number_is_a_name_and_not_an_index() {
    assert_eq!(find("a.0", json!({"a": ["x", "y"]})), json!([]));
    assert_eq!(find("a.0", json!({"a": {"0": "x"}})), json!(["x"]));
    assert_eq!(find("a.0", json!({"a": [{"0": "x"}]})), json!(["x"]));
}

#[test]
fn a_null_is_not_found() {
    assert_eq!(find("a", json!({"a": null})), json!([]));
    assert_eq!(find("a.b", json!({"a": [{"b": null}, {"b": 1}]})), json!([1]));
    assert_eq!(find("a", json!({"a": [null]})), json!([[null]]));
}

#[test]
fn an_invalid_path_is_rejected_with_the_rule() {
    for text in ["", ".", "a.", ".a", "a..b", r#""""#, r#"a."""#] {
        assert_eq!(
            rule(text),
            "each segment has a name; write it like `realm_access.roles`",
            "{text:?}"
        );
    }
    for text in [" a", "a .b", "a\n", r#"a"b""#, "https://example.com/roles"] {
        assert!(rule(text).starts_with("a name with a quote, white space or `://`"), "{text:?}");
    }
    assert_eq!(rule(r#""a"#), "a quote is not closed");
    assert_eq!(rule(r#""a\n""#), r#"in quotes, `\` stands only before `"` or `\`"#);
    assert_eq!(rule(r#""a"b"#), "a dot or nothing follows a closing quote");
    let error = "a.".parse::<ClaimPath>().unwrap_err().to_string();
    assert_eq!(
        error,
        "`a.` is not a claim path: each segment has a name; write it like `realm_access.roles`"
    );
}

#[test]
fn a_path_has_limits() {
    assert!(vec!["a"; CLAIM_PATH_SEGMENTS].join(".").parse::<ClaimPath>().is_ok());
    assert_eq!(rule(&vec!["a"; CLAIM_PATH_SEGMENTS + 1].join(".")), "at most 16 segments");
    assert!("a".repeat(CLAIM_PATH_LIMIT).parse::<ClaimPath>().is_ok());
    assert_eq!(rule(&"a".repeat(CLAIM_PATH_LIMIT + 1)), "at most 512 bytes");
}

#[test]
fn names_without_a_dot_need_no_quotes() {
    for text in ["cognito:groups", "urn:x/y", r"a\b", "größe"] {
        assert_eq!(path(text).to_string(), text);
    }
    assert_eq!(path(r#""a"."b.c""#).to_string(), r#"a."b.c""#);
}

#[test]
fn claims_are_read_by_name_and_serialised_unchanged() {
    let claims: Claims = serde_json::from_str(r#"{"sub":"s","aud":["a"]}"#).unwrap();
    assert_eq!(claims.get("sub"), Some(&json!("s")));
    assert_eq!(claims.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["sub", "aud"]);
    assert_eq!(serde_json::to_string(&claims).unwrap(), r#"{"sub":"s","aud":["a"]}"#);
    assert!(serde_json::from_str::<Claims>("[]").is_err());
}

proptest! {
    #[test]
    fn a_path_printed_and_parsed_is_the_same(segments in prop::collection::vec(r#"([a-b."\\:/ ]|\PC){1,8}"#, 1..=8)) {
        let segments: Vec<Box<str>> = segments.into_iter().map(Into::into).collect();
        let (first, rest) = segments.split_first().unwrap();
        let path = ClaimPath { first: first.clone(), rest: rest.into() };
        prop_assert_eq!(path.to_string().parse::<ClaimPath>(), Ok(path));
    }

    #[test]
    fn parsing_never_panics_and_a_valid_path_can_be_stored(text in r#"([a-b."\\:/ ]|\PC){0,40}"#) {
        if let Ok(path) = text.parse::<ClaimPath>() {
            prop_assert!(path.to_string().len() <= text.len());
            prop_assert_eq!(path.to_string().parse::<ClaimPath>(), Ok(path));
        }
    }

    #[test]
    fn a_quoted_name_finds_the_claim_of_that_name(name in r#"([a-b."\\:/ ]|\PC){1,8}"#) {
        let quoted = serde_json::to_string(&name).unwrap();
        prop_assert_eq!(find(&quoted, json!({ name: 1 })), json!([1]));
    }
}
