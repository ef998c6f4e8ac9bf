//! Splits a template into literals and expressions, and restricts the syntax of expressions.
//!
//! Only Jinja expressions are allowed, not statements, and only operators that compare and choose. Without loops,
//! assignments and operators that build text, every expression is evaluated once and its value is not larger than the
//! arguments. No template can therefore run for long or exhaust the memory.

use super::TemplateError;

/// A part of a template.
#[derive(Debug, PartialEq)]
pub(super) enum TemplateSpan<'a> {
    Literal(&'a str),
    Expression(&'a str),
}

pub(super) fn split_spans(template: &str) -> Result<Vec<TemplateSpan<'_>>, TemplateError> {
    let mut spans = Vec::new();
    let mut rest = template;
    while let Some((literal, marked)) = split_at_expression(rest)? {
        let (expression, behind) = read_expression(marked)?;
        spans.push(TemplateSpan::Literal(literal));
        spans.push(TemplateSpan::Expression(expression));
        rest = behind;
    }
    spans.push(TemplateSpan::Literal(rest));
    spans.retain(|span| *span != TemplateSpan::Literal(""));
    Ok(spans)
}

/// The text before the next `{{` and the text after it.
fn split_at_expression(text: &str) -> Result<Option<(&str, &str)>, TemplateError> {
    let literal = text.split_once("{{").map_or(text, |(literal, _)| literal);
    match ["{%", "{#"].into_iter().find(|mark| literal.contains(mark)) {
        Some(mark) => Err(TemplateError::NotAllowed { found: mark.to_owned() }),
        None => Ok(text.split_once("{{")),
    }
}

/// The expression up to its `}}`, and the rest. A `}}` inside a string or of nested maps does not end it.
fn read_expression(text: &str) -> Result<(&str, &str), TemplateError> {
    let mut open = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' | '\'' => skip_string(character, &mut characters),
            '(' | '[' | '{' => open.push(character),
            '}' if open.is_empty() => {
                let (expression, behind) = text.split_at(at);
                let behind = behind.strip_prefix("}}").ok_or(TemplateError::NotClosed)?;
                return Ok((expression.trim(), behind));
            }
            ')' | ']' | '}' => drop(open.pop()),
            ':' if open.last() == Some(&'[') => {
                return Err(TemplateError::NotAllowed { found: "[:]".to_owned() });
            }
            _ if is_allowed_char(character) => {}
            _ => return Err(TemplateError::NotAllowed { found: character.to_string() }),
        }
    }
    Err(TemplateError::NotClosed)
}

fn skip_string(quote: char, characters: &mut std::str::CharIndices<'_>) {
    while let Some((_, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            _ if character == quote => return,
            _ => {}
        }
    }
}

/// Whether a character is allowed outside of strings: names, numbers, fields, lists, maps, calls and comparisons. Not
/// `* + ~ | / %`.
fn is_allowed_char(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || character.is_ascii_whitespace()
        || "_.,:=!<>-".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(template: &str) -> String {
        split_spans(template).unwrap_err().to_string()
    }

    #[test]
    fn text_and_expressions_are_distinguished() {
        let found = split_spans(r#"a{ {{ x }}-{{ f("}}", {"k": {"l": 1}}) }}"#).unwrap();
        let expected = [
            TemplateSpan::Literal("a{ "),
            TemplateSpan::Expression("x"),
            TemplateSpan::Literal("-"),
            TemplateSpan::Expression(r#"f("}}", {"k": {"l": 1}})"#),
        ];
        assert_eq!(found, expected);
        assert_eq!(split_spans("").unwrap(), []);
        assert_eq!(
            split_spans(r#"{{ "\"}}" }}"#).unwrap(),
            [TemplateSpan::Expression(r#""\"}}""#)]
        );
    }

    #[test]
    fn an_unterminated_expression_is_rejected() {
        for template in ["{{", "{{ x", "{{ x }", "{{ 'x }}", "{{ (x }}", "{{ x } }}"] {
            assert!(refused(template).contains("does not end"), "{template}");
        }
    }

    #[test]
    fn statements_comments_and_operators_that_build_text_are_rejected() {
        for template in [
            "{% for x in args.x %}{{ x }}{% endfor %}",
            "{{ 1 }}{% set x = 1 %}",
            "{# note #}",
            "{{ 'x' * 1000000000 }}",
            "{{ args.x ~ args.x }}",
            "{{ args.x + args.x }}",
            "{{ args.x|upper }}",
            "{{ [args.x[0:], args.x[0:]] }}",
        ] {
            assert!(refused(template).contains("cannot be used"), "{template}");
        }
    }

    #[test]
    fn marks_within_a_string_are_text() {
        let template = r#"{{ "{% for %} * ~ | {{ 7 }}" }}"#;
        assert_eq!(split_spans(template).unwrap().len(), 1);
    }
}
