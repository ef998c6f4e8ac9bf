//! URI templates (RFC 6570) of resources, and checks of resource URIs.

use regex::Regex;

/// Checks that the URI of a resource is valid; the error explains the problem.
pub(crate) fn check_resource_uri(uri: &str) -> Result<(), &'static str> {
    if uri.contains(['{', '}']) {
        return Err("it has braces: register it as a resource template");
    }
    check_uri_scheme(uri)
}

fn check_uri_scheme(uri: &str) -> Result<(), &'static str> {
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

/// A template of an embedder's resources. No server decides about its addresses, so matching is strict. Each expression
/// matches only what RFC 6570 allows, and a value can never lead to another folder.
pub(crate) struct UriTemplate {
    /// Its capture groups must not contain `.` or `..` as path segments.
    uri_pattern: Regex,
    names: Vec<Box<str>>,
}

impl UriTemplate {
    pub(crate) fn parse(template: &str) -> Result<Self, &'static str> {
        const BRACES: &str =
            "each of its braces is to hold a name and be closed, as in `users://{id}`";
        check_uri_scheme(template)?;
        let (mut addresses, mut names, mut rest) = (String::from("^(?s:"), Vec::new(), template);
        while let Some((before, opened)) = rest.split_once('{') {
            let (expression, after) = opened.split_once('}').ok_or(BRACES)?;
            let listed = expression.strip_prefix(OPERATORS).unwrap_or(expression);
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '%');
            let read = listed.split(',').map(|name| name.trim_end_matches('*'));
            let read: Vec<&str> = read.collect();
            if before.contains('}')
                || read.iter().any(|it| it.is_empty() || !it.chars().all(is_name))
            {
                return Err(BRACES);
            }
            if after.strip_prefix('{').is_some_and(|next| !next.starts_with(OPERATORS)) {
                return Err("two of its names have nothing between them");
            }
            addresses += &regex::escape(before);
            addresses += &expression_pattern(expression, read.len());
            names.extend(read.into_iter().map(Box::from));
            rest = after;
        }
        match (rest.contains('}'), names.is_empty()) {
            (true, _) => return Err(BRACES),
            (_, true) => {
                return Err("it has no name in braces, such as `{id}`: register it as a resource");
            }
            (false, false) => addresses += &regex::escape(rest),
        }
        let addresses = Regex::new(&(addresses + ")$")).map_err(|_| "it is too long")?;
        Ok(Self { uri_pattern: addresses, names })
    }

    /// Whether a URI matches the template.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        let ways = |part: &str| {
            decode_path_characters(part).split(['/', '\\']).any(|step| matches!(step, "." | ".."))
        };
        self.uri_pattern
            .captures(uri)
            .is_some_and(|found| !found.iter().skip(1).flatten().any(|part| ways(part.as_str())))
    }

    /// The variable names of the template.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }
}

/// The regular expression for a template expression with this number of names.
fn expression_pattern(expression: &str, names: usize) -> String {
    match expression.chars().next() {
        Some('+') => ".+".to_owned(),
        Some('#') => "(?:#.*)?".to_owned(),
        Some('?') => r"(?:\?[^#]*)?".to_owned(),
        Some('&') => "(?:&[^#]*)?".to_owned(),
        Some(';') => "(?:;[^/?#]*)?".to_owned(),
        Some('.') => r"(\.[^/?#]+)?".to_owned(),
        Some('/') if expression.contains('*') => "((?:/[^/?#]+)*)".to_owned(),
        Some('/') => format!("((?:/[^/?#]+){{0,{names}}})"),
        _ => "([^/?#]+)".to_owned(),
    }
}

/// Operators that an expression may begin with.
const OPERATORS: [char; 7] = ['+', '#', '?', '&', ';', '.', '/'];

/// Decodes percent-encoded dots and slashes, which path checks must see.
fn decode_path_characters(part: &str) -> String {
    let part = part.replace("%2e", ".").replace("%2E", ".");
    let part = part.replace("%2f", "/").replace("%2F", "/");
    part.replace("%5c", "/").replace("%5C", "/")
}

/// Whether a URI roughly matches a template (RFC 6570), for MCP servers, which decide themselves. An expression matches
/// any non-empty text; one for a query or a fragment also matches nothing.
pub fn may_match_template(uri: &str, template: &str) -> bool {
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
        // The first occurrence leaves the most text for the remaining template, so no backtracking is needed.
        let Some((between, next)) = after.split_once('{') else { return uri.ends_with(after) };
        let Some((_, left)) = uri.split_once(between) else { return false };
        (uri, rest) = (left, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(uri: &str, template: &str) -> bool {
        UriTemplate::parse(template).unwrap().matches(uri)
    }

    #[test]
    fn an_expression_matches_only_what_it_may() {
        for (uri, template) in [
            ("users://ada", "users://{id}"),
            ("users://ada", "users://{_id}"),
            ("users://a%2Fb", "users://{id}"),
            ("db://t/7/c", "db://{t}/7/{c}"),
            ("doc:x.md", "doc:{name}.md"),
            ("doc:x.md.md", "doc:{name}.md"),
            ("users://ada?q=1", "users://{id}{?q}"),
            ("users://ada", "users://{id}{?q}"),
            ("file:///a/../b", "file:///{+path}"),
            ("x://a/b/c", "x://a{/b,c}"),
            ("x://a/b/c/d", "x://a{/b*}"),
            ("x://a", "x://a{/b}"),
            ("x://a.md#top", "x://a{.kind}{#place}"),
            ("x://a;b=1", "x://a{;b}"),
            ("x://a?b=1&c=2", "x://a?b=1{&c}"),
        ] {
            assert!(fits(uri, template), "{uri} {template}");
        }
        for (uri, template) in [
            ("users://", "users://{id}"),
            ("users://a/b", "users://{id}"),
            ("users://..", "users://{id}"),
            ("users://%2e%2E", "users://{id}"),
            ("users://..%2F..%2fetc", "users://{id}"),
            ("users://a%5C..", "users://{id}"),
            (r"users://..\x", "users://{id}"),
            ("x://d/..", "x://d/{.n}"),
            ("users://a?b", "users://{id}"),
            ("users://a/../b", "users://{_id}"),
            ("users://a/../../etc", "users://{id}{?q}"),
            ("users://about", "users://a{?q}"),
            ("db://t/7/c/d", "db://{t}/7/{c}"),
            ("x://a/b/c/d", "x://a{/b,c}"),
            ("x://a/b/../c", "x://a{/b*}"),
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
            "a+b.c-1:{d}/{e*}",
        ] {
            assert!(UriTemplate::parse(template).is_ok(), "{template}");
        }
        for template in [
            "", "users", "{a}://b", "://{a}", "1a:{b}", "a:", "a:b", "a:{b", "a:b}", "a:{}",
            "a:{b}}", "a:{b}{c}", "a:{b,}", "a:{b c}", "a:{?+b}", "a:{{b}}",
        ] {
            assert!(UriTemplate::parse(template).is_err(), "{template}");
        }
        let long = format!("a:{}", "{b}/".repeat(1_000_000));
        assert!(UriTemplate::parse(&long).is_err());
        assert!(check_resource_uri("docs://a b").is_err());
        assert!(check_resource_uri("docs://{a}").is_err());
        assert_eq!(check_resource_uri("docs://hello"), Ok(()));
    }

    #[test]
    fn a_uri_roughly_matches_a_template_or_not() {
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
            assert!(may_match_template(uri, template), "{uri} {template}");
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
            assert!(!may_match_template(uri, template), "{uri} {template}");
        }
    }

    #[test]
    fn a_template_that_does_not_match_fails_without_backtracking() {
        let template = format!("db://{}!", "{a}/".repeat(100));
        assert!(!may_match_template(&format!("db://{}", "/".repeat(2_000)), &template));
        assert!(may_match_template(&format!("db://{}!", "/".repeat(2_000)), &template));
    }
}
