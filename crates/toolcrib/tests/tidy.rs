//! House rules that a machine can check. Each complaint names the file; every rule has a test that violates it.
//!
//! Every `.rs` file opens with `//!`, tests too, because readers may start there.

use std::fs;
use std::path::{Path, PathBuf};

/// The allowed dependencies between our crates. A new one needs an ADR.
const ARROWS: [(&str, &[&str]); 26] = [
    ("json", &[]),
    ("inspection", &[]),
    ("limits", &[]),
    ("model", &["json", "inspection"]),
    ("provider", &["json", "model"]),
    ("upstream", &["json", "limits"]),
    ("oauth", &["json", "model", "upstream"]),
    ("mcp_client", &["json", "limits", "model", "upstream", "oauth"]),
    ("execution", &["json", "limits", "model", "upstream", "oauth"]),
    ("access", &["json", "model"]),
    ("catalog", &["limits", "model"]),
    ("workflow", &["json", "model"]),
    ("embedding", &["model"]),
    ("builtin", &["json", "model", "upstream", "execution"]),
    ("call_log", &["model", "catalog"]),
    ("search", &["model", "catalog"]),
    ("sources", &["json", "limits", "model", "upstream", "mcp_client", "execution", "workflow"]),
    (
        "calls",
        &[
            "json",
            "limits",
            "model",
            "provider",
            "upstream",
            "oauth",
            "mcp_client",
            "execution",
            "access",
            "catalog",
            "workflow",
            "builtin",
            "call_log",
            "sources",
        ],
    ),
    (
        "toolcrib",
        &[
            "json",
            "limits",
            "model",
            "provider",
            "upstream",
            "oauth",
            "mcp_client",
            "execution",
            "access",
            "catalog",
            "workflow",
            "embedding",
            "builtin",
            "call_log",
            "search",
            "sources",
            "calls",
        ],
    ),
    ("api_types", &["model", "upstream", "execution", "catalog", "sources", "toolcrib"]),
    (
        "config",
        &["json", "limits", "model", "upstream", "execution", "catalog", "toolcrib", "api_types"],
    ),
    ("endpoint", &["json", "limits", "model", "catalog", "toolcrib", "api_types"]),
    ("mcp_server", &["json", "limits", "model", "toolcrib", "api_types", "endpoint"]),
    (
        "http_api",
        &[
            "limits",
            "model",
            "execution",
            "access",
            "catalog",
            "sources",
            "toolcrib",
            "api_types",
            "config",
            "endpoint",
            "mcp_server",
        ],
    ),
    ("server", &["limits", "model", "api_types", "config", "endpoint"]),
    (
        "cli",
        &[
            "json",
            "limits",
            "model",
            "upstream",
            "oauth",
            "mcp_client",
            "execution",
            "catalog",
            "call_log",
            "search",
            "sources",
            "toolcrib",
            "api_types",
            "config",
            "endpoint",
            "mcp_server",
            "http_api",
            "server",
        ],
    ),
];

/// Words in file names that carry no meaning.
const EMPTY_WORDS: [&str; 8] =
    ["manager", "service", "helper", "util", "processor", "info", "data", "dto"];

/// A file of the workspace: its path relative to the root, and its content.
struct File {
    path: String,
    text: String,
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let manifests = files().into_iter().filter(|file| folder_of_crate(file).is_some());
    assert_tidy(manifests.flat_map(|file| forbidden_dependencies(&file)));
}

#[test]
fn every_file_opens_with_a_module_comment() {
    assert_tidy(files().iter().filter_map(missing_opening));
}

#[test]
fn no_module_file_is_called_mod() {
    assert_tidy(files().iter().filter_map(mod_file_complaint));
}

#[test]
fn no_file_has_a_meaningless_name() {
    assert_tidy(files().iter().filter_map(meaningless_name));
}

#[test]
fn every_crate_inherits_the_workspace_lints() {
    assert_tidy(files().iter().filter_map(missing_lints));
}

fn assert_tidy(complaints: impl Iterator<Item = String>) {
    let complaints: Vec<_> = complaints.collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Every Rust file and every `Cargo.toml` of a crate, by path.
fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = ["crates", "rig", "xtask"].map(|top| root.join(top)).into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace is readable") {
            let path = entry.expect("a folder of the workspace is readable").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.ends_with("Cargo.toml") || path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is text");
                let path = path.strip_prefix(&root).expect("it is below the root");
                files.push(File { path: path.display().to_string().replace('\\', "/"), text });
            }
        }
    }
    files.sort_by(|one, two| one.path.cmp(&two.path));
    // Guards against rules that pass because no file was read.
    for path in ["crates/toolcrib/tests/tidy.rs", "rig/Cargo.toml", "xtask/src/main.rs"] {
        assert!(files.iter().any(|file| file.path == path), "`{path}` was not looked at");
    }
    files
}

/// `model` for `crates/model/Cargo.toml`; `None` for the unrestricted crates `rig` and `xtask`.
fn folder_of_crate(file: &File) -> Option<&str> {
    file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

fn forbidden_dependencies(file: &File) -> Vec<String> {
    let name = folder_of_crate(file).expect("only manifests below `crates` are asked");
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![format!("{}: `{name}` has no place in the order of crates", file.path)];
    };
    let wrong = our_dependencies(&file.text).into_iter().filter(|to| !allowed.contains(to));
    wrong.map(|to| format!("{}: the arrow `{name}` → `{to}` is not drawn", file.path)).collect()
}

/// Our crates that a manifest names as a dependency, by key, package or path. Dev-dependencies are unrestricted.
fn our_dependencies(manifest: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if line.starts_with('[') {
            let mut parts = line.split(['[', ']', '.']);
            inside = parts.any(|part| matches!(part, "dependencies" | "build-dependencies"));
        }
        if !inside {
            continue;
        }
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_') {
            let word = word.strip_prefix("toolcrib-").unwrap_or(word).replace('-', "_");
            found.extend(ARROWS.iter().map(|(name, _)| *name).find(|name| **name == *word));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn missing_opening(file: &File) -> Option<String> {
    let opened = !file.path.ends_with(".rs") || file.text.starts_with("//! ");
    (!opened).then(|| format!("{}: does not open with `//!` and what it is for", file.path))
}

fn mod_file_complaint(file: &File) -> Option<String> {
    let is_mod = file.path.rsplit('/').next() == Some("mod.rs");
    is_mod.then(|| format!("{}: a module is `foo.rs` beside `foo/`", file.path))
}

/// Matches whole words, singular or plural: `utils.rs` is rejected, `metadata.rs` is not.
fn meaningless_name(file: &File) -> Option<String> {
    let mut words = file.path.split(['/', '_', '-', '.']);
    let word = words.find(|word| EMPTY_WORDS.contains(&word.strip_suffix('s').unwrap_or(word)))?;
    Some(format!("{}: `{word}` says nothing about what is in it", file.path))
}

fn missing_lints(file: &File) -> Option<String> {
    if !file.path.ends_with("Cargo.toml") {
        return None;
    }
    let mut section = "";
    for line in file.text.lines().map(str::trim) {
        match (section, line) {
            ("[lints]", "workspace = true") | ("", "lints.workspace = true") => return None,
            _ if line.starts_with('[') => section = line,
            _ => {}
        }
    }
    Some(format!("{}: does not take the lints of the workspace", file.path))
}

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_forbidden_dependency_is_found_in_every_notation() {
    let complaint = ["crates/access/Cargo.toml: the arrow `access` → `catalog` is not drawn"];
    for text in [
        "[dependencies]\nmodel.workspace = true\ncatalog.workspace = true",
        "[dependencies]\nwords = { package = \"toolcrib-catalog\", version = \"0.1\" }",
        "[dependencies]\nwords = { path = \"../catalog\" }",
        "[dependencies.catalog]\nworkspace = true",
        "[dependencies.words]\npackage = \"toolcrib-catalog\"",
        "[target.'cfg(unix)'.dependencies]\ncatalog.workspace = true",
        "[build-dependencies]\ntoolcrib-catalog = \"0.1\"",
    ] {
        assert_eq!(
            forbidden_dependencies(&file("crates/access/Cargo.toml", text)),
            complaint,
            "{text}"
        );
    }
}

#[test]
fn allowed_dependencies_and_dev_dependencies_pass() {
    let text = "[package]\nname = \"toolcrib-access\"\n[dependencies]\nmodel.workspace = true\n\
                # catalog\nserde.workspace = true\n[dev-dependencies]\ncatalog.workspace = true";
    assert!(forbidden_dependencies(&file("crates/access/Cargo.toml", text)).is_empty());
    let back = "[dependencies]\naccess.workspace = true";
    assert_eq!(forbidden_dependencies(&file("crates/model/Cargo.toml", back)).len(), 1);
    assert!(forbidden_dependencies(&file("crates/http_api/Cargo.toml", back)).is_empty());
    assert_eq!(forbidden_dependencies(&file("crates/fresh/Cargo.toml", "")).len(), 1);
}

#[test]
fn the_allowed_dependencies_have_no_cycle() {
    for (place, (from, allowed)) in ARROWS.iter().enumerate() {
        for to in *allowed {
            let before = ARROWS.iter().position(|(name, _)| name == to);
            assert!(before.is_some_and(|before| before < place), "`{from}` → `{to}`");
        }
    }
}

#[test]
fn a_file_without_a_module_comment_is_found() {
    assert!(missing_opening(&file("a/tests.rs", "use super::*;\n//! Late.")).is_some());
    assert!(missing_opening(&file("a/b.rs", "")).is_some());
    assert!(missing_opening(&file("a/b.rs", "//!\n//! Late.")).is_some());
    assert!(missing_opening(&file("a/b.rs", "//! What it is for.")).is_none());
    assert!(missing_opening(&file("a/Cargo.toml", "[package]")).is_none());
}

#[test]
fn meaningless_file_names_are_found() {
    for path in ["a/src/utils.rs", "a/src/tool_manager.rs", "a/src/helpers/b.rs", "service/b.rs"] {
        let complaint = meaningless_name(&file(path, "")).expect(path);
        assert!(complaint.starts_with(path));
    }
    for path in ["a/src/metadata.rs", "a/src/serving.rs", "a/src/information.rs"] {
        assert_eq!(meaningless_name(&file(path, "")), None);
    }
    assert!(mod_file_complaint(&file("a/src/b/mod.rs", "")).is_some());
    assert!(mod_file_complaint(&file("a/src/tidy_mod.rs", "")).is_none());
}

#[test]
fn a_crate_without_the_workspace_lints_is_found() {
    let complains = |text: &str| missing_lints(&file("a/Cargo.toml", text)).is_some();
    assert!(complains("[package]\nname = \"a\""));
    assert!(complains("[lints]\n[lints.clippy]\nall = \"allow\""));
    assert!(complains("[lints.clippy]\nworkspace = true"));
    assert!(!complains("[package]\n[lints]\nworkspace = true\n"));
    assert!(!complains("lints.workspace = true\n[package]"));
    assert_eq!(missing_lints(&file("a/src/lib.rs", "")), None);
}
