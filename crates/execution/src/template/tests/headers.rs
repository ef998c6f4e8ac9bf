//! Tests of headers and cookies.

use serde_json::{Value, json};

use super::{refused, render, with_header};

fn header(name: &str, template: &str, arguments: &Value) -> Option<String> {
    render(&with_header(name, template), arguments).unwrap().header(name).map(str::to_owned)
}

fn problem(template: &str, arguments: &Value) -> String {
    render(&with_header("X-Name", template), arguments).unwrap_err().to_string()
}

#[test]
fn a_header_without_a_value_is_omitted() {
    for template in ["{{ header(args.a) }}", "v={{ header(args.a) }}", "{{ header_json(args.a) }}"]
    {
        assert_eq!(header("X-Name", template, &json!({})), None);
    }
    assert_eq!(header("X-Name", "{{ header(args.a) }}", &json!({"a": []})), None);
    assert_eq!(header("X-Name", "{{ header(args.a) }}", &json!({"a": ""})), Some(String::new()));
}

#[test]
fn a_value_with_invalid_header_characters_is_rejected() {
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\u{7f}b", "a\tb", "naïve", "\u{80}"]
    {
        for template in ["{{ header(args.a) }}", "{{ args.a }}", "{{ header([args.a]) }}"] {
            let problem = problem(template, &json!({"a": value}));
            assert_eq!(problem, "the argument `a` has a character that no header can have");
        }
    }
}

#[test]
fn json_in_a_header_is_ascii() {
    let arguments = json!({"a": {"ü": "☕𝄞\r\n\u{7f}"}});
    let expected = r#"{"\u00fc":"\u2615\ud834\udd1e\r\n\u007f"}"#;
    let sent = header("X-Name", "{{ header_json(args.a) }}", &arguments).unwrap();
    assert_eq!(sent, expected);
    assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), arguments["a"]);
}

#[test]
fn an_agent_cannot_set_protected_headers() {
    for name in [
        "Authorization",
        "authorization",
        "Proxy-Authorization",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "X-Forwarded-For",
        "Forwarded",
    ] {
        let reason = refused(&with_header(name, "Bearer {{ header(args.a) }}"));
        assert_eq!(reason, format!("the header `{name}` cannot be set from arguments"));
    }
}

#[test]
fn a_literal_header_is_checked_too() {
    assert!(refused(&with_header("X Name", "a")).contains("no name of a header"));
    assert!(refused(&with_header("X-Name\r\nX-Evil", "a")).contains("no name of a header"));
    assert!(refused(&with_header("", "a")).contains("no name of a header"));
    assert!(refused(&with_header("X-Name", "a\r\nX-Evil: 1")).contains("no header can have"));
}

#[test]
fn cookies_form_one_header_and_cannot_add_another() {
    let template = r#"{{ cookies(cookie("session", args.s), cookie("debug", args.d)) }}"#;
    let sent = |arguments| header("Cookie", template, &arguments);
    assert_eq!(sent(json!({"s": "abc", "d": true})).unwrap(), "session=abc; debug=true");
    assert_eq!(sent(json!({"s": "a; admin=1"})).unwrap(), "session=a%3B%20admin=1");
    assert_eq!(sent(json!({"s": "a\r\n\",\\%ü"})).unwrap(), "session=a%0D%0A%22%2C%5C%25%C3%BC");
    assert_eq!(sent(json!({})), None);
}

#[test]
fn a_cookie_header_accepts_only_cookies() {
    assert!(refused(&with_header("Cookie", "a=b; {{ args.a }}")).contains("`cookies(…)` alone"));
    for template in ["{{ args.a }}", "{{ header(args.a) }}", "{{ cookies(args.a) }}"] {
        let error = render(&with_header("Cookie", template), &json!({"a": "b"})).unwrap_err();
        assert!(error.to_string().contains("not encoded for a cookie"), "{template}: {error}");
    }
}
