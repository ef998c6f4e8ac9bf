//! Unused dependencies: each dependency in a crate's `Cargo.toml` must occur as a word in its code.
//!
//! Comment lines do not count. A crate that is needed but never named in code is kept with `use its_name as _;`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::workspace;
use crate::xtask_error::XtaskError;

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check_unused_dependencies() -> Result<(), XtaskError> {
    let mut complaints = Vec::new();
    for file in workspace::files_below(workspace::workspace_root())? {
        if file.ends_with("Cargo.toml") {
            complaints.extend(unused_dependencies(&file)?);
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(XtaskError::new(complaints.join("\n")))
}

fn unused_dependencies(manifest: &Path) -> Result<Vec<String>, XtaskError> {
    let dependencies = declared_dependencies(&workspace::read_file(manifest)?);
    let words = crate_words(manifest)?;
    let unused = dependencies.into_iter().filter(|name| !words.contains(&name.replace('-', "_")));
    Ok(unused
        .map(|name| {
            format!("{} names `{name}` and does not use it", workspace::relative_path(manifest))
        })
        .collect())
}

fn crate_words(manifest: &Path) -> Result<BTreeSet<String>, XtaskError> {
    let folder = manifest.parent().unwrap_or(manifest);
    let mut files = Vec::new();
    // Targets outside of the crate's folder, such as the examples of the workspace.
    for line in workspace::read_file(manifest)?.lines() {
        if let Some(path) = line.strip_prefix("path = \"").and_then(|rest| rest.strip_suffix('"')) {
            files.push(folder.join(path));
        }
    }
    for place in ["src", "tests", "benches", "examples"] {
        files.extend(workspace::files_below(&folder.join(place))?);
    }
    files.push(folder.join("build.rs"));
    files.retain(|file| {
        file.extension().is_some_and(|extension| extension == "rs") && file.is_file()
    });
    let mut words = BTreeSet::new();
    for file in files {
        words.extend(code_words(&workspace::read_file(&file)?));
    }
    Ok(words)
}

fn code_words(code: &str) -> BTreeSet<String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = lines
        .flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Reads both forms: a line `name = …` or `name.workspace = true` in a section, and a section `[dependencies.name]`.
/// Sections for one platform, `[target.….dependencies]`, count too.
fn declared_dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = section_header(line) {
            inside = is_dependency_section(header);
            let own = header.rsplit_once('.').filter(|(section, _)| is_dependency_section(section));
            names.extend(own.map(|(_, name)| name.to_owned()));
            continue;
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if inside && is_name(key) {
            names.push(key.to_owned());
        }
    }
    names
}

fn section_header(line: &str) -> Option<&str> {
    Some(line.strip_prefix('[')?.split_once(']')?.0)
}

/// Whether the section declares dependencies. `[workspace.dependencies]` does not: it only lists what members may use.
fn is_dependency_section(header: &str) -> bool {
    let last = match header.rsplit_once('.') {
        Some((platform, last)) if platform.starts_with("target.") => last,
        _ => header,
    };
    SECTIONS.contains(&last)
}

fn is_name(key: &str) -> bool {
    !key.is_empty()
        && key.chars().all(|letter| letter.is_alphanumeric() || letter == '-' || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_notation() {
        let manifest = r#"
            [package]
            name = "catalog"
            [dependencies]
            model.workspace = true
            tokio-postgres = { version = "0.7", features = [
                "runtime",
            ] } # why
            # serde = "1"
            [dependencies.renamed]
            package = "other"
            [dev-dependencies]
            insta="1"
            [target.'cfg(unix)'.dependencies]
            libc = "0.2"
            [target.'cfg(unix)'.dependencies.nix]
            version = "0.30"
            [workspace.dependencies]
            url = "2"
            [lints]
            workspace = true
        "#;
        assert_eq!(
            declared_dependencies(manifest),
            ["model", "tokio-postgres", "renamed", "insta", "libc", "nix"]
        );
    }

    #[test]
    fn words_are_whole_and_exclude_comments() {
        let words =
            code_words("// uses serde\nuse tokio_postgres::Client; let urls = serde_json!();");
        assert!(words.contains("tokio_postgres"));
        assert!(words.contains("serde_json"));
        assert!(!words.contains("serde"));
        assert!(!words.contains("url"));
    }
}
