//! Writes templates in which the text of a specification is never code (requirement O6).
//!
//! Plain text stands as it is; text with a brace stands as a string literal inside an expression. Names of arguments
//! only ever stand in string literals.

/// Appends text that comes out as it went in.
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
pub(crate) fn argument(name: &str) -> String {
    let mut expression = String::with_capacity(name.len() + 8);
    expression.push_str("args[");
    push_quoted(&mut expression, name);
    expression.push(']');
    expression
}

/// A text as a string literal of the template language.
pub(crate) fn quoted(text: &str) -> String {
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
            // Braces need no escape inside a literal; written as one, not even a careless reader can take them for code.
            '{' | '}' => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if c.is_control() => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('"');
}
