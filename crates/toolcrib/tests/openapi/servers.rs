//! The base URL of requests (requirement O7).

use serde_json::json;
use sources::openapi::{SpecOptions, SpecificationAddress};
use url::Url;

use super::{call, discovered, discovered_at, sent_request, tool, warnings};

/// The request of `GET /menu` with these servers.
fn request_with_servers(servers: &str) -> String {
    let specification =
        format!("openapi: 3.1.0\n{servers}\npaths: {{/menu: {{get: {{operationId: menu}}}}}}");
    call(&specification, json!({})).replace("GET ", "")
}

/// The same request for a specification fetched from an address.
fn request_fetched_from(address: &str, servers: &str) -> String {
    let specification =
        format!("openapi: 3.1.0\n{servers}\npaths: {{/menu: {{get: {{operationId: menu}}}}}}");
    let address = SpecificationAddress::Url(Url::parse(address).unwrap());
    let found = discovered_at(address, &specification, &SpecOptions::default());
    sent_request(tool(&found, "menu"), json!({})).replace("GET ", "")
}

#[test]
fn the_first_server_is_the_base_of_every_request() {
    assert_eq!(
        request_with_servers(
            "servers: [{url: 'https://pizza.example:8443/v1/'}, {url: 'https://other.example'}]"
        ),
        "https://pizza.example:8443/v1/menu"
    );
}

#[test]
fn server_variables_have_their_defaults() {
    assert_eq!(
        request_with_servers(
            "servers: [{url: 'https://{city}.pizza.example:{port}/{version}', variables: {
                city: {default: rome, enum: [rome, naples]}, port: {default: 8443}, version: {enum: [v3]}}}]"
        ),
        "https://rome.pizza.example:8443/v3/menu"
    );
}

#[test]
fn operation_servers_override_path_servers_and_those_the_specification() {
    let found = discovered(
        "openapi: 3.1.0
servers: [{url: https://root.example}]
paths:
  /a:
    servers: [{url: https://path.example/p}]
    get: {operationId: a, servers: [{url: https://operation.example/o}]}
    put: {operationId: b}
  /c: {get: {operationId: c, servers: []}}",
    );
    let sent = |name| sent_request(tool(&found, name), json!({}));
    assert_eq!(sent("a"), "GET https://operation.example/o/a");
    assert_eq!(sent("b"), "PUT https://path.example/p/a");
    assert_eq!(sent("c"), "GET https://root.example/c");
}

#[test]
fn a_relative_server_is_resolved_against_the_specification_address() {
    let address = "https://docs.example/api/openapi.yaml?x=1";
    for (servers, expected) in [
        ("servers: [{url: /v2}]", "https://docs.example/v2/menu"),
        ("servers: [{url: v2}]", "https://docs.example/api/v2/menu"),
        ("servers: [{url: ../v2}]", "https://docs.example/v2/menu"),
        ("servers: [{url: //cdn.example/v2}]", "https://cdn.example/v2/menu"),
        ("servers: [{url: '.'}]", "https://docs.example/api/menu"),
        ("", "https://docs.example/menu"),
    ] {
        assert_eq!(request_fetched_from(address, servers), expected, "{servers}");
    }
}

#[test]
fn the_base_url_setting_overrides_the_specification() {
    let specification = "openapi: 3.1.0
servers: [{url: https://root.example}]
paths: {/menu: {servers: [{url: https://path.example}], get: {operationId: menu}}}";
    let base_url = Some(Url::parse("https://mine.example/proxy/").unwrap());
    let options = SpecOptions { base_url, ..SpecOptions::default() };
    let found = discovered_at(SpecificationAddress::Inline, specification, &options);
    assert_eq!(
        sent_request(tool(&found, "menu"), json!({})),
        "GET https://mine.example/proxy/menu"
    );
}

#[test]
fn a_specification_without_a_host_causes_a_warning() {
    for servers in [
        "",
        "servers: [{url: /v1}]",
        "servers: [{url: 'https://{city}.example'}]",
        "servers: [{url: 'ftp://pizza.example'}]",
        "servers: [{url: 'https://user:pass@pizza.example'}]",
    ] {
        let specification = format!("openapi: 3.1.0\n{servers}\npaths: {{/menu: {{get: {{}}}}}}");
        let found = discovered(&specification);
        assert_eq!(found.inventory.tools.len(), 1, "{servers}");
        let codes: Vec<_> = found.inventory.warnings.iter().map(|warning| &*warning.code).collect();
        assert_eq!(codes, ["no_base_url"], "{servers}");
        assert_eq!(
            warnings(&found),
            [
                "1 operation cannot be called: the specification names no server that can be used; set the source's `url`"
            ]
        );
    }
}
