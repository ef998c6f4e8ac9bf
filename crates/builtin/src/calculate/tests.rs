//! Results of expressions, and invalid expressions.

use proptest::prelude::*;

use super::*;

fn result(expression: &str) -> String {
    let given = calculate(&CalculateArguments { expression: expression.to_owned() });
    given.map_or_else(|error| error, |given| given["result"].as_str().unwrap().to_owned())
}

#[test]
fn results_are_exact() {
    for (expression, wanted) in [
        ("0.1 + 0.2", "0.3"),
        ("(12.50 * 3 - 2) / 4", "8.875"),
        ("2^100", "1267650600228229401496703205376"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2^-2", "0.25"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("1e3 + 1.5E-1", "1000.15"),
        ("round(100 / 3, 2)", "33.33"),
        ("round(2.5) + round(-2.5)", "0"),
        ("round(1250, -2)", "1300"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("sqrt(2.25)", "1.5"),
        ("min(3, 1/2, 2) + max(1)", "1.5"),
        ("max(3, 1, 2) - abs(-1)", "2"),
        ("6 × 7 ÷ 2 − 1", "20"),
        ("1/3 * 3", "1"),
        ("((((1))))", "1"),
    ] {
        assert_eq!(result(expression), wanted, "{expression}");
    }
}

#[test]
fn a_number_with_infinite_digits_is_also_given_as_a_fraction() {
    let given = calculate(&CalculateArguments { expression: "1/3".to_owned() }).unwrap();
    assert_eq!(
        given,
        json!({"result": "0.333333333333333333333333333333", "exact": false, "fraction": "1/3"})
    );
    let root = calculate(&CalculateArguments { expression: "sqrt(2)".to_owned() }).unwrap();
    assert_eq!((&root["exact"], root.get("fraction")), (&json!(false), None));
    assert!(root["result"].as_str().unwrap().starts_with("1.4142135623730950488016887242"));
    assert!(
        result("sqrt(2e-60)")
            .starts_with("0.0000000000000000000000000000014142135623730950488016887242")
    );
    assert!(result("2 * pi").starts_with("6.2831853071795864769252867665"));
}

#[test]
fn invalid_expressions_are_reported() {
    for (expression, wanted) in [
        ("1 / 0", "this divides by zero"),
        ("0 ^ -1", "this divides by zero"),
        ("5 % (1 - 1)", "this divides by zero"),
        ("2 ^ 0.5", "only whole numbers can be exponents; for roots there is sqrt"),
        ("9^9^9", "a number on the way has more than 600 digits"),
        ("1e9999", "a number on the way has more than 600 digits"),
        ("sqrt(-1)", "a negative number has no square root here"),
        ("1 +", "the expression ends too early"),
        ("(1", "`)` is missing (character 3)"),
        ("1 2", "`2` was not expected (character 3)"),
        ("ä1", "`ä1` is not known here"),
        (
            "import(1)",
            "there is no function `import`: there are abs, floor, ceil, round, sqrt, min and max",
        ),
        ("sqrt(1, 2)", "`sqrt` does not take 2 numbers"),
        ("min()", "`min` does not take 0 numbers"),
        ("1.2.3", "`1.2.3` is no number"),
        (".", "`.` is no number"),
        ("2 ** 3", "powers are written with ^"),
    ] {
        assert_eq!(result(expression), wanted, "{expression}");
    }
    assert_eq!(result(&"(".repeat(1000)), "the expression is nested too deeply");
    assert_eq!(result(&"-".repeat(1000)), "the expression is nested too deeply");
}

proptest! {
    #[test]
    fn integer_arithmetic_agrees_with_rust(one in -10_000_i64..10_000, two in 1_i64..10_000) {
        prop_assert_eq!(result(&format!("{one} * {two} - {one}")), (one * two - one).to_string());
        prop_assert_eq!(result(&format!("({one}) % {two}")), one.rem_euclid(two).to_string());
        prop_assert_eq!(result(&format!("floor(({one}) / {two})")), one.div_euclid(two).to_string());
    }

    #[test]
    fn evaluation_never_panics(expression in "[-0-9.e+*/^%(), a-z]{0,60}") {
        result(&expression);
    }
}
