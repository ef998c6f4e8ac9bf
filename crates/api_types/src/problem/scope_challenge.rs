//! The challenge for a token that lacks scopes (RFC 6750, 3).

use axum::http::header::HeaderValue;
use model::is_scope;

/// Longest list of scopes in a challenge, in bytes.
const MAX_CHALLENGE_SCOPES: usize = 4 << 10;

/// The challenge for a token with insufficient scopes; names all required scopes at once (RFC 6750, 3). A specification
/// may call any string a scope; strings that no token can contain are omitted.
pub fn insufficient_scope_challenge(scopes: &[String]) -> HeaderValue {
    let known: Vec<_> = scopes.iter().map(String::as_str).filter(|scope| is_scope(scope)).collect();
    let scopes = known.join(" ");
    let challenge = match scopes.len() {
        1..=MAX_CHALLENGE_SCOPES => {
            format!(r#"Bearer error="{INSUFFICIENT_SCOPE}", scope="{scopes}""#)
        }
        _ => format!(r#"Bearer error="{INSUFFICIENT_SCOPE}""#),
    };
    HeaderValue::try_from(challenge).expect("scopes are words that may stand in a header")
}

/// The `error` of such a challenge.
pub const INSUFFICIENT_SCOPE: &str = "insufficient_scope";
