//! The trace context of a request (W3C Trace Context, level 1). An invalid `traceparent` is ignored, and no part of it
//! is passed on.

use std::fmt::Write as _;
use std::sync::Arc;

/// Longest accepted `traceparent`: later versions may be longer than ours.
const TRACEPARENT_LIMIT: usize = 256;
/// Length of a `traceparent` of version 00.
const TRACEPARENT_LENGTH: usize = 55;
/// Longest `tracestate`, and the most entries in it (3.3.1.1 and 3.3.1.5).
const TRACESTATE_LIMIT: usize = 512;
const MAX_STATE_ENTRIES: usize = 32;
/// Longest key and longest value of an entry.
const STATE_PART_LIMIT: usize = 256;
const SAMPLED_FLAG: u8 = 1;

/// The trace that a request belongs to, and the span that sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    is_sampled: bool,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Starts a trace; `None` if an id consists of zeros.
    pub fn new(trace: [u8; 16], span: [u8; 8], is_sampled: bool) -> Option<Self> {
        let is_one = trace.iter().any(|byte| *byte != 0) && span.iter().any(|byte| *byte != 0);
        is_one.then_some(Self { trace, span, is_sampled, state: None })
    }

    /// Parses the headers `traceparent` and `tracestate`; drops an invalid `tracestate`.
    pub fn from_headers(parent: &str, state: Option<&str>) -> Option<Self> {
        if !parent.is_ascii() || TRACEPARENT_LIMIT < parent.len() {
            return None;
        }
        let mut parts = parent.splitn(5, '-');
        let mut next = || parts.next();
        let [version] = parse_hex(next()?)?;
        let (trace, span, [flags]) =
            (parse_hex(next()?)?, parse_hex(next()?)?, parse_hex(next()?)?);
        let is_known = match version {
            0 => parent.len() == TRACEPARENT_LENGTH,
            0xff => false,
            _ => true,
        };
        let context = Self::new(trace, span, flags & SAMPLED_FLAG != 0).filter(|_| is_known)?;
        Some(Self { state: state.and_then(parse_tracestate), ..context })
    }

    /// The same trace with a different span.
    pub fn with_span(&self, span: [u8; 8]) -> Self {
        Self { span, ..self.clone() }
    }

    /// Whether the caller requested recording (the `sampled` flag).
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The trace id, in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        to_hex(&self.trace)
    }

    /// The span id, in hexadecimal digits.
    pub fn span_id(&self) -> String {
        to_hex(&self.span)
    }

    /// The trace id, as bytes.
    pub fn trace_bytes(&self) -> [u8; 16] {
        self.trace
    }

    /// The span id, as bytes.
    pub fn span_bytes(&self) -> [u8; 8] {
        self.span
    }

    /// The value of the `traceparent` header.
    pub fn to_traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id(), self.span_id(), u8::from(self.is_sampled))
    }

    /// The value of the `tracestate` header, if any.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Parses exactly `N` bytes of lower-case hexadecimal digits.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes what is written");
        text
    })
}

/// Normalises a `tracestate`; `None` if any entry is invalid.
fn parse_tracestate(text: &str) -> Option<Arc<str>> {
    if TRACESTATE_LIMIT < text.len() {
        return None;
    }
    let members = text.split(',').map(|member| member.trim_matches([' ', '\t']));
    let members: Vec<&str> = members.filter(|member| !member.is_empty()).collect();
    let mut keys: Vec<&str> = members.iter().map_while(|member| entry_key(member)).collect();
    let is_whole = keys.len() == members.len() && members.len() <= MAX_STATE_ENTRIES;
    keys.sort_unstable();
    keys.dedup();
    let is_good = is_whole && !keys.is_empty() && keys.len() == members.len();
    is_good.then(|| members.join(",").into())
}

/// The key of a well-formed entry.
fn entry_key(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let in_key = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-*/@".contains(&c);
    let begins_well = key.bytes().next()?.is_ascii_alphanumeric();
    let in_value = |c: u8| matches!(c, b' '..=b'~') && c != b'=' && c != b',';
    let is_good = begins_well
        && key.len() <= STATE_PART_LIMIT
        && key.bytes().all(in_key)
        && !value.is_empty()
        && value.len() <= STATE_PART_LIMIT
        && value.bytes().all(in_value);
    is_good.then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_context_survives_parsing_and_printing() {
        let trace = TraceContext::from_headers(PARENT, Some("rojo=00f067, congo@a=t61 b")).unwrap();
        assert_eq!(trace.to_traceparent(), PARENT);
        assert_eq!(trace.tracestate(), Some("rojo=00f067,congo@a=t61 b"));
        let other = trace.with_span([1; 8]);
        assert_eq!(
            other.to_traceparent(),
            "00-0af7651916cd43dd8448eb211c80319c-0101010101010101-01"
        );
        assert_eq!(other.tracestate(), trace.tracestate());
        let later = TraceContext::from_headers(&PARENT.replacen("00", "cc", 1), None).unwrap();
        assert_eq!(later.to_traceparent(), PARENT, "it is passed on in our version");
        let later = format!("cc{}-what-comes-later", PARENT.strip_prefix("00").unwrap());
        assert!(TraceContext::from_headers(&later, None).is_some());
        // Unknown flags are ignored.
        let flags = TraceContext::from_headers(&PARENT.replace("-01", "-fe"), None).unwrap();
        assert!(!flags.is_sampled());
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let long = format!("cc{}-{}", PARENT.strip_prefix("00").unwrap(), "x".repeat(300));
        for bad in [
            "",
            "00",
            "-",
            &long,
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            &PARENT.replace("0af7", "0ag7"),
            &PARENT.replace("0af7", "0äf7"),
            &format!("{TRACEPARENT_LENGTH}-more"),
            &format!(" {TRACEPARENT_LENGTH}"),
            &format!("{TRACEPARENT_LENGTH}\r\nx: y"),
            &PARENT.replace("-01", "-1"),
        ] {
            assert_eq!(TraceContext::from_headers(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn an_invalid_tracestate_is_dropped_and_the_trace_kept() {
        let many: Vec<String> = (0..10_000).map(|n| format!("k{n}=v")).collect();
        let few: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        for bad in [
            "",
            ",",
            "a",
            "a=",
            "=b",
            "A=b",
            "a=b=c",
            "a=1,a=2",
            "a=b\r\nx: y",
            "a=ü",
            &many.join(","),
            &few.join(","),
            &format!("a={}", "x".repeat(300)),
        ] {
            let trace = TraceContext::from_headers(PARENT, Some(bad)).unwrap();
            assert_eq!(
                (trace.tracestate(), trace.to_traceparent().as_str()),
                (None, PARENT),
                "{bad}"
            );
        }
    }
}
