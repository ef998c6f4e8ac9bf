//! Writes templates in which text of a specification is never code (requirement O6).
//!
//! Plain text is written as is. Text with a brace becomes a string literal inside an expression. Argument names only
//! occur in string literals.

/// Appends text that renders unchanged.
pub(crate) fn push_literal(template: &mut String, text: &str) {
    if text.contains('{') {
        template.push_str("{{ ");
        push_quoted(template, text);
        template.push_str(" }}");
    } else {
        template.push_str(text);
    }
}

/// Appends an expression.
pub(crate) fn push_expression(template: &mut String, expression: &str) {
    template.push_str("{{ ");
    template.push_str(expression);
    template.push_str(" }}");
}

/// `args["name"]`
pub(crate) fn argument_expression(name: &str) -> String {
    let mut expression = String::with_capacity(name.len() + 8);
    expression.push_str("args[");
    push_quoted(&mut expression, name);
    expression.push(']');
    expression
}

/// A text as a string literal of the template language.
pub(crate) fn string_literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    push_quoted(&mut literal, text);
    literal
}

fn push_quoted(literal: &mut String, text: &str) {
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            // A literal does not need escaped braces; escaping them protects against careless template readers.
            '{' | '}' => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if c.is_control() => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('"');
}
