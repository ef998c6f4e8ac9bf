//! Tests that direct evaluation gives the same result as the template engine.

use model::{BodyEncoding, HttpRequest};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::laws::json_value;
use super::{get, render, with_body, with_header};
use crate::template::direct_expression::DirectExpression;
use crate::template::encoded_piece::TemplatePosition;

/// A template that is evaluated directly, and an equivalent one that needs the engine.
fn both(
    place: TemplatePosition,
    expression: &str,
    around: impl Fn(&str) -> HttpRequest,
) -> [HttpRequest; 2] {
    let for_the_engine = format!("({expression})");
    assert!(DirectExpression::parse(expression, place).is_some(), "{expression}");
    assert!(DirectExpression::parse(&for_the_engine, place).is_none(), "{for_the_engine}");
    [expression, &for_the_engine].map(|expression| around(&format!("{{{{ {expression} }}}}")))
}

/// The rendered request, or the problem of the argument.
fn told(templates: &HttpRequest, arguments: &Value) -> String {
    match render(templates, arguments) {
        Ok(request) => format!(
            "{} {:?} {:?}",
            request.url,
            request.headers,
            request.body.map(String::from_utf8)
        ),
        Err(error) => error.to_string().rsplit('`').next().unwrap_or_default().to_owned(),
    }
}

fn expressions() -> Vec<[HttpRequest; 2]> {
    let in_path = |expression: &str| get(&format!("https://api.test/x/{expression}"));
    let in_header = |expression: &str| with_header("X-A", expression);
    let in_body = |expression: &str| with_body(expression, BodyEncoding::Json);
    let json = TemplatePosition::Body(BodyEncoding::Json);
    vec![
        both(TemplatePosition::Address, "args.a", in_path),
        both(TemplatePosition::Address, "simple(args.a)", in_path),
        both(TemplatePosition::Address, r#"simple(args["a b"])"#, in_path),
        both(TemplatePosition::Address, r#"query(form("a", args.a))"#, in_path),
        both(
            TemplatePosition::Address,
            r#"query(form("a&=", args.a, explode=false), form("b", args["a b"], reserved=true), form("c", args._c, explode=true, reserved=false))"#,
            in_path,
        ),
        both(
            TemplatePosition::Address,
            r#"query(form("a", args.a, whole=true), form("b", args["a b"], reserved=true, whole=true), form("c", args._c, explode=false, whole=false))"#,
            in_path,
        ),
        both(TemplatePosition::Header, "header(args.a)", in_header),
        both(json, "json(args.a)", in_body),
        both(json, r#"json(args["a b"])"#, in_body),
        both(json, "json(rest())", in_body),
        both(json, r#"json(rest("a"))"#, in_body),
        both(json, r#"json(rest("a", "a b"))"#, in_body),
        both(json, r#"json(rest("a", required=true))"#, in_body),
        both(json, r#"json(rest(required=true))"#, in_body),
        both(json, r#"json(rest("a", "a b", "_c", required=false))"#, in_body),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("a"), Just("a b"), Just("_c"), Just("other")];
    let members = prop::collection::vec((name.prop_map(str::to_owned), json_value()), 0..5);
    members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #[test]
    fn direct_evaluation_agrees_with_the_engine(arguments in arguments()) {
        for [direct, by_engine] in expressions() {
            prop_assert_eq!(told(&direct, &arguments), told(&by_engine, &arguments));
        }
    }

    #[test]
    fn no_expression_causes_a_panic(expression in r#"(args|json\(|rest\(|simple\(|query\(|form\(|"a"|, |explode=|true|[ -~]){0,12}"#, other in any::<String>()) {
        for place in [TemplatePosition::Address, TemplatePosition::Header, TemplatePosition::Body(BodyEncoding::Json)] {
            drop(DirectExpression::parse(&expression, place));
            drop(DirectExpression::parse(&other, place));
        }
    }
}

#[test]
fn both_have_the_same_size_limit() {
    let limit = crate::template::address_template::ADDRESS_BUDGET;
    for length in [limit - 5, limit - 4, limit - 3] {
        let arguments = json!({"a": "x".repeat(length)});
        for [direct, by_engine] in expressions() {
            assert_eq!(told(&direct, &arguments), told(&by_engine, &arguments), "{length}");
        }
    }
}

#[test]
fn other_expressions_are_left_to_the_engine() {
    for expression in [
        "args",
        "args.a.b",
        "args.1",
        r#"args["a\"b"]"#,
        "args.a if args.b else 1",
        "simple(args.a, explode=true)",
        r#"query("fixed=1", form("a", args.a))"#,
        r#"query(form("a", args.a, explode=true, explode=true))"#,
        "json(args.a)",
        "query()",
    ] {
        assert_eq!(
            DirectExpression::parse(expression, TemplatePosition::Address),
            None,
            "{expression}"
        );
    }
}
