//! Licences: every crate we ship must be usable under one of a few permissive licences.
//!
//! Some crates are forbidden whatever their licence: the only TLS and crypto stack is `rustls` on `aws-lc-rs`.

use std::collections::BTreeSet;

use crate::checks::licence_expression;
use crate::program;
use crate::xtask_error::XtaskError;

const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const FORBIDDEN_CRATES: [&str; 3] = ["native-tls", "openssl-sys", "ring"];

pub(super) fn check_licences() -> Result<(), XtaskError> {
    let mut tree =
        program::cargo_command(&["tree", "--locked", "--workspace", "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--format", "{p}\t{l}"]);
    let complaints = licence_problems(&program::run_for_output(&mut tree)?);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(XtaskError::new(complaints.into_iter().collect::<Vec<_>>().join("\n")))
}

/// Each line of the tree is a crate: `name v1.2.3`, a tab, its licence, and ` (*)` if it was listed before.
fn licence_problems(tree: &str) -> BTreeSet<String> {
    tree.lines().filter(|line| !line.is_empty()).filter_map(licence_problem).collect()
}

fn licence_problem(line: &str) -> Option<String> {
    let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
    let licence = licence.trim_end_matches("(*)").trim();
    let name = package.split(' ').next().unwrap_or(package);
    if FORBIDDEN_CRATES.contains(&name) {
        return Some(format!(
            "crate `{name}` must not be used; `cargo tree --invert {name}` says who does"
        ));
    }
    match licence_expression::allows(licence, &ALLOWED) {
        Some(true) => None,
        Some(false) => Some(format!("the licence `{licence}` of crate `{package}` is not allowed")),
        None => Some(format!("the licence `{licence}` of crate `{package}` cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_crates_with_allowed_licences_pass() {
        let tree = "a v1.0.0 (/home/a)\tApache-2.0\nb v2.0.0\tMIT OR Apache-2.0 (*)\n\nopenssl-probe v0.2.2\tMIT\n";
        assert_eq!(licence_problems(tree), BTreeSet::new());
    }

    #[test]
    fn forbidden_crates_and_missing_or_other_licences_fail() {
        let tree =
            "a v1.0.0\tGPL-3.0-only\na v1.0.0\tGPL-3.0-only (*)\nb v1.0.0\t\nring v0.17.14\tMIT\n";
        let expected = [
            "crate `ring` must not be used; `cargo tree --invert ring` says who does",
            "the licence `` of crate `b v1.0.0` cannot be read",
            "the licence `GPL-3.0-only` of crate `a v1.0.0` is not allowed",
        ];
        assert_eq!(licence_problems(tree), expected.map(str::to_owned).into());
    }
}
