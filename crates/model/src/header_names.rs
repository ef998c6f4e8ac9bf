//! Rules for names of HTTP request headers: valid names, and headers that agents must not control.
//!
//! Discovery makes no argument of a reserved header, and execution rejects templates that would fill one.

/// Headers that toolcrib sets: credentials, the client's identity, routing and message framing.
const RESERVED_HEADERS: [&str; 12] = [
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

/// Whether arguments may never set this header. `Cookie` is not in the list: cookies have separate rules.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED_HEADERS.contains(&name.as_str())
        || name.starts_with("x-forwarded-")
        || name.starts_with("proxy-")
}

/// Whether an admin may forward this header of an agent's request to an upstream. Rejects headers with credentials, the
/// client's identity or message framing, and toolcrib's own.
pub fn may_be_forwarded(name: &str) -> bool {
    const NEVER: [&str; 6] =
        ["accept-encoding", "content-encoding", "content-type", "cookie", "origin", "referer"];
    const OURS: [&str; 3] = ["mcp-", "x-toolcrib-", "x-mcp-"];
    let lower = name.to_ascii_lowercase();
    is_header_name(name)
        && !is_reserved_header(name)
        && !NEVER.contains(&lower.as_str())
        && !OURS.iter().any(|ours| lower.starts_with(ours))
}

/// Whether a string is a valid header name (`token`, RFC 9110, 5.6.2).
pub fn is_header_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_credentials_or_framing_are_never_forwarded() {
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
