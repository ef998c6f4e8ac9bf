//! Resolves scalars with the YAML 1.2 core schema (§10.3.2), as far as JSON can represent it.
//!
//! So `no`, `on`, `10_003` and `2024-01-01` are strings, and `012` is 12. Numbers that JSON lacks stay strings: `.inf`,
//! `.nan`, and hexadecimal numbers beyond 64 bits, which are addresses and hashes rather than numbers.

use std::borrow::Cow;

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::Number;

use crate::document_text::document_node::DocumentNode;

/// The value of a scalar; a tag of the core schema overrides quotes.
pub(super) fn scalar_value<'t>(
    text: Cow<'t, str>,
    style: ScalarStyle,
    tag: Option<Cow<'_, Tag>>,
) -> DocumentNode<'t> {
    let is_plain = style == ScalarStyle::Plain;
    let resolves = match tag {
        None => is_plain,
        Some(tag) => match format!("{}{}", tag.handle, tag.suffix).as_str() {
            "!" | "tag:yaml.org,2002:str" => false,
            "tag:yaml.org,2002:null" | "tag:yaml.org,2002:bool" => true,
            "tag:yaml.org,2002:int" | "tag:yaml.org,2002:float" => true,
            _ => is_plain,
        },
    };
    if resolves { resolve_plain(text) } else { DocumentNode::Text(text) }
}

fn resolve_plain(text: Cow<'_, str>) -> DocumentNode<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => DocumentNode::Null,
        "true" | "True" | "TRUE" => DocumentNode::Bool(true),
        "false" | "False" | "FALSE" => DocumentNode::Bool(false),
        plain => match parse_number(plain) {
            Some(number) => DocumentNode::Number(number),
            None => DocumentNode::Text(text),
        },
    }
}

fn parse_number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return parse_digits(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return parse_digits(digits, 8);
    }
    let is_decimal = |byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    // Rust also parses `inf` and `nan`; all other spellings mean the same in Rust and YAML.
    if !text.bytes().all(is_decimal) {
        return None;
    }
    if let Ok(number) = text.parse::<u64>() {
        return Some(number.into());
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    Number::from_f64(text.parse().ok()?)
}

/// Digits without a sign, which Rust would accept.
fn parse_digits(digits: &str, radix: u32) -> Option<Number> {
    let digits = Some(digits).filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, radix).ok().map(Number::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::document_text::DocumentError;

    fn read(text: &str) -> Result<Value, DocumentError> {
        crate::document_text::yaml::read_yaml(text).map(|node| node.to_value())
    }

    fn list(scalars: &[&str]) -> Value {
        read(&format!("- {}\n", scalars.join("\n- "))).unwrap()
    }

    fn stay_text(scalars: &[&str]) {
        assert_eq!(list(scalars), json!(scalars));
    }

    #[test]
    fn three_spellings_are_booleans_and_five_are_null() {
        assert_eq!(list(&["true", "True", "TRUE"]), json!([true, true, true]));
        assert_eq!(list(&["false", "False", "FALSE"]), json!([false, false, false]));
        assert_eq!(list(&["", "~", "null", "Null", "NULL"]), json!([null, null, null, null, null]));
    }

    #[test]
    fn words_dates_and_signs_are_strings() {
        stay_text(&["no", "yes", "on", "off", "y", "N", "NO", "tRUE", "nULL"]);
        stay_text(&["2024-01-01", "2024-01-01T00:00:00Z", "1:30", "=", "<", "10_003", "1.2.3"]);
        stay_text(&[
            "0b1", "0x", "0o8", "0x+1", "-0x1", "0xg", "1e", "e1", ".", "+", "--1", "1-2", "é",
        ]);
    }

    #[test]
    fn integers_are_decimal_hexadecimal_or_octal() {
        assert_eq!(
            list(&["0", "12", "+12", "-12", "012", "044925"]),
            json!([0, 12, 12, -12, 12, 44925])
        );
        assert_eq!(list(&["0x1F", "0o17"]), json!([31, 15]));
    }

    #[test]
    fn integers_keep_64_bits() {
        let largest = list(&["18446744073709551615", "-9223372036854775808"]);
        assert_eq!(largest, json!([u64::MAX, i64::MIN]));
        let beyond = list(&["18446744073709551616", "-9223372036854776000"]);
        assert_eq!(beyond, json!([18446744073709551616.0, -9223372036854776000.0]));
    }

    #[test]
    fn floats_are_json_numbers_where_json_has_them() {
        assert_eq!(
            list(&["1.50", ".5", "5.", "-1e3", "1.E+2"]),
            json!([1.5, 0.5, 5.0, -1000.0, 100.0])
        );
        stay_text(&[".inf", "-.Inf", ".nan", ".NaN", "inf", "nan", "infinity", "1e999"]);
    }

    #[test]
    fn a_long_hexadecimal_address_is_a_string() {
        stay_text(&["0x52908400098527886E0F7030069857D2E4169EE7"]);
    }

    #[test]
    fn quoted_and_block_scalars_are_strings() {
        let text = "- '12'\n- \"true\"\n- |-\n  null\n- >-\n  1.5\n";
        assert_eq!(read(text), Ok(json!(["12", "true", "null", "1.5"])));
    }

    #[test]
    fn a_core_schema_tag_overrides_quotes() {
        assert_eq!(list(&["!!str 12", "! 12", "!!str"]), json!(["12", "12", ""]));
        assert_eq!(list(&["!!int '12'", "!!float '1.5'", "!!bool 'true'"]), json!([12, 1.5, true]));
        assert_eq!(list(&["!!null ''", "!<tag:yaml.org,2002:str> 12"]), json!([null, "12"]));
    }
}
