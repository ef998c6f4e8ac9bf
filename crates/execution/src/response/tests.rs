//! Tests of upstream responses and the outcomes and tool results they become.

use serde_json::json;

use super::*;
use crate::{ArgumentValidator, UndeclaredArguments};

static NOTHING: Credentials = Credentials::new();

fn asked() -> AnsweredRequest<'static> {
    asked_by("GET", &NOTHING)
}

fn asked_by<'a>(method: &'a str, credentials: &'a Credentials) -> AnsweredRequest<'a> {
    AnsweredRequest {
        method,
        credentials,
        tool_id: "pets:get_pet".parse().unwrap(),
        url: "https://api.test/files/7.pdf?token=hunter2".parse().unwrap(),
        execution_time: Duration::from_millis(12),
    }
}

fn answer<'a>(status: u16, content_type: &'a str, body: &'a [u8]) -> ResponseParts<'a> {
    ResponseParts { status, content_type: Some(content_type), location: None, body: body.into() }
}

fn answered(content_type: &str, body: &[u8]) -> Outcome {
    outcome_of_api(asked(), answer(200, content_type, body))
}

/// The tool result that an MCP client receives, as JSON.
fn told(outcome: &Outcome) -> Value {
    let mut result = serde_json::to_value(to_tool_result(outcome.clone(), None)).unwrap();
    let meta = result.as_object_mut().unwrap().shift_remove("_meta").unwrap();
    let mut expected =
        json!({"toolcrib/source": outcome.tool_id.source_id(), "toolcrib/untrusted": true});
    if let Some(failure) = &outcome.error {
        expected["toolcrib/code"] = serde_json::to_value(failure.code).unwrap();
        expected["toolcrib/retryable"] = json!(failure.retryable);
    }
    if let Some(seconds) = outcome.error.as_ref().and_then(|failure| failure.retry_after) {
        expected["toolcrib/retry_after"] = json!(seconds);
    }
    assert_eq!(meta, expected);
    result
}

fn text(outcome: &Outcome) -> String {
    let told = told(outcome);
    assert_eq!(told["content"].as_array().unwrap().len(), 1, "{told}");
    told["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn failed(status: u16, content_type: &str, body: &[u8]) -> CallFailure {
    let outcome = outcome_of_api(asked(), answer(status, content_type, body));
    assert_eq!((outcome.status, outcome.result), (CallStatus::Failed, None));
    outcome.error.unwrap()
}

#[test]
fn a_credential_repeated_in_a_response_is_masked() {
    let credentials: Credentials = [("key".to_owned(), "kept/secret".into())].into();
    let answered = |content_type, body: &str| {
        outcome_of_api(asked_by("GET", &credentials), answer(200, content_type, body.as_bytes()))
    };
    for body in [r#"{"you sent": ["kept/secret"]}"#, r#"{"you sent": ["kept\/s\u0065cret"]}"#] {
        let outcome = answered("application/json", body);
        assert_eq!(outcome.result, Some(json!({"you sent": ["***"]})));
    }
    assert_eq!(text(&answered("text/plain", "you sent kept/secret")), "you sent ***");
    assert_eq!(text(&answered("text/plain", "you sent a2VwdC9zZWNyZXQ=")), "you sent ***");
    let bytes = told(&answered("application/pdf", "PDF kept/secret"));
    assert_eq!(bytes["content"][0]["resource"]["blob"], "UERGICoqKg==");
    let content = r#"{"content": [{"type": "text", "text": "kept/secret"}],
        "structuredContent": {"a": "kept/secret"}}"#;
    let body = answer(200, "application/json", content.as_bytes());
    let outcome = outcome_of_tool_result(asked_by("GET", &credentials), body);
    let expected = json!({"content": [{"type": "text", "text": "***"}],
        "structuredContent": {"a": "***"}, "isError": false});
    assert_eq!(told(&outcome), expected);
}

mod from_an_api {
    use super::*;

    #[test]
    fn any_json_is_the_result() {
        for value in [json!({"id": 7}), json!([1, 2]), json!("sunny"), json!(0), json!(null)] {
            let body = value.to_string();
            for content_type in
                ["application/json", "application/problem+json; charset=utf-8", "nonsense"]
            {
                let outcome = answered(content_type, body.as_bytes());
                assert_eq!(outcome.status, CallStatus::Completed);
                assert_eq!(
                    (outcome.result.as_ref(), outcome.upstream_status),
                    (Some(&value), Some(200))
                );
                assert_eq!(text(&outcome), body);
            }
        }
    }

    #[test]
    fn an_object_is_also_structured_content() {
        let outcome = answered("application/json", br#"{"id":7}"#);
        let expected = json!({
            "content": [{"type": "text", "text": r#"{"id":7}"#}],
            "structuredContent": {"id": 7}, "isError": false,
        });
        assert_eq!(told(&outcome), expected);
        assert_eq!(told(&answered("application/json", b"[7]"))["structuredContent"], json!(null));
    }

    #[test]
    fn json_that_resembles_a_tool_result_stays_the_result_of_an_api() {
        let body = json!({"content": [{"type": "paragraph"}], "isError": true});
        let outcome = answered("application/json", body.to_string().as_bytes());
        assert_eq!((outcome.result, outcome.error), (Some(body), None));
    }

    #[test]
    fn invalid_json_is_text() {
        let outcome = answered("application/json", b"<html>");
        assert_eq!((outcome.result.as_ref(), text(&outcome).as_str()), (None, "<html>"));
    }

    #[test]
    fn no_raw_json_is_parsed_from_a_text() {
        let hides = r#"{"a":{"$serde_json::private::RawValue":"{\"b\":1}"}}"#;
        let outcome = answered("application/json", hides.as_bytes());
        assert_eq!((outcome.result.as_ref(), text(&outcome).as_str()), (None, hides));
        let twice = answered("application/json", br#"{"a":1,"a":2}"#);
        assert_eq!(twice.result, Some(json!({"a": 2})));
    }

    #[test]
    fn text_is_decoded_and_escaped() {
        assert_eq!(text(&answered("text/plain", "naïve \u{1b}[0m".as_bytes())), r"naïve \u{1b}[0m");
        assert_eq!(text(&answered("text/csv; charset=ISO-8859-1", b"na\xefve")), "naïve");
        assert_eq!(text(&answered("text/html; charset=utf-8", b"na\xefve")), "na\u{fffd}ve");
        assert_eq!(text(&answered("application/atom+xml", b"<feed/>")), "<feed/>");
        assert_eq!(text(&answered("", b"hello")), "hello");
        assert_eq!(text(&answered("text/csv", "\u{feff}a,b".as_bytes())), "a,b");
        let json = answered("application/json", "[\"\u{202e}\"]".as_bytes());
        assert_eq!(text(&json), r#"["\u202e"]"#);
        assert_eq!(json.result, Some(json!(["\u{202e}"])));
    }

    #[test]
    fn images_audio_and_other_bytes_become_typed_content() {
        for (content_type, expected) in [
            ("image/png", json!({"type": "image", "data": "iVA=", "mimeType": "image/png"})),
            ("Audio/MPEG; x=y", json!({"type": "audio", "data": "iVA=", "mimeType": "audio/mpeg"})),
            (
                "application/pdf",
                json!({"type": "resource", "resource": {
                "uri": "upstream:/files/7.pdf", "mimeType": "application/pdf", "blob": "iVA="}}),
            ),
            (
                "",
                json!({"type": "resource", "resource": {
                "uri": "upstream:/files/7.pdf", "mimeType": "application/octet-stream", "blob": "iVA="}}),
            ),
        ] {
            let outcome = answered(content_type, b"\x89P");
            assert_eq!(told(&outcome), json!({"content": [expected], "isError": false}));
            assert_eq!(outcome.result, None);
        }
    }

    #[test]
    fn an_empty_response_states_its_status() {
        for status in [200, 204] {
            let outcome = outcome_of_api(asked(), answer(status, "application/json", b""));
            assert_eq!(text(&outcome), format!("done (status {status}, nothing to say)"));
            assert_eq!(outcome.status, CallStatus::Completed);
        }
    }

    #[test]
    fn a_failure_status_is_reported_with_an_excerpt_of_the_body() {
        let failure = failed(404, "application/json", br#"{"error": "no such pet \u001b"}"#);
        let message = r#"the upstream answered with status 404: {"error":"no such pet \u001b"}"#;
        let code = ErrorCode::UpstreamError;
        assert_eq!(failure, CallFailure::new(code, message.to_owned(), false));
        let failure = failed(500, "text/html", "ü".repeat(10_000).as_bytes());
        assert!(failure.message.ends_with("ü …") && failure.message.chars().count() < 2_100);
        assert_eq!(
            failed(500, "image/png", b"\x89P").message,
            "the upstream answered with status 500"
        );
    }

    #[test]
    fn a_temporary_failure_is_retryable() {
        for status in [400, 401, 403, 404, 409, 422, 500, 501] {
            assert!(!failed(status, "", b"").retryable, "{status}");
        }
        for status in [408, 425, 429, 502, 503, 504] {
            assert!(failed(status, "", b"").retryable, "{status}");
        }
    }

    #[test]
    fn a_failure_after_execution_is_retryable_only_for_idempotent_methods() {
        for (method, expected) in
            [("PUT", true), ("DELETE", true), ("POST", false), ("PATCH", false)]
        {
            let retryable = |status: &u16| {
                let outcome = outcome_of_api(asked_by(method, &NOTHING), answer(*status, "", b""));
                outcome.error.unwrap().retryable
            };
            assert!([425, 429, 503].iter().all(retryable), "{method}");
            assert!([408, 502, 504].iter().all(|status| retryable(status) == expected), "{method}");
        }
    }

    #[test]
    fn a_secret_at_the_end_of_the_excerpt_is_masked_before_truncation() {
        let credentials = [("token".to_owned(), "hunter2".into())].into();
        let before = "x".repeat(EXCERPT_CHARS - 4);
        let message = |answer: ResponseParts<'_>| {
            outcome_of_api(asked_by("GET", &credentials), answer).error.unwrap().message
        };
        let said = message(answer(401, "text/plain", format!("{before}hunter2!!").as_bytes()));
        assert!(said.ends_with("xx***! …"), "{said}");
        let location = format!("/{before}hunter2!!");
        let moved = ResponseParts { location: Some(&location), ..answer(302, "", b"") };
        assert!(message(moved).contains("xx*** …, which"));
    }

    #[test]
    fn a_truncated_body_leaks_no_partial_or_escaped_secret() {
        let message = |secret: &str, kind, body: &str| {
            let credentials = [("token".to_owned(), secret.into())].into();
            let (cut, _) = body.as_bytes().split_at(MAX_INLINE_BYTES);
            outcome_of_api(asked_by("GET", &credentials), answer(400, kind, cut))
                .error
                .unwrap()
                .message
        };
        let nothing = "the upstream answered with status 400";
        for length in [4_000, 6_000] {
            let secret = "s".repeat(length);
            let said = message(&secret, "text/plain", &secret.repeat(20));
            assert_eq!(said, nothing);
        }
        let long = "x".repeat(MAX_INLINE_BYTES);
        assert!(message("hunter2/", "text/plain", &format!("hunter2/ {long}")).contains("*** xx"));
        for written in [r"hunter2\/", r"hunter2\u002F"] {
            let body = format!(r#"{{"sent": "{written}", "more": "{long}"}}"#);
            assert_eq!(message("hunter2/", "application/json", &body), nothing);
        }
    }

    #[test]
    fn a_failure_is_an_error_result() {
        let outcome = outcome_of_api(asked(), answer(503, "text/plain", b"busy"));
        let text = "the upstream answered with status 503: busy";
        let expected = json!({"content": [{"type": "text", "text": text}], "isError": true});
        assert_eq!(told(&outcome), expected);
        let later = CallFailure { retry_after: Some(7), ..outcome.error.clone().unwrap() };
        assert_eq!(told(&Outcome { error: Some(later), ..outcome }), expected);
    }

    #[test]
    fn a_redirect_is_reported_without_secrets_and_not_followed() {
        let message = |location: Option<&'static str>| {
            let answer = ResponseParts {
                status: 302,
                content_type: None,
                location,
                body: b"moved".as_slice().into(),
            };
            outcome_of_api(asked(), answer).error.unwrap().message
        };
        assert_eq!(
            message(Some("https://user:pw@login.test/in?token=hunter2#x")),
            "the upstream answered with status 302: it points to https://login.test/in, which was not followed"
        );
        assert!(message(Some("../other?x=1")).contains("points to https://api.test/other, which"));
        assert!(message(None).contains("it points elsewhere"));
        assert!(message(Some("https://[")).contains("it points elsewhere"));
    }
}

mod from_an_http_manifest {
    use super::*;

    fn answered(value: &Value) -> Outcome {
        let body = value.to_string();
        outcome_of_tool_result(asked(), answer(200, "application/json", body.as_bytes()))
    }

    #[test]
    fn annotated_text_is_escaped_and_keeps_its_annotations() {
        let notes = json!({"audience": ["user\u{1b}"], "priority": 1});
        let said = json!({"type": "text", "text": "\u{1b}[2J\u{202e}a\n", "annotations": notes});
        let picture =
            json!({"type": "image", "data": "", "mimeType": "image/png", "text": "\u{1b}"});
        let outcome = answered(&json!({"content": [said, picture]}));
        let plain = json!({"type": "text", "text": r"\u{1b}[2J\u{202e}a".to_owned() + "\n", "annotations": notes});
        assert_eq!(json!(outcome.content), json!([plain, picture]));
    }

    #[test]
    fn a_tool_result_is_passed_on_unchanged() {
        for result in [
            json!({"content": [{"type": "text", "text": "sunny"}], "structuredContent": {"sky": "sunny"}, "isError": false}),
            json!({"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "isError": false}),
            json!({"content": [{"type": "text", "text": "x", "annotations": {"priority": 1}}], "isError": false}),
            json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "b"}], "isError": false}),
        ] {
            assert_eq!(told(&answered(&result)), result);
        }
    }

    #[test]
    fn structured_content_is_the_result() {
        let outcome = answered(&json!({"content": [], "structuredContent": {"sky": "sunny"}}));
        assert_eq!(outcome.result, Some(json!({"sky": "sunny"})));
        assert_eq!(text(&outcome), r#"{"sky":"sunny"}"#);
    }

    #[test]
    fn a_tool_result_that_is_an_error_fails_with_its_text() {
        let outcome = answered(&json!({
            "content": [
                {"type": "text", "text": "no such \u{1b}pet"},
                {"type": "image", "mimeType": "image/png", "contents": "…"},
                {"type": "text", "text": "try 7", "annotations": {}},
            ],
            "isError": true,
        }));
        assert_eq!((outcome.status, outcome.result), (CallStatus::Failed, None));
        let message = "no such \\u{1b}pet\ntry 7".to_owned();
        let code = ErrorCode::UpstreamError;
        assert_eq!(outcome.error, Some(CallFailure::new(code, message, false)));
    }

    #[test]
    fn a_long_error_text_is_truncated() {
        let text = json!({"type": "text", "text": "ü".repeat(10_000)});
        let message = answered(&json!({"content": [text], "isError": true})).error.unwrap().message;
        assert!(message.ends_with("ü …") && message.chars().count() < 2_100);
    }

    #[test]
    fn an_error_without_text_still_has_a_message() {
        let message = |answer| answered(&answer).error.unwrap().message;
        let silent = json!({"content": [], "structuredContent": null, "isError": true});
        assert_eq!(message(silent), "the tool failed and did not say why");
        let structured = json!({"structuredContent": {"code": 7}, "isError": true});
        assert_eq!(message(structured), r#"{"code":7}"#);
    }

    #[test]
    fn any_other_json_is_the_result() {
        for answer in [
            json!({"id": 7}),
            json!([1, 2]),
            json!({"isError": true}),
            json!({"isError": true, "content": "a page"}),
            json!({"isError": true, "content": [{"id": 7}]}),
            json!({"isError": true, "content": [], "structuredContent": 7}),
            json!({"isError": "true", "id": 7}),
        ] {
            let outcome = answered(&answer);
            assert_eq!((outcome.result, outcome.error), (Some(answer), None));
        }
    }

    #[test]
    fn a_failure_status_wins_over_a_successful_tool_result() {
        let body = br#"{"content": [{"type": "text", "text": "fine"}], "isError": false}"#;
        let outcome = outcome_of_tool_result(asked(), answer(500, "application/json", body));
        assert_eq!(outcome.status, CallStatus::Failed);
    }
}

#[test]
fn a_result_that_violates_the_output_schema_is_text_only() {
    let outcome = Outcome {
        tool_id: "pizzeria:menu".parse().unwrap(),
        status: CallStatus::Completed,
        result: Some(json!({"pizzas": "none"})),
        content: Vec::new(),
        error: None,
        execution_time_ms: 1,
        upstream_status: Some(200),
    };
    let promise = |kind: &str| {
        let schema = json!({"type": "object", "properties": {"pizzas": {"type": kind}}});
        ArgumentValidator::compile(&schema, UndeclaredArguments::Sent)
    };
    let broken = to_tool_result(outcome.clone(), Some(&promise("array")));
    assert_eq!((broken.structured_content, broken.content.len()), (None, 1));
    assert!(to_tool_result(outcome, Some(&promise("string"))).structured_content.is_some());
}

#[test]
fn json_with_too_many_small_values_stays_text() {
    let objects = |count: usize| format!("[{}0]", r#"{"a":1},"#.repeat(count));
    let many = answered("application/json", objects(110_000).as_bytes());
    assert_eq!((many.result, many.content.len()), (None, 1));
    let fewer = answered("application/json", objects(90_000).as_bytes());
    assert_eq!(fewer.result.unwrap().as_array().unwrap().len(), 90_001);
    let commas = format!("[\"{}\"]", ",[{".repeat(500_000));
    assert!(answered("application/json", commas.as_bytes()).result.is_some());
}
