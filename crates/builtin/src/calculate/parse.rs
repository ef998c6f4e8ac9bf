//! Parses an arithmetic expression and evaluates it while parsing.

use super::number::{Calculated, Number};

/// Deepest nesting of parentheses, signs and exponents.
const DEEPEST: usize = 64;

/// Evaluates an expression.
pub(super) fn value(text: &str) -> Calculated {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(other) => Err(format!("`{other}` was not expected (character {})", reader.place())),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
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
    fn place(&self) -> usize {
        self.text.get(..self.at).map_or(0, |read| read.chars().count()) + 1
    }

    fn take(&mut self, any: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| any.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.take(&[wanted]) {
            Some(_) => Ok(()),
            None => Err(format!("`{wanted}` is missing (character {})", self.place())),
        }
    }

    fn while_it(&mut self, is_it: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|next| !is_it(next)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Calculated) -> Calculated {
        if self.depth == DEEPEST {
            return Err("the expression is nested too deeply".to_owned());
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn sum(&mut self) -> Calculated {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-', '−']) {
            let next = self.product()?;
            value = if sign == '+' { value.add(next)? } else { value.subtract(next)? };
        }
        Ok(value)
    }

    fn product(&mut self) -> Calculated {
        let mut value = self.signed()?;
        while let Some(sign) = self.take(&['*', '×', '·', '/', '÷', '%']) {
            if sign == '*' && self.rest().starts_with('*') {
                return Err("powers are written with ^".to_owned());
            }
            let next = self.signed()?;
            value = match sign {
                '/' | '÷' => value.divide(next)?,
                '%' => value.remainder(next)?,
                _ => value.multiply(next)?,
            };
        }
        Ok(value)
    }

    /// `-2^2` is `-(2^2)`.
    fn signed(&mut self) -> Calculated {
        match self.take(&['+', '-', '−']) {
            Some('+') => self.deeper(Self::signed),
            Some(_) => Ok(self.deeper(Self::signed)?.negative()),
            None => self.power(),
        }
    }

    /// `2^3^2` is `2^(3^2)`.
    fn power(&mut self) -> Calculated {
        let base = self.atom()?;
        match self.take(&['^']) {
            Some(_) => base.power(self.deeper(Self::signed)?),
            None => Ok(base),
        }
    }

    fn atom(&mut self) -> Calculated {
        match self.peek() {
            Some('(') => {
                self.expect('(')?;
                let value = self.deeper(Self::sum)?;
                self.expect(')')?;
                Ok(value)
            }
            Some('0'..='9' | '.') => self.number(),
            Some(next) if next.is_alphabetic() => self.named(),
            Some(next) => Err(format!("`{next}` was not expected (character {})", self.place())),
            None => Err("the expression ends too early".to_owned()),
        }
    }

    fn number(&mut self) -> Calculated {
        let start = self.at;
        self.while_it(|next| next.is_ascii_digit() || next == '.');
        let exponent =
            self.rest().strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
        if exponent.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit())) {
            self.at += 1;
            self.while_it(|next| matches!(next, '+' | '-'));
            self.while_it(|next| next.is_ascii_digit());
        }
        Number::read(self.text.get(start..self.at).unwrap_or_default())
    }

    fn named(&mut self) -> Calculated {
        let name = self.while_it(|next| next.is_alphanumeric() || next == '_');
        if self.peek() != Some('(') {
            return Number::constant(name).ok_or_else(|| format!("`{name}` is not known here"));
        }
        let mut given = Vec::new();
        self.expect('(')?;
        if self.take(&[')']).is_none() {
            loop {
                given.push(self.deeper(Self::sum)?);
                if self.take(&[',']).is_none() {
                    break;
                }
            }
            self.expect(')')?;
        }
        call(name, given)
    }
}

fn call(name: &str, given: Vec<Number>) -> Calculated {
    let number = given.len();
    match (name, <[Number; 1]>::try_from(given)) {
        ("abs", Ok([one])) => Ok(one.absolute()),
        ("floor", Ok([one])) => Ok(one.floor()),
        ("ceil", Ok([one])) => Ok(one.ceiling()),
        ("sqrt", Ok([one])) => one.root(),
        ("round", Ok([one])) => one.round(&Number::read("0")?),
        ("round", Err(given)) if number == 2 => match <[Number; 2]>::try_from(given) {
            Ok([one, digits]) => one.round(&digits),
            Err(_) => Err("`round` takes a number and a number of digits".to_owned()),
        },
        ("min" | "max", Ok([one])) => Ok(one),
        ("min", Err(given)) if 1 < number => Ok(least(given, false)),
        ("max", Err(given)) if 1 < number => Ok(least(given, true)),
        ("abs" | "floor" | "ceil" | "sqrt" | "round" | "min" | "max", _) => {
            Err(format!("`{name}` does not take {number} numbers"))
        }
        _ => Err(format!(
            "there is no function `{name}`: there are abs, floor, ceil, round, sqrt, min and max"
        )),
    }
}

/// The minimum or maximum; exact only if all numbers are.
fn least(given: Vec<Number>, greatest: bool) -> Number {
    let is_exact = given.iter().all(|number| number.is_exact);
    let values = given.into_iter().map(|number| number.value);
    let value = if greatest { values.max() } else { values.min() };
    Number { value: value.unwrap_or_default(), is_exact }
}
