//! Tests of projections: their results, rejected expressions, and the limits on work.

use serde_json::json;

use super::*;

fn project(text: &str, answer: &Value) -> Value {
    ResultProjection::compile(text).unwrap().apply(answer).unwrap()
}

fn refused(text: &str) -> String {
    ResultProjection::compile(text).unwrap_err().to_string()
}

#[test]
fn numbers_are_compared_without_rounding() {
    let near = [9_007_199_254_740_993_u64, 9_007_199_254_740_992];
    let answer = json!({"one": near[0], "two": near[1], "half": 0.5, "all": [near[0], 9_007_199_254_740_992.0, near[1], 1]});
    for (text, found) in [
        ("one == two", json!(false)),
        ("one > two", json!(true)),
        ("all[?@ == `1.0`]", json!([1])),
        ("half < one", json!(true)),
        ("sort(all)", json!([1, 9_007_199_254_740_992.0, near[1], near[0]])),
        ("max(all)", json!(near[0])),
    ] {
        assert_eq!(project(text, &answer), found, "{text}");
    }
}

#[test]
fn a_projection_picks_renames_filters_and_keeps_order_and_digits() {
    let answer = json!({
        "total": 2,
        "items": [
            {"z": 1, "a": {"login": "ada"}, "id": 12345678901234567890_u64, "tags": ["x", "y"]},
            {"z": 2, "a": {"login": "bob"}, "id": 2, "tags": []},
        ],
    });
    for (text, found) in [
        ("total", json!(2)),
        ("@", answer.clone()),
        ("nothing.there", json!(null)),
        ("items[0].a.login", json!("ada")),
        ("items[-1].id", json!(2)),
        ("items[-3]", json!(null)),
        ("items[].tags[]", json!(["x", "y"])),
        ("items[::-1].z", json!([2, 1])),
        ("items[1:].z | [0]", json!(2)),
        ("items[?a.login == 'bob'].id", json!([2])),
        ("items[?z < `2` && !(tags == `[]`)].z", json!([1])),
        ("items[0].a.*", json!(["ada"])),
        ("items[].[z, a.login]", json!([[1, "ada"], [2, "bob"]])),
        ("length(items)", json!(2)),
        ("join(', ', items[].a.login)", json!("ada, bob")),
        ("sort_by(items, &a.login)[-1].z", json!(2)),
        ("max_by(items, &z).z", json!(2)),
        ("map(&z, items)", json!([1, 2])),
        ("sum(items[].z)", json!(3)),
        ("avg(items[].z)", json!(1.5)),
        ("keys(items[0].a)", json!(["login"])),
        ("not_null(gone, total)", json!(2)),
        ("items[?contains(tags, 'x')] | length(@)", json!(1)),
        ("merge({a: `1`}, {b: total})", json!({"a": 1, "b": 2})),
        ("floor(`1.5`)", json!(1)),
        ("to_number('7')", json!(7)),
        ("type(items)", json!("array")),
        ("total == `2.0`", json!(true)),
    ] {
        assert_eq!(project(text, &answer), found, "{text}");
    }
    let rows = project("items[].{id: id, by: a.login}", &answer).to_string();
    assert_eq!(rows, r#"[{"id":12345678901234567890,"by":"ada"},{"id":2,"by":"bob"}]"#);
}

#[test]
fn an_invalid_projection_is_rejected_with_the_reason() {
    for (text, reason) in [
        ("items[", "is not JMESPath: "),
        ("", "is not JMESPath: "),
        ("shout(a)", "calls `shout`, which is no function of JMESPath"),
        ("length(a, b)", "calls `length` with other arguments than it takes"),
        ("length(&a)", "calls `length` with other arguments than it takes"),
        ("map(a, &b)", "calls `map` with other arguments than it takes"),
        ("a[::0]", "has a slice with the step 0"),
    ] {
        assert!(refused(text).starts_with(reason), "{text}: {}", refused(text));
    }
    assert_eq!(refused(&"a".repeat(2_001)), "is longer than 2000 bytes");
}

#[test]
fn no_expression_overflows_the_stack() {
    let long = [
        "(".repeat(2_000),
        "!".repeat(2_000),
        "[".repeat(2_000),
        "a.".repeat(999) + "a",
        "a|".repeat(999) + "a",
        "a||".repeat(600) + "a",
        "a[]".repeat(600),
        "a==".repeat(600) + "a",
        "*.".repeat(900) + "a",
        "&".repeat(2_000),
        "{a:".repeat(600),
    ];
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let all = thread
        .spawn(move || long.iter().filter(|text| ResultProjection::compile(text).is_err()).count());
    assert_eq!(all.unwrap().join().unwrap(), 11);
}

#[test]
fn work_and_memory_are_bounded() {
    let start = std::time::Instant::now();
    let answer = json!([1, 2, 3, 4, "a text"]);
    for text in [
        vec!["[@,@][]"; 45].join("|"),
        vec!["[@,@]"; 90].join("|"),
        vec!["{a:@,b:@}"; 40].join("|"),
        vec!["[@,@] | [].to_string(@) | join('-', @)"; 24].join("|"),
    ] {
        let projection = ResultProjection::compile(&text).unwrap();
        assert_eq!(projection.apply(&answer), Err(ProjectionError::TooMuchWork), "{text}");
    }
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

#[test]
fn a_wrong_argument_type_is_an_error_that_names_the_function() {
    let error =
        ResultProjection::compile("length(a)").unwrap().apply(&json!({"a": 1})).unwrap_err();
    assert_eq!(error.to_string(), "`length` was given something that it does not take");
    let mixed = ResultProjection::compile("sort(@)").unwrap().apply(&json!([1, "a"]));
    assert!(matches!(mixed, Err(ProjectionError::WrongType { .. })));
}
