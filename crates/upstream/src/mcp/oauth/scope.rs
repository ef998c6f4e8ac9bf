//! Which scopes are asked for (SEP-835, SEP-2207, SEP-2350).

/// How many scopes one token is asked for.
pub(super) const MAX_SCOPES: usize = 64;
const MAX_SCOPE: usize = 256;

/// Says that tokens are to be renewed without the user (OpenID Connect Core, section 11).
pub(super) const OFFLINE: &str = "offline_access";

/// A list of scopes as it is written (RFC 6749, section 3.3). What cannot be a scope is passed over.
pub(super) fn read(text: &str) -> Vec<String> {
    let mut scopes = Vec::new();
    add(&mut scopes, text.split(' '));
    scopes
}

/// Adds what is new, in its order. It stops one after the most that may be, so that it shows.
pub(super) fn add<'a>(scopes: &mut Vec<String>, more: impl IntoIterator<Item = &'a str>) {
    for scope in more {
        if MAX_SCOPES < scopes.len() {
            return;
        }
        if is_scope(scope) && !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
}

fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
    !text.is_empty() && text.len() <= MAX_SCOPE && text.bytes().all(allowed)
}

/// What is known when a token is to be asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Known<'a> {
    /// What was asked for so far, at the same issuer.
    pub(super) before: &'a [String],
    /// What the server says it wants now.
    pub(super) challenged: &'a [String],
    /// What the resource's metadata lists.
    pub(super) of_resource: &'a [String],
    /// What the authorization server's metadata lists.
    pub(super) of_server: &'a [String],
    /// Whether tokens that renew others are of use.
    pub(super) renews: bool,
}

/// What the server says it wants; otherwise all that its metadata lists; otherwise none, which leaves it to the
/// authorization server. What was asked for before is asked for again, or the user would lose it.
pub(super) fn select(known: Known<'_>) -> Vec<String> {
    let mut scopes = Vec::new();
    add(&mut scopes, known.before.iter().map(String::as_str));
    let wanted = match known.challenged {
        [] if known.before.is_empty() => known.of_resource,
        challenged => challenged,
    };
    add(&mut scopes, wanted.iter().map(String::as_str));
    // Alone it would narrow what the authorization server gives by itself.
    let offers = known.of_server.iter().any(|scope| scope == OFFLINE);
    if known.renews && offers && !scopes.is_empty() {
        add(&mut scopes, [OFFLINE]);
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        read(text)
    }

    fn selected(before: &str, challenged: &str, of_resource: &str, of_server: &str) -> String {
        let lists = [before, challenged, of_resource, of_server].map(words);
        let [before, challenged, of_resource, of_server] = &lists;
        select(Known { before, challenged, of_resource, of_server, renews: true }).join(" ")
    }

    #[test]
    fn what_the_server_wants_comes_before_what_its_metadata_lists() {
        assert_eq!(selected("", "a b", "c", "d"), "a b");
        assert_eq!(selected("", "", "c d", "e"), "c d");
        assert_eq!(selected("", "", "", "e"), "");
    }

    #[test]
    fn what_was_asked_for_before_stays() {
        assert_eq!(selected("a b", "b c", "d", ""), "a b c");
        assert_eq!(selected("a", "", "d", ""), "a");
    }

    #[test]
    fn renewal_is_asked_for_where_it_is_offered() {
        assert_eq!(selected("", "a", "", "a offline_access"), "a offline_access");
        assert_eq!(selected("", "", "", "offline_access"), "");
        let of_server = words(OFFLINE);
        let challenged = words("a");
        let known = Known { challenged: &challenged, of_server: &of_server, ..Known::default() };
        assert_eq!(select(known), ["a"]);
    }

    #[test]
    fn what_is_no_scope_is_passed_over_and_too_many_show() {
        let long = "x".repeat(MAX_SCOPE + 1);
        assert_eq!(words(&format!("a  \"b\" c\\ ü {long} a d")), ["a", "d"]);
        let many: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(words(&many.join(" ")).len(), MAX_SCOPES + 1);
    }
}
