//! Each sentence of the requirements as a hand-written case.

use serde_json::{Value, json};

use super::{NameMeaning, Oracle, claims, names, patterns};
use crate::agreement::world::{AgreementCase, World, WorldChange, WorldMatcher};

fn wish(world: &mut World, wish: Value) {
    let wish: WorldChange = serde_json::from_value(wish).unwrap();
    assert_eq!(world.apply(&wish), Ok(()), "{wish:?}");
}

fn manifest(name: &str) -> Value {
    json!({"name": name, "method": "GET", "path": "/a", "tags": ["x"], "edition": 0})
}

fn group(selectors: Value, tools: Value, excluded: Value) -> Value {
    json!({"create": {"is_active": true, "any": false, "visibility": null,
        "selectors": selectors, "tools": tools, "excluded": excluded}})
}

/// Source `s` with the tools `a` and `b`, the given group `g`, and a policy that grants it to every agent with a role.
fn world(selectors: Value, tools: Value, excluded: Value) -> World {
    let mut world = World::default();
    let profile = json!({"name": "Shop", "is_reviewed": false, "visibility": "listed"});
    wish(&mut world, json!({"source": ["s", {"register": profile}]}));
    let inventory = json!({"a": manifest("a"), "b": manifest("b")});
    wish(&mut world, json!({"source": ["s", {"ingest": {"tools": inventory, "force": false}}]}));
    wish(&mut world, json!({"group": ["g", group(selectors, tools, excluded)]}));
    grant(&mut world, "g");
    world
}

fn grant(world: &mut World, group: &str) {
    let rules = json!({"priority": 0, "groups": [group],
        "matchers": [{"claim": "role", "operator": "exists"}]});
    wish(world, json!({"policy": [format!("grants-{group}"), {"define": rules}]}));
}

fn second_source(world: &mut World, tools: Value) {
    let profile = json!({"name": "B", "is_reviewed": false, "visibility": "listed"});
    wish(world, json!({"source": ["b", {"register": profile}]}));
    wish(world, json!({"source": ["b", {"ingest": {"tools": tools, "force": false}}]}));
}

fn granted(world: &World) -> Vec<String> {
    let toolset = Oracle::new(world).toolset_for(&json!({"role": "staff"}));
    toolset.0.iter().map(|tool| tool.id.to_owned()).collect()
}

fn listed(world: &World) -> Vec<String> {
    let toolset = Oracle::new(world).toolset_for(&json!({"role": "staff"}));
    toolset.listed().map(|tool| tool.shown_name.clone()).collect()
}

fn matches(matcher: Value, claims: Value) -> bool {
    let matcher: WorldMatcher = serde_json::from_value(matcher).unwrap();
    claims::matches_claims(&matcher, &claims)
}

fn role(operator: &str, value: Value, claim: Value) -> bool {
    matches(json!({"claim": "r", "operator": operator, "value": value}), json!({"r": claim}))
}

#[test]
fn without_a_grant_the_toolset_is_empty() {
    let world = world(json!([{"name": "*"}]), json!([]), json!([]));
    assert!(Oracle::new(&world).toolset_for(&json!({})).0.is_empty());
    assert_eq!(granted(&world), ["s:a", "s:b"]);
}

#[test]
fn a_group_is_selected_plus_explicit_minus_excluded() {
    assert_eq!(granted(&world(json!([{"name": "a"}]), json!(["s:b"]), json!([]))), ["s:a", "s:b"]);
    assert_eq!(granted(&world(json!([{"name": "*"}]), json!(["s:a"]), json!(["s:a"]))), ["s:b"]);
    assert_eq!(granted(&world(json!([]), json!(["s:a"]), json!([]))), ["s:a"]);
    assert!(granted(&world(json!([]), json!([]), json!([]))).is_empty());
}

#[test]
fn a_group_requires_all_selectors_or_any() {
    let mut world = world(json!([{"name": "a"}, {"name": "{a,b}"}]), json!([]), json!([]));
    assert_eq!(granted(&world), ["s:a"]);
    wish(&mut world, json!({"group": ["g", {"update": {"any": true, "visibility": null}}]}));
    assert_eq!(granted(&world), ["s:a", "s:b"]);
}

#[test]
fn a_selector_checks_every_condition_it_has() {
    for (selector, selects) in [
        (json!({"source": "S"}), true),
        (json!({"source": "shop"}), true),
        (json!({"source": "shops"}), false),
        (json!({"path": "/A", "method": "get"}), true),
        (json!({"method": "regex:get"}), false),
        (json!({"required_tags": ["x"]}), true),
        (json!({"required_tags": ["X"]}), false),
        (json!({"excluded_tags": ["x"]}), false),
        (json!({"required_labels": ["l1"]}), false),
        (json!({"kind": "prompt", "name": "*"}), false),
        (json!({"kind": "tool", "name": "*"}), true),
    ] {
        let world = world(json!([selector]), json!([]), json!([]));
        assert_eq!(!granted(&world).is_empty(), selects, "{selector}");
    }
}

#[test]
fn an_exclusion_affects_one_group_and_disabling_affects_all() {
    let mut world = world(json!([{"name": "*"}]), json!([]), json!(["s:a"]));
    wish(&mut world, json!({"group": ["h", group(json!([]), json!(["s:a"]), json!([]))]}));
    grant(&mut world, "h");
    assert_eq!(granted(&world), ["s:a", "s:b"]);
    wish(&mut world, json!({"tool": ["s:a", "disable"]}));
    assert_eq!(granted(&world), ["s:b"]);
    wish(&mut world, json!({"source": ["s", "disable"]}));
    assert!(granted(&world).is_empty());
}

#[test]
fn an_inactive_group_or_policy_grants_nothing() {
    let mut world = world(json!([{"name": "*"}]), json!([]), json!([]));
    wish(&mut world, json!({"group": ["g", "deactivate"]}));
    assert!(granted(&world).is_empty());
    wish(&mut world, json!({"group": ["g", "activate"]}));
    wish(&mut world, json!({"policy": ["grants-g", "deactivate"]}));
    assert!(granted(&world).is_empty());
}

#[test]
fn visibility_comes_from_the_tool_then_its_groups_then_its_source() {
    let mut world = world(json!([{"name": "*"}]), json!([]), json!([]));
    let hidden = json!({"name": "Shop", "is_reviewed": false, "visibility": "hidden"});
    wish(&mut world, json!({"source": ["s", {"update": hidden}]}));
    assert!(listed(&world).is_empty());
    assert_eq!(granted(&world), ["s:a", "s:b"]);
    wish(
        &mut world,
        json!({"group": ["g", {"update": {"any": false, "visibility": "searchable"}}]}),
    );
    let searched = |world: &World| {
        Oracle::new(world).toolset_for(&json!({"role": "staff"})).searchable().count()
    };
    assert_eq!((listed(&world).len(), searched(&world)), (0, 2));
    wish(&mut world, json!({"group": ["h", group(json!([]), json!(["s:a"]), json!([]))]}));
    wish(&mut world, json!({"group": ["h", {"update": {"any": false, "visibility": "listed"}}]}));
    grant(&mut world, "h");
    assert_eq!(listed(&world), ["a"]);
    let named = json!({"override": {"name": "z", "visibility": "hidden"}});
    wish(&mut world, json!({"tool": ["s:a", named]}));
    assert!(listed(&world).is_empty());
}

#[test]
fn all_tools_with_a_clashing_name_get_qualified_names() {
    let mut world = world(json!([{"name": "*"}]), json!([]), json!([]));
    second_source(&mut world, json!({"a": manifest("a")}));
    assert_eq!(listed(&world), ["b__a", "s__a", "b"]);
    let oracle = Oracle::new(&world);
    let toolset = oracle.toolset_for(&json!({"role": "staff"}));
    assert_eq!(toolset.resolve_name("a"), NameMeaning::Ambiguous);
    assert_eq!(toolset.resolve_name("s__a"), NameMeaning::Tool("s:a".into()));
    assert_eq!(toolset.resolve_name("b"), NameMeaning::Tool("s:b".into()));
    assert_eq!(toolset.resolve_name("s__b"), NameMeaning::Tool("s:b".into()));
    assert_eq!(toolset.resolve_name("S__b"), NameMeaning::Nothing);
}

#[test]
fn a_clashing_qualified_name_falls_back_to_the_unique_name() {
    let mut world = world(json!([{"name": "*"}]), json!([]), json!([]));
    second_source(&mut world, json!({"a": manifest("a"), "c": manifest("s__a")}));
    // `b:a` and `s:a` clash, and so do `s__a` of `s:a` and the name of `b:c`.
    let unique = names::unique_tool_name("s:a", "s", "a");
    assert_eq!(listed(&world), ["b__a", "b__s__a", &unique, "b"]);
    let oracle = Oracle::new(&world);
    let toolset = oracle.toolset_for(&json!({"role": "staff"}));
    assert_eq!(toolset.resolve_name("s__a"), NameMeaning::Ambiguous);
    assert_eq!(toolset.resolve_name(&unique), NameMeaning::Tool("s:a".into()));
}

#[test]
fn long_names_are_truncated_and_disambiguated_by_a_hash_of_the_id() {
    // printf s:a | sha256sum
    let [plain, qualified, unique] = names::name_forms("s:a", "s", "a");
    assert_eq!((&*plain, &*qualified), ("a", "s__a"));
    assert_eq!(unique, "s__a_d4315d83");
    let just = "n".repeat(61);
    assert_eq!(names::name_forms("s:a", "s", &just)[1], format!("s__{just}"));
    let [_, qualified, unique] = names::name_forms("s:a", "s", &"n".repeat(62));
    assert_eq!((qualified.len(), &qualified), (64, &unique));
    assert!(qualified.starts_with(&format!("s__{}_", "n".repeat(52))));
}

#[test]
fn a_pattern_is_a_case_insensitive_glob() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*", "AB", true),
        ("?", "", false),
        ("?", "ab", false),
        ("[a-c]x", "Bx", true),
        ("[!a-c]x", "Bx", false),
        ("[!a-c]x", "dx", true),
        ("{a,b*}c", "bxc", true),
        ("{a,b*}c", "c", false),
        ("a.b", "axb", false),
        ("/b/{id}", "/b/{id}", true),
        ("/b/{id}", "/b/id", false),
        ("/a/*", "/a/b/c", true),
        ("ab", "abc", false),
    ] {
        assert_eq!(patterns::matches_pattern(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_regular_expression_is_case_sensitive_and_matches_the_whole_text() {
    for (pattern, text, expected) in [
        ("regex:a|ab", "ab", true),
        ("regex:a|ab", "abc", false),
        ("regex:a", "A", false),
        ("regex:a", "a\n", false),
        ("regex:a$", "a\n", false),
    ] {
        assert_eq!(patterns::matches_pattern(pattern, text), expected, "{pattern} {text:?}");
    }
}

#[test]
fn equals_compares_types_too() {
    assert!(role("equals", json!(1), json!(1.0)));
    assert!(!role("equals", json!(1), json!("1")));
    assert!(!role("equals", json!(true), json!("true")));
    assert!(!role("equals", json!("a"), json!(["a"])));
    assert!(role("equals", json!(["a", 1]), json!(["a", 1.0])));
    assert!(!role("equals", json!(["a", "b"]), json!(["b", "a"])));
    assert!(role("equals", json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})));
    assert!(!role("equals", json!({"a": 1}), json!({"a": 1, "b": 2})));
    assert!(!role("equals", json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)));
}

#[test]
fn contains_is_membership_or_a_whole_word() {
    assert!(role("contains", json!("admin"), json!(["x", "admin"])));
    assert!(role("contains", json!("admin"), json!("x admin y")));
    for text in ["administrator", "not-admin", "tools:read admin-view"] {
        assert!(!role("contains", json!("admin"), json!(text)), "{text}");
    }
    assert!(!role("contains", json!("1"), json!([1])));
    assert!(!role("contains", json!("admin"), json!(["x admin"])));
    assert!(!role("contains", json!("admin"), json!({"admin": true})));
}

#[test]
fn matches_tests_a_whole_string_or_an_array_element() {
    assert!(role("matches", json!("admin"), json!("admin")));
    for text in ["administrator", "xadmin", "admin\n"] {
        assert!(!role("matches", json!("admin"), json!(text)), "{text:?}");
    }
    assert!(role("matches", json!("ad.*"), json!([1, "admin"])));
    assert!(!role("matches", json!("1"), json!(1)));
    assert!(role("matches", json!("a*"), json!("a".repeat(16 * 1024))));
    assert!(!role("matches", json!("a*"), json!("a".repeat(16 * 1024 + 1))));
}

#[test]
fn a_negative_operator_fails_closed() {
    for operator in ["not_equals", "not_contains"] {
        assert!(role(operator, json!("a"), json!("b")), "{operator}");
        assert!(!role(operator, json!("a"), json!("a")), "{operator}");
        assert!(!role(operator, json!("a"), json!(1)), "{operator}");
        assert!(!role(operator, json!("a"), Value::Null), "{operator}");
    }
    assert!(!role("not_equals", json!("a"), json!(["b"])));
    assert!(role("not_contains", json!("a"), json!(["b"])));
    assert!(!role("not_contains", json!(1), json!("b")));
    assert!(role("not_in", json!(["a", 1]), json!(2)));
    assert!(!role("not_in", json!(["a", "b"]), json!(2)));
    let missing = |missing: bool| {
        let matcher =
            json!({"claim": "r", "operator": "not_in", "value": ["a"], "missing": missing});
        matches(matcher, json!({"r": null}))
    };
    assert!(missing(true));
    assert!(!missing(false));
}

#[test]
fn a_null_claim_counts_as_absent() {
    let exists = json!({"claim": "r", "operator": "exists"});
    let not_exists = json!({"claim": "r", "operator": "not_exists"});
    for (claims, is_there) in
        [(json!({"r": []}), true), (json!({"r": null}), false), (json!({}), false)]
    {
        assert_eq!(matches(exists.clone(), claims.clone()), is_there, "{claims}");
        assert_eq!(matches(not_exists.clone(), claims.clone()), !is_there, "{claims}");
    }
}

#[test]
fn a_path_walks_through_arrays_and_quoted_segments() {
    let has = |path: &str, claims: Value| {
        matches(json!({"claim": path, "operator": "equals", "value": 1}), claims)
    };
    assert!(has("a.b", json!({"a": {"b": 1}})));
    assert!(has("a.b", json!({"a": [{"b": 2}, 3, {"b": 1}]})));
    assert!(!has("a.b", json!({"a": [[{"b": 1}]]})));
    assert!(!has("a.0", json!({"a": [1]})));
    assert!(has("a.0", json!({"a": {"0": 1}})));
    assert!(has(r#"a."b.c""#, json!({"a": {"b.c": 1}})));
    assert!(!has("a.b.c", json!({"a": {"b.c": 1}})));
}

#[test]
fn of_several_values_one_must_match_and_none_may_contradict() {
    let claims = json!({"a": [{"b": 1}, {"b": 2}]});
    let with = |operator: &str, value: i32| {
        matches(json!({"claim": "a.b", "operator": operator, "value": value}), claims.clone())
    };
    assert!(with("equals", 2));
    assert!(!with("not_equals", 2));
    assert!(with("not_equals", 3));
    let mixed = json!({"a": [{"b": 1}, {"b": "x"}]});
    assert!(!matches(json!({"claim": "a.b", "operator": "not_equals", "value": 3}), mixed));
}

#[test]
fn a_case_survives_a_json_round_trip() {
    let case = crate::agreement::generate::generate_case(7);
    let text = serde_json::to_string(&case).unwrap();
    let again: AgreementCase = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}
