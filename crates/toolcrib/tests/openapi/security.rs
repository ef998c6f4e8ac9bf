//! Credentials are sent as the security schemes of the specification declare, and nowhere else.

use super::{discovered, sent_with, tool};

const DOORS: &str = "openapi: 3.1.0
servers: [{url: https://pizza.example}]
security: [{key: []}]
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
    query: {type: apiKey, in: query, name: key}
    cookie: {type: apiKey, in: cookie, name: sid}
    basic: {type: http, scheme: Basic}
    bearer: {type: http, scheme: bearer}
    oauth: {type: oauth2, flows: {}}
    tls: {type: mutualTLS}
paths:
  /usual: {get: {operationId: usual}}
  /open: {get: {operationId: open, security: []}}
  /both: {get: {operationId: both, security: [{query: [], cookie: []}]}}
  /either: {get: {operationId: either, security: [{tls: []}, {basic: []}, {bearer: []}]}}
  /optional: {get: {operationId: optional, security: [{}, {oauth: [read]}]}}
  /unknown: {get: {operationId: unknown, security: [{nobody: []}]}}";

fn sent(name: &str, credentials: &[(&str, &str)]) -> String {
    sent_with(tool(&discovered(DOORS), name), credentials)
}

const ALL: [(&str, &str); 7] = [
    ("key", "K"),
    ("query", "Q&"),
    ("cookie", "C"),
    ("basic", "ann:p:w"),
    ("bearer", "B"),
    ("oauth", "O"),
    ("tls", "T"),
];

#[test]
fn operation_security_overrides_the_security_of_the_specification() {
    assert_eq!(sent("usual", &ALL), "GET https://pizza.example/usual\nX-Key: K");
    assert_eq!(sent("open", &ALL), "GET https://pizza.example/open");
}

#[test]
fn an_alternative_needs_all_of_its_schemes() {
    assert_eq!(sent("both", &ALL), "GET https://pizza.example/both?key=Q%26\nCookie: sid=C");
    assert_eq!(sent("both", &[("query", "Q")]), "GET https://pizza.example/both");
}

#[test]
fn the_first_alternative_with_available_credentials_is_used() {
    assert_eq!(
        sent("either", &ALL),
        "GET https://pizza.example/either\nAuthorization: Basic YW5uOnA6dw=="
    );
    assert_eq!(
        sent("either", &[("bearer", "B")]),
        "GET https://pizza.example/either\nAuthorization: Bearer B"
    );
}

#[test]
fn an_optional_credential_is_sent_if_available() {
    assert_eq!(
        sent("optional", &ALL),
        "GET https://pizza.example/optional\nAuthorization: Bearer O"
    );
    assert_eq!(sent("optional", &[]), "GET https://pizza.example/optional");
}

#[test]
fn an_undefined_scheme_gets_no_credential() {
    assert_eq!(sent("unknown", &[("nobody", "N")]), "GET https://pizza.example/unknown");
}

#[test]
fn an_incomplete_scheme_gets_no_credential() {
    for scheme in ["{type: apiKey}", "{type: apiKey, in: body, name: k}", "{type: http}", "{}", "7"]
    {
        let found = discovered(&format!(
            "openapi: 3.1.0
servers: [{{url: https://pizza.example}}]
components: {{securitySchemes: {{odd: {scheme}}}}}
paths: {{/menu: {{get: {{operationId: menu, security: [{{odd: []}}]}}}}}}"
        ));
        let sent = sent_with(tool(&found, "menu"), &[("odd", "O")]);
        assert_eq!(sent, "GET https://pizza.example/menu", "{scheme}");
    }
}
