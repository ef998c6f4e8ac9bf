//! Claims of a validly signed token (JWT-10 to JWT-14).

use serde_json::{Value, json};

use super::super::issuer::{
    AUDIENCE, World, complete_claims, complete_header, config_with_inline_key, now,
    server_trusting, signed_token,
};
use super::super::server::Answer;
use crate::signer::Signer;

/// Sends a token made for the current second, and repeats if the second changed meanwhile: these tests are about
/// differences of one second.
fn within_one_second(world: &World, claims: impl Fn(i64) -> Value) -> Answer {
    loop {
        let start = now();
        let answer = world.server.get_as(&world.token(claims(start)), "/api/whoami");
        if now() == start {
            return answer;
        }
    }
}

#[test]
fn a_clock_skew_of_one_minute_is_tolerated() {
    let world = World::new();
    let status = |claims: &dyn Fn(i64) -> Value| within_one_second(&world, claims).status;
    assert_eq!(status(&|now| json!({"exp": now - 59})), 200);
    assert_eq!(status(&|now| json!({"exp": now - 60})), 401);
    assert_eq!(status(&|now| json!({"exp": now - 61})), 401);
    assert_eq!(status(&|now| json!({"nbf": now + 59})), 200);
    assert_eq!(status(&|now| json!({"nbf": now + 60})), 200);
    assert_eq!(status(&|now| json!({"nbf": now + 61})), 401);
    assert_eq!(status(&|now| json!({"iat": now + 59})), 200);
    assert_eq!(status(&|now| json!({"iat": now + 61})), 401);
    assert_eq!(status(&|now| json!({"iat": now + 600})), 401);
    assert_eq!(status(&|now| json!({"exp": now as f64 - 30.5})), 200);
}

#[test]
fn the_clock_skew_of_an_issuer_can_be_reduced() {
    let signer = Signer::p256();
    let server = server_trusting(&[config_with_inline_key(&signer, json!({"clock_skew": 0}))]);
    let world = World { server, signer };
    assert_eq!(within_one_second(&world, |now| json!({"exp": now + 1})).status, 200);
    assert_eq!(within_one_second(&world, |now| json!({"exp": now})).status, 401);
    assert_eq!(within_one_second(&world, |now| json!({"nbf": now})).status, 200);
    assert_eq!(within_one_second(&world, |now| json!({"nbf": now + 1})).status, 401);
}

#[test]
fn an_accepted_token_is_rejected_once_it_has_expired() {
    let signer = Signer::p256();
    let server = server_trusting(&[config_with_inline_key(&signer, json!({"clock_skew": 0}))]);
    let world = World { server, signer };
    let end = now() + 1;
    let token = world.token(json!({"exp": end}));
    // Send it continuously: the cache entry of a token must expire with the token.
    loop {
        let before = now();
        let status = world.server.get_as(&token, "/api/whoami").status;
        let after = now();
        assert!(status == 200 || end <= after, "refused {} s too early", end - after);
        assert!(status == 401 || before < end, "taken {} s too late", before - end);
        if status == 401 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_invalid_time_is_not_treated_as_missing() {
    let world = World::new();
    let wrong = [
        json!("never"),
        json!("99999999999"),
        json!(1e300),
        json!(-1),
        json!(-1e300),
        json!(true),
        json!([9_999_999_999_i64]),
        json!({}),
        json!(u64::MAX),
    ];
    for claim in ["exp", "nbf", "iat"] {
        for value in &wrong {
            world.assert_rejected(&world.token(json!({claim: value})));
        }
    }
    world.assert_rejected(&world.token(json!({"exp": null})));
    world.assert_rejected(&world.token(json!({"exp": 0})));
    world.assert_rejected(&world.token(json!({"nbf": "9999999999"})));
    // Null counts as present and is not a number.
    let header = complete_header(json!({})).to_string();
    for claim in ["exp", "nbf", "iat"] {
        let mut claims = complete_claims(json!({}));
        claims[claim] = Value::Null;
        world.assert_rejected(&world.signer.text(&header, claims.to_string().as_bytes()));
    }
    for text in ["NaN", "Infinity", "1e999"] {
        let claims = complete_claims(json!({"exp": 7})).to_string();
        let claims = claims.replace(r#""exp":7"#, &format!(r#""exp":{text}"#));
        world.assert_rejected(&world.signer.text(&header, claims.as_bytes()));
    }
}

#[test]
fn a_token_must_name_this_audience() {
    let world = World::new();
    for audience in [json!(AUDIENCE), json!([AUDIENCE]), json!(["other", AUDIENCE])] {
        assert_eq!(
            world.assert_accepted(&world.token(json!({"aud": audience}))),
            "alice",
            "{audience}"
        );
    }
    for audience in [
        json!(null),
        json!("https://other.example"),
        json!("https://gw.example.com.evil"),
        json!("https://gw.example.com/mcp.evil"),
        json!("https://gw.example.com"),
        json!("https://gw.example.com/mcp/"),
        json!("https://gw.example.com/MCP"),
        json!("HTTPS://gw.example.com/mcp"),
        json!("https://gw.example.com/mcp other"),
        json!("https://gw.example.com/mc"),
        json!(" https://gw.example.com/mcp"),
        json!("*"),
        json!(""),
        json!([]),
        json!(["https://gw.example.com"]),
        json!([[AUDIENCE]]),
        json!([AUDIENCE, 7]),
        json!({"aud": AUDIENCE}),
        json!({AUDIENCE: true}),
        json!(true),
    ] {
        let answer = world.assert_rejected(&world.token(json!({"aud": audience})));
        assert!(!answer.body.contains("gw.example.com"), "{answer:?}");
    }
}

#[test]
fn only_an_access_token_is_accepted() {
    let world = World::new();
    let typ =
        |typ: Value| signed_token(&world.signer, json!({"typ": typ}), json!({"scope": "tools"}));
    for good in ["at+jwt", "application/at+jwt", "AT+JWT", "Application/At+Jwt"] {
        assert_eq!(world.assert_accepted(&typ(json!(good))), "alice", "{good}");
    }
    for bad in [
        json!("JWT"),
        json!("jwt"),
        json!("logout+jwt"),
        json!("application/jwt"),
        json!("id_token"),
        json!("text/at+jwt"),
        json!("at+jwt "),
        json!(""),
        json!(null),
        json!(["at+jwt"]),
    ] {
        world.assert_rejected(&typ(bad));
    }
    let id_token =
        json!({"nonce": "n", "at_hash": "h", "auth_time": now(), "aud": [AUDIENCE, "client"]});
    world.assert_rejected(&signed_token(&world.signer, json!({"typ": "JWT"}), id_token));
}

#[test]
fn tokens_of_any_type_must_still_look_like_access_tokens() {
    let signer = Signer::p256();
    let server = server_trusting(&[config_with_inline_key(&signer, json!({"token_type": "any"}))]);
    let world = World { server, signer };
    let token = |header: Value, claims: Value| signed_token(&world.signer, header, claims);
    for (header, claims) in [
        (json!({"typ": "JWT"}), json!({"scope": "tools"})),
        (json!({"typ": null}), json!({"client_id": "c"})),
        (json!({}), json!({"azp": "c"})),
    ] {
        assert_eq!(world.assert_accepted(&token(header, claims)), "alice");
    }
    for claims in [
        json!({}),
        json!({"scope": "tools", "nonce": "n"}),
        json!({"azp": "c", "at_hash": "h"}),
        json!({"client_id": "c", "events": {"http://schemas.openid.net/event/backchannel-logout": {}}}),
        json!({"azp": "c", "typ": "ID"}),
        json!({"azp": "c", "typ": "Refresh"}),
        json!({"scope": "tools", "aud": null}),
        json!({"scope": "tools", "exp": null}),
    ] {
        world.assert_rejected(&token(json!({"typ": "JWT"}), claims));
    }
    world.assert_rejected(&token(json!({"typ": "logout+jwt"}), json!({"scope": "tools"})));
}

#[test]
fn a_token_must_name_its_subject() {
    let world = World::new();
    let client = world.token(json!({"sub": null, "client_id": "nightly"}));
    assert_eq!(world.assert_accepted(&client), "nightly");
    for subject in [json!(null), json!(""), json!(7), json!(["alice"])] {
        world.assert_rejected(&world.token(json!({"sub": subject})));
    }
}
