//! Normalises parts of URLs, so that equivalent ones become equal (RFC 3986, section 6.2.2).

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that must be percent-encoded in a URL.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'[')
    .add(b']');

/// Values by name, in their order.
pub(super) type QueryPairs = BTreeMap<String, Vec<String>>;

/// Decodes unreserved characters, writes hexadecimal digits in upper case, and encodes characters that must be encoded.
pub(super) fn normalize(text: &str) -> String {
    let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    utf8_percent_encode(&decode_selected(text, unreserved), ENCODED).to_string()
}

/// Decodes everything except `/`, `?`, `#` and `%`, which would change the meaning.
pub(super) fn decode_path(text: &str) -> String {
    decode_selected(&normalize(text), |c| !"/?#%".contains(c))
}

/// Decodes every `%XX` that stands for an ASCII character selected by `decoded`.
fn decode_selected(text: &str, decoded: impl Fn(char) -> bool) -> String {
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let rest = piece.get(2..).unwrap_or_default();
        match code {
            Some(code) if code.is_ascii() && decoded(char::from(code)) => {
                out.push(char::from(code));
                out.push_str(rest);
            }
            Some(code) => out.push_str(&format!("%{code:02X}{rest}")),
            None => out.push_str(&format!("%{piece}")),
        }
    }
    out
}

/// The normalised pairs of a query.
pub(super) fn normalized_pairs(query: &str) -> QueryPairs {
    parse_pairs(query, normalize)
}

/// The decoded pairs of a query; `+` is a space.
pub(super) fn decoded_pairs(query: &str) -> QueryPairs {
    parse_pairs(query, |text| percent_decode(&text.replace('+', " ")))
}

pub(super) fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn parse_pairs(query: &str, read: impl Fn(&str) -> String) -> QueryPairs {
    let mut pairs = QueryPairs::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.entry(read(name)).or_default().push(read(value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_texts_are_equal_after_normalisation() {
        assert_eq!(normalize("%7ea%2f[b]%C3%BC"), "~a%2F%5Bb%5D%C3%BC");
        assert_eq!(normalize("ü|100%"), "%C3%BC%7C100%");
        assert_eq!(decode_path("a%2Cb%2fc"), "a,b%2Fc");
    }

    #[test]
    fn a_plus_is_a_space_only_when_decoded() {
        assert_eq!(normalized_pairs("a=1+1&a=%32")["a"], ["1+1", "2"]);
        assert_eq!(decoded_pairs("a=1+1&b")["a"], ["1 1"]);
    }
}
