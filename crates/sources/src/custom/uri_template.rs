//! URI templates (RFC 6570, level 1): `{name}` stands for text in which every character except letters, digits and
//! `-._~` is percent-encoded. A URI therefore matches in one way only, and no value can contain a URI delimiter.

use percent_encoding::percent_decode_str;
use url::Url;

/// One part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UriTemplatePart<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// The variable names of a template, or why the template is invalid.
pub(super) fn parse_uri_variables(template: &str) -> Result<Vec<&str>, &'static str> {
    let stretches = parse_template_parts(template)?;
    let mut names: Vec<&str> = Vec::new();
    let mut before = None;
    for stretch in &stretches {
        if let UriTemplatePart::Variable(name) = stretch {
            if matches!(before, Some(UriTemplatePart::Variable(_))) {
                return Err("has two variables with nothing between them");
            }
            if names.contains(name) {
                return Err("has a variable twice");
            }
            names.push(name);
        }
        before = Some(*stretch);
    }
    let written: String = stretches
        .iter()
        .map(|stretch| match stretch {
            UriTemplatePart::Text(text) => text,
            UriTemplatePart::Variable(_) => "x",
        })
        .collect();
    let begins =
        matches!(stretches.first(), Some(UriTemplatePart::Text(text)) if text.contains(':'));
    match (names.is_empty(), begins && Url::parse(&written).is_ok()) {
        (true, _) => Err("has no variable, such as `{name}`: make it one of `resources`"),
        (_, false) => Err("is to begin with a scheme, such as `docs://{name}`"),
        (false, true) => Ok(names),
    }
}

/// The values of a template's variables in a URI, if the URI matches the template.
pub fn match_uri_template<'t>(uri: &str, template: &'t str) -> Option<Vec<(&'t str, String)>> {
    let stretches = parse_template_parts(template).ok()?;
    let (mut rest, mut values) = (uri, Vec::new());
    for (at, stretch) in stretches.iter().enumerate() {
        match stretch {
            UriTemplatePart::Text(text) => rest = rest.strip_prefix(text)?,
            UriTemplatePart::Variable(name) => {
                let end = match stretches.get(at + 1..).unwrap_or_default() {
                    [] => rest.len(),
                    [UriTemplatePart::Text(last)] => rest.len().checked_sub(last.len())?,
                    [UriTemplatePart::Text(next), ..] => rest.find(next)?,
                    [UriTemplatePart::Variable(_), ..] => return None,
                };
                let (value, after) = rest.split_at_checked(end)?;
                values.push((*name, decode_value(value)?));
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(values)
}

fn parse_template_parts(template: &str) -> Result<Vec<UriTemplatePart<'_>>, &'static str> {
    const RULE: &str =
        "has braces that hold no name: only `{name}` is known, with letters, digits, `_` and `.`";
    let (mut stretches, mut rest) = (Vec::new(), template);
    while let Some((text, inside)) = rest.split_once('{') {
        let (name, after) = inside.split_once('}').ok_or(RULE)?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        if text.contains('}') || name.is_empty() || !name.bytes().all(allowed) {
            return Err(RULE);
        }
        stretches.extend([UriTemplatePart::Text(text), UriTemplatePart::Variable(name)]);
        rest = after;
    }
    if rest.contains('}') || template.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(RULE);
    }
    stretches.push(UriTemplatePart::Text(rest));
    stretches.retain(|stretch| *stretch != UriTemplatePart::Text(""));
    Ok(stretches)
}

fn decode_value(value: &str) -> Option<String> {
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%');
    if value.is_empty() || !value.bytes().all(allowed) {
        return None;
    }
    Some(percent_decode_str(value).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(uri: &str, template: &str) -> Option<String> {
        let values = match_uri_template(uri, template)?;
        Some(values.into_iter().map(|(name, value)| format!("{name}={value};")).collect())
    }

    #[test]
    fn values_are_read_at_the_position_of_their_variables() {
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(value("docs://a%20b.md", "docs://{name}.md"), is("name=a b;"));
        assert_eq!(value("docs://a.md.md", "docs://{name}.md"), is("name=a.md;"));
        assert_eq!(value("db://t/7/x", "db://{table}/{row}/x"), is("table=t;row=7;"));
        assert_eq!(value("docs://..%2Fetc", "docs://{name}"), is("name=../etc;"));
        for (uri, template) in [
            ("docs://", "docs://{name}"),
            ("docs://a/b", "docs://{name}"),
            ("docs://a?b", "docs://{name}"),
            ("docs://é", "docs://{name}"),
            ("docs://%ff", "docs://{name}"),
            ("docs://a.txt", "docs://{name}.md"),
            ("docs://.md", "docs://{name}.md"),
            ("other://a", "docs://{name}"),
            ("db://t/x", "db://{table}/{row}/x"),
        ] {
            assert_eq!(value(uri, template), None, "{uri}");
        }
    }

    #[test]
    fn only_level_1_templates_are_accepted() {
        assert_eq!(parse_uri_variables("docs://{a}/{b.c}"), Ok(vec!["a", "b.c"]));
        for template in [
            "docs://{+a}",
            "docs://{?a}",
            "docs://{a,b}",
            "docs://{a}{b}",
            "docs://{a}/{a}",
            "docs://{}",
            "docs://{a",
            "docs://a}",
            "docs://a",
            "{a}://b",
            "{a}",
            "docs://{a} b",
        ] {
            assert!(parse_uri_variables(template).is_err(), "{template}");
        }
    }
}
