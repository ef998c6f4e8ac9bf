//! Validation of access tokens (JWT-10 to JWT-14).

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::signer::{Signer, jwks};
use crate::{JwsAlgorithm, TokenType};

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://gw.example.com/mcp";
/// The current time in these tests.
const NOW: i64 = 1_800_000_000;

struct World {
    signer: Signer,
    keys: KeySet,
    issuer: Issuer,
}

impl World {
    fn new() -> Self {
        let signer = Signer::p256();
        let keys = KeySet::from_jwks(jwks(&[signer.jwk("k")]).as_bytes()).unwrap();
        Self { signer, keys, issuer: Issuer::new(ISSUER, [AUDIENCE, "toolcrib"]).unwrap() }
    }

    fn taking_any_type() -> Self {
        let world = Self::new();
        Self { issuer: world.issuer.clone().with_token_type(TokenType::Any), ..world }
    }

    fn verify(&self, text: &str) -> Result<VerifiedToken, TokenError> {
        UnverifiedToken::parse(text)?.verify(
            &self.issuer,
            &self.keys,
            Timestamp::from_second(NOW).unwrap(),
        )
    }

    /// Verifies a valid token with these claims changed; `null` removes a claim.
    fn with(&self, changed: Value) -> Result<VerifiedToken, TokenError> {
        self.with_type(json!("at+jwt"), changed)
    }

    fn with_type(&self, media_type: Value, changed: Value) -> Result<VerifiedToken, TokenError> {
        let mut header = json!({"alg": "ES256", "kid": "k"});
        if !media_type.is_null() {
            header["typ"] = media_type;
        }
        let mut claims = claims().as_object().unwrap().clone();
        for (name, value) in changed.as_object().unwrap() {
            claims.insert(name.clone(), value.clone());
        }
        claims.retain(|_, value| !value.is_null());
        self.verify(&self.signer.token(&header, &Value::Object(claims)))
    }

    fn payload(&self, payload: &[u8]) -> Result<VerifiedToken, TokenError> {
        self.verify(&self.signer.text(r#"{"alg":"ES256","typ":"at+jwt"}"#, payload))
    }
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 600, "iat": NOW - 10,
        "client_id": "agent", "scope": "tools", "realm_access": {"roles": ["a", "b"]},
    })
}

fn malformed(claim: &'static str) -> impl Fn(&Result<VerifiedToken, TokenError>) -> bool {
    move |result| matches!(result, Err(TokenError::Claim { claim: named, .. }) if *named == claim)
}

#[test]
fn a_valid_token_returns_its_claims() {
    let verified = World::new().with(json!({})).unwrap();
    assert_eq!(serde_json::to_value(&verified.claims).unwrap(), claims());
    assert_eq!(&*verified.subject, "alice");
    assert_eq!(verified.expires_at.as_second(), NOW + 600);
}

#[test]
fn an_unverified_token_only_tells_its_issuer() {
    let world = World::new();
    let text = world.signer.token(&json!({"alg": "ES256"}), &json!({"iss": "someone", "exp": "x"}));
    let mut token = UnverifiedToken::parse(&text).unwrap();
    assert_eq!(token.issuer(), "someone");
    let now = Timestamp::from_second(NOW).unwrap();
    let refused = token.verify(&world.issuer, &world.keys, now);
    assert_eq!(refused, Err(TokenError::UnknownIssuer));
}

#[test]
fn the_signature_is_checked_before_the_claims() {
    let world = World::new();
    let stranger = Signer::p256();
    let header = json!({"alg": "ES256", "typ": "JWT"});
    for wrong in [json!({"iss": ISSUER}), json!({"iss": ISSUER, "exp": 1, "aud": "other"})] {
        let refused = world.verify(&stranger.token(&header, &wrong));
        assert_eq!(refused, Err(TokenError::Signature));
    }
}

#[test]
fn the_issuer_must_match_exactly() {
    let world = World::new();
    for other in ["https://id.example/", "https://ID.example", "https://id.example.evil", ""] {
        assert_eq!(world.with(json!({"iss": other})), Err(TokenError::UnknownIssuer), "{other}");
    }
    for wrong in [json!(null), json!(1), json!([ISSUER])] {
        assert!(malformed("iss")(&world.with(json!({"iss": wrong}))), "{wrong}");
    }
}

#[test]
fn the_audience_must_be_ours_or_a_list_with_ours() {
    let world = World::new();
    for ours in [json!("toolcrib"), json!([AUDIENCE]), json!(["other", AUDIENCE])] {
        assert!(world.with(json!({"aud": ours})).is_ok(), "{ours}");
    }
    for others in [
        json!(null),
        json!(""),
        json!([]),
        json!("https://other.example"),
        json!("https://gw.example.com.evil/mcp"),
        json!("https://gw.example.com"),
        json!("https://gw.example.com/mcp/"),
        json!("https://gw.example.com/MCP"),
        json!("toolcrib other"),
        json!(["other", "https://gw.example.com/mcp/"]),
    ] {
        assert_eq!(world.with(json!({"aud": others})), Err(TokenError::Audience), "{others}");
    }
    for wrong in [json!([AUDIENCE, 1]), json!([[AUDIENCE]]), json!({"a": AUDIENCE}), json!(1)] {
        assert!(malformed("aud")(&world.with(json!({"aud": wrong}))), "{wrong}");
    }
}

#[test]
fn a_malformed_time_is_rejected() {
    let world = World::new();
    let wrong = [
        json!("never"),
        json!("99999999999"),
        json!("999"),
        json!(1e300),
        json!(-1),
        json!(-0.5),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(true),
        json!([NOW]),
        json!({}),
        json!(""),
    ];
    for claim in ["exp", "nbf", "iat"] {
        for value in &wrong {
            assert!(malformed(claim)(&world.with(json!({claim: value}))), "{claim}: {value}");
        }
    }
    assert!(malformed("exp")(&world.with(json!({"exp": null}))));
    // An empty claim is malformed, not missing.
    for claim in ["exp", "nbf", "iat"] {
        let mut all = claims();
        all[claim] = Value::Null;
        assert!(malformed(claim)(&world.payload(all.to_string().as_bytes())), "{claim}");
    }
    assert_eq!(
        world.with(json!({"exp": NOW as f64 + 10.7})).unwrap().expires_at.as_second(),
        NOW + 10
    );
}

#[test]
fn clocks_may_differ_by_a_minute() {
    let world = World::new();
    assert!(world.with(json!({"exp": NOW - 59})).is_ok());
    assert_eq!(world.with(json!({"exp": NOW - 60})), Err(TokenError::Expired));
    assert_eq!(world.with(json!({"exp": NOW - 61})), Err(TokenError::Expired));
    assert_eq!(world.with(json!({"exp": 0})), Err(TokenError::Expired));
    for claim in ["nbf", "iat"] {
        assert!(world.with(json!({claim: NOW + 59})).is_ok());
        assert_eq!(world.with(json!({claim: NOW + 61})), Err(TokenError::NotYetValid));
    }
    assert_eq!(world.with(json!({"iat": NOW + 600})), Err(TokenError::NotYetValid));
    assert!(world.with(json!({"iat": null, "nbf": null})).is_ok());
}

#[test]
fn the_skew_can_be_set() {
    let world = World::new();
    let issuer = world.issuer.clone().with_skew(SignedDuration::ZERO).unwrap();
    let world = World { issuer, ..world };
    assert!(world.with(json!({"exp": NOW + 1})).is_ok());
    assert_eq!(world.with(json!({"exp": NOW})), Err(TokenError::Expired));
    assert_eq!(world.with(json!({"nbf": NOW + 1})), Err(TokenError::NotYetValid));
}

#[test]
fn by_default_only_the_type_at_jwt_is_accepted() {
    let world = World::new();
    for fine in ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"] {
        assert!(world.with_type(json!(fine), json!({})).is_ok(), "{fine}");
    }
    for other in
        [json!(null), json!("JWT"), json!("jwt"), json!("logout+jwt"), json!("dpop+jwt"), json!("")]
    {
        let refused = world.with_type(other.clone(), json!({}));
        assert!(matches!(refused, Err(TokenError::WrongTokenType { .. })), "{other}");
    }
}

#[test]
fn with_any_type_the_claims_must_be_those_of_an_access_token() {
    let world = World::taking_any_type();
    let bare = json!({"client_id": null, "scope": null});
    for media_type in [json!(null), json!("JWT"), json!("jwt"), json!("at+jwt")] {
        assert!(world.with_type(media_type.clone(), json!({})).is_ok(), "{media_type}");
        let refused = world.with_type(media_type, bare.clone());
        assert!(matches!(refused, Err(TokenError::WrongTokenType { .. })));
    }
    for one in ["scope", "scp", "client_id", "azp"] {
        let mut only = bare.clone();
        only[one] = "a".into();
        assert!(world.with_type(json!("JWT"), only).is_ok(), "{one}");
    }
    for other in [
        json!({"nonce": "n"}),
        json!({"at_hash": "h"}),
        json!({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}),
        json!({"typ": "ID"}),
        json!({"typ": "Refresh"}),
    ] {
        let refused = world.with_type(json!("JWT"), other.clone());
        assert!(matches!(refused, Err(TokenError::WrongTokenType { .. })), "{other}");
    }
    for other in ["logout+jwt", "dpop+jwt", "secevent+jwt"] {
        assert!(world.with_type(json!(other), json!({})).is_err(), "{other}");
    }
    assert!(world.with_type(json!("JWT"), json!({"typ": "Bearer"})).is_ok());
    assert_eq!(world.with_type(json!("JWT"), json!({"aud": null})), Err(TokenError::Audience));
}

#[test]
fn the_subject_is_sub_or_the_client() {
    let world = World::new();
    let subject = |changed| world.with(changed).map(|verified| verified.subject.to_string());
    assert_eq!(subject(json!({"sub": null})).unwrap(), "agent");
    let only_azp = json!({"sub": null, "client_id": null, "azp": "app"});
    assert_eq!(subject(only_azp).unwrap(), "app");
    assert!(malformed("sub")(&world.with(json!({"sub": null, "client_id": null}))));
    for wrong in [json!(1), json!(""), json!(["alice"]), json!({})] {
        assert!(malformed("sub")(&world.with(json!({"sub": wrong}))), "{wrong}");
    }
}

#[test]
fn claims_are_one_object_without_a_duplicate() {
    let world = World::new();
    let all = claims().to_string();
    let open = all.strip_suffix('}').unwrap();
    assert!(world.payload(all.as_bytes()).is_ok());
    assert!(world.payload(format!("\n {all} ").as_bytes()).is_ok());
    let deep = format!(r#"{open},"x":{}{}}}"#, "[".repeat(3000), "]".repeat(3000));
    for wrong in [
        format!(r#"{open},"sub":"bob"}}"#),
        format!(r#"{open},"aud":"{AUDIENCE}"}}"#),
        format!(r#"{open},"exp":99999999999}}"#),
        format!(r#"{open},"x":{{"a":1,"a":2}}}}"#),
        format!(r#"{open},"iss":"{ISSUER}"}}"#),
        format!(r#"{open},"\u0069ss":"{ISSUER}"}}"#),
        format!("{all}{all}"),
        format!("{all},"),
        format!(r#"["{ISSUER}"]"#),
        format!("[{all}]"),
        open.to_owned(),
        deep,
        String::new(),
        "null".to_owned(),
    ] {
        let refused = world.payload(wrong.as_bytes());
        let expected =
            matches!(refused, Err(TokenError::Malformed { .. })) || malformed("iss")(&refused);
        assert!(expected, "{wrong}: {refused:?}");
    }
    let not_utf8 = [open.as_bytes(), br#","x":""#, b"\xff\"}"].concat();
    assert!(world.payload(&not_utf8).is_err());
}

#[test]
fn an_issuer_accepts_only_its_own_algorithms() {
    let world = World::new();
    let issuer = world.issuer.clone().with_algorithms(vec![JwsAlgorithm::EdDSA]).unwrap();
    let world = World { issuer, ..world };
    assert_eq!(world.with(json!({})), Err(TokenError::Algorithm));
}

#[test]
fn a_secret_works_where_it_is_configured() {
    let secret = vec![9; 32];
    let issuer = Issuer::new(ISSUER, [AUDIENCE]).unwrap();
    let issuer = issuer.with_algorithms(vec![JwsAlgorithm::HS256]).unwrap();
    let keys = KeySet::from_secret(&secret).unwrap();
    let header = json!({"alg": "HS256", "typ": "at+jwt"});
    let world = World { signer: Signer::Secret(secret), keys, issuer };
    assert!(world.verify(&world.signer.token(&header, &claims())).is_ok());
    let forged = Signer::Secret(vec![8; 32]).token(&header, &claims());
    assert_eq!(world.verify(&forged), Err(TokenError::Signature));
}
