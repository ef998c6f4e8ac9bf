//! The challenge in the `WWW-Authenticate` header of a rejected request (RFC 9110, section 11.6.1; RFC 6750).

use upstream::http::header::{HeaderMap, WWW_AUTHENTICATE};

use super::requested_scopes;

/// Longer headers are ignored.
const MAX_CHALLENGE_BYTES: usize = 16 * 1024;

/// A `Bearer` challenge. All of it is untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BearerChallenge {
    /// The URL of the resource metadata (RFC 9728, section 5.1).
    pub(super) metadata_url: Option<String>,
    pub(super) scopes: Vec<String>,
    error: Option<String>,
}

/// The reaction to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenNeed {
    /// Obtain a token, or another one.
    Token(BearerChallenge),
    /// Obtain a token with more scopes.
    Scopes(BearerChallenge),
    /// Renew the token before it expires.
    Renewal,
}

/// Whether a 401 is due to the token alone: then the request was not executed (RFC 6750, section 3.1).
pub fn rejects_token(headers: &HeaderMap) -> bool {
    let said = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let refuses = |it: BearerChallenge| it.error.is_none_or(|error| error == "invalid_token");
    said.filter_map(parse_challenge).any(refuses)
}

/// The token that a rejection requires; `None` if a token would not help.
pub(super) fn token_need(status: u16, header: &str) -> Option<TokenNeed> {
    let challenge = parse_challenge(header).unwrap_or_default();
    match status {
        401 => Some(TokenNeed::Token(challenge)),
        403 if challenge.error.as_deref() == Some("insufficient_scope") => {
            Some(TokenNeed::Scopes(challenge))
        }
        _ => None,
    }
}

/// Parses the first challenge with the scheme `Bearer`; other schemes are skipped.
fn parse_challenge(header: &str) -> Option<BearerChallenge> {
    let mut challenge = BearerChallenge::default();
    let mut rest = if header.len() <= MAX_CHALLENGE_BYTES { header } else { "" };
    let (mut is_bearer, mut was_bearer) = (false, false);
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token_char(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            // Skipping the invalid character guarantees progress.
            let mut characters = after.chars();
            if characters.next().is_none() {
                return was_bearer.then_some(challenge);
            }
            rest = characters.as_str();
            continue;
        }
        match after.trim_start().strip_prefix('=') {
            Some(value) => {
                let (value, after) = parse_value(value.trim_start());
                if is_bearer {
                    challenge.set_parameter(word, value);
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

impl BearerChallenge {
    /// Sets a parameter. If it is repeated, the first value counts.
    fn set_parameter(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" if self.metadata_url.is_none() => self.metadata_url = Some(value),
            "error" if self.error.is_none() => self.error = Some(value),
            "scope" if self.scopes.is_empty() => {
                self.scopes = requested_scopes::parse_scopes(&value)
            }
            _ => {}
        }
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Parses a value, quoted or not, and returns the rest after it.
fn parse_value(value: &str) -> (String, &str) {
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

    fn challenge(metadata: &str, scopes: &[&str], error: &str) -> BearerChallenge {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        BearerChallenge { metadata_url: text(metadata), scopes, error: text(error) }
    }

    #[test]
    fn the_bearer_challenge_is_found_among_other_schemes() {
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
            assert_eq!(parse_challenge(header).unwrap_or_default(), expected, "{header}");
        }
    }

    #[test]
    fn a_401_blames_the_token_only_where_it_says_so() {
        for (header, expected) in [
            ("Bearer", true),
            (r#"Bearer realm="pets""#, true),
            (r#"Basic realm="pets", Bearer error="invalid_token""#, true),
            (r#"Bearer error="insufficient_scope""#, false),
            (r#"Basic realm="Bearer""#, false),
            ("", false),
        ] {
            let headers = [(WWW_AUTHENTICATE, header.parse().unwrap())];
            assert_eq!(rejects_token(&headers.into_iter().collect()), expected, "{header}");
        }
        assert!(!rejects_token(&HeaderMap::new()));
    }

    #[test]
    fn only_rejections_that_a_token_can_resolve_need_one() {
        let wider = r#"Bearer error="insufficient_scope", scope="a""#;
        assert!(matches!(token_need(401, wider), Some(TokenNeed::Token(_))));
        assert!(matches!(token_need(403, wider), Some(TokenNeed::Scopes(_))));
        assert_eq!(token_need(403, r#"Bearer error="invalid_token""#), None);
        assert_eq!(token_need(403, ""), None);
        assert_eq!(token_need(500, wider), None);
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_parsed_to_its_end(header in ".{0,200}") {
            parse_challenge(&header);
        }
    }
}
