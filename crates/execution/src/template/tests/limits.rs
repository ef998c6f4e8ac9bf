//! Tests of the restrictions of templates and of their cost.

use std::time::{Duration, Instant};

use model::{BodyEncoding, ErrorCode};
use serde_json::json;
use upstream::egress::{EgressPolicy, MAX_URL};

use super::{RequestTemplate, get, refused, render, target, with_body};

/// `https://api.test/{{ … }}`
fn expression(expression: &str) -> model::HttpRequest {
    get(&format!("https://api.test/{{{{ {expression} }}}}"))
}

#[test]
fn a_template_sees_only_its_arguments() {
    for name in [
        "debug",
        "env",
        "claims",
        "secrets",
        "token",
        "range",
        "namespace",
        "budget",
        "in_address",
        "loop",
        "self",
    ] {
        assert_eq!(
            refused(&expression(&format!("{name}()"))),
            format!("templates know no `{name}`")
        );
    }
    assert_eq!(refused(&expression("args.a if secrets else 1")), "templates know no `secrets`");
}

#[test]
fn filters_and_methods_do_not_exist() {
    assert!(refused(&expression("args.a|indent(300000000)")).contains("`|` cannot be used"));
    for call in ["args.items()", "args.a.upper()", "args.a is odd", "simple", "[simple]"] {
        assert!(render(&expression(call), &json!({"a": "x"})).is_err(), "{call}");
    }
}

#[test]
fn a_wrong_option_or_too_few_values_are_an_error() {
    for call in ["simple(args.a, explod=true)", "simple()", "simple(args.a, args.a)"] {
        assert!(render(&expression(call), &json!({"a": "x"})).is_err(), "{call}");
    }
}

#[test]
fn long_and_deep_templates_are_rejected_quickly() {
    let start = Instant::now();
    let reason = refused(&expression(&"(".repeat(5_000)));
    assert!(reason.contains("does not end"), "{reason}");
    let parens = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(
        refused(&expression(&parens)).contains("recursion"),
        "{}",
        refused(&expression(&parens))
    );
    let lists = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(refused(&expression(&lists)).contains("recursion"));
    let long = format!("https://api.test/{}", "x".repeat(70_000));
    assert_eq!(refused(&get(&long)), "a template has at most 65536 bytes");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_large_argument_cannot_be_written_many_times() {
    let list = vec!["args.a"; 5_000].join(", ");
    let template = format!("{{{{ json([{list}]) }}}}");
    let arguments = json!({"a": "x".repeat(1_000_000)});
    let start = Instant::now();
    let error = render(&with_body(&template, BodyEncoding::Json), &arguments).unwrap_err();
    assert!(error.to_string().contains("is too large to send"), "{error}");
    let forms = vec![r#"form("a", args.a)"#; 2_000].join(", ");
    let template = format!("{{{{ pairs({forms}) }}}}");
    assert!(render(&with_body(&template, BodyEncoding::Form), &arguments).is_err());
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn repeated_names_and_part_headers_are_limited() {
    let members: serde_json::Map<_, _> = (0..10_000).map(|n| (n.to_string(), json!(n))).collect();
    let arguments = json!({"a": {"x".repeat(1_000_000): members}});
    let template = r#"{{ pairs(deep_object("a", args.a)) }}"#;
    let error = render(&with_body(template, BodyEncoding::Form), &arguments).unwrap_err();
    assert_eq!(error.to_string(), "the argument `a` is too large to send");
    let template = r#"{{ multipart(part("a", args.a)) }}"#;
    let arguments = json!({"a": vec![1; 1_001]});
    let error = render(&with_body(template, BodyEncoding::Multipart), &arguments).unwrap_err();
    assert_eq!(error.to_string(), "the argument `a` has too many items to send each as a part");
}

#[test]
fn urls_and_headers_have_a_small_limit_and_bodies_a_large_one() {
    let large = json!({"a": "x".repeat(1_000_000)});
    let error = target("https://api.test/{{ simple(args.a) }}", &large).unwrap_err();
    assert_eq!(error.to_string(), "the argument `a` is too large to send");
    assert!(render(&super::with_header("X-A", "{{ header(args.a) }}"), &large).is_err());
    let body = render(&with_body("{{ json(args.a) }}", BodyEncoding::Json), &large).unwrap().body;
    assert_eq!(body.unwrap().len(), 1_000_002);
}

#[test]
fn a_url_may_have_the_maximum_length_of_the_egress_guard() {
    let url = "https://api.test/{{ simple(args.a) }}";
    let longest = MAX_URL - "https://api.test/".len();
    let sent = render(&get(url), &json!({"a": "x".repeat(longest)})).unwrap().url;
    assert_eq!(EgressPolicy::default().check_url(&sent), Ok(()));
    let error = target(url, &json!({"a": "x".repeat(longest + 1)})).unwrap_err();
    assert_eq!(error.to_string(), "an argument would make the address longer than 8192 bytes");
    assert_eq!(error.code(), ErrorCode::ValidationError);
}

#[test]
fn an_argument_is_never_parsed_as_a_template() {
    let url = r#"https://api.test/{{ query(form("a", args.a)) }}"#;
    for value in ["{{ args.b }}", "{% raw %}", "{{ secrets }}", "}}", "{#"] {
        let sent = target(url, &json!({"a": value, "b": "hunter2"})).unwrap();
        assert!(!sent.contains("hunter2") && !sent.contains('{'), "{sent}");
    }
}

#[test]
fn errors_have_a_code_for_the_cause_and_contain_no_values() {
    let error =
        render(&super::with_header("X-A", "{{ header(args.a) }}"), &json!({"a": "hunter2\n"}));
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ValidationError);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    let error = RequestTemplate::compile("GET", &get("{{ args.a }}")).err().unwrap();
    assert_eq!(error.code(), ErrorCode::TemplateError);
    let error = RequestTemplate::compile("GET /", &get("https://api.test/")).err().unwrap();
    assert_eq!(error.to_string(), "`GET /` is not a method");
}

#[test]
fn the_debug_output_of_a_request_contains_no_values() {
    let url = r#"https://api.test/{{ simple(args.a) }}{{ query(form("q", args.a)) }}"#;
    let request = render(&get(url), &json!({"a": "hunter2"})).unwrap();
    let shown = format!("{request:?}");
    assert!(shown.contains("https://api.test") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_compiled_template_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&RequestTemplate::compile("GET", &get("https://api.test/{{ args.a }}")).unwrap());
}

#[test]
fn takes_rest_reports_whether_undeclared_arguments_are_sent() {
    let takes_rest = |template: &str| {
        let templates = with_body(template, BodyEncoding::Json);
        RequestTemplate::compile("POST", &templates).unwrap().takes_rest()
    };
    assert!(takes_rest(r#"{{ json(rest("id")) }}"#));
    assert!(!takes_rest("{{ json(args.rest) }}"));
    assert!(!takes_rest(r#"{{ json("rest") }}"#));
}
