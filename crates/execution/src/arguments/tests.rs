//! Tests of valid arguments, invalid arguments, and malicious schemas.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

/// The maximum time of a check on a loaded machine; without limits, the cases below took minutes.
const SOON: Duration = Duration::from_secs(10);

/// The problems, as `path: message`.
fn problems(schema: &Value, arguments: Value) -> Vec<String> {
    let arguments = arguments.as_object().unwrap().clone();
    let checked =
        ArgumentValidator::compile(schema, UndeclaredArguments::Rejected).check(&arguments);
    let problems = checked.err().unwrap_or_default();
    problems.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

fn pet() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "limit": {"type": "integer"},
            "kind": {"enum": ["cat", "dog"]},
            "owner": {"$ref": "#/$defs/Owner"},
        },
        "required": ["name"],
        "$defs": {"Owner": {"type": "object", "properties": {"age": {"type": "integer"}}}},
    })
}

#[test]
fn valid_arguments_have_no_problems() {
    assert_eq!(
        problems(&pet(), json!({"name": "Mia", "limit": 1.0, "owner": {"age": 7, "x": 1}})),
        [""; 0]
    );
}

#[test]
fn every_problem_is_reported_with_its_location() {
    let wrong = json!({"limit": "many", "kind": "cow", "owner": {"age": null}});
    assert_eq!(
        problems(&pet(), wrong),
        [
            r#": "name" is a required property"#,
            r#"/limit: it is not of type "integer""#,
            r#"/kind: it is not one of "cat" or "dog""#,
            r#"/owner/age: it is not of type "integer""#,
        ]
    );
}

#[test]
fn a_misspelt_name_is_a_problem_with_a_hint() {
    let told = problems(&pet(), json!({"name": "Mia", "limt": 1, "Kind": "cat", "colour": "red"}));
    assert_eq!(
        told,
        [
            ": there is no argument `limt`; did you mean `limit`?",
            ": there is no argument `Kind`; did you mean `kind`?",
            ": there is no argument `colour`",
        ]
    );
}

#[test]
fn undeclared_arguments_pass_where_they_are_sent_or_allowed() {
    let more = json!({"name": "Mia", "more": 1}).as_object().unwrap().clone();
    assert_eq!(ArgumentValidator::compile(&pet(), UndeclaredArguments::Sent).check(&more), Ok(()));
    let mut open = pet();
    open["additionalProperties"] = json!({"type": "integer"});
    assert_eq!(
        ArgumentValidator::compile(&open, UndeclaredArguments::Rejected).check(&more),
        Ok(())
    );
    let composed = json!({"allOf": [pet(), {"properties": {"more": {"type": "integer"}}}]});
    assert_eq!(
        ArgumentValidator::compile(&composed, UndeclaredArguments::Rejected).check(&more),
        Ok(())
    );
    let mut closed = pet();
    closed["additionalProperties"] = json!(false);
    let refused =
        ArgumentValidator::compile(&closed, UndeclaredArguments::Sent).check(&more).unwrap_err();
    assert_eq!(refused, [InvalidArgument::new("", "there is no argument `more`")]);
    let empty = json!({"type": "object", "additionalProperties": false});
    assert_eq!(problems(&empty, json!({"a": 1})), [": there is no argument `a`"]);
}

#[test]
fn values_are_not_repeated_and_messages_are_bounded() {
    let schema = json!({"additionalProperties": {"type": "string"}});
    let many: Map<_, _> = (0..100).map(|n| (format!("a{n}"), json!([123_456_789]))).collect();
    let told = problems(&schema, Value::Object(many));
    assert_eq!(told.len(), MAX_PROBLEMS);
    assert!(told.iter().all(|told| !told.contains("123456789")));
    let long = json!({"x".repeat(10_000): 1});
    assert!(problems(&json!({}), long).iter().all(|told| told.len() < 1_000));
}

#[test]
fn a_format_is_a_hint_and_not_a_rule() {
    let schema = json!({"properties": {"mail": {"type": "string", "format": "email"}}});
    assert_eq!(problems(&schema, json!({"mail": "not a mail"})), [""; 0]);
}

#[test]
fn a_pattern_is_checked_in_linear_time_or_not_at_all() {
    let schema =
        |pattern: &str| json!({"properties": {"x": {"type": "string", "pattern": pattern}}});
    assert_eq!(
        problems(&schema("^[a-z]+$"), json!({"x": "A1"})),
        [r#"/x: it does not match "^[a-z]+$""#]
    );
    let start = Instant::now();
    let evil = json!({"x": format!("{}!", "a".repeat(50_000))});
    let told = problems(&schema("^(a+)+$"), evil);
    assert_eq!(told.first().map(String::as_str), Some(r#"/x: it does not match "^(a+)+$""#));
    for unusable in
        ["^(?!x)a", r"(a)\1", "(?<=a)b", "(?i)a(?>b)", "((a{1000}){1000}){1000}", "(", "["]
    {
        assert_eq!(problems(&schema(unusable), json!({"x": "?"})), [""; 0], "{unusable}");
        assert_eq!(problems(&schema(unusable), json!({"x": 7})).len(), 1, "{unusable}");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn names_that_an_unusable_pattern_could_match_are_allowed() {
    let schema = json!({
        "patternProperties": {"^(?!_)": {"type": "integer"}},
        "additionalProperties": false,
        "properties": {"pattern": {"type": "string"}, "p": {"enum": [{"pattern": "(?!x)"}]}},
    });
    assert_eq!(problems(&schema, json!({"any": 1, "p": {"pattern": "(?!x)"}})), [""; 0]);
    assert_eq!(problems(&schema, json!({"pattern": 1})).len(), 1);
}

#[test]
fn names_that_no_pattern_matches_are_rejected() {
    let schema = json!({
        "type": "object",
        "patternProperties": {"^x": {"type": "integer"}},
        "additionalProperties": false,
    });
    assert_eq!(problems(&schema, json!({"x1": 1})), [""; 0]);
    assert_eq!(problems(&schema, json!({"y": 1})).len(), 1);
    assert_eq!(problems(&schema, json!({"x1": "1"})).len(), 1);
}

/// A schema of thirty levels, each with two references to the next one.
fn doubling(place: &str) -> Value {
    let mut definitions = Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        let twice = match place {
            "here" => json!({"anyOf": [next, next]}),
            _ => json!({"anyOf": [{"properties": {"x": next}}, {"properties": {"x": next}}]}),
        };
        definitions.insert(level.to_string(), twice);
    }
    definitions.insert("30".to_owned(), json!({"type": "string"}));
    json!({
        "properties": {"x": {"$ref": "#/$defs/0"}, "n": {"type": "integer"}},
        "required": ["n"],
        "$defs": definitions,
    })
}

#[test]
fn a_schema_with_exponential_cost_is_only_checked_at_the_top() {
    let deep = (0..30).fold(json!(1), |inner, _| json!({"x": inner}));
    for (place, value) in [("here", json!(1)), ("below", deep)] {
        let arguments = ArgumentValidator::compile(&doubling(place), UndeclaredArguments::Rejected);
        let given = json!({"x": value, "n": "one"}).as_object().unwrap().clone();
        let start = Instant::now();
        let told = arguments.check(&given).unwrap_err();
        assert!(start.elapsed() < Duration::from_millis(100), "{place}: {:?}", start.elapsed());
        assert_eq!(told, [InvalidArgument::new("/n", r#"it is not of type "integer""#)], "{place}");
    }
}

/// Thirty levels below a keyword, each with two references to the next one; the last level accepts nothing.
fn doubling_below(keyword: &str, below: &Value, draft: &str, twice: &str) -> Value {
    let of = |level: u32| json!({"$ref": format!("#/$defs/{level}")});
    let levels = (0..30).map(|level| {
        let next = of(level + 1);
        (level.to_string(), json!({twice: [next, next]}))
    });
    let mut definitions: Map<_, _> = levels.collect();
    definitions.insert("30".to_owned(), json!({"not": {}}));
    let below: Value =
        serde_json::from_str(&below.to_string().replace("\"?\"", &of(0).to_string())).unwrap();
    json!({"$schema": draft, "$defs": definitions, "properties": {"a": {keyword: below}}})
}

#[test]
fn no_keyword_of_any_draft_hides_a_schema_with_exponential_cost() {
    let (here, each) = (json!("?"), json!(["?"]));
    let (of_a, of_any) = (json!({"a": "?"}), json!({"^": "?"}));
    let keywords = [
        ("additionalItems", &here),
        ("additionalProperties", &here),
        ("allOf", &each),
        ("anyOf", &each),
        ("contains", &here),
        ("contentSchema", &here),
        ("dependencies", &of_a),
        ("dependentSchemas", &of_a),
        ("if", &here),
        ("items", &here),
        ("items", &each),
        ("not", &here),
        ("oneOf", &each),
        ("patternProperties", &of_any),
        ("prefixItems", &each),
        ("properties", &of_a),
        ("propertyNames", &here),
        ("unevaluatedItems", &here),
        ("unevaluatedProperties", &here),
    ];
    for draft in [
        "2020-12/schema",
        "2019-09/schema",
        "draft-07/schema#",
        "draft-06/schema#",
        "draft-04/schema#",
    ] {
        let draft = format!(
            "{}://json-schema.org/{draft}",
            if draft.contains("draft-0") { "http" } else { "https" }
        );
        // `allOf` doubles the number of errors, `anyOf` the work to find out that there is one.
        for ((keyword, below), twice) in
            keywords.into_iter().flat_map(|it| [(it, "allOf"), (it, "anyOf")])
        {
            let mut schema = doubling_below(keyword, below, &draft, twice);
            if keyword == "additionalItems" {
                schema["properties"]["a"]["items"] = json!([]);
            }
            let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
            for a in [json!({"a": 1}), json!([1])] {
                let start = Instant::now();
                drop(arguments.check(json!({"a": a}).as_object().unwrap()));
                let time = start.elapsed();
                assert!(time < SOON, "{keyword} {draft}: {time:?}");
            }
        }
    }
}

#[test]
fn a_large_but_simple_list_is_checked_completely() {
    let schema = json!({"properties": {"list": {"type": "array", "items": {"type": "integer"}}}});
    let mut list = vec![json!(1); 20_000];
    assert_eq!(problems(&schema, json!({"list": list})), [""; 0]);
    list.push(json!("x"));
    let told = problems(&schema, json!({"list": list}));
    let more = ": there may be more that does not fit the input schema";
    assert_eq!(told, [r#"/list/20000: it is not of type "integer""#, more]);
}

#[test]
fn a_recursive_schema_terminates() {
    let recursive = json!({"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "v": {"type": "integer"}}});
    let told = problems(&recursive, json!({"kids": [{"kids": [{"v": "x"}]}]}));
    assert_eq!(told, [r#"/kids/0/kids/0/v: it is not of type "integer""#]);
    let circle = json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}});
    assert_eq!(problems(&circle, json!({"x": 1})), [""; 0]);
}

#[test]
fn a_schema_that_cannot_be_compiled_is_checked_at_the_top() {
    for broken in [
        json!({"$ref": "https://elsewhere.test/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/nowhere"}),
        json!({"allOf": 7}),
    ] {
        let schema = json!({"properties": {"x": broken, "n": {"type": ["integer", "null"]}}, "required": ["y"]});
        let told = problems(&schema, json!({"x": 1, "n": true}));
        let expected =
            [r#": "y" is a required property"#, r#"/n: it is not of type ["integer","null"]"#];
        assert_eq!(told, expected, "{schema}");
    }
}

#[test]
fn it_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&ArgumentValidator::compile(&pet(), UndeclaredArguments::Rejected));
}

#[test]
fn an_integer_that_was_rounded_is_rejected() {
    let huge: Value = serde_json::from_str("12345678901234567890123").unwrap();
    assert_eq!(
        problems(&pet(), json!({"name": "Mia", "limit": huge})),
        ["/limit: it is too large to be sent exactly"]
    );
    assert_eq!(problems(&pet(), json!({"name": "Mia", "limit": u64::MAX})), [""; 0]);
}

#[test]
fn a_costly_pattern_is_not_matched_against_a_long_text() {
    let large = "^[01]*1[01]{3000}[23]";
    let text = |pattern: &str| json!({"properties": {"bits": {"pattern": pattern}}});
    let (long, longer) = ("1".repeat(200_000), "1".repeat(2_000_000));
    let cases = [
        (text("^[01]*1[01]{300}[23]"), json!({"bits": longer})),
        (text(large), json!({"bits": long})),
        (json!({"patternProperties": {large: true}}), json!({&longer: 1})),
        (json!({"propertyNames": {"pattern": large}}), json!({&longer: 1})),
        (json!({"propertyNames": {"anyOf": [{"pattern": large}]}}), json!({&longer: 1})),
        // A reference can turn a default value into a schema.
        (
            json!({"properties": {"bits": {"$ref": "#/default"}}, "default": {"pattern": large}}),
            json!({"bits": long}),
        ),
    ];
    let compiled = cases.map(|(schema, given)| {
        (ArgumentValidator::compile(&schema, UndeclaredArguments::Sent), given)
    });
    let start = Instant::now();
    for (arguments, given) in compiled {
        let told = arguments.check(given.as_object().unwrap()).unwrap_err();
        let schema = &arguments.schema;
        assert!(told[0].message.contains("too large to be checked"), "{schema}: {told:?}");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(problems(&text("^[a-z0-9-]{1,64}$"), json!({"bits": "a".repeat(64)})), [""; 0]);
    let many = json!({"properties": {"hashes": {"items": {"pattern": "^[0-9a-f]{64}$"}}}});
    let hashes = vec!["0".repeat(64); 1_500];
    assert_eq!(problems(&many, json!({"hashes": hashes})), [""; 0]);
}

#[test]
fn sending_more_arguments_does_not_avoid_a_check() {
    let label = json!({"pattern": "^[a-z0-9-]{1,255}$", "maxLength": 255});
    let several = json!({"allOf": vec![json!({"pattern": "^[01]*1[01]{2000}[23]"}); 10]});
    let tree = json!({"items": {"$ref": "#/$defs/tree"}});
    let schema = |note: &Value| json!({"properties": {"note": note, "mode": {"enum": ["read"]}}, "$defs": {"tree": tree}});
    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    for (note, text) in [
        (label, json!("a".repeat(31_900))),
        (several, json!("1".repeat(6_000))),
        (json!({"$ref": "#/$defs/tree"}), deep),
    ] {
        let given = json!({"note": text, "mode": "delete"});
        assert_ne!(problems(&schema(&note), given), [""; 0], "{note}");
    }
    // If the schema itself is costly, the upstream reports the problems.
    let ways: Vec<Value> = (0..2_000_000 / 64).map(|it| json!({"const": it})).collect();
    let costly = json!({"properties": {"all": {"items": {"not": {"anyOf": ways}}}}});
    assert_eq!(problems(&costly, json!({"all": vec![json!(-1); 30]})), [""; 0]);
}

#[test]
fn comparisons_of_unique_items_are_counted() {
    let list = |unique: Value| json!({"properties": {"list": {"uniqueItems": unique}}});
    let pictures: Vec<String> = (0..10).map(|it| format!("{it}{}", "a".repeat(100_000))).collect();
    let many: Vec<Value> = (0..20_000).map(|it| json!([it, [it]])).collect();
    for (unique, given) in [(true, json!(pictures)), (true, json!(many)), (false, json!(pictures))]
    {
        assert_eq!(problems(&list(json!(unique)), json!({"list": given})), [""; 0]);
    }
}

#[test]
fn dependent_names_are_not_looked_up_repeatedly() {
    let names: Map<_, _> = (0..30_000).map(|it| (format!("k{it}"), json!([]))).collect();
    let schema = json!({"properties": {"list": {"items": {"dependentRequired": names}}}});
    let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
    for items in [400, 16_000] {
        let given = json!({"list": vec![json!({"a": 1}); items]});
        let start = Instant::now();
        drop(arguments.check(given.as_object().unwrap()));
        assert!(start.elapsed() < SOON, "{items}: {:?}", start.elapsed());
    }
}

#[test]
fn counting_stops_at_the_limit() {
    let each = json!({"items": true, "contains": true, "additionalItems": true});
    let mut schema = each.clone();
    for _ in 0..12 {
        let mut outer = each.clone();
        (outer["not"], outer["if"]) = (schema.clone(), schema);
        schema = outer;
    }
    let arguments = ArgumentValidator::compile(
        &json!({"properties": {"a": schema}}),
        UndeclaredArguments::Rejected,
    );
    let given = json!({"a": vec![1; 100_000]});
    let start = Instant::now();
    let told = arguments.check(given.as_object().unwrap()).unwrap_err();
    assert!(told[0].message.contains("too large to be checked"), "{told:?}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn not_all_problems_are_collected_for_many_alternatives() {
    let ways = json!([{"items": {"type": "integer"}}, {"items": {"type": "boolean"}}]);
    let schema = json!({"properties": {"list": {"anyOf": ways}}});
    let told = problems(&schema, json!({"list": vec!["x"; 20_000]}));
    assert_eq!(told, [": the arguments do not fit the input schema"]);
}

#[test]
fn ids_and_dialects_of_subschemas_do_not_prevent_validation() {
    let of_part =
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "#list", "id": "list"});
    for rules in
        ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-04/schema#"]
    {
        let mut list = of_part.clone();
        (list["type"], list["items"]) = (json!("array"), json!({"type": "integer"}));
        let schema = json!({"$schema": rules, "properties": {"list": list}, "anyOf": [{}, {}]});
        let mut many = vec![json!(1); 1_000];
        many[999] = json!("x");
        let told = problems(&schema, json!({"list": many}));
        assert!(told[0].starts_with("/list/999"), "{rules}: {told:?}");
    }
}

/// A schema that is harmless if references resolve against the root. If they resolve against its subschema, which has
/// an id, thirty levels double.
fn doubling_in_a_part(twice: &str, id: &str) -> Value {
    let of = |level: u32| json!({"$ref": format!("#/$defs/{level}")});
    let levels = (0..30).map(|level| {
        let next = of(level + 1);
        (level.to_string(), json!({twice: [next, next]}))
    });
    let mut definitions: Map<_, _> = levels.collect();
    definitions.insert("30".to_owned(), json!(false));
    let part = json!({"$id": id, "properties": {"x": of(0)}, "items": of(0), "allOf": [of(0)],
        "unevaluatedProperties": false, "$defs": definitions});
    json!({"$id": "http://root.test/", "$defs": {"0": true, "part": part}, "default": part})
}

#[test]
fn references_out_of_the_schema_are_not_followed() {
    for to in [
        "#/$defs/part",
        "#/$defs/part/properties/x",
        "#/$defs/part/items",
        "#/default",
        "#/default/items",
    ] {
        for (twice, id) in ["allOf", "anyOf"].into_iter().flat_map(|twice| {
            [(twice, "http://part.test/"), (twice, "http://root.test/"), (twice, "#part")]
        }) {
            let mut schema = doubling_in_a_part(twice, id);
            schema["properties"] = json!({"n": {"type": "integer"}, "p": {"$ref": to}});
            let start = Instant::now();
            let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
            let given = json!({"n": "one", "p": [1], "q": {"x": 1}});
            let told = arguments.check(given.as_object().unwrap()).unwrap_err();
            let told: Vec<_> = told.iter().map(|problem| problem.path.as_str()).collect();
            assert_eq!(told, ["", "/n"], "{schema}");
            assert!(start.elapsed() < SOON, "{to} {twice} {id}");
        }
    }
}

#[test]
fn an_unresolvable_reference_is_not_blamed_on_the_arguments() {
    let list = json!({"$anchor": "list", "type": "array", "items": {"type": "integer"}});
    let schema = json!({"properties": {"list": {"$ref": "#list"}, "n": {"type": "integer"}}, "$defs": {"list": list}});
    let many = vec![1; 1_000];
    assert_eq!(problems(&schema, json!({"list": many})), [""; 0]);
    let told = problems(&schema, json!({"list": many, "n": "one"}));
    assert_eq!(told, [r#"/n: it is not of type "integer""#]);
}

#[test]
fn the_size_of_the_schema_is_counted_too() {
    let many: Map<_, _> = (0..100_000).map(|it| (format!("x{it}"), json!(0))).collect();
    let long = "l".repeat(1 << 20);
    let list = |items: Value| json!({"properties": {"list": {"items": items}}});
    let (two, number) = (json!({"a": 1, "b": 2}), json!(1.5e300));
    let cases = [
        ("keywords", list(many.clone().into()), json!(1)),
        ("properties", list(json!({"properties": many})), two.clone()),
        ("required", list(json!({"not": {"required": [long]}})), two.clone()),
        ("long names", list(json!({"properties": {&long: true, "c": true}})), two.clone()),
        ("depends", list(json!({"dependentSchemas": {&long: true}})), two),
        ("divided", list(json!({"allOf": vec![json!({"multipleOf": 0.01}); 20]})), number),
    ];
    for (what, schema, item) in cases {
        let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
        for items in [150, 20_000] {
            let given = json!({"list": vec![item.clone(); items]});
            let start = Instant::now();
            drop(arguments.check(given.as_object().unwrap()));
            assert!(start.elapsed() < SOON, "{what} {items}: {:?}", start.elapsed());
        }
    }
}

#[test]
fn a_long_enum_is_not_searched_repeatedly() {
    let some: Value = (0..100_000).map(|number| json!(format!("value {number}"))).collect();
    let schema = json!({"properties": {"list": {"items": {"enum": some}}}});
    let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
    let start = Instant::now();
    for (items, said) in [(490, "too large to be checked"), (30, "is not one of")] {
        let given = json!({"list": vec!["other"; items]});
        let told = arguments.check(given.as_object().unwrap()).unwrap_err();
        assert!(told[0].message.contains(said), "{told:?}");
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let given = json!({"list": vec!["other"; 3]});
    assert_eq!(arguments.check(given.as_object().unwrap()).unwrap_err()[0].path, "/list/0");
}

#[test]
fn a_long_text_is_not_measured_repeatedly() {
    let mut schema = json!({"minLength": 1});
    for _ in 0..14 {
        schema = json!({"allOf": [schema, schema]});
    }
    let arguments = ArgumentValidator::compile(
        &json!({"properties": {"a": schema}}),
        UndeclaredArguments::Rejected,
    );
    let given = json!({"a": "a".repeat(9_000_000)});
    let start = Instant::now();
    assert_eq!(arguments.check(given.as_object().unwrap()).unwrap_err().len(), 1);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn the_number_of_reported_undeclared_names_is_limited() {
    let properties: Map<String, Value> =
        (0..200).map(|at| (format!("{}{at}", "n".repeat(50)), json!({}))).collect();
    let arguments: Map<String, Value> =
        (0..2_000).map(|at| (format!("{}{at}", "m".repeat(50)), json!(1))).collect();
    let start = Instant::now();
    let schema = json!({"type": "object", "properties": properties});
    assert_eq!(problems(&schema, Value::Object(arguments)).len(), 20);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn more_arguments_do_not_weaken_the_check() {
    let schema = json!({
        "type": "object",
        "properties": {
            "account": {"enum": ["ada"]},
            "code": {"type": "string", "pattern": "^[a-z]+$"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    });
    let arguments = ArgumentValidator::compile(&schema, UndeclaredArguments::Rejected);
    let check = |account: &str, tags: usize, code: usize| {
        let given = json!({"account": account, "tags": vec!["t"; tags], "code": "a".repeat(code)});
        arguments.check(given.as_object().unwrap()).is_ok()
    };
    assert!(check("ada", 10, 10) && check("ada", 20_000, 10) && check("ada", 10, 100_000));
    for (tags, code) in [(10, 10), (20_000, 10), (60_000, 10), (200_000, 10), (10, 1 << 20)] {
        assert!(!check("mallory", tags, code), "{tags} {code}");
    }
}
