//! `cargo xtask style`: figures about names, comments, sizes and module cycles, with ceilings that may only fall.
//!
//! All definitions work on text, not on the compiler's view. They are simple enough to repeat on other code bases.

mod cycles;
mod definitions;
mod source_text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::style::definitions::{FileFigures, measure_file};
use crate::style::source_text::test_modules;
use crate::workspace;
use crate::xtask_error::XtaskError;

/// The highest value that each figure may have. Lower a ceiling when the figure falls; never raise one.
const CEILINGS: [Ceiling; 12] = [
    Ceiling {
        figure: "type names shared with another type, %",
        most: 1.0,
        value: |tree| tree.shared_types(),
    },
    Ceiling { figure: "one-word type names, %", most: 4.0, value: |tree| tree.one_word_types() },
    Ceiling { figure: "participles as type names, %", most: 0.1, value: |tree| tree.participles() },
    Ceiling {
        figure: "one-word functions, %",
        most: 17.5,
        value: |tree| tree.one_word_functions(),
    },
    Ceiling {
        figure: "idiom words per 10,000 in comments",
        most: 17.0,
        value: |tree| tree.idiom_words(),
    },
    Ceiling {
        figure: "largest module cycle of a crate",
        most: 3.0,
        value: |tree| tree.largest_cycle(),
    },
    Ceiling {
        figure: "lines of the largest crate",
        most: 12_000.0,
        value: |tree| tree.largest_crate(),
    },
    Ceiling {
        figure: "lines of files, 95th percentile",
        most: 400.0,
        value: |tree| tree.file_length(),
    },
    Ceiling {
        figure: "lines of functions, 95th percentile",
        most: 40.0,
        value: |tree| tree.function_length(),
    },
    Ceiling { figure: "lines", most: 108_000.0, value: |tree| tree.lines() },
    Ceiling { figure: "functions", most: 6_042.0, value: |tree| tree.function_count() },
    Ceiling { figure: "types", most: 1_526.0, value: |tree| as_f64(tree.types().len()) },
];

struct Ceiling {
    figure: &'static str,
    most: f64,
    value: fn(&CrateTree) -> f64,
}

/// The production code of all crates: no tests, no benches, no examples.
struct CrateTree {
    crates: BTreeMap<String, CrateFigures>,
}

#[derive(Default)]
struct CrateFigures {
    files: Vec<FileFigures>,
    /// Each top-level module with the other top-level modules that it uses.
    uses: BTreeMap<String, BTreeSet<String>>,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let names_shown = match arguments {
        [] => 0,
        [option, count] if option == "--names" => count
            .parse()
            .map_err(|_| XtaskError::new("`--names` takes the number of names to list"))?,
        _ => return Err(XtaskError::new("usage: cargo xtask style [--names N]")),
    };
    let tree = CrateTree::measure(&workspace::workspace_root().join("crates"))?;
    print!("{}", tree.table());
    print!("{}", tree.most_frequent_names(names_shown));
    let violations = tree.violations();
    for violation in &violations {
        println!("{violation}");
    }
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl CrateTree {
    fn measure(folder: &Path) -> Result<Self, XtaskError> {
        let mut crates = BTreeMap::new();
        for manifest in workspace::files_below(folder)? {
            if manifest.file_name().is_some_and(|name| name == "Cargo.toml") {
                let root = manifest.parent().unwrap_or(folder);
                let name = root.strip_prefix(folder).unwrap_or(root).display().to_string();
                crates.insert(name, CrateFigures::measure(root)?);
            }
        }
        Ok(Self { crates })
    }

    fn files(&self) -> impl Iterator<Item = &FileFigures> {
        self.crates.values().flat_map(|one| &one.files)
    }

    fn types(&self) -> Vec<&str> {
        self.files().flat_map(|file| &file.types).map(String::as_str).collect()
    }

    fn functions(&self) -> Vec<&str> {
        self.files()
            .flat_map(|file| &file.functions)
            .map(|function| function.name.as_str())
            .collect()
    }

    fn shared_types(&self) -> f64 {
        let types = self.types();
        let counts = count_names(&types);
        percentage(&types, |name| counts[name] > 1)
    }

    fn one_word_types(&self) -> f64 {
        percentage(&self.types(), definitions::is_one_word_type)
    }

    fn participles(&self) -> f64 {
        percentage(&self.types(), definitions::is_participle)
    }

    fn one_word_functions(&self) -> f64 {
        percentage(&self.functions(), |name| !name.contains('_'))
    }

    fn idiom_words(&self) -> f64 {
        let words: usize = self.files().map(|file| file.comment_words).sum();
        let idioms: usize = self.files().map(|file| file.idiom_words).sum();
        10_000.0 * as_f64(idioms) / as_f64(words.max(1))
    }

    fn largest_cycle(&self) -> f64 {
        as_f64(self.crates.values().map(CrateFigures::largest_cycle).max().unwrap_or(0))
    }

    fn largest_crate(&self) -> f64 {
        as_f64(self.crates.values().map(CrateFigures::lines).max().unwrap_or(0))
    }

    fn file_length(&self) -> f64 {
        percentile_95(self.files().map(|file| file.lines).collect())
    }

    fn function_length(&self) -> f64 {
        let functions = self.files().flat_map(|file| &file.functions);
        percentile_95(functions.filter_map(|function| function.lines).collect())
    }

    fn lines(&self) -> f64 {
        as_f64(self.crates.values().map(CrateFigures::lines).sum())
    }

    /// Functions with a body.
    fn function_count(&self) -> f64 {
        let functions = self.files().flat_map(|file| &file.functions);
        as_f64(functions.filter(|function| function.lines.is_some()).count())
    }

    fn violations(&self) -> Vec<String> {
        let above = CEILINGS.iter().filter(|ceiling| (ceiling.value)(self) > ceiling.most);
        above
            .map(|ceiling| {
                let value = (ceiling.value)(self);
                format!("{}: {value:.1} is above the ceiling of {}", ceiling.figure, ceiling.most)
            })
            .collect()
    }

    fn table(&self) -> String {
        let mut table =
            String::from("figure                                        value  ceiling\n");
        for ceiling in &CEILINGS {
            let value = (ceiling.value)(self);
            table += &format!("{:<42} {value:>8.1} {:>8.1}\n", ceiling.figure, ceiling.most);
        }
        table += "\ncrate              lines  files  functions  types  largest cycle\n";
        for (name, figures) in &self.crates {
            let functions: usize = figures.files.iter().map(|file| file.functions.len()).sum();
            let types: usize = figures.files.iter().map(|file| file.types.len()).sum();
            table += &format!(
                "{name:<16} {:>7} {:>6} {functions:>10} {types:>6} {:>4} of {}\n",
                figures.lines(),
                figures.files.len(),
                figures.largest_cycle(),
                figures.uses.len(),
            );
        }
        table
    }

    /// The type names with the most definitions; none if `count` is 0.
    fn most_frequent_names(&self, count: usize) -> String {
        let types = self.types();
        let mut names: Vec<_> = count_names(&types).into_iter().collect();
        names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        names.iter().take(count).map(|(name, count)| format!("{count:>5} {name}\n")).collect()
    }
}

impl CrateFigures {
    fn measure(root: &Path) -> Result<Self, XtaskError> {
        let mut texts = BTreeMap::new();
        for file in workspace::files_below(root)? {
            if file.extension().is_some_and(|extension| extension == "rs") {
                texts.insert(file.clone(), workspace::read_file(&file)?);
            }
        }
        let test_files: BTreeSet<PathBuf> =
            texts.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
        let source_root = root.join("src");
        let mut figures = Self::default();
        for (file, text) in &texts {
            let path = file.strip_prefix(root).unwrap_or(file);
            if definitions::is_test_path(path)
                || file.ancestors().any(|ancestor| test_files.contains(ancestor))
            {
                continue;
            }
            let measured = measure_file(text);
            if let Some(module) = cycles::top_level_module(&source_root, file) {
                figures.uses.entry(module).or_default().extend(measured.used_modules.clone());
            }
            figures.files.push(measured);
        }
        Ok(figures)
    }

    fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }

    fn largest_cycle(&self) -> usize {
        cycles::largest_cycle(&self.uses)
    }
}

fn count_names<'a>(names: &[&'a str]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(*name).or_default() += 1;
    }
    counts
}

fn percentage(names: &[&str], matches: impl Fn(&str) -> bool) -> f64 {
    let count = names.iter().filter(|name| matches(name)).count();
    100.0 * as_f64(count) / as_f64(names.len().max(1))
}

fn percentile_95(mut values: Vec<usize>) -> f64 {
    values.sort_unstable();
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    as_f64(values[(last * 95 + 50) / 100])
}

/// Exact: all counts are far below 2^53.
fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_is_above_its_ceiling() {
        let tree = CrateTree::measure(&workspace::workspace_root().join("crates")).unwrap();
        assert!(tree.lines() > 50_000.0, "the crates were not found");
        let violations = tree.violations();
        assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), tree.table());
    }

    #[test]
    fn percentiles_are_those_of_sorted_values() {
        assert_eq!(percentile_95(vec![]), 0.0);
        assert_eq!(percentile_95((1..=100).rev().collect()), 95.0);
    }
}
