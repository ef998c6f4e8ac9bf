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

/// Whether a header of an agent's request may be passed on to an upstream, if an admin says so: none that opens a door, says
/// who is asking or how a message is sent, and none of ours.
pub fn may_be_forwarded(name: &str) -> bool {
    const NEVER: [&str; 6] =
        ["accept-encoding", "content-encoding", "content-type", "cookie", "origin", "referer"];
    const OURS: [&str; 3] = ["mcp-", "x-toolcrib-", "x-mcp-"];
    let lower = name.to_ascii_lowercase();
    is_token(name)
        && !is_ours(name)
        && !NEVER.contains(&lower.as_str())
        && !OURS.iter().any(|ours| lower.starts_with(ours))
}

/// Whether a text can be the name of a header (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_doors_or_frames_messages_is_never_passed_on() {
        for name in ["X-Request-Id", "traceparent", "X-Tenant", "Accept-Language", "X-API-Key"] {
            assert!(may_be_forwarded(name), "{name}");
        }
        for name in [
            "Authorization",
            "Cookie",
            "Host",
            "Proxy-Authorization",
            "X-Forwarded-For",
            "Connection",
            "Transfer-Encoding",
            "Mcp-Session-Id",
            "X-Toolcrib-Group",
            "X-MCP-Auth",
            "a b",
            "",
        ] {
            assert!(!may_be_forwarded(name), "{name}");
        }
    }
}
