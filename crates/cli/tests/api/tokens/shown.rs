//! Where a token may be: alone, in exactly one `Authorization` header (JWT-18).

use serde_json::json;

use super::super::issuer::World;
use super::super::server::Ask;

#[test]
fn a_token_outside_the_authorization_header_is_ignored() {
    let world = World::new();
    let token = world.token(json!({}));
    let server = &world.server;
    let nobody = |ask: Ask| {
        let answer = server.send(&ask);
        assert_eq!((answer.status, answer.challenge()), (401, "Bearer"));
        assert!(!answer.body.contains(&token), "{answer:?}");
    };
    let ask = || Ask::new("GET", "/api/agents/tools");
    for name in ["access_token", "token", "bearer_token", "authorization", "jwt", "id_token"] {
        let query = Ask::new("GET", &format!("/api/agents/tools?{name}={token}"));
        let answer = server.send(&query);
        assert!(matches!(answer.status, 401 | 422), "{name}: {answer:?}");
        assert!(!answer.body.contains(&token), "{answer:?}");
        nobody(ask().header("Cookie", &format!("{name}={token}")));
    }
    for name in ["X-Authorization", "Proxy-Authorization", "X-Forwarded-Access-Token", "Token"] {
        nobody(ask().header(name, &format!("Bearer {token}")));
    }
    let form = Ask::new("POST", "/api/access/explain");
    nobody(form.text("application/x-www-form-urlencoded", &format!("access_token={token}")));
    let body = json!({"access_token": token, "claims": {}});
    nobody(Ask::new("POST", "/api/access/explain").json(&body));
}

#[test]
fn the_authorization_header_contains_only_the_token() {
    let world = World::new();
    let token = world.token(json!({}));
    let ask = || Ask::new("GET", "/api/whoami");
    let send = |value: &str| world.server.send(&ask().header("Authorization", value));
    assert_eq!(send(&format!("Bearer {token}")).status, 200);
    assert_eq!(send(&format!("bEARER {token}")).status, 200);
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic YWxpY2U6c2VjcmV0",
        &format!("Basic {token}"),
        &format!("DPoP {token}"),
        &format!("Token {token}"),
        &token,
        &format!("Bearer  {token}"),
        &format!("Bearer\t{token}"),
        &format!("Bearer {token} x"),
        &format!("Bearer {token}\tx"),
        &format!("Bearer {token},"),
        &format!("Bearer {token}, Bearer {token}"),
        &format!("Bearer {token};"),
        &format!("Bearer \"{token}\""),
        &format!("Bearer: {token}"),
        &format!("Bearer {token}%20"),
        &format!("Bearer {token}é"),
    ] {
        let answer = send(value);
        let said = (answer.status, answer.challenge());
        assert_eq!(said, (401, r#"Bearer error="invalid_token""#), "{value}");
        assert!(!answer.body.contains(&token), "{answer:?}");
    }
}

#[test]
fn two_credentials_are_rejected() {
    let world = World::new();
    let token = world.token(json!({}));
    let ask = || Ask::new("GET", "/api/whoami");
    for two in [
        ask().bearer(&token).bearer(&token),
        ask().bearer(&token).bearer(&world.server.key),
        ask().bearer(&token).header("authorization", "Basic YTpi"),
        ask().header("Authorization", "").bearer(&token),
    ] {
        let answer = world.server.send(&two);
        assert!(answer.problem().starts_with("400 invalid_request"), "{answer:?}");
    }
}

#[test]
fn a_token_that_is_too_long_is_rejected() {
    let world = World::new();
    let long = world.token(json!({"padding": "x".repeat(12 << 10)}));
    assert!(16 << 10 < long.len());
    assert_eq!(world.server.get_as(&long, "/api/whoami").status, 431);
    let answer = world.server.get_as(&"a".repeat(1 << 20), "/api/whoami");
    assert!(matches!(answer.status, 400 | 431), "{}", answer.status);
    let fits = world.token(json!({"padding": "x".repeat(8 << 10)}));
    assert_eq!(world.assert_accepted(&fits), "alice");
}

#[test]
fn invalid_header_bytes_are_rejected() {
    let world = World::new();
    let token = world.token(json!({}));
    let ask = |value: &str| Ask::new("GET", "/api/whoami").header("Authorization", value);
    for value in [
        format!("Bearer {token}\0"),
        format!("Bearer {token}\nX-Other: yes\0"),
        format!("Bearer\r\n {token}"),
    ] {
        let answer = world.server.send(&ask(&value));
        assert!(matches!(answer.status, 400 | 401), "{value:?}: {answer:?}");
    }
}
