//! Expressions: their results, their restrictions and their limits.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const WORK: u64 = 500_000;

fn evaluate(text: &str, input: &Value) -> Result<Value, String> {
    deep_stack::run_on_new_thread(|| {
        let expression =
            RuntimeExpression::compile(text, &[]).map_err(|error| error.to_string())?;
        let mut work = WORK;
        expression.evaluate(input, |_| None, &mut work).map_err(|error| error.to_string())
    })
}

#[test]
fn expressions_evaluate_as_in_jq() {
    let input = json!({"pets": [{"name": "Rex", "age": 3}, {"name": "Tom", "age": 5.5}], "n": 7});
    for (text, expected) in [
        (".", input.clone()),
        (".pets[0].name", json!("Rex")),
        (".pets | map(.age) | add", json!(8.5)),
        ("[.pets[] | select(.age > 4) | .name]", json!(["Tom"])),
        (".pets | length", json!(2)),
        (".missing.too", json!(null)),
        (".missing // \"none\"", json!("none")),
        ("\"Hello \\(.pets[0].name)!\"", json!("Hello Rex!")),
        ("{n, twice: (.n * 2)}", json!({"n": 7, "twice": 14})),
        ("if .n > 5 then \"big\" else \"small\" end", json!("big")),
        (".n / 2", json!(3.5)),
        (".n % 4", json!(3)),
        ("[.pets[].name] | join(\", \")", json!("Rex, Tom")),
        ("[\"a\", 1, null, true] | join(\"-\")", json!("a-1--true")),
        (".pets | map({(.name): .age}) | add", json!({"Rex": 3, "Tom": 5.5})),
        (". + {x: 1} | keys", json!(["n", "pets", "x"])),
        (".a.b.c = 1 | .a", json!({"b": {"c": 1}})),
        (".n += 1 | .n", json!(8)),
        ("del(.pets) | .", json!({"n": 7})),
        (".pets[1:] | .[0].name", json!("Tom")),
        (".pets | sort_by(-.age) | first.name", json!("Tom")),
        (".pets | group_by(.age > 4) | length", json!(2)),
        ("reduce .pets[] as $p (0; . + $p.age)", json!(8.5)),
        ("[limit(3; range(10))]", json!([0, 1, 2])),
        ("[.[] | numbers]", json!([7])),
        ("to_entries | map(.key)", json!(["pets", "n"])),
        ("with_entries(select(.key == \"n\"))", json!({"n": 7})),
        ("try error(\"x\") catch .", json!("x")),
        (".pets | any(.age == 3)", json!(true)),
        ("\"a,b\" | split(\",\")", json!(["a", "b"])),
        ("\"abc\" | .[1:]", json!("bc")),
        ("[1,[2,[3]]] | flatten", json!([1, 2, 3])),
        ("\"12\" | tonumber + 1", json!(13)),
        ("{a: 1} | tojson | fromjson", json!({"a": 1})),
        ("[paths] | length", json!(8)),
        ("[1, 2] | contains([2])", json!(true)),
        ("\"x\" | ascii_upcase | ltrimstr(\"X\")", json!("")),
        ("[3, 1, 2] | sort | unique | max", json!(3)),
        ("empty", json!(null)),
        ("1, 2", json!(1)),
        ("9007199254740993", json!(9_007_199_254_740_993_i64)),
        ("{} | .a[2] = 1", json!({"a": [null, null, 1]})),
        ("[[1,2],[3,4]] | transpose", json!([[1, 3], [2, 4]])),
        ("walk(if type == \"number\" then . + 1 else . end) | .n", json!(8)),
        ("\"b\" as $x | [\"a\", \"b\"] | index($x)", json!(1)),
        ("{def: 1} | .def", json!(1)),
        ("1.5 | floor", json!(1)),
        ("@json \"v=\\(.n)\"", json!("v=7")),
        ("[1, null] | tostring", json!("[1,null]")),
    ] {
        assert_eq!(evaluate(text, &input), Ok(expected), "{text}");
    }
}

#[test]
fn a_variable_has_the_given_value() {
    let expression =
        RuntimeExpression::compile("$input.a + $item", &["input", "item", "context"]).unwrap();
    assert!(expression.mentions_variable("item") && !expression.mentions_variable("context"));
    let (input, item) = (json!({"a": 1}), json!(2));
    let value = |name: &str| if name == "input" { Some(&input) } else { Some(&item) };
    assert_eq!(expression.evaluate(&Value::Null, value, &mut 1_000), Ok(json!(3)));
}

#[test]
fn unsupported_keywords_and_functions_are_rejected_by_name() {
    for (text, why) in [
        ("def f: f; f", "`def` is not supported in expressions"),
        ("import \"x\" as x; .", "`import` is not supported in expressions"),
        ("include \"x\"; .", "`include` is not supported in expressions"),
        ("env", "there is no function `env` here"),
        ("$ENV", "there is no variable `$ENV` here"),
        ("$__prog_args", "there is no variable `$__prog_args` here"),
        ("input", "there is no function `input` here"),
        ("inputs", "there is no function `inputs` here"),
        ("now", "there is no function `now` here"),
        ("debug", "there is no function `debug` here"),
        ("repeat(1)", "there is no function `repeat` here"),
        ("until(true; .)", "there is no function `until` here"),
        ("halt", "there is no function `halt` here"),
        ("input_filename", "there is no function `input_filename` here"),
        ("$secrets", "there is no variable `$secrets` here"),
        (".a | ", "this is not jq: expected term at the end"),
        (".a ) 1", "this is not jq: expected token at `) 1`"),
        ("\"a", "this is not jq: expected closing quote at the end"),
        ("nope(1)", "there is no function `nope` here"),
    ] {
        assert_eq!(evaluate(text, &json!({})), Err(why.to_owned()), "{text}");
    }
    let long = format!("{}1", "1+".repeat(2_000));
    assert_eq!(evaluate(&long, &json!(1)), Err(InvalidExpression::TooLong.to_string()));
    let many = format!("{}1", "1|".repeat(1_000));
    assert_eq!(evaluate(&many, &json!(1)), Err(InvalidExpression::TooDeep.to_string()));
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(evaluate(&deep, &json!(1)), Err(InvalidExpression::TooDeep.to_string()));
}

#[test]
fn no_expression_exceeds_the_limits_on_time_memory_and_stack() {
    let input = json!({"a": [1, 2, 3]});
    let doubled = format!("1{}", "|[.,.]".repeat(60));
    for text in [
        "[range(1e15)]",
        "last(range(1e15))",
        "[recurse(.)]",
        "last(recurse(.))",
        "range(0; 1; 0) | empty",
        "\"x\" * 1e9 | length",
        "\"x\" * 1000000000 | length",
        "reduce range(1000000) as $i (\"x\"; . + .)",
        "reduce range(1000) as $i ([1]; . + .)",
        "reduce range(100000) as $i (null; [.])",
        "reduce range(100000) as $i (null; {a: .})",
        "[limit(1e15; range(1e15))]",
        "skip(1e15; range(0; 1; 0))",
        "try last(range(1e15) | error(\"x\")?) catch 1",
        "label $out | range(0; 1; 0) | empty",
        "[range(5000)] as $a | [range(5000) | $a == $a]",
        "[range(3000)] | [[., ., ., .] | combinations]",
        "{a: [range(9)]} | [.a, .a, .a, .a, .a, .a, .a, .a, .a] | [combinations] | length",
        ".[\"a\"][1e12] = 1",
        ".a[100000000] = 1",
        "first(range(1e15) | select(. < 0))",
        "[range(400000)] | sort | group_by(.) | length",
        "all(range(1e15); true)",
        &doubled,
    ] {
        let start = std::time::Instant::now();
        let result = evaluate(text, &input);
        assert!(result.is_err(), "{text}: {:.100}", result.unwrap().to_string());
        assert!(start.elapsed().as_secs() < 5, "{text}: {:?}", start.elapsed());
    }
}

#[test]
fn long_evaluations_within_the_limits_succeed() {
    for (text, expected) in [
        ("[range(50000)] | length", json!(50_000)),
        ("reduce range(50000) as $i (0; . + 1)", json!(50_000)),
        ("reduce range(2000) as $i ([]; . + [$i]) | length", json!(2_000)),
        ("reduce range(2000) as $i ([]; .[$i] = $i) | length", json!(2_000)),
        ("reduce range(2000) as $i ({}; .a[$i] = $i) | .a | length", json!(2_000)),
        ("reduce range(2000) as $i ({}; .[\"\\($i)\"] = $i) | length", json!(2_000)),
        ("[range(10000)] | map(. * 2) | add", json!(99_990_000)),
        ("[range(20000)] | join(\",\") | length", json!(108_889)),
        ("last(recurse(if . < 20000 then . + 1 else empty end))", json!(20_000)),
        ("[range(3000)] | sort_by(-.) | first", json!(2_999)),
        ("reduce range(60) as $i (null; [.]) | [..] | length", json!(61)),
        ("reduce range(60) as $i (1; [.]) | flatten", json!([1])),
        ("reduce range(60) as $i (1; [.]) | flatten(200)", json!([1])),
        ("reduce range(60) as $i (1; [.]) | walk(.) | tojson | length", json!(121)),
        ("[foreach range(20000) as $i (0; . + $i)] | length", json!(20_000)),
    ] {
        assert_eq!(evaluate(text, &json!(0)), Ok(expected), "{text}");
    }
}

#[test]
fn long_operator_chains_fit_on_the_stack() {
    let deep = (0..60).fold(json!(1), |inside, _| json!([inside]));
    for text in [
        format!("{}1", "1+".repeat(390)),
        format!("{}1", "1|".repeat(390)),
        format!("{}1", "1,".repeat(390)),
        format!("{}1", "1//".repeat(390)),
        format!("{}1", "-".repeat(390)),
        format!("{}1", "try ".repeat(390)),
        format!("{}1", "1 as $x|".repeat(190)),
        format!("{}1{}", "if 1 then ".repeat(150), " end".repeat(150)),
        format!("{}.{}", "..|=(".repeat(24), ")".repeat(24)),
        format!("{}.{}", "walk(".repeat(24), ")".repeat(24)),
        format!("{}.{}", "[".repeat(24), "]".repeat(24)),
        format!("1{}", "?".repeat(390)),
        format!(".a{}", "[0]".repeat(190)),
        format!("{}1", "label $x|".repeat(190)),
        format!("{}1", "null //= ".repeat(190)),
        format!("{}1", ". |= ".repeat(190)),
    ] {
        // Returning without a stack overflow is enough.
        drop(evaluate(&text, &deep));
    }
}

#[test]
fn error_messages_are_useful_and_short() {
    assert_eq!(
        evaluate(".a + 1", &json!({"a": "x"})),
        Err("cannot calculate \"x\" + 1".to_owned())
    );
    assert_eq!(
        evaluate("1 / 0", &json!(0)),
        Err("the result is no number that JSON has".to_owned())
    );
    let long = evaluate("error(\"x\" * 10000)", &json!(0)).unwrap_err();
    assert!(long.chars().count() < 210);
    assert_eq!(evaluate(".[0]", &json!("x")), Err("cannot index \"x\" with 0".to_owned()));
}

#[test]
fn work_is_subtracted_from_the_remaining_budget() {
    let expression = RuntimeExpression::compile("[range(100)] | length", &[]).unwrap();
    let mut work = 10_000;
    expression.evaluate(&json!(0), |_| None, &mut work).unwrap();
    assert!(work < 10_000 && 5_000 < work, "{work}");
    let mut little = 10;
    let stopped = expression.evaluate(&json!(0), |_| None, &mut little);
    assert_eq!((stopped, little), (Err(ExpressionError::TooMuchWork), 0));
}

/// Paths as long as the input makes them.
#[test]
fn no_path_overflows_the_stack() {
    let path: Vec<Value> = (0..20_000).map(|_| json!("a")).collect();
    let input = json!({"doc": {}, "path": path});
    for text in [
        "setpath(.path; 1)",
        "delpaths([.path])",
        "getpath(.path) = 1",
        ".path as $p | .doc | del(getpath($p))",
        "(reduce .path[] as $p (.doc; .[$p])) |= 1",
        "recurse(.) |= .",
        "(reduce range(100000) as $i (.; .)) |= 1",
        "[recurse(.)] | length",
        "last(recurse(.))",
        "def",
        "limit(1000000; repeat(.)) |= .",
        "(.. | .a) |= 1",
        "until(false; .) |= .",
        "while(true; .) |= .",
        "(foreach range(100000) as $i (.; .)) |= 1",
        "first(range(1000000) | select(. > 999999))",
        "path(recurse(.))",
        "[paths(true)]",
        "walk(.)",
        "(label $out | recurse(.)) |= .",
        "recurse(.; true) |= .",
        "(try recurse(.) catch .) |= .",
        "(.path[] |= recurse(.))",
        "to_entries | map(recurse(.)) | .[0]",
        "limit(100000; recurse(.)) |= 1",
    ] {
        // Returning without a stack overflow is enough.
        drop(evaluate(text, &input));
    }
}

const WORDS: &[&str] = &[
    ".",
    ".a",
    ".b[0]",
    ".[]",
    "..",
    ".[1:]",
    ".[:-1]",
    "?",
    "|",
    "|",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "//",
    "==",
    "<",
    "and",
    "or",
    "not",
    "(",
    ")",
    "[",
    "]",
    "{a:",
    "}",
    "1",
    "0",
    "-1",
    "2.5",
    "1e300",
    "\"x\"",
    "null",
    "true",
    "$x",
    ". as $x |",
    "map(",
    "select(",
    "if . then",
    "else",
    "end",
    "try",
    "catch",
    "reduce .[] as $x (0;",
    "length",
    "keys",
    "add",
    "sort",
    "group_by(.)",
    "tojson",
    "fromjson",
    "tostring",
    "tonumber",
    "to_entries",
    "from_entries",
    "|=",
    "=",
    "+=",
    "del(.a)",
    "paths",
    "flatten",
    "join(\",\")",
    "limit(3;",
    "first(",
    "range(4)",
    "indices(1)",
    "contains(\"x\")",
    "has(0)",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn no_expression_makes_the_interpreter_panic(
        words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..14),
    ) {
        let input = json!({"a": [1, "x", null, {"b": [2.5, [true]]}], "b": ["y", -3]});
        let result = evaluate(&words.join(" "), &input);
        prop_assert_ne!(result, Err("it cannot be evaluated".to_owned()));
    }

    #[test]
    fn values_survive_a_round_trip(text in "[ -~]{0,40}", whole in any::<i64>(), part in -1e9..1e9) {
        let input = json!({"t": text, "w": whole, "p": part, "l": [null, true, [text, {}]]});
        prop_assert_eq!(evaluate(".", &input), Ok(input.clone()));
        prop_assert_eq!(evaluate("tojson | fromjson", &input), Ok(input));
    }
}
