//! Licence expressions: `(MIT OR Apache-2.0) AND Unicode-3.0`, see the SPDX specification, annex D.
//!
//! `WITH` binds closest, then `AND`, then `OR`. `MIT/Apache-2.0` is an old way to write `OR`.

/// Whether the expression can be satisfied with the allowed licences alone; `None` if it is not an expression.
pub(super) fn allows(expression: &str, allowed: &[&str]) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words = spaced.split_whitespace().collect();
    let mut reader = LicenceParser { words, next: 0, allowed };
    let verdict = reader.parse_or()?;
    if reader.peek().is_some() {
        return None;
    }
    Some(verdict)
}

struct LicenceParser<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a [&'a str],
}

impl<'a> LicenceParser<'a> {
    fn parse_or(&mut self) -> Option<bool> {
        let mut verdict = self.parse_and()?;
        while self.take_if("OR") {
            verdict |= self.parse_and()?;
        }
        Some(verdict)
    }

    fn parse_and(&mut self) -> Option<bool> {
        let mut verdict = self.parse_single()?;
        while self.take_if("AND") {
            verdict &= self.parse_single()?;
        }
        Some(verdict)
    }

    fn parse_single(&mut self) -> Option<bool> {
        if self.take_if("(") {
            let verdict = self.parse_or()?;
            return self.take_if(")").then_some(verdict);
        }
        let licence = self.take_name()?;
        if self.take_if("WITH") {
            let exception = self.take_name()?;
            return Some(self.is_allowed(&format!("{licence} WITH {exception}")));
        }
        Some(self.is_allowed(licence))
    }

    fn is_allowed(&self, licence: &str) -> bool {
        self.allowed.contains(&licence)
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    fn take_name(&mut self) -> Option<&'a str> {
        let name = self.peek().filter(|word| !["(", ")", "AND", "OR", "WITH"].contains(word))?;
        self.next += 1;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expression: &str) -> Option<bool> {
        allows(expression, &["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"])
    }

    #[test]
    fn one_side_of_or_is_enough() {
        assert_eq!(verdict("MIT"), Some(true));
        assert_eq!(verdict("GPL-2.0 OR MIT"), Some(true));
        assert_eq!(verdict("MIT/GPL-2.0"), Some(true));
        assert_eq!(verdict("GPL-2.0 / LGPL-2.1"), Some(false));
    }

    #[test]
    fn and_needs_both_and_binds_closer_than_or() {
        assert_eq!(verdict("MIT AND ISC"), Some(true));
        assert_eq!(verdict("MIT AND GPL-2.0"), Some(false));
        assert_eq!(verdict("MIT OR ISC AND GPL-2.0"), Some(true));
        assert_eq!(verdict("(MIT OR ISC) AND GPL-2.0"), Some(false));
        assert_eq!(verdict("((GPL-2.0 OR ISC)) AND (MIT)"), Some(true));
    }

    #[test]
    fn an_exception_makes_a_different_licence() {
        assert_eq!(verdict("Apache-2.0 WITH LLVM-exception"), Some(true));
        assert_eq!(verdict("MIT WITH LLVM-exception"), Some(false));
        assert_eq!(verdict("GPL-2.0 WITH Classpath-exception-2.0 OR MIT"), Some(true));
    }

    #[test]
    fn nonsense_is_not_an_expression() {
        for text in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "()"] {
            assert_eq!(verdict(text), None, "{text}");
        }
    }
}
