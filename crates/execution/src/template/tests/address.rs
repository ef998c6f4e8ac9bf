//! Tests of URLs: arguments change neither the origin nor the number of segments.

use model::ErrorCode;
use serde_json::json;

use super::{get, refused, target};

const FILE: &str = "https://api.test/v1/{{ simple(args.name) }}/info";

#[test]
fn a_value_stays_within_its_segment() {
    for (name, expected) in [
        ("../../admin", "..%2F..%2Fadmin"),
        ("%2e%2e%2f", "%252e%252e%252f"),
        ("..;/", "..%3B%2F"),
        ("a/b", "a%2Fb"),
        ("a?x#y", "a%3Fx%23y"),
        ("//evil", "%2F%2Fevil"),
        (r"\\..\\", "%5C%5C..%5C%5C"),
        ("\u{2024}\u{2024}", "%E2%80%A4%E2%80%A4"),
        ("...", "..."),
        ("a\nb\0", "a%0Ab%00"),
        ("{{ args.name }}", "%7B%7B%20args.name%20%7D%7D"),
    ] {
        let sent = target(FILE, &json!({"name": name})).unwrap();
        assert_eq!(sent, format!("/v1/{expected}/info"));
    }
}

#[test]
fn a_value_that_would_change_the_path_is_rejected() {
    for name in [json!("."), json!(".."), json!(["."]), json!([".."]), json!([""]), json!("")] {
        let error = target(FILE, &json!({"name": name})).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationError, "{name}: {error}");
    }
    let label = "https://api.test/{{ label(args.name) }}";
    assert!(target(label, &json!({"name": "."})).is_err());
    let two = "https://api.test/{{ simple(args.a) }}{{ simple(args.b) }}";
    assert!(target(two, &json!({"a": ".", "b": "."})).is_err());
    assert_eq!(target(two, &json!({"a": ".", "b": "a"})).unwrap(), "/.a");
}

#[test]
fn a_missing_value_in_the_path_is_an_error_that_names_it() {
    for function in ["simple", "label"] {
        let url = format!("https://api.test/{{{{ {function}(args.id) }}}}");
        let message = |arguments| target(&url, &arguments).unwrap_err().to_string();
        assert_eq!(message(json!({})), "the argument `id` is missing");
        for empty in [json!(null), json!(""), json!([]), json!({})] {
            assert_eq!(message(json!({"id": empty})), "the argument `id` is empty");
        }
    }
    let url = r#"https://api.test/{{ matrix("id", args["user-id"]) }}"#;
    let error = target(url, &json!({})).unwrap_err();
    assert_eq!(error.to_string(), "the argument `user-id` is missing");
    let error = target("https://api.test/{{ args.x }}", &json!({})).unwrap_err();
    assert_eq!(error.to_string(), "the argument `x` is missing");
}

#[test]
fn several_values_share_a_segment() {
    let url = "https://api.test/f/{{ simple(args.name) }}.{{ simple(args.ext) }}";
    let sent = target(url, &json!({"name": "a.b", "ext": "tar.gz"})).unwrap();
    assert_eq!(sent, "/f/a.b.tar.gz");
}

#[test]
fn the_origin_is_fixed_by_the_template() {
    for url in [
        "{{ args.url }}",
        "/relative",
        "https://{{ args.host }}/",
        "https://api.test{{ args.x }}",
        "https://api.test:{{ args.port }}/",
        "https://user:password@api.test/",
        "https://api.test\\@evil.test/",
        "ftp://api.test/",
        "file:///etc/passwd",
        "https:///x",
        "https://api. test/",
    ] {
        assert!(refused(&get(url)).contains("fixed"), "{url}: {}", refused(&get(url)));
    }
}

#[test]
fn the_origin_is_normalized() {
    for url in ["https://API.test:443/a", "https://api.test/a", "https://api.test/a#b{{ args.x }}"]
    {
        assert_eq!(target(url, &json!({})).unwrap(), "/a");
    }
    for url in ["https://api.test", "https://api.test/"] {
        assert_eq!(target(url, &json!({})).unwrap(), "/");
    }
    assert_eq!(target("https://api.test?a=b", &json!({})).unwrap(), "/?a=b");
}

#[test]
fn a_template_with_dot_segments_is_rejected() {
    for url in [
        "https://api.test/a/../b",
        "https://api.test/./b",
        "https://api.test/a/%2e%2E/b",
        "https://api.test/a\\b",
        "https://api.test/a\nb",
        r#"https://api.test/{{ "..\u002f" }}x"#,
    ] {
        assert!(refused(&get(url)).starts_with("the address has"), "{url}");
    }
}

#[test]
fn literal_text_is_sent_as_a_url_parser_normalizes_it() {
    let url = "https://api.test/a b/{{ \"{x}|\" }}/ü('1')//?q='ü'&x=[1]";
    let expected = "/a%20b/%7Bx%7D%7C/%C3%BC('1')//?q=%27%C3%BC%27&x=[1]";
    assert_eq!(target(url, &json!({})).unwrap(), expected);
}

#[test]
fn a_query_ends_the_address() {
    for url in [
        r#"https://api.test/{{ query(form("a", args.a)) }}/x"#,
        r#"https://api.test/?b=c{{ query(form("a", args.a)) }}"#,
    ] {
        assert!(refused(&get(url)).contains("must end with `query(…)`"), "{url}");
    }
}

#[test]
fn a_piece_for_another_position_is_rejected() {
    for expression in [r#"form("a", args.a)"#, "header(args.a)", "json(args.a)", "text(args.a)"] {
        let url = format!("https://api.test/{{{{ {expression} }}}}");
        let error = target(&url, &json!({"a": "../x"})).unwrap_err().to_string();
        assert!(error.contains("not encoded for an address"), "{expression}: {error}");
    }
}
