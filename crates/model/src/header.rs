//! Names of request headers: which there can be, and which are not for agents.
//!
//! Discovery makes no argument of them, and execution refuses templates that would fill them in: one rule for both.

/// Credentials are ours to give, and the others say who is asking, where a request goes and where it ends.
const OURS: [&str; 12] = [
    "authorization",
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-real-ip",
];

/// Whether arguments may never fill a header in. `Cookie` is a case of its own: cookies have rules of their own.
pub fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    OURS.contains(&name.as_str()) || name.starts_with("x-forwarded-") || name.starts_with("proxy-")
}

/// Whether a text can be the name of a header (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}
