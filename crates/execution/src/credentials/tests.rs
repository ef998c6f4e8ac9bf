//! Tests that credentials are sent where they belong and nowhere else.

use serde_json::{Value, json};

use super::*;

fn credentials() -> Credentials {
    let known = [
        ("hk", "KEY"),
        ("qk", "Q&K"),
        ("ck", "C;K%3D="),
        ("ba", "u:p:w"),
        ("be", "TOK"),
        ("oa", "OAT"),
    ];
    known.into_iter().map(|(name, secret)| (name.to_owned(), secret.into())).collect()
}

fn schemes() -> Value {
    json!({
        "hk": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "qk": {"type": "apiKey", "in": "query", "name": "api key"},
        "ck": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "ba": {"type": "http", "scheme": "Basic"},
        "be": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "oa": {"type": "oauth2", "scopes": ["read"]},
        "di": {"type": "http", "scheme": "digest"},
        "mt": {"type": "mutualTLS"},
        "no": {"type": "apiKey", "in": "header", "name": "X-No"},
    })
}

/// Alternatives, each with the schemes of these names.
fn security(alternatives: &[&[&str]]) -> SecurityRequirements {
    let all = schemes();
    let alternative = |names: &&[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), all[name].clone())).collect()
    };
    let list: Vec<Value> = alternatives.iter().map(alternative).collect();
    SecurityRequirements::parse(Some(&RawJson::serialize_value(&list).unwrap())).unwrap()
}

fn request() -> RenderedRequest {
    RenderedRequest {
        method: "GET".to_owned(),
        url: "https://api.test/a?x=1|2".parse().unwrap(),
        headers: vec![
            ("X-Other".to_owned(), "o".to_owned()),
            ("cookie".to_owned(), "a=b".to_owned()),
        ],
        body: None,
    }
}

/// The changes to the request: its query, and the new or changed headers.
fn applied(alternatives: &[&[&str]]) -> Option<(String, Vec<(String, String)>)> {
    let mut sent = request();
    security(alternatives).apply(&credentials(), &mut sent).unwrap().then(|| {
        let before = request().headers;
        sent.headers.retain(|header| !before.contains(header));
        (sent.url.query().unwrap().to_owned(), sent.headers)
    })
}

fn header(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[test]
fn each_scheme_has_its_location() {
    let unchanged = "x=1|2".to_owned();
    for (scheme, name, value) in [
        ("hk", "X-Key", "KEY"),
        ("ba", "Authorization", "Basic dTpwOnc="),
        ("be", "Authorization", "Bearer TOK"),
        ("oa", "Authorization", "Bearer OAT"),
        ("ck", "Cookie", "a=b; sid=C%3BK%3D="),
    ] {
        assert_eq!(applied(&[&[scheme]]), Some((unchanged.clone(), header(name, value))));
    }
    assert_eq!(applied(&[&["qk"]]), Some(("x=1|2&api%20key=Q%26K".to_owned(), vec![])));
}

#[test]
fn an_alternative_needs_all_of_its_schemes() {
    let both = ("x=1|2&api%20key=Q%26K".to_owned(), header("X-Key", "KEY"));
    assert_eq!(applied(&[&["hk", "qk"]]), Some(both.clone()));
    assert_eq!(applied(&[&["no", "be"], &["hk", "qk"], &["be"]]), Some(both));
}

#[test]
fn unsupported_and_missing_schemes_are_skipped() {
    let bearer = ("x=1|2".to_owned(), header("Authorization", "Bearer TOK"));
    assert_eq!(applied(&[&["di"], &["mt"], &["no"], &["be"]]), Some(bearer));
    assert_eq!(applied(&[&["di"], &["mt"], &["no"]]), None);
}

#[test]
fn an_operation_without_security_gets_no_credentials() {
    let nothing = Some(("x=1|2".to_owned(), vec![]));
    assert_eq!(applied(&[]), nothing);
    assert_eq!(applied(&[&["no"], &[]]), nothing);
    let mut sent = request();
    assert_eq!(
        SecurityRequirements::parse(None).unwrap().apply(&credentials(), &mut sent),
        Ok(true)
    );
    assert_eq!(sent, request());
}

#[test]
fn optional_credentials_are_sent() {
    let key = ("x=1|2".to_owned(), header("X-Key", "KEY"));
    assert_eq!(applied(&[&[], &["hk"]]), Some(key));
}

#[test]
fn an_agent_cannot_choose_the_credential() {
    let mut sent = request();
    sent.url.set_query(Some("api%20key=mine&x=1&api%20key"));
    sent.headers = vec![
        ("x-key".to_owned(), "mine".to_owned()),
        ("Cookie".to_owned(), "sid=mine; a=b".to_owned()),
    ];
    security(&[&["hk", "qk", "ck"]]).apply(&credentials(), &mut sent).unwrap();
    assert_eq!(sent.url.query(), Some("x=1&api%20key=Q%26K"));
    assert_eq!(sent.header("X-Key"), Some("KEY"));
    assert_eq!(sent.header("Cookie"), Some("a=b; sid=C%3BK%3D="));
}

#[test]
fn an_agent_cannot_choose_the_credential_in_another_spelling() {
    let mut sent = request();
    sent.url.set_query(Some("%61pi+key=mine&x=%61pi%20key&ap%69%20key&api-key=1"));
    sent.headers = vec![("Cookie".to_owned(), "s%69d=mine; sid2=b".to_owned())];
    security(&[&["qk", "ck"]]).apply(&credentials(), &mut sent).unwrap();
    assert_eq!(sent.url.query(), Some("x=%61pi%20key&api-key=1&api%20key=Q%26K"));
    assert_eq!(sent.header("Cookie"), Some("sid2=b; sid=C%3BK%3D="));
}

#[test]
fn a_credential_with_invalid_characters_is_rejected_and_not_repeated() {
    for scheme in ["hk", "be"] {
        let bad = [(scheme.to_owned(), "hunter2\r\nX-Evil: 1".into())].into();
        let error = security(&[&[scheme]]).apply(&bad, &mut request()).unwrap_err();
        assert_eq!(error, CredentialError::InvalidValue { scheme: scheme.to_owned() });
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[test]
fn unreadable_security_requirements_are_an_error() {
    for text in ["7", r#"[{"a": 1}]"#, r#"[{"a": {"type": "apiKey"}}]"#] {
        let raw = RawJson::parse(text).unwrap();
        assert_eq!(
            SecurityRequirements::parse(Some(&raw)),
            Err(CredentialError::Unreadable),
            "{text}"
        );
    }
}

#[test]
fn a_repeated_credential_is_masked_in_every_form() {
    let secret = r#"p;a "s\s%3D="#;
    let credentials: Credentials = [("a".to_owned(), secret.into())].into();
    let json = json!({"key": secret}).to_string();
    assert_eq!(without_credentials(&json, &credentials), r#"{"key":"***"}"#);
    let base64 = BASE64_STANDARD.encode(secret);
    for form in [secret, &percent_encoded(secret), &cookie_encoded(secret), &base64] {
        assert_eq!(without_credentials(&format!("<{form}>"), &credentials), "<***>", "{form}");
    }
}

#[test]
fn passwords_and_client_secrets_are_masked_too() {
    let own = Some(SourceCredential::basic("me", &"pass-alone".into()));
    let given =
        CallCredentials { own, proof: Some("client-secret".into()), ..CallCredentials::default() };
    let mut hidden = given.secrets_to_mask();
    hidden.extend(security(&[&["ba", "be"]]).basic_passwords(&credentials()));
    let hidden: Vec<&str> = hidden.values().map(SecretString::expose_secret).collect();
    for secret in ["me:pass-alone", "pass-alone", "client-secret", "p:w"] {
        assert!(hidden.contains(&secret), "{secret}");
    }
}

#[test]
fn passed_on_headers_go_only_to_the_credential_origin_and_traces_everywhere() {
    let header = |name: &str| vec![(name.to_owned(), "v".to_owned())];
    let given = CallCredentials {
        headers: header("x-tenant"),
        trace: header("traceparent"),
        ..CallCredentials::default()
    };
    let home: Url = "https://a.example/v1".parse().unwrap();
    let names = |url: &str, origin: Option<&Origin>| -> Vec<&str> {
        let url: Url = url.parse().unwrap();
        given.headers_to(&url, origin).map(|(name, _)| name.as_str()).collect()
    };
    let origin = home.origin();
    assert_eq!(names("https://a.example/v2", Some(&origin)), ["x-tenant", "traceparent"]);
    for elsewhere in ["https://b.example", "http://a.example", "https://a.example:8443"] {
        assert_eq!(names(elsewhere, Some(&origin)), ["traceparent"], "{elsewhere}");
        assert_eq!(names(elsewhere, None), ["x-tenant", "traceparent"], "{elsewhere}");
    }
}

#[test]
fn the_debug_output_of_a_request_contains_no_credentials() {
    let mut sent = request();
    security(&[&["hk", "qk", "be"]]).apply(&credentials(), &mut sent).unwrap();
    let shown = format!("{sent:?} {:?}", credentials());
    for secret in ["KEY", "Q&K", "Q%26K", "TOK"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
