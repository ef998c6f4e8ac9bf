//! Parses an arithmetic expression and evaluates it while parsing.

use super::exact_number::{ExactNumber, NumberResult};

/// Deepest nesting of parentheses, signs and exponents.
const MAX_DEPTH: usize = 64;

/// Evaluates an expression.
pub(super) fn evaluate_expression(text: &str) -> NumberResult {
    let mut reader = ExpressionParser { text, at: 0, depth: 0 };
    let value = reader.parse_sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(other) => Err(format!("`{other}` was not expected (character {})", reader.position())),
    }
}

struct ExpressionParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> ExpressionParser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character after white space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    /// The position for error messages, counted from 1.
    fn position(&self) -> usize {
        self.text.get(..self.at).map_or(0, |read| read.chars().count()) + 1
    }

    fn take_any(&mut self, any: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| any.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.take_any(&[wanted]) {
            Some(_) => Ok(()),
            None => Err(format!("`{wanted}` is missing (character {})", self.position())),
        }
    }

    fn take_while(&mut self, is_it: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|next| !is_it(next)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn with_nesting(&mut self, read: impl FnOnce(&mut Self) -> NumberResult) -> NumberResult {
        if self.depth == MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn parse_sum(&mut self) -> NumberResult {
        let mut value = self.parse_product()?;
        while let Some(sign) = self.take_any(&['+', '-', '−']) {
            let next = self.parse_product()?;
            value = if sign == '+' { value.add(next)? } else { value.subtract(next)? };
        }
        Ok(value)
    }

    fn parse_product(&mut self) -> NumberResult {
        let mut value = self.parse_signed()?;
        while let Some(sign) = self.take_any(&['*', '×', '·', '/', '÷', '%']) {
            if sign == '*' && self.rest().starts_with('*') {
                return Err("powers are written with ^".to_owned());
            }
            let next = self.parse_signed()?;
            value = match sign {
                '/' | '÷' => value.divide(next)?,
                '%' => value.remainder(next)?,
                _ => value.multiply(next)?,
            };
        }
        Ok(value)
    }

    /// `-2^2` is `-(2^2)`.
    fn parse_signed(&mut self) -> NumberResult {
        match self.take_any(&['+', '-', '−']) {
            Some('+') => self.with_nesting(Self::parse_signed),
            Some(_) => Ok(self.with_nesting(Self::parse_signed)?.negate()),
            None => self.parse_power(),
        }
    }

    /// `2^3^2` is `2^(3^2)`.
    fn parse_power(&mut self) -> NumberResult {
        let base = self.parse_atom()?;
        match self.take_any(&['^']) {
            Some(_) => base.power(self.with_nesting(Self::parse_signed)?),
            None => Ok(base),
        }
    }

    fn parse_atom(&mut self) -> NumberResult {
        match self.peek() {
            Some('(') => {
                self.expect('(')?;
                let value = self.with_nesting(Self::parse_sum)?;
                self.expect(')')?;
                Ok(value)
            }
            Some('0'..='9' | '.') => self.parse_number(),
            Some(next) if next.is_alphabetic() => self.parse_name(),
            Some(next) => Err(format!("`{next}` was not expected (character {})", self.position())),
            None => Err("the expression ends too early".to_owned()),
        }
    }

    fn parse_number(&mut self) -> NumberResult {
        let start = self.at;
        self.take_while(|next| next.is_ascii_digit() || next == '.');
        let exponent =
            self.rest().strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
        if exponent.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit())) {
            self.at += 1;
            self.take_while(|next| matches!(next, '+' | '-'));
            self.take_while(|next| next.is_ascii_digit());
        }
        ExactNumber::parse_decimal(self.text.get(start..self.at).unwrap_or_default())
    }

    fn parse_name(&mut self) -> NumberResult {
        let name = self.take_while(|next| next.is_alphanumeric() || next == '_');
        if self.peek() != Some('(') {
            return ExactNumber::constant(name)
                .ok_or_else(|| format!("`{name}` is not known here"));
        }
        let mut given = Vec::new();
        self.expect('(')?;
        if self.take_any(&[')']).is_none() {
            loop {
                given.push(self.with_nesting(Self::parse_sum)?);
                if self.take_any(&[',']).is_none() {
                    break;
                }
            }
            self.expect(')')?;
        }
        call_function(name, given)
    }
}

fn call_function(name: &str, given: Vec<ExactNumber>) -> NumberResult {
    let number = given.len();
    match (name, <[ExactNumber; 1]>::try_from(given)) {
        ("abs", Ok([one])) => Ok(one.absolute()),
        ("floor", Ok([one])) => Ok(one.floor()),
        ("ceil", Ok([one])) => Ok(one.ceiling()),
        ("sqrt", Ok([one])) => one.square_root(),
        ("round", Ok([one])) => one.round(&ExactNumber::parse_decimal("0")?),
        ("round", Err(given)) if number == 2 => match <[ExactNumber; 2]>::try_from(given) {
            Ok([one, digits]) => one.round(&digits),
            Err(_) => Err("`round` takes a number and a number of digits".to_owned()),
        },
        ("min" | "max", Ok([one])) => Ok(one),
        ("min", Err(given)) if 1 < number => Ok(min_or_max(given, false)),
        ("max", Err(given)) if 1 < number => Ok(min_or_max(given, true)),
        ("abs" | "floor" | "ceil" | "sqrt" | "round" | "min" | "max", _) => {
            Err(format!("`{name}` does not take {number} numbers"))
        }
        _ => Err(format!(
            "there is no function `{name}`: there are abs, floor, ceil, round, sqrt, min and max"
        )),
    }
}

/// The minimum or maximum; exact only if all numbers are.
fn min_or_max(given: Vec<ExactNumber>, greatest: bool) -> ExactNumber {
    let is_exact = given.iter().all(|number| number.is_exact);
    let values = given.into_iter().map(|number| number.value);
    let value = if greatest { values.max() } else { values.min() };
    ExactNumber { value: value.unwrap_or_default(), is_exact }
}
