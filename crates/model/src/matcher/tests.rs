//! The operators of a matcher on each type of claim.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn matcher(written: Value) -> Matcher {
    serde_json::from_value(written).unwrap()
}

fn error(written: Value) -> String {
    serde_json::from_value::<Matcher>(written).unwrap_err().to_string()
}

/// Whether an operator with this value matches the claim `c`.
fn says(operator: &str, value: Value, claim: Value) -> bool {
    let matcher = matcher(json!({"claim": "c", "operator": operator, "value": value}));
    matcher.matches(&serde_json::from_value(json!({ "c": claim })).unwrap())
}

/// Whether a matcher matches these claims.
fn matches(written: Value, claims: Value) -> bool {
    matcher(written).matches(&serde_json::from_value(claims).unwrap())
}

#[test]
fn equals_compares_by_type() {
    let values = [
        json!(true),
        json!("true"),
        json!("True"),
        json!(1),
        json!("1"),
        json!(["1"]),
        json!({"1": 1}),
    ];
    for (i, value) in values.iter().enumerate() {
        for (j, claim) in values.iter().enumerate() {
            assert_eq!(says("equals", value.clone(), claim.clone()), i == j, "{value} and {claim}");
        }
    }
}

#[test]
fn numbers_are_compared_by_value() {
    let equals = |value: Value, claim: Value| says("equals", value, claim);
    assert!(equals(json!(1), json!(1.0)));
    assert!(equals(json!(-0.0), json!(0)));
    assert!(equals(json!(0.5), json!(0.5)));
    assert!(equals(json!([1, {"a": 2}]), json!([1.0, {"a": 2.0}])));
    assert!(!equals(json!(1), json!(1.5)));
    assert!(!equals(json!(1), json!(-1)));
    assert!(!equals(json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)));
    assert!(!equals(json!(u64::MAX), json!(u64::MAX - 1)));
    assert!(!equals(json!(u64::MAX), json!(-1)));
}

#[test]
fn a_rounded_number_equals_nothing_and_is_rejected_as_an_operand() {
    let rounded: Value = serde_json::from_str("100000000000000000001").unwrap();
    for value in [json!(1), json!(u64::MAX), json!("x")] {
        assert!(!says("equals", value.clone(), rounded.clone()));
        assert!(!says("not_equals", value.clone(), rounded.clone()), "fails closed");
        assert!(!says("not_in", json!([value]), rounded.clone()), "fails closed");
    }
    assert!(!says("not_contains", json!(1), json!([2, rounded])), "fails closed");
    for (operator, value) in
        [("equals", rounded.clone()), ("contains", rounded.clone()), ("in", json!([rounded]))]
    {
        let matcher = json!({"claim": "c", "operator": operator, "value": value});
        let error = serde_json::from_value::<Matcher>(matcher).unwrap_err().to_string();
        assert!(error.contains("rounded"), "{error}");
    }
}

#[test]
fn equals_compares_a_list_as_a_whole() {
    assert!(says("equals", json!(["a", "b"]), json!(["a", "b"])));
    assert!(!says("equals", json!(["a", "b"]), json!(["b", "a"])));
    assert!(!says("equals", json!("a"), json!(["a"])));
    assert!(!says("not_equals", json!("a"), json!(["a"])), "of another type: fails closed");
    assert!(!says("not_in", json!(["a"]), json!(["a"])), "of another type: fails closed");
    assert!(!says("not_contains", json!(1), json!("1 2")), "of another type: fails closed");
    assert!(says("equals", json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})));
}

#[test]
fn one_matching_value_of_a_walked_list_is_enough() {
    let groups = json!({"groups": [{"name": "a"}, {"name": "b c"}]});
    let on_groups = |operator: &str, value: Value| {
        matches(
            json!({"claim": "groups.name", "operator": operator, "value": value}),
            groups.clone(),
        )
    };
    assert!(on_groups("equals", json!("a")));
    assert!(!on_groups("not_equals", json!("a")));
    assert!(on_groups("not_equals", json!("x")));
    assert!(on_groups("in", json!(["x", "a"])));
    assert!(!on_groups("not_in", json!(["x", "a"])));
    assert!(on_groups("contains", json!("c")));
    assert!(!on_groups("not_contains", json!("c")));
    assert!(on_groups("matches", json!("b.*")));
}

#[test]
fn contains_is_membership_in_a_list() {
    assert!(says("contains", json!("admin"), json!(["user", "admin"])));
    assert!(says("contains", json!(1), json!([1.0])));
    assert!(says("contains", json!("a b"), json!(["a b"])));
    assert!(!says(
        "contains",
        json!("admin"),
        json!(["administrator", "not-admin", "admin user", ["admin"]])
    ));
    assert!(!says("contains", json!("1"), json!([1])));
    assert!(!says("contains", json!("a"), json!([])));
}

#[test]
fn contains_matches_a_whole_word_and_never_a_part_of_one() {
    assert!(says("contains", json!("admin"), json!("tools:read admin")));
    assert!(says("contains", json!("admin"), json!("admin")));
    for text in
        ["administrator", "not-admin", "tools:read admin-view", "Admin", "a\tadmin", "admin\n", ""]
    {
        assert!(!says("contains", json!("admin"), json!(text)), "{text:?}");
        assert!(says("not_contains", json!("admin"), json!(text)), "{text:?}");
    }
    assert!(!says("contains", json!("a b"), json!("a b")));
    assert!(!says("contains", json!(1), json!("1")));
}

#[test]
fn contains_is_false_for_values_without_elements() {
    for claim in [json!(1), json!(true), json!({"admin": true})] {
        assert!(!says("contains", json!("admin"), claim.clone()), "{claim}");
    }
}

#[test]
fn matches_tests_the_whole_string() {
    assert!(says("matches", json!("adm.n"), json!("admin")));
    assert!(says("matches", json!("a|ab"), json!("ab")));
    for text in ["administrator", "xadmin", "admin\n", "Admin"] {
        assert!(!says("matches", json!("admin"), json!(text)), "{text:?}");
    }
    assert!(!says("matches", json!("1"), json!(1)));
    assert!(!says("matches", json!(".*"), json!({"a": "b"})));
}

#[test]
fn matches_tests_each_element_of_a_list() {
    assert!(says("matches", json!("team-.+"), json!(["x", "team-a"])));
    assert!(!says("matches", json!("team-.+"), json!(["x", 1, ["team-a"]])));
    assert!(!says("matches", json!(r".*"), json!([])));
}

#[test]
fn matches_rejects_strings_beyond_the_limit() {
    assert!(says("matches", json!("a*"), json!("a".repeat(MATCHER_TEXT_LIMIT))));
    assert!(!says("matches", json!("a*"), json!("a".repeat(MATCHER_TEXT_LIMIT + 1))));
}

#[test]
fn in_equals_one_of_several() {
    assert!(says("in", json!(["a", 1]), json!("a")));
    assert!(says("in", json!(["a", 1]), json!(1.0)));
    assert!(!says("in", json!(["a", 1]), json!("1")));
    assert!(!says("in", json!(["a"]), json!(["a"])));
    assert!(says("not_in", json!(["a", 1]), json!("b")));
    assert!(!says("not_in", json!(["a", 1]), json!("a")));
}

#[test]
fn a_claim_exists_unless_it_is_missing_or_null() {
    let exists = json!({"claim": "a.b", "operator": "exists"});
    let not_exists = json!({"claim": "a.b", "operator": "not_exists"});
    for claims in [json!({"a": {"b": false}}), json!({"a": {"b": []}}), json!({"a": [{"b": ""}]})] {
        assert!(matches(exists.clone(), claims.clone()), "{claims}");
        assert!(!matches(not_exists.clone(), claims.clone()), "{claims}");
    }
    for claims in [json!({}), json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": []})] {
        assert!(!matches(exists.clone(), claims.clone()), "{claims}");
        assert!(matches(not_exists.clone(), claims.clone()), "{claims}");
    }
}

#[test]
fn a_missing_claim_matches_only_negative_operators_with_missing() {
    let value = |operator: &str| if operator.ends_with("in") { json!(["a"]) } else { json!("a") };
    for claims in [json!({}), json!({"c": null})] {
        for operator in
            ["equals", "contains", "matches", "in", "not_equals", "not_contains", "not_in"]
        {
            let written = json!({"claim": "c", "operator": operator, "value": value(operator)});
            assert!(!matches(written, claims.clone()), "{operator}");
        }
        for operator in ["not_equals", "not_contains", "not_in"] {
            let written = json!({"claim": "c", "operator": operator, "value": value(operator), "missing": true});
            assert!(matches(written.clone(), claims.clone()), "{operator}");
            assert!(!matches(written, json!({"c": "a"})), "{operator}");
        }
    }
}

#[test]
fn a_value_must_suit_its_operator() {
    let refused = [
        ("equals", vec![json!(null), json!(""), json!([]), json!({})]),
        ("contains", vec![json!(null), json!(""), json!(["a"]), json!({"a": 1})]),
        (
            "matches",
            vec![
                json!(null),
                json!(""),
                json!(1),
                json!(["a"]),
                json!("a".repeat(MATCHER_REGEX_LIMIT + 1)),
            ],
        ),
        ("in", vec![json!(null), json!("a"), json!([]), json!([""]), json!(["a", null])]),
    ];
    for (operator, values) in refused {
        for value in values {
            let error = error(json!({"claim": "c", "operator": operator, "value": value}));
            assert!(
                error.starts_with(&format!("`value` does not suit `{operator}`: give ")),
                "{error}"
            );
        }
    }
    assert_eq!(
        error(json!({"claim": "c", "operator": "exists", "value": 1})),
        "`value` does not suit `exists`: leave it out"
    );
}

#[test]
fn a_slow_or_unanchored_expression_is_rejected() {
    for expression in [r"(a)\1", "(?=a)", "((a{1000}){1000}){1000}", "a)|(?:b", "("] {
        let error = error(json!({"claim": "c", "operator": "matches", "value": expression}));
        assert!(error.starts_with("`value` is not a regular expression: "), "{error}");
    }
}

#[test]
fn missing_is_only_for_negative_operators() {
    let written = json!({"claim": "c", "operator": "equals", "value": 1, "missing": true});
    assert_eq!(
        error(written),
        "`missing` does not suit `equals`: leave it out, it is for `not_equals`, `not_contains` and `not_in`"
    );
    for written in [
        json!({"claim": "c", "operator": "exists", "missing": true}),
        json!({"claim": "c", "operator": "not_exists", "missing": true}),
        json!({"claim": "c", "operator": "matches", "value": "a", "missing": true}),
    ] {
        assert!(error(written).starts_with("`missing` does not suit "));
    }
}

#[test]
fn a_claim_path_is_required_and_validated() {
    assert!(error(json!({"claim": "", "operator": "exists"})).contains("is not a claim path"));
    assert!(error(json!({"operator": "exists"})).contains("missing field `claim`"));
    assert!(error(json!({"claim": "c", "operator": "is"})).contains("unknown variant `is`"));
}

#[test]
fn a_matcher_serialises_to_its_input() {
    for written in [
        json!({"claim": "a.b", "operator": "equals", "value": {"x": [1, "1"]}}),
        json!({"claim": "c", "operator": "not_in", "value": [1, "a"], "missing": true}),
        json!({"claim": "c", "operator": "matches", "value": "regex:a+"}),
        json!({"claim": "c", "operator": "contains", "value": false}),
        json!({"claim": "c", "operator": "not_exists"}),
    ] {
        assert_eq!(serde_json::to_value(matcher(written.clone())).unwrap(), written);
    }
}

#[test]
fn an_operator_displays_as_in_json() {
    for operator in [
        MatchOperator::Equals,
        MatchOperator::NotContains,
        MatchOperator::Matches,
        MatchOperator::NotIn,
        MatchOperator::NotExists,
    ] {
        assert_eq!(serde_json::to_value(operator).unwrap(), operator.to_string());
    }
}

/// Values from a small set, so that equal values are frequent.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        (0..3).prop_map(|n| Value::from(f64::from(n))),
        "[ab1 ]{1,3}".prop_map(Value::from),
    ];
    scalar.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            inner.prop_map(|value| json!({ "a": value })),
        ]
    })
}

proptest! {
    #[test]
    fn a_positive_operator_and_its_negative_are_never_both_true_and_opposite_for_texts(
        (positive, negative) in prop::sample::select(vec![
            ("equals", "not_equals"), ("contains", "not_contains"), ("in", "not_in"), ("exists", "not_exists"),
        ]),
        value in value(),
        claim in value(),
        missing in any::<bool>(),
    ) {
        let value = match positive {
            "in" => json!([value]),
            "exists" => json!(null),
            _ => value,
        };
        let positive = json!({"claim": "c", "operator": positive, "value": value});
        let missing = missing && negative != "not_exists";
        let negative = json!({"claim": "c", "operator": negative, "value": value, "missing": missing});
        let read = |written| serde_json::from_value::<Matcher>(written);
        let claims = serde_json::from_value(json!({ "c": claim })).unwrap();
        match (read(positive), read(negative)) {
            (Ok(positive), Ok(negative)) => {
                let (yes, no) = (positive.matches(&claims), negative.matches(&claims));
                prop_assert!(!(yes && no));
                let comparable = value.is_string() && claim.is_string() && positive.operator() != MatchOperator::In;
                prop_assert!(!comparable || yes != no);
            }
            (positive, negative) => prop_assert!(positive.is_err() && negative.is_err()),
        }
    }

    #[test]
    fn equality_is_symmetric(a in value(), b in value()) {
        prop_assert!(values_equal(&a, &a));
        prop_assert_eq!(values_equal(&a, &b), values_equal(&b, &a));
    }

    #[test]
    fn a_found_value_equals_itself(claim in value().prop_map(|value| json!([value]))) {
        prop_assert!(says("equals", claim.clone(), claim.clone()));
        prop_assert!(says("in", json!([claim]), claim));
    }

    #[test]
    fn no_expression_makes_a_matcher_panic(expression in r"([*?\[\]{},\\!^()|a-c-]|\PC){0,24}", text in ".*") {
        let written = json!({"claim": "c", "operator": "matches", "value": expression});
        if let Ok(matcher) = serde_json::from_value::<Matcher>(written) {
            matcher.matches(&serde_json::from_value(json!({ "c": text })).unwrap());
        }
    }
}
