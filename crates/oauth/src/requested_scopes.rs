//! The scopes to request (SEP-835, SEP-2207, SEP-2350).

/// The maximum number of scopes of one token.
pub(super) const MAX_SCOPES: usize = 64;
const MAX_SCOPE_BYTES: usize = 256;

/// The scope for refresh tokens, which renew a token without the user (OpenID Connect Core, section 11).
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// Parses a list of scopes (RFC 6749, section 3.3). Invalid scopes are skipped.
pub(super) fn parse_scopes(text: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    add_scopes(&mut scopes, text.split(' '));
    scopes
}

/// Adds new scopes in order. It stops at one more than the maximum, so that the excess can be detected.
pub(super) fn add_scopes<'a>(scopes: &mut Vec<String>, more: impl IntoIterator<Item = &'a str>) {
    for scope in more {
        if MAX_SCOPES < scopes.len() {
            return;
        }
        if is_valid_scope(scope) && !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
}

fn is_valid_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
    !text.is_empty() && text.len() <= MAX_SCOPE_BYTES && text.bytes().all(allowed)
}

/// The known scopes from which a request is composed.
#[derive(Clone, Copy, Default)]
pub(super) struct KnownScopes<'a> {
    /// Scopes requested before at the same issuer.
    pub(super) before: &'a [String],
    /// Scopes that the server requires now.
    pub(super) challenged: &'a [String],
    /// Scopes listed in the metadata of the resource.
    pub(super) of_resource: &'a [String],
    /// Scopes listed in the metadata of the authorization server.
    pub(super) of_server: &'a [String],
    /// Whether refresh tokens are useful.
    pub(super) renews: bool,
}

/// Selects the scopes that the server requires; otherwise all in its metadata; otherwise none, so that the
/// authorization server decides. Scopes requested before are requested again, because the user would lose them
/// otherwise.
pub(super) fn select_scopes(known: KnownScopes<'_>) -> Vec<String> {
    let mut scopes = Vec::new();
    add_scopes(&mut scopes, known.before.iter().map(String::as_str));
    let wanted = match known.challenged {
        [] if known.before.is_empty() => known.of_resource,
        challenged => challenged,
    };
    add_scopes(&mut scopes, wanted.iter().map(String::as_str));
    // Requesting only this scope would narrow the default scopes of the authorization server.
    let offers = known.of_server.iter().any(|scope| scope == OFFLINE_ACCESS);
    if known.renews && offers && !scopes.is_empty() {
        add_scopes(&mut scopes, [OFFLINE_ACCESS]);
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        parse_scopes(text)
    }

    fn selected(before: &str, challenged: &str, of_resource: &str, of_server: &str) -> String {
        let lists = [before, challenged, of_resource, of_server].map(words);
        let [before, challenged, of_resource, of_server] = &lists;
        select_scopes(KnownScopes { before, challenged, of_resource, of_server, renews: true })
            .join(" ")
    }

    #[test]
    fn required_scopes_take_precedence_over_those_in_the_metadata() {
        assert_eq!(selected("", "a b", "c", "d"), "a b");
        assert_eq!(selected("", "", "c d", "e"), "c d");
        assert_eq!(selected("", "", "", "e"), "");
    }

    #[test]
    fn scopes_requested_before_are_requested_again() {
        assert_eq!(selected("a b", "b c", "d", ""), "a b c");
        assert_eq!(selected("a", "", "d", ""), "a");
    }

    #[test]
    fn offline_access_is_requested_where_it_is_offered() {
        assert_eq!(selected("", "a", "", "a offline_access"), "a offline_access");
        assert_eq!(selected("", "", "", "offline_access"), "");
        let of_server = words(OFFLINE_ACCESS);
        let challenged = words("a");
        let known = KnownScopes {
            challenged: &challenged,
            of_server: &of_server,
            ..KnownScopes::default()
        };
        assert_eq!(select_scopes(known), ["a"]);
    }

    #[test]
    fn invalid_scopes_are_skipped_and_an_excess_is_detected() {
        let long = "x".repeat(MAX_SCOPE_BYTES + 1);
        assert_eq!(words(&format!("a  \"b\" c\\ ü {long} a d")), ["a", "d"]);
        let many: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(words(&many.join(" ")).len(), MAX_SCOPES + 1);
    }
}
