//! Templates of addresses (RFC 6570), as resources have them.

/// What is wrong with the address of a resource.
pub(crate) fn check_address(uri: &str) -> Result<(), &'static str> {
    let (scheme, rest) = uri.split_once(':').unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    match is_scheme && scheme.chars().all(allowed) && !rest.is_empty() {
        false => Err("begin its address with a scheme, such as `docs://hello`"),
        true if uri.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            Err("an address has no spaces or control characters: percent-encode them")
        }
        true => Ok(()),
    }
}

/// What is wrong with a template of addresses.
pub(crate) fn check(template: &str) -> Result<(), &'static str> {
    check_address(template)?;
    let mut stretches = template.split('{');
    if stretches.next().is_some_and(|before| before.contains('}')) {
        return Err("one of its braces is closed and never opened");
    }
    let mut expressions = stretches.peekable();
    if expressions.peek().is_none() {
        return Err("it has no name in braces, such as `{id}`: register it as a resource");
    }
    let is_whole = |stretch: &str| {
        stretch.split_once('}').is_some_and(|(name, after)| {
            name.contains(|c: char| c.is_alphanumeric()) && !after.contains('}')
        })
    };
    match expressions.all(is_whole) {
        // Nobody could say where one ends and the next begins.
        true if template.contains("}{") && !has_operators(template) => {
            Err("two of its names have nothing between them")
        }
        true => Ok(()),
        false => Err("each of its braces is to hold a name and be closed, as in `users://{id}`"),
    }
}

/// Whether a template has more than names in its braces.
pub(crate) fn has_operators(template: &str) -> bool {
    template.split('{').skip(1).any(|name| !name.starts_with(|c: char| c.is_alphanumeric()))
}

/// Whether an address is like a template (RFC 6570), roughly: an expression stands for any text that is not empty, one
/// for a query or a fragment also for none. The server has the last word.
pub(crate) fn is_like(uri: &str, template: &str) -> bool {
    let Some((before, mut rest)) = template.split_once('{') else { return uri == template };
    let Some(mut uri) = uri.strip_prefix(before) else { return false };
    loop {
        let Some((expression, after)) = rest.split_once('}') else { return false };
        if !expression.starts_with(['?', '&', '#', '/', ';', '.']) {
            let mut characters = uri.chars();
            if characters.next().is_none() {
                return false;
            }
            uri = characters.as_str();
        }
        // Where a text stands first is where it leaves the most for what follows: there is nothing to try again.
        let Some((between, next)) = after.split_once('{') else { return uri.ends_with(after) };
        let Some((_, left)) = uri.split_once(between) else { return false };
        (uri, rest) = (left, next);
    }
}

/// Whether an address is one of a template that has nothing but names: each stands for one part, which is not empty and no
/// way to another.
pub(crate) fn fits(uri: &str, template: &str) -> bool {
    let is_part =
        |value: &str| !matches!(value, "" | "." | "..") && !value.contains(['/', '?', '#']);
    let Some((before, mut rest)) = template.split_once('{') else { return uri == template };
    let Some(mut uri) = uri.strip_prefix(before) else { return false };
    while let Some((_, after)) = rest.split_once('}') {
        let Some((between, next)) = after.split_once('{') else {
            return uri.strip_suffix(after).is_some_and(is_part);
        };
        let Some((value, left)) = uri.split_once(between).filter(|_| !between.is_empty()) else {
            return false;
        };
        if !is_part(value) {
            return false;
        }
        (uri, rest) = (left, next);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_part() {
        for (uri, template) in [
            ("users://ada", "users://{id}"),
            ("db://t/7/c", "db://{t}/7/{c}"),
            ("a:b", "a:b"),
            ("doc:x.md", "doc:{name}.md"),
        ] {
            assert!(fits(uri, template), "{uri} {template}");
        }
        for (uri, template) in [
            ("users://", "users://{id}"),
            ("users://a/b", "users://{id}"),
            ("users://..", "users://{id}"),
            ("users://a?b", "users://{id}"),
            ("db://t/7/c/d", "db://{t}/7/{c}"),
            ("a:bc", "a:{b}{c}"),
            ("a:b", "a:{b"),
            ("b:b", "a:{b}"),
        ] {
            assert!(!fits(uri, template), "{uri} {template}");
        }
    }

    #[test]
    fn a_template_begins_with_a_scheme_and_has_names_in_braces() {
        for template in [
            "users://{id}",
            "a:{b}",
            "file:///{+path}",
            "x://a{?q,r}",
            "x://{a}{?q}",
            "a+b.c-1:{d}/{e}",
        ] {
            assert_eq!(check(template), Ok(()), "{template}");
        }
        for template in [
            "", "users", "{a}://b", "://{a}", "1a:{b}", "a:", "a:b", "a:{b", "a:b}", "a:{}",
            "a:{b}}", "a:{b}{c}",
        ] {
            assert!(check(template).is_err(), "{template}");
        }
        assert!(check_address("docs://a b").is_err());
        assert_eq!(check_address("docs://hello"), Ok(()));
    }

    #[test]
    fn an_address_is_like_a_template_or_not() {
        for (uri, template) in [
            ("file:///a/b", "file:///{+path}"),
            ("test://template/123/data", "test://template/{id}/data"),
            ("a:b", "a:b"),
            ("x://a", "x://a{?q}"),
            ("x://a?q=1", "x://a{?q}"),
            ("db://t/7/c/9", "db://{t}/7/{c}/{n}"),
            ("a:xx-x-", "a:{a}x-{b}-"),
            ("a:éé", "a:{a}{b}"),
        ] {
            assert!(is_like(uri, template), "{uri} {template}");
        }
        for (uri, template) in [
            ("file:///", "file:///{+path}"),
            ("test://template/123/date", "test://template/{id}/data"),
            ("b:b", "a:b"),
            ("x", "{x"),
            ("", "{x}"),
            ("a:é", "a:{a}{b}"),
            ("a:x-", "a:{a}x-{b}"),
        ] {
            assert!(!is_like(uri, template), "{uri} {template}");
        }
    }

    #[test]
    fn a_template_that_fits_nowhere_is_soon_known_not_to() {
        let template = format!("db://{}!", "{a}/".repeat(100));
        assert!(!is_like(&format!("db://{}", "/".repeat(2_000)), &template));
        assert!(is_like(&format!("db://{}!", "/".repeat(2_000)), &template));
    }
}
