//! Accepted and rejected JSON, and that accepted numbers keep every digit.

use proptest::prelude::{
    ProptestConfig, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::json;

use super::*;

fn read(text: &str) -> Option<Value> {
    parse_object(text.as_bytes()).ok().map(Value::Object)
}

#[test]
fn a_number_that_would_be_rounded_is_found() {
    for text in [
        "1",
        "-0",
        "18446744073709551615",
        "-9223372036854775808",
        "0.1",
        "1.10",
        "1e10",
        "1.5E-7",
        "0.30000000000000004",
        "100000000000000000000.0",
        r#"{"12345678901234567890123":"1e999 \" 99999999999999999999"}"#,
        "3.141592653589793",
        "1.7976931348623157e308",
        "0.000000000000000000001",
        "0e-400",
        "5e-324",
        "2072430961582098.2",
    ] {
        assert_eq!(find_rounded_number(text.as_bytes()), None, "{text}");
    }
    for number in [
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "3.14159265358979323846",
        "1.23456789012345678e5",
        "1e-400",
        "4.9406564584e-324",
        "1.2345678e-320",
    ] {
        let text = format!(r#"{{"a":["x\\",{{"b":{number}}}]}}"#);
        assert_eq!(find_rounded_number(text.as_bytes()), Some(number));
    }
}

#[test]
fn an_object_keeps_its_fields_and_values() {
    let text = r#" {"a": [1, -2, 0.5, true, null, "\u00e9\n"], "b": {"a": {}}} "#;
    assert_eq!(read(text), Some(json!({"a": [1, -2, 0.5, true, null, "é\n"], "b": {"a": {}}})));
}

#[test]
fn a_duplicate_field_is_rejected_at_any_depth() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"a":{"b":1,"c":2,"b":3}}"#,
        r#"{"a":[[{"b":1,"b":1}]]}"#,
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn the_duplicate_field_is_named() {
    let error = parse_value(br#"[{"b":1,"c":2,"b":1}]"#).unwrap_err().to_string();
    assert!(error.contains("`b` stands here twice"), "{error}");
    assert!(parse_value(br#"[{"b":1},{"b":1}]"#).is_ok());
}

#[test]
fn anything_but_one_object_is_rejected() {
    for text in ["", "[]", "1", "null", r#""a""#, "{}{}", "{} x", "{'a':1}", "{\"a\":1,}", "{"] {
        assert_eq!(read(text), None, "{text}");
    }
    assert!(parse_object(b"{\"a\":\"\xff\"}").is_err());
    assert!(parse_object(b"\xef\xbb\xbf{}").is_err());
    assert_eq!(read(r#"{"a":"\ud800"}"#), None);
    assert_eq!(read(r#"{"a":1e999}"#), None);
    assert_eq!(read(r#"{"a":NaN}"#), None);
}

#[test]
fn deeply_nested_json_is_rejected_without_a_crash() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(100)).is_some());
    assert!(read(&nested(128)).is_none());
    assert!(read(&nested(8000)).is_none());
}

#[test]
fn a_reserved_name_is_rejected_at_any_depth() {
    for text in [
        r#"{"$serde_json::private::RawValue":"{}"}"#,
        r#"{"a":[{"$serde_json::private::RawValue":"{}"}]}"#,
        r#"{"a":{"b":1,"\u0024serde_json::private::RawValue":2}}"#,
    ] {
        let errors = [
            parse_value(text.as_bytes()).unwrap_err(),
            parse_tolerant(text.as_bytes()).unwrap_err(),
            parse_known_fields::<()>(text.as_bytes()).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("no member is called `$serde"), "{error}");
        }
    }
    assert!(read(r#"{"serde_json::private::RawValue":"{}"}"#).is_some());
}

/// If this fails, `serde_json` has changed its reserved name: update `RESERVED_NAME`.
#[test]
fn the_rejected_name_is_the_reserved_one_of_serde_json() {
    let tree = json!({RESERVED_NAME: "[{\"a\":1,\"a\":2}]"});
    assert_eq!(serde_json::from_value::<Value>(tree).unwrap(), json!([{"a": 2}]));
}

#[test]
fn tolerant_parsing_takes_the_last_duplicate() {
    let text = br#"{"a":[{"b":1,"c":2,"b":{"d":3,"d":4}}]}"#;
    assert_eq!(parse_tolerant(text).unwrap(), serde_json::from_slice::<Value>(text).unwrap());
    assert_eq!(parse_tolerant(text).unwrap(), json!({"a": [{"b": {"d": 4}, "c": 2}]}));
    assert!(parse_tolerant(b"{} x").is_err());
}

/// A short or long JSON number.
fn number() -> impl Strategy<Value = String> {
    let digits = || prop_oneof!["[1-9][0-9]{0,8}", "[1-9][0-9]{9,24}", "[1-9]0{0,24}"];
    let whole = prop_oneof![digits(), "0"];
    let part = prop_oneof!["", "\\.[0-9]{1,8}", "\\.[0-9]{9,24}", "\\.0{1,20}[1-9]?"];
    let exponent = prop_oneof!["", "[eE][+-]?[0-9]{1,2}", "[eE][+-]?[0-9]{3,4}"];
    ("-?", whole, part, exponent)
        .prop_map(|(sign, whole, part, exponent)| format!("{sign}{whole}{part}{exponent}"))
}

/// The value of a number: its sign, its digits, and the power of ten of the last digit.
fn meant(number: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{part}", whole.trim_start_matches('-'));
    let kept = digits.trim_end_matches('0');
    let after: i64 = (digits.len() - kept.len()).try_into().unwrap();
    let places: i64 = part.len().try_into().unwrap();
    let kept = kept.trim_start_matches('0');
    match kept {
        "" => (false, String::new(), 0),
        kept => {
            let power = exponent.parse::<i64>().unwrap() - places + after;
            (number.starts_with('-'), kept.to_owned(), power)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn an_accepted_number_keeps_every_digit(number in number()) {
        let text = format!(r#"{{"a":["{number}\\",{number}]}}"#);
        let has_exponent = number.contains(['e', 'E']);
        let Ok(read) = parse_value(text.as_bytes()) else {
            prop_assert!(has_exponent, "{}", number);
            return Ok(());
        };
        // A number with few digits and no exponent is always accepted.
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        match find_rounded_number(text.as_bytes()) {
            Some(found) => prop_assert!(found == number && (15 < digits || has_exponent)),
            None => prop_assert_eq!(meant(&read["a"][1].to_string()), meant(&number)),
        }
    }

    #[test]
    fn searching_for_numbers_never_panics(bytes in prop::collection::vec(prop::num::u8::ANY, 0..200)) {
        find_rounded_number(&bytes);
        parse_value(&bytes).ok();
    }

    #[test]
    fn accepted_json_survives_printing_and_parsing(text in "[\\[\\]{}:,\"0-9.eE+\\-\\\\a-b ]{0,40}") {
        if let Ok(read) = parse_value(text.as_bytes()) {
            let written = read.to_string();
            prop_assert_eq!(parse_value(written.as_bytes()).unwrap(), read);
        }
    }
}

/// Has one known field, whose value is an object.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    inside: Option<Value>,
}

impl<'de> KnownFields<'de> for Wanted {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        object: &mut A,
    ) -> Result<bool, A::Error> {
        if name != "inside" {
            return Ok(false);
        }
        self.inside = Some(object.next_value_seed(StrictValueSeed::default())?);
        Ok(true)
    }
}

#[test]
fn known_fields_are_read_and_the_others_checked() {
    let read = |text: &str| parse_known_fields::<Wanted>(text.as_bytes());
    let inside = Some(Wanted { inside: Some(json!([1])) });
    assert_eq!(read(r#"{"a":{"b":[{}]},"inside":[1],"c":null}"#).unwrap(), inside);
    assert_eq!(read(r#"{"in\u0073ide":[1]}"#).unwrap(), inside);
    assert_eq!(read("[1]").unwrap(), None);
    for twice in [
        r#"{"inside":1,"inside":1}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"{"a":[{"b":{"c":1,"c":1}}]}"#,
        r#"[{"c":1,"c":1}]"#,
    ] {
        let error = read(twice).unwrap_err().to_string();
        assert!(error.contains("stands here twice"), "{twice}: {error}");
    }
    let many: Vec<String> = (0..100).map(|number| format!(r#""{number}":1"#)).collect();
    assert!(read(&format!("{{{}}}", many.join(","))).is_ok());
    assert!(read(&format!(r#"{{{},"99":1}}"#, many.join(","))).is_err());
}

proptest! {
    #[test]
    fn unknown_fields_are_checked_like_known_ones(
        text in r#"[\[\]{}:,"0-9.eE+\-\\ab ]{0,60}|(\{"a":(\{"[ab]":1,"[ab]":1\}|\[\{"[ab]":\[\],"[ab]":2\}\])\})"#
    ) {
        let checked = parse_known_fields::<()>(text.as_bytes());
        prop_assert_eq!(checked.is_ok(), parse_value(text.as_bytes()).is_ok(), "{}", text);
    }
}

#[test]
fn values_are_counted_up_to_a_limit() {
    let text = br#"{"a": [1, {}, "[,{"], "b": 2}"#;
    let outweighs = |limit| ValueCounter::at_start().count_and_check(limit, text);
    assert!(outweighs(12) && !outweighs(13));
}

proptest! {
    #[test]
    fn the_count_does_not_depend_on_chunk_boundaries(
        text in r#"([\[\]{}:, 1]|"([a,{\["]|\\\\|\\")*"){0,12}"#,
        cuts in proptest::collection::vec(0usize..40, 0..4),
        limit in 0usize..12,
    ) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut parts, mut start, mut exceeds) = (ValueCounter::at_start(), 0, false);
        for end in cuts.into_iter().chain([bytes.len()]) {
            exceeds = parts.count_and_check(limit, &bytes[start..end]);
            start = end;
        }
        prop_assert_eq!(exceeds, ValueCounter::at_start().count_and_check(limit, bytes));
    }
}
