//! Protected resource metadata: where a client without a token can get one (OAU-01, OAU-02, OAU-14).

use serde_json::{Value, json};

use super::issuer::{
    ISSUER, config_with_inline_key, server_trusting, server_trusting_on, signed_token, subject,
};
use super::server::{Ask, Server};
use crate::signer::Signer;
use crate::support::Folder;

const ROOT: &str = "/.well-known/oauth-protected-resource";
const MCP: &str = "/.well-known/oauth-protected-resource/mcp";

fn get_anonymously(server: &Server, path: &str) -> Value {
    server.send(&Ask::new("GET", path)).ok()
}

#[test]
fn both_documents_contain_the_exact_public_url() {
    let issuers = [
        config_with_inline_key(&Signer::p256(), json!({})),
        config_with_inline_key(&Signer::p256(), json!({"issuer": "ours"})),
    ];
    let server =
        server_trusting_on(Folder::empty(), &issuers, "--public-url https://crib.example.com");
    let expected = |resource: &str| {
        json!({
            "resource": resource,
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolcrib",
        })
    };
    assert_eq!(get_anonymously(&server, ROOT), expected("https://crib.example.com"));
    assert_eq!(get_anonymously(&server, MCP), expected("https://crib.example.com/mcp"));
    let server = server_trusting(&issuers);
    assert_eq!(get_anonymously(&server, MCP)["resource"], server.url("/mcp"));
}

#[test]
fn every_401_names_the_metadata_url_and_the_scopes() {
    let folder = Folder::empty();
    let issuer = config_with_inline_key(&Signer::p256(), json!({}));
    let config =
        json!({"public_url": "https://crib.example.com", "scopes": ["tools"], "issuers": [issuer]});
    folder.write("config.json", config.to_string());
    let server = Server::on_folder(folder, "--config config.json");
    assert_eq!(get_anonymously(&server, ROOT)["scopes_supported"], json!(["tools"]));
    let place = format!("resource_metadata=\"https://crib.example.com{ROOT}\", scope=\"tools\"");
    for path in ["/api/whoami", "/api/groups", "/api/agents/tools"] {
        let nothing = server.send(&Ask::new("GET", path));
        assert_eq!(nothing.status, 401);
        assert_eq!(nothing.header("www-authenticate"), format!("Bearer {place}"));
        let wrong = server.get_as("eyJhbGciOiJub25lIn0.e30.", path);
        let expected = format!("Bearer error=\"invalid_token\", {place}");
        assert_eq!((wrong.status, wrong.header("www-authenticate")), (401, expected.as_str()));
    }
}

#[test]
fn an_issuer_without_an_audience_uses_the_public_url() {
    let signer = Signer::p256();
    let issuer = config_with_inline_key(&signer, json!({"audience": null}));
    let server = server_trusting_on(
        Folder::empty(),
        std::slice::from_ref(&issuer),
        "--public-url https://crib.example.com",
    );
    let token = |audience: &str| signed_token(&signer, json!({}), json!({"aud": audience}));
    for audience in ["https://crib.example.com", "https://crib.example.com/mcp"] {
        assert_eq!(subject(&server, &token(audience)), "alice");
    }
    for audience in ["https://crib.example.com/", "https://other.example.com"] {
        assert_eq!(server.get_as(&token(audience), "/api/whoami").status, 401, "{audience}");
    }
    // Without a public URL, the server cannot know the audience of the issuer's tokens.
    let folder = Folder::empty();
    folder.write("config.json", json!({"issuers": [issuer]}).to_string());
    let run = folder.run("serve --listen 127.0.0.1:0 --config config.json");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("missing field `audience`"), "{}", run.stderr);
}

#[test]
fn the_server_is_no_authorization_server() {
    let server = Server::start();
    for path in [
        "/authorize",
        "/register",
        "/token",
        "/callback",
        "/oauth/authorize",
        "/oauth/token",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        for method in ["GET", "POST"] {
            assert_eq!(server.send(&server.ask(method, path)).status, 404, "{method} {path}");
        }
    }
    // Without issuers there is no authorization server to name.
    for path in [ROOT, MCP] {
        let problem = server.send(&Ask::new("GET", path)).problem();
        assert!(problem.starts_with("404 not_found: no issuer's tokens are taken"), "{problem}");
    }
    assert_eq!(server.send(&Ask::new("GET", "/api/groups")).header("www-authenticate"), "Bearer");
}
