//! Module cycles: the most top-level modules of a crate that all reach each other by `crate::…` paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::style::source_text::{is_word_byte, tail, word};

/// `journal` for `src/journal.rs` and for all below `src/journal/`; `None` for the root of the crate.
pub(super) fn top_level_module(source_root: &Path, file: &Path) -> Option<String> {
    let first = file.strip_prefix(source_root).ok()?.components().next()?;
    let name = first.as_os_str().to_str()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!["lib", "main", "bin"].contains(&name)).then(|| name.to_owned())
}

/// The first segments of all paths that start with `crate::`.
pub(super) fn used_modules(code: &str) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for (start, path) in code.match_indices("crate::") {
        if start > 0 && is_word_byte(code.as_bytes()[start - 1]) {
            continue;
        }
        let rest = tail(code, start + path.len());
        if let Some(group) = rest.strip_prefix('{') {
            modules.extend(group_members(group).map(str::to_owned));
        } else if !word(rest).is_empty() {
            modules.insert(word(rest).to_owned());
        }
    }
    modules
}

/// The first segments of `{a::B, c::{D, E}}`, given without the opening brace.
fn group_members(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let mut starts = vec![0];
    for (position, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            b',' if depth == 0 => starts.push(position + 1),
            _ => {}
        }
    }
    starts
        .into_iter()
        .map(|start| word(tail(group, start).trim_start()))
        .filter(|name| !name.is_empty())
}

/// The size of the largest strongly connected component; 0 if there is no cycle. Names that are no module count for nothing.
pub(super) fn largest_cycle(uses: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|module| (module.as_str(), reachable(uses, module))).collect();
    let component =
        |module: &str| reach[module].iter().filter(|other| reach[**other].contains(module)).count();
    let largest = uses.keys().map(|module| component(module)).max().unwrap_or(0);
    if largest > 1 { largest } else { 0 }
}

/// All modules that a module uses, directly or through others, but for itself unless a path leads back.
fn reachable<'a>(uses: &'a BTreeMap<String, BTreeSet<String>>, module: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for used in uses.get(next).into_iter().flatten() {
            if used != next && uses.contains_key(used) && found.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_within_the_crate_are_found_in_every_spelling() {
        let code = "use crate::a::B;\nuse crate::{c, d::{E, F}, g};\npub(in crate::h) fn f() { crate::i::j(); my_crate::k::l(); }";
        let expected = ["a", "c", "d", "g", "h", "i"].map(str::to_owned);
        assert_eq!(used_modules(code), BTreeSet::from(expected));
    }

    #[test]
    fn the_largest_cycle_counts_its_modules() {
        let graph = |edges: &[(&str, &str)]| {
            let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (from, to) in edges {
                uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
                uses.entry((*to).to_owned()).or_default();
            }
            largest_cycle(&uses)
        };
        assert_eq!(graph(&[("a", "b"), ("b", "c")]), 0);
        assert_eq!(graph(&[("a", "a")]), 0);
        assert_eq!(
            graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")]),
            3
        );
    }
}
