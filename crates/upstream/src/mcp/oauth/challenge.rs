//! What a server says when it refuses a request: the header `WWW-Authenticate` (RFC 9110, section 11.6.1; RFC 6750).

use super::scope;
use crate::http::header::{HeaderMap, WWW_AUTHENTICATE};

/// More is not looked at.
const MAX_TEXT: usize = 16 * 1024;

/// What a server wants. Everything in it comes from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where it says who gives tokens (RFC 9728, section 5.1).
    pub(super) metadata: Option<String>,
    pub(super) scopes: Vec<String>,
    error: Option<String>,
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A token, or another one.
    Token(Challenge),
    /// One that may do more.
    Scopes(Challenge),
    /// The same, before it ends.
    Fresh,
}

/// Whether a 401 says that the token is at fault, and nothing else: who says so has not begun (RFC 6750, section 3.1).
pub fn refuses_token(headers: &HeaderMap) -> bool {
    let said = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let refuses = |it: Challenge| it.error.is_none_or(|error| error == "invalid_token");
    said.filter_map(read).any(refuses)
}

/// Nothing if a token would not help.
pub(super) fn need(status: u16, header: &str) -> Option<Need> {
    let challenge = read(header).unwrap_or_default();
    match status {
        401 => Some(Need::Token(challenge)),
        403 if challenge.error.as_deref() == Some("insufficient_scope") => {
            Some(Need::Scopes(challenge))
        }
        _ => None,
    }
}

/// The first challenge of the scheme `Bearer`, if there is one; others are passed over.
fn read(header: &str) -> Option<Challenge> {
    let mut challenge = Challenge::default();
    let mut rest = if header.len() <= MAX_TEXT { header } else { "" };
    let (mut is_bearer, mut was_bearer) = (false, false);
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            // A character that belongs nowhere is passed over, so there is an end to it.
            let mut characters = after.chars();
            if characters.next().is_none() {
                return was_bearer.then_some(challenge);
            }
            rest = characters.as_str();
            continue;
        }
        match after.trim_start().strip_prefix('=') {
            Some(value) => {
                let (value, after) = text(value.trim_start());
                if is_bearer {
                    challenge.take(word, value);
                }
                rest = after;
            }
            None => {
                if was_bearer && is_bearer {
                    return Some(challenge);
                }
                is_bearer = !was_bearer && word.eq_ignore_ascii_case("bearer");
                was_bearer |= is_bearer;
                rest = after;
            }
        }
    }
}

impl Challenge {
    /// What is said twice holds as it was said first.
    fn take(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" if self.metadata.is_none() => self.metadata = Some(value),
            "error" if self.error.is_none() => self.error = Some(value),
            "scope" if self.scopes.is_empty() => self.scopes = scope::read(&value),
            _ => {}
        }
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// A value, quoted or not, and what comes after it.
fn text(value: &str) -> (String, &str) {
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find([',', ' ', '\t']).unwrap_or(value.len());
        let (value, after) = value.split_at(end);
        return (value.to_owned(), after);
    };
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    (text, characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(metadata: &str, scopes: &[&str], error: &str) -> Challenge {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        Challenge { metadata: text(metadata), scopes, error: text(error) }
    }

    #[test]
    fn what_a_server_wants_is_found_among_other_schemes() {
        for (header, expected) in [
            ("", challenge("", &[], "")),
            ("Bearer", challenge("", &[], "")),
            (r#"Bearer scope="a b""#, challenge("", &["a", "b"], "")),
            ("bearer SCOPE=a,error=invalid_token", challenge("", &["a"], "invalid_token")),
            (
                r#"Basic realm="a, Bearer scope=x", Bearer resource_metadata = "https://a/b?c=d", scope="e""#,
                challenge("https://a/b?c=d", &["e"], ""),
            ),
            (r#"Bearer scope="a", DPoP scope="b", Bearer error="c""#, challenge("", &["a"], "")),
            ("Negotiate YQ==, Bearer scope=a", challenge("", &["a"], "")),
            (r#"Bearer error="a \" b", scope=c"#, challenge("", &["c"], "a \" b")),
            (r#"Bearer error="never ends"#, challenge("", &[], "never ends")),
            (r#"Bearer scope=a, scope=b"#, challenge("", &["a"], "")),
            ("Basic scope=a", challenge("", &[], "")),
            ("Bearer ==;;, scope=ü", challenge("", &[], "")),
        ] {
            assert_eq!(read(header).unwrap_or_default(), expected, "{header}");
        }
    }

    #[test]
    fn a_token_is_at_fault_only_where_that_is_said() {
        for (header, expected) in [
            ("Bearer", true),
            (r#"Bearer realm="pets""#, true),
            (r#"Basic realm="pets", Bearer error="invalid_token""#, true),
            (r#"Bearer error="insufficient_scope""#, false),
            (r#"Basic realm="Bearer""#, false),
            ("", false),
        ] {
            let headers = [(WWW_AUTHENTICATE, header.parse().unwrap())];
            assert_eq!(refuses_token(&headers.into_iter().collect()), expected, "{header}");
        }
        assert!(!refuses_token(&HeaderMap::new()));
    }

    #[test]
    fn only_what_a_token_helps_against_is_answered() {
        let wider = r#"Bearer error="insufficient_scope", scope="a""#;
        assert!(matches!(need(401, wider), Some(Need::Token(_))));
        assert!(matches!(need(403, wider), Some(Need::Scopes(_))));
        assert_eq!(need(403, r#"Bearer error="invalid_token""#), None);
        assert_eq!(need(403, ""), None);
        assert_eq!(need(500, wider), None);
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_read_to_its_end(header in ".{0,200}") {
            read(&header);
        }
    }
}
