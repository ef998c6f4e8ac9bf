//! Tests of OpenAPI's style tables, row by row: OpenAPI 3.0.4 and 3.1.1, "Style Examples".

use serde_json::{Value, json};

use super::{render, target, with_header};

/// The three columns of the tables that have a value.
fn colours() -> [Value; 3] {
    [json!("blue"), json!(["blue", "black", "brown"]), json!({"R": 100, "G": 200, "B": 150})]
}

fn check(expression: &str, place: impl Fn(&Value) -> String, expected: [&str; 3]) {
    for (value, expected) in colours().into_iter().zip(expected) {
        assert_eq!(place(&json!({"color": value})), expected, "{expression} of {value}");
    }
}

#[test]
fn path_styles_follow_the_table() {
    for (expression, expected) in [
        ("simple(args.color)", ["/blue", "/blue,black,brown", "/R,100,G,200,B,150"]),
        ("simple(args.color, explode=true)", ["/blue", "/blue,black,brown", "/R=100,G=200,B=150"]),
        ("label(args.color)", ["/.blue", "/.blue,black,brown", "/.R,100,G,200,B,150"]),
        (
            "label(args.color, explode=true)",
            ["/.blue", "/.blue.black.brown", "/.R=100.G=200.B=150"],
        ),
        (
            r#"matrix("color", args.color)"#,
            ["/;color=blue", "/;color=blue,black,brown", "/;color=R,100,G,200,B,150"],
        ),
        (
            r#"matrix("color", args.color, explode=true)"#,
            ["/;color=blue", "/;color=blue;color=black;color=brown", "/;R=100;G=200;B=150"],
        ),
        ("args.color", ["/blue", "/blue,black,brown", "/R,100,G,200,B,150"]),
    ] {
        let url = format!("https://api.test/{{{{ {expression} }}}}");
        check(expression, |arguments| target(&url, arguments).unwrap(), expected);
    }
}

#[test]
fn query_styles_follow_the_table() {
    for (expression, expected) in [
        (
            r#"form("color", args.color)"#,
            ["color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"],
        ),
        (
            r#"form("color", args.color, explode=false)"#,
            ["color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"],
        ),
        (
            r#"form("color", args.color, whole=true)"#,
            [
                "color=blue",
                "color=blue&color=black&color=brown",
                "color=%7B%22R%22%3A100%2C%22G%22%3A200%2C%22B%22%3A150%7D",
            ],
        ),
        (
            r#"space_delimited("color", args.color)"#,
            ["color=blue", "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"],
        ),
        (
            r#"space_delimited("color", args.color, explode=true)"#,
            ["color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"],
        ),
        (
            r#"pipe_delimited("color", args.color)"#,
            ["color=blue", "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"],
        ),
        (
            r#"deep_object("color", args.color)"#,
            [
                "color=blue",
                "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown",
                "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
            ],
        ),
        (
            r#"json_pair("color", args.color)"#,
            [
                "color=%22blue%22",
                "color=%5B%22blue%22%2C%22black%22%2C%22brown%22%5D",
                "color=%7B%22R%22%3A100%2C%22G%22%3A200%2C%22B%22%3A150%7D",
            ],
        ),
    ] {
        let url = format!("https://api.test/{{{{ query({expression}) }}}}");
        let sent = |arguments: &Value| target(&url, arguments).unwrap().replace("/?", "");
        check(expression, sent, expected);
    }
}

#[test]
fn header_and_cookie_styles_follow_the_table() {
    let header = |expression: &str, name: &str, arguments: &Value| {
        let templates = with_header(name, &format!("{{{{ {expression} }}}}"));
        render(&templates, arguments).unwrap().header(name).unwrap().to_owned()
    };
    for (expression, expected) in [
        ("header(args.color)", ["blue", "blue,black,brown", "R,100,G,200,B,150"]),
        ("header(args.color, explode=true)", ["blue", "blue,black,brown", "R=100,G=200,B=150"]),
        (
            "header_json(args.color)",
            [r#""blue""#, r#"["blue","black","brown"]"#, r#"{"R":100,"G":200,"B":150}"#],
        ),
    ] {
        check(expression, |arguments| header(expression, "X-Color", arguments), expected);
    }
    for (expression, expected) in [
        (
            r#"cookies(cookie("color", args.color))"#,
            ["color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"],
        ),
        (
            r#"cookies(cookie("color", args.color, whole=true))"#,
            [
                "color=blue",
                "color=blue; color=black; color=brown",
                "color={%22R%22:100%2C%22G%22:200%2C%22B%22:150}",
            ],
        ),
        (
            r#"cookies(cookie("color", args.color, explode=false))"#,
            ["color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"],
        ),
    ] {
        check(expression, |arguments| header(expression, "Cookie", arguments), expected);
    }
}

const EVERY_QUERY: &str = r#"https://api.test/{{ query(form("a", args.v), form("b", args.v, explode=false), space_delimited("c", args.v), pipe_delimited("d", args.v), deep_object("e", args.v), json_pair("f", args.v)) }}"#;

#[test]
fn missing_values_are_omitted_from_the_query() {
    assert_eq!(target(EVERY_QUERY, &json!({})).unwrap(), "/");
    assert_eq!(target(EVERY_QUERY, &json!({"v": null})).unwrap(), "/");
    for empty in [json!([]), json!({}), json!([null]), json!({"x": null})] {
        let sent = target(EVERY_QUERY, &json!({"v": empty})).unwrap();
        assert!(sent.starts_with("/?f="), "only JSON can say {empty}, not {sent}");
    }
}

#[test]
fn an_empty_string_and_falsy_values_are_sent() {
    let url =
        r#"https://api.test/{{ query(form("a", args.a), form("b", args.b), form("c", args.c)) }}"#;
    assert_eq!(target(url, &json!({"a": "", "b": false, "c": 0})).unwrap(), "/?a=&b=false&c=0");
}

#[test]
fn integers_keep_their_digits() {
    let url = "https://api.test/{{ simple(args.id) }}";
    for id in [json!(9_007_199_254_740_993_i64), json!(i64::MIN), json!(u64::MAX)] {
        assert_eq!(target(url, &json!({"id": id})).unwrap(), format!("/{id}"));
    }
}

#[test]
fn names_are_encoded_and_deep_objects_nest() {
    let url =
        r#"https://api.test/{{ query(form("filter[name]", args.f), deep_object("$d", args.d)) }}"#;
    let arguments = json!({"f": "x y", "d": {"a": {"b": 1}, "c&": [{"x": true}, null]}});
    let expected =
        "/?filter%5Bname%5D=x%20y&%24d%5Ba%5D%5Bb%5D=1&%24d%5Bc%26%5D%5B0%5D%5Bx%5D=true";
    assert_eq!(target(url, &arguments).unwrap(), expected);
}

#[test]
fn reserved_characters_pass_if_allowed_but_never_break_the_query() {
    let url = r#"https://api.test/{{ query(form("a=b", args.a, reserved=true)) }}"#;
    let arguments = json!({"a": "/x:y?z[1]=2,%2F 100%&b=c#d+e'f"});
    let expected = "/?a%3Db=/x:y?z[1]=2,%2F%20100%25%26b=c%23d%2Be%27f";
    assert_eq!(target(url, &arguments).unwrap(), expected);
}

#[test]
fn nested_values_are_json() {
    let url = r#"https://api.test/{{ query(form("a", args.a, explode=false)) }}"#;
    let sent = target(url, &json!({"a": [1, {"b": [2]}]})).unwrap();
    assert_eq!(sent, "/?a=1,%7B%22b%22%3A%5B2%5D%7D");
}

#[test]
fn json_is_a_string_that_is_valid_in_every_position() {
    let arguments = json!({"a": {"b": "c d"}});
    let sent = |template: &str| target(&format!("https://api.test{template}"), &arguments).unwrap();
    assert_eq!(sent("/{{ simple(json(args.a)) }}"), "/%7B%22b%22%3A%22c%20d%22%7D");
    assert_eq!(sent(r#"/{{ query(form("a", json(args.none))) }}"#), "/");
    let cookie = with_header("Cookie", r#"{{ cookies(cookie("a", json(args.a))) }}"#);
    let sent = render(&cookie, &arguments).unwrap();
    assert_eq!(sent.header("cookie"), Some("a={%22b%22:%22c%20d%22}"));
}

#[test]
fn a_plain_argument_is_rejected_as_a_query() {
    for piece in ["args.a", "join(args.a)", "[args.a][0]", "args.a if true else 1"] {
        let url = format!("https://api.test/{{{{ query({piece}) }}}}");
        let error = target(&url, &json!({"a": "x=1&admin=true"})).unwrap_err().to_string();
        assert!(error.contains("is not encoded for a query"), "{piece}: {error}");
    }
}

#[test]
fn arguments_can_be_compared_with_literals() {
    let url = r#"https://api.test/{{ query(form("a", 1 if args.mode == "fast" and args.n in [1, 2] else 0)) }}"#;
    assert_eq!(target(url, &json!({"mode": "fast", "n": 2})).unwrap(), "/?a=1");
    assert_eq!(target(url, &json!({"mode": "slow", "n": 2})).unwrap(), "/?a=0");
}

#[test]
fn a_fixed_query_precedes_the_arguments() {
    let url = r#"https://api.test/s{{ query("type=user&x=ü", form("q", args.q)) }}"#;
    assert_eq!(target(url, &json!({"q": "x y"})).unwrap(), "/s?type=user&x=%C3%BC&q=x%20y");
    assert_eq!(target(url, &json!({})).unwrap(), "/s?type=user&x=%C3%BC");
    assert_eq!(
        target("https://api.test/s?a={{ args.a }}", &json!({"a": "b&c=d"})).unwrap(),
        "/s?a=b%26c%3Dd"
    );
}
