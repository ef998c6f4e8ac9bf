//! A rational number, and whether it is exact or an approximation.

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Longest numerator or denominator in bits: about 600 digits.
const MAX_BITS: u64 = 2_048;
const TOO_LONG: &str = "a number on the way has more than 600 digits";
/// Digits shown of a number with infinitely many, and digits computed of roots and constants.
const SHOWN_DIGITS: usize = 30;
const COMPUTED_DIGITS: u32 = 40;
const PI: &str = "3141592653589793238462643383279502884197";
const E: &str = "2718281828459045235360287471352662497757";

#[derive(Clone, Debug)]
pub(super) struct ExactNumber {
    pub(super) value: BigRational,
    pub(super) is_exact: bool,
}

pub(super) type NumberResult = Result<ExactNumber, String>;

impl ExactNumber {
    fn new(value: BigRational, is_exact: bool) -> NumberResult {
        match value.numer().bits().max(value.denom().bits()) <= MAX_BITS {
            true => Ok(Self { value, is_exact }),
            false => Err(TOO_LONG.to_owned()),
        }
    }

    /// Parses digits, optionally with a decimal point and an exponent.
    pub(super) fn parse_decimal(text: &str) -> NumberResult {
        let wrong = || format!("`{text}` is no number");
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| wrong())?),
            None => (text, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{part}");
        let digits = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(wrong)?;
        let exponent = i64::from(exponent) - part.len() as i64;
        if 2_000 < exponent.abs() {
            return Err(TOO_LONG.to_owned());
        }
        let power = BigRational::from(BigInt::from(10)).pow(exponent as i32);
        Self::new(BigRational::from(digits) * power, true)
    }

    pub(super) fn constant(name: &str) -> Option<Self> {
        let digits = match name {
            "pi" => PI,
            "e" => E,
            _ => return None,
        };
        let digits = BigInt::parse_bytes(digits.as_bytes(), 10)?;
        let value = BigRational::new(digits, BigInt::from(10).pow(COMPUTED_DIGITS - 1));
        Some(Self { value, is_exact: false })
    }

    fn combine_with(self, other: Self, value: BigRational) -> NumberResult {
        Self::new(value, self.is_exact && other.is_exact)
    }

    pub(super) fn add(self, other: Self) -> NumberResult {
        let value = &self.value + &other.value;
        self.combine_with(other, value)
    }

    pub(super) fn subtract(self, other: Self) -> NumberResult {
        let value = &self.value - &other.value;
        self.combine_with(other, value)
    }

    pub(super) fn multiply(self, other: Self) -> NumberResult {
        let value = &self.value * &other.value;
        self.combine_with(other, value)
    }

    pub(super) fn divide(self, other: Self) -> NumberResult {
        if other.value.is_zero() {
            return Err("this divides by zero".to_owned());
        }
        let value = &self.value / &other.value;
        self.combine_with(other, value)
    }

    /// Floored modulo: the result has the sign of the divisor.
    pub(super) fn remainder(self, other: Self) -> NumberResult {
        if other.value.is_zero() {
            return Err("this divides by zero".to_owned());
        }
        let times = (&self.value / &other.value).floor();
        let value = &self.value - times * &other.value;
        self.combine_with(other, value)
    }

    pub(super) fn power(self, other: Self) -> NumberResult {
        if !other.value.is_integer() {
            return Err("only whole numbers can be exponents; for roots there is sqrt".to_owned());
        }
        let too_long = || TOO_LONG.to_owned();
        let exponent = other.value.to_i32().ok_or_else(too_long)?;
        if exponent < 0 && self.value.is_zero() {
            return Err("this divides by zero".to_owned());
        }
        let bits = self.value.numer().bits().max(self.value.denom().bits());
        // A power of ±1 stays one bit long.
        if 1 < bits && MAX_BITS < (bits - 1).saturating_mul(u64::from(exponent.unsigned_abs())) {
            return Err(too_long());
        }
        let value = self.value.pow(exponent);
        self.combine_with(other, value)
    }

    pub(super) fn negate(self) -> Self {
        Self { value: -self.value, ..self }
    }

    pub(super) fn absolute(self) -> Self {
        Self { value: self.value.abs(), ..self }
    }

    pub(super) fn floor(self) -> Self {
        Self { value: self.value.floor(), ..self }
    }

    pub(super) fn ceiling(self) -> Self {
        Self { value: self.value.ceil(), ..self }
    }

    /// Rounds to this many digits after the decimal point, halves away from zero.
    pub(super) fn round(self, digits: &Self) -> NumberResult {
        let digits = digits.value.to_i32().filter(|digits| (-300..=300).contains(digits));
        let digits = digits.ok_or("numbers are rounded to between -300 and 300 digits")?;
        let power = BigRational::from(BigInt::from(10)).pow(digits);
        Self::new((&self.value * &power).round() / power, self.is_exact)
    }

    /// The square root, exact if it is rational.
    pub(super) fn square_root(self) -> NumberResult {
        if self.value.is_negative() {
            return Err("a negative number has no square root here".to_owned());
        }
        let (above, below) = (self.value.numer().sqrt(), self.value.denom().sqrt());
        let root = BigRational::new(above, below);
        if &root * &root == self.value {
            return Self::new(root, self.is_exact);
        }
        // Scale up small numbers, so that enough significant digits remain.
        let small = self.value.denom().bits().saturating_sub(self.value.numer().bits()) / 2;
        let shift = BigInt::one() << (small + 4 * u64::from(COMPUTED_DIGITS));
        let scaled = (&self.value * BigRational::from(&shift * &shift)).to_integer();
        Self::new(BigRational::new(scaled.sqrt(), shift), false)
    }
}

/// Formats a number in decimal; if it has infinitely many digits, also as a fraction.
pub(super) fn format_number(number: &ExactNumber) -> (String, Option<String>) {
    let value = &number.value;
    let places = if number.is_exact { decimal_places(value.denom()) } else { None };
    if let Some(places) = places {
        return (format_decimal(value, places), None);
    }
    let (above, below) = (value.numer().bits() as i64, value.denom().bits() as i64);
    // Leading zeros of a small number do not count as digits.
    let zeros = ((below - above).max(0) as f64 * std::f64::consts::LOG10_2) as usize;
    let whole = ((above - below).max(0) as f64 * std::f64::consts::LOG10_2) as usize;
    let text = format_decimal(value, zeros + SHOWN_DIGITS.saturating_sub(whole));
    (text, Some(value.to_string()))
}

/// Number of digits after the decimal point, if it is finite.
fn decimal_places(denominator: &BigInt) -> Option<usize> {
    let twos = denominator.trailing_zeros().unwrap_or(0);
    let mut rest = denominator >> twos;
    let (five, mut fives) = (BigInt::from(5), 0);
    while (&rest % &five).is_zero() {
        rest /= &five;
        fives += 1;
    }
    rest.is_one().then_some(fives.max(twos) as usize)
}

fn format_decimal(value: &BigRational, places: usize) -> String {
    let power = BigRational::from(BigInt::from(10).pow(places as u32));
    let digits = (value * power).round().to_integer();
    let sign = if digits.sign() == Sign::Minus { "-" } else { "" };
    let digits = digits.magnitude().to_string();
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    match part.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    }
}
