//! Tests of bodies in each encoding.

use model::BodyEncoding;
use model::BodyEncoding::{Bytes, Form, Json, Multipart, Text};
use serde_json::{Value, json};

use super::{refused, render, with_body};

/// The content type and the body, if there is a body.
fn sent(template: &str, encoding: BodyEncoding, arguments: &Value) -> Option<(String, String)> {
    let request = render(&with_body(template, encoding), arguments).unwrap();
    let content_type = request.content_type().map(str::to_owned);
    let body = request.body.map(|body| String::from_utf8(body).unwrap());
    content_type.zip(body)
}

fn body(template: &str, encoding: BodyEncoding, arguments: &Value) -> Option<String> {
    sent(template, encoding, arguments).map(|(_, body)| body)
}

#[test]
fn json_is_written_exactly_from_the_arguments() {
    let arguments = json!({"body": {"z": 1, "a": [18_446_744_073_709_551_615_u64, 1.5, null], "q": "\"}}\n☕"}});
    let expected = r#"{"z":1,"a":[18446744073709551615,1.5,null],"q":"\"}}\n☕"}"#;
    assert_eq!(body("{{ json(args.body) }}", Json, &arguments).unwrap(), expected);
    assert_eq!(body("{{ json(args.body) }}", Json, &json!({"body": null})).unwrap(), "null");
    assert_eq!(body("{{ json(args.body) }}", Json, &json!({"body": "X"})).unwrap(), r#""X""#);
}

#[test]
fn rest_contains_all_arguments_except_the_named_ones() {
    let template = r#"{{ json(rest("id__path", "x y")) }}"#;
    let arguments = json!({"id__path": 1, "id": 2, "x y": 3, "b": null});
    assert_eq!(body(template, Json, &arguments).unwrap(), r#"{"id":2,"b":null}"#);
    assert_eq!(body(template, Json, &json!({"id__path": 1})), None);
    let required = r#"{{ json(rest("a", required=true)) }}"#;
    assert_eq!(body(required, Json, &json!({"a": 1})).unwrap(), "{}");
}

#[test]
fn without_a_value_there_is_no_body_and_no_content_type() {
    for (template, encoding) in [
        ("{{ json(args.a) }}", Json),
        ("{{ text(args.a) }}", Text),
        ("{{ bytes(args.a) }}", Bytes),
        (r#"{{ pairs(form("a", args.a)) }}"#, Form),
        (r#"{{ multipart(part("a", args.a), file("b", args.a)) }}"#, Multipart),
    ] {
        let mut templates = with_body(template, encoding);
        templates.headers_template.insert("content-type".into(), "a/b".into());
        let request = render(&templates, &json!({})).unwrap();
        assert_eq!((request.body.as_deref(), request.content_type()), (None, None), "{template}");
    }
    assert_eq!(body("{{ text(args.a) }}", Text, &json!({"a": ""})).unwrap(), "");
}

#[test]
fn a_content_type_header_overrides_the_default_of_the_encoding() {
    let arguments = json!({"a": 1});
    let content_type = |template, encoding| sent(template, encoding, &arguments).unwrap().0;
    assert_eq!(content_type("{{ json(args.a) }}", Json), "application/json");
    assert_eq!(content_type("{{ text(args.a) }}", Text), "text/plain; charset=utf-8");
    assert_eq!(content_type("{{ bytes(args.a) }}", Bytes), "application/octet-stream");
    let form = content_type(r#"{{ pairs(form("a", args.a)) }}"#, Form);
    assert_eq!(form, "application/x-www-form-urlencoded");
    let mut templates = with_body("{{ json(args.a) }}", Json);
    templates.headers_template.insert("Content-Type".into(), "application/merge-patch+json".into());
    let request = render(&templates, &arguments).unwrap();
    assert_eq!(request.content_type(), Some("application/merge-patch+json"));
    assert_eq!(request.headers.len(), 1);
}

#[test]
fn expressions_may_be_embedded_in_literal_json() {
    let template =
        r#"{"q": {{ args.q }}, "n": [{{ json(args.n) }}], "x": {{ {"y": join("Hi ", args.q)} }}}"#;
    let sent = body(template, Json, &json!({"q": "a\"b", "n": 1})).unwrap();
    assert_eq!(sent, r#"{"q": "a\"b", "n": [1], "x": {"y":"Hi a\"b"}}"#);
    let error = render(&with_body(template, Json), &json!({"q": "a"})).unwrap_err();
    assert_eq!(error.to_string(), "the argument `n` is missing");
    let member = with_body(r#"{{ json({"q": args.q}) }}"#, Json);
    let error = render(&member, &json!({})).unwrap_err();
    assert_eq!(error.to_string(), "the argument `q` is missing");
}

#[test]
fn an_expression_within_a_json_string_is_rejected() {
    for template in [r#"{"q": "{{ args.q }}"}"#, "{{ args.a }}{{ args.b }}", r#"{"q": }"#] {
        assert!(
            refused(&with_body(template, Json)).starts_with("the body is no JSON"),
            "{template}"
        );
    }
    for template in ["{{ text(args.q) }}", r#"{{ form("a", args.q) }}"#] {
        let error = render(&with_body(template, Json), &json!({"q": "1, 2"})).unwrap_err();
        assert!(error.to_string().contains("not encoded for JSON"), "{error}");
    }
}

#[test]
fn forms_are_pairs() {
    let template = r#"{{ pairs(form("name", args.name), form("tags", args.tags), form("ok", args.ok), form("no", args.no)) }}"#;
    let arguments = json!({"name": "a&b =c", "tags": ["x", "y z"], "ok": false});
    let expected = "name=a%26b%20%3Dc&tags=x&tags=y%20z&ok=false";
    assert_eq!(body(template, Form, &arguments).unwrap(), expected);
    assert_eq!(
        body("a={{ args.a }}&b=1", Form, &json!({"a": "x&y=z"})).unwrap(),
        "a=x%26y%3Dz&b=1"
    );
}

#[test]
fn text_is_sent_unchanged() {
    let arguments = json!({"body": "line1\nline2 \"q\"\n", "n": {"a": 1}});
    assert_eq!(body("{{ text(args.body) }}", Text, &arguments).unwrap(), "line1\nline2 \"q\"\n");
    assert_eq!(body("{{ text(args.n) }}", Text, &arguments).unwrap(), r#"{"a":1}"#);
    assert_eq!(body("<a>{{ args.n.a }}</a>\n", Text, &arguments).unwrap(), "<a>1</a>\n");
}

#[test]
fn bytes_are_text_or_a_decoded_data_uri() {
    let template = "{{ bytes(args.body) }}";
    assert_eq!(body(template, Bytes, &json!({"body": "hello!"})).unwrap(), "hello!");
    let png = json!({"body": "data:image/png;base64,iVBORw=="});
    let request = render(&with_body(template, Bytes), &png).unwrap();
    assert_eq!(request.body.unwrap(), b"\x89PNG");
    let error =
        render(&with_body(template, Bytes), &json!({"body": "data:a/b;base64,?"})).unwrap_err();
    assert!(error.to_string().contains("is not base64"), "{error}");
}

#[test]
fn parts_are_text_json_and_files() {
    let template = r#"{{ multipart(part("title", args.title), part("meta", args.meta), part("ids", args.ids), file("file", args.file), file("more", args.more, type="text/csv"), part("no", args.no)) }}"#;
    let arguments = json!({
        "title": "hi", "meta": {"k": 1}, "ids": [1, 2], "file": "hello file",
        "more": ["a,b", "data:image/png;name=%22x%0A.png;base64,aGk="],
    });
    let (content_type, body) = sent(template, Multipart, &arguments).unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let body = body.replace(boundary, "B").replace("\r\n", "\n");
    let expected = r#"--B
Content-Disposition: form-data; name="title"

hi
--B
Content-Disposition: form-data; name="meta"
Content-Type: application/json

{"k":1}
--B
Content-Disposition: form-data; name="ids"

1
--B
Content-Disposition: form-data; name="ids"

2
--B
Content-Disposition: form-data; name="file"; filename="file"
Content-Type: application/octet-stream

hello file
--B
Content-Disposition: form-data; name="more"; filename="more"
Content-Type: text/csv

a,b
--B
Content-Disposition: form-data; name="more"; filename="%22x%0A.png"
Content-Type: text/csv

hi
--B--
"#;
    assert_eq!(body, expected);
}

#[test]
fn a_multipart_body_contains_only_its_parts() {
    assert!(refused(&with_body("x{{ multipart() }}", Multipart)).contains("`multipart(…)` alone"));
    for template in ["{{ args.a }}", r#"{{ part("a", args.a) }}"#, "{{ multipart(args.a) }}"] {
        assert!(render(&with_body(template, Multipart), &json!({"a": "b"})).is_err(), "{template}");
    }
}
