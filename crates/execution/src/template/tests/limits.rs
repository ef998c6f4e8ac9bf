//! What templates cannot do, and what they cannot cost.

use std::time::{Duration, Instant};

use model::{BodyEncoding, ErrorCode};
use serde_json::json;
use upstream::egress::{Egress, MAX_URL};

use super::{RequestTemplate, get, refused, render, target, with_body};

/// `https://api.test/{{ … }}`
fn expression(expression: &str) -> model::HttpRequest {
    get(&format!("https://api.test/{{{{ {expression} }}}}"))
}

#[test]
fn a_template_sees_its_arguments_and_nothing_else() {
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
fn filters_and_methods_are_not_there() {
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
fn long_and_deep_templates_are_refused_quickly() {
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
fn a_large_argument_named_many_times_is_not_written_many_times() {
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
fn what_is_written_once_for_each_item_is_not_written_without_end() {
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
fn an_address_and_a_header_are_small_and_a_body_may_be_large() {
    let large = json!({"a": "x".repeat(1_000_000)});
    let error = target("https://api.test/{{ simple(args.a) }}", &large).unwrap_err();
    assert_eq!(error.to_string(), "the argument `a` is too large to send");
    assert!(render(&super::with_header("X-A", "{{ header(args.a) }}"), &large).is_err());
    let body = render(&with_body("{{ json(args.a) }}", BodyEncoding::Json), &large).unwrap().body;
    assert_eq!(body.unwrap().len(), 1_000_002);
}

#[test]
fn an_address_is_as_long_as_the_way_out_lets_through_and_no_longer() {
    let url = "https://api.test/{{ simple(args.a) }}";
    let longest = MAX_URL - "https://api.test/".len();
    let sent = render(&get(url), &json!({"a": "x".repeat(longest)})).unwrap().url;
    assert_eq!(Egress::default().check_url(&sent), Ok(()));
    let error = target(url, &json!({"a": "x".repeat(longest + 1)})).unwrap_err();
    assert_eq!(error.to_string(), "an argument would make the address longer than 8192 bytes");
    assert_eq!(error.code(), ErrorCode::ValidationError);
}

#[test]
fn what_an_argument_says_is_never_read_as_a_template() {
    let url = r#"https://api.test/{{ query(form("a", args.a)) }}"#;
    for value in ["{{ args.b }}", "{% raw %}", "{{ secrets }}", "}}", "{#"] {
        let sent = target(url, &json!({"a": value, "b": "hunter2"})).unwrap();
        assert!(!sent.contains("hunter2") && !sent.contains('{'), "{sent}");
    }
}

#[test]
fn errors_tell_whose_fault_they_are_and_no_values() {
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
fn a_request_shows_neither_arguments_nor_headers_when_it_is_printed() {
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
fn whether_the_rest_of_the_arguments_is_sent_can_be_asked() {
    let takes_rest = |template: &str| {
        let templates = with_body(template, BodyEncoding::Json);
        RequestTemplate::compile("POST", &templates).unwrap().takes_rest()
    };
    assert!(takes_rest(r#"{{ json(rest("id")) }}"#));
    assert!(!takes_rest("{{ json(args.rest) }}"));
    assert!(!takes_rest(r#"{{ json("rest") }}"#));
}
