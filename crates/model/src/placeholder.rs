//! Fills `{{name}}` placeholders of a text with values. Filled-in values are not parsed again.

/// Longest result of one filling in bytes, over all texts: a value may occur many times.
pub const LONGEST: usize = 4 << 20;

/// The error for a result over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with these arguments it has {length} bytes, over {LONGEST}")]
pub struct FilledTextTooLong {
    /// Length of the result, in bytes.
    pub length: usize,
}

/// A part of a template text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    /// Literal text.
    Text(&'a str),
    /// A placeholder, by its name.
    Name(&'a str),
}

/// Splits a text at its placeholders. Braces around anything but a name are literal text.
pub fn split_template(text: &str, is_name: impl Fn(&str) -> bool) -> Vec<TemplatePart<'_>> {
    let (mut parts, mut rest, mut from) = (Vec::new(), text, 0);
    while let Some(at) = rest.get(from..).and_then(|rest| rest.find("{{")).map(|at| from + at) {
        let (before, marked) = rest.split_at(at);
        let inside = marked.get(2..).unwrap_or_default();
        // A name has no braces, so the scan is linear.
        let name = inside.find(['{', '}']).and_then(|end| inside.split_at_checked(end));
        let name = name.and_then(|(name, end)| Some((name, end.strip_prefix("}}")?)));
        match name.filter(|(name, _)| is_name(name)) {
            Some((name, after)) => {
                parts.extend([TemplatePart::Text(before), TemplatePart::Name(name)]);
                (rest, from) = (after, 0);
            }
            // In `{{{`, the last two braces may open a placeholder.
            None => from = at + 1,
        }
    }
    parts.push(TemplatePart::Text(rest));
    parts.retain(|part| *part != TemplatePart::Text(""));
    parts
}

/// Fills all texts, unless the result exceeds the limit.
pub fn fill_all<'t, 'v>(
    texts: impl Iterator<Item = &'t str> + Clone,
    is_name: impl Fn(&str) -> bool,
    value: impl Fn(&str) -> &'v str,
) -> Result<Vec<String>, FilledTextTooLong> {
    let length = texts.clone().map(|text| filled_length(text, &is_name, &value)).sum();
    if LONGEST < length {
        return Err(FilledTextTooLong { length });
    }
    Ok(texts.map(|text| fill_text(text, &is_name, &value)).collect())
}

/// Fills one text.
fn fill_text<'v>(
    text: &str,
    is_name: impl Fn(&str) -> bool,
    value: impl Fn(&str) -> &'v str,
) -> String {
    let parts = split_template(text, is_name).into_iter();
    parts
        .map(
            |part| {
                if let TemplatePart::Name(name) = part { value(name) } else { literal_text(part) }
            },
        )
        .collect()
}

/// Length of the filled text, in bytes.
fn filled_length<'v>(
    text: &str,
    is_name: impl Fn(&str) -> bool,
    value: impl Fn(&str) -> &'v str,
) -> usize {
    let parts = split_template(text, is_name).into_iter();
    let lengths = parts.map(|part| {
        if let TemplatePart::Name(name) = part { value(name) } else { literal_text(part) }
    });
    lengths.map(str::len).sum()
}

fn literal_text(part: TemplatePart<'_>) -> &str {
    match part {
        TemplatePart::Text(text) | TemplatePart::Name(text) => text,
    }
}

/// Whether a name is valid without a list of known names: letters, digits, `_`, `-` and `.`, at most 128 bytes.
pub fn is_plain_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= 128 && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn only_names_in_double_braces_are_placeholders() {
        let text = "a {{b}} {{ b }} {b} {{{b}}} {% b %} {{no}} {{b";
        let parts = split_template(text, |name| name == "b");
        let expected = [
            TemplatePart::Text("a "),
            TemplatePart::Name("b"),
            TemplatePart::Text(" {{ b }} {b} {"),
            TemplatePart::Name("b"),
            TemplatePart::Text("} {% b %} {{no}} {{b"),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn filled_values_are_not_parsed_again() {
        let filled =
            fill_text("{{a}}{{b}}", |_| true, |name| if name == "a" { "{{b}}" } else { "x" });
        assert_eq!(filled, "{{b}}x");
    }

    proptest! {
        #[test]
        fn splitting_loses_no_text(text in "[{}ab ]{0,40}", any in any::<String>()) {
            for text in [text, any] {
                let whole: String = split_template(&text, is_plain_name).into_iter().map(|part| match part {
                    TemplatePart::Text(text) => text.to_owned(),
                    TemplatePart::Name(name) => format!("{{{{{name}}}}}"),
                }).collect();
                prop_assert_eq!(whole, text);
            }
        }
    }
}
