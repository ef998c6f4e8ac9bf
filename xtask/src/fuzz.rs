//! `cargo xtask fuzz`: coverage-guided fuzzing with libFuzzer for a given time.
//!
//! The stable compiler suffices: coverage is an LLVM pass, and without unsafe code of ours no sanitizer is needed.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::xtask_error::XtaskError;
use crate::{program, rig, workspace};

/// The targets in `fuzz/src`.
const TARGETS: [&str; 1] = ["search"];
/// Seconds after which an input counts as an endless loop.
const TIMEOUT_OPTION: &str = "-timeout=10";
/// Maximum bytes of an input. Smaller ones reach all code; larger ones are only slower.
const MAX_LENGTH_OPTION: &str = "-max_len=16384";

/// The compiler flags that `cargo fuzz` uses.
const COVERAGE_FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
];

#[derive(Debug, PartialEq)]
struct FuzzOptions {
    target: String,
    seconds: u64,
}

pub(crate) fn run_fuzzer(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let FuzzOptions { target, seconds } = FuzzOptions::parse(arguments)?;
    let folder = workspace::workspace_root().join("target").join("fuzz");
    let fuzzer = build_fuzzer(&target, &folder)?;
    let corpus = folder.join("corpus").join(&target);
    let found = folder.join("found").join(&target);
    std::fs::create_dir_all(&corpus)?;
    std::fs::create_dir_all(&found)?;
    let mut fuzzer = program::new_command(fuzzer);
    fuzzer.args([
        TIMEOUT_OPTION,
        MAX_LENGTH_OPTION,
        "-len_control=0",
        &format!("-max_total_time={seconds}"),
    ]);
    // libFuzzer treats the prefix as a folder only if it ends with a slash.
    fuzzer.arg(format!("-artifact_prefix={}/", found.display()));
    // libFuzzer writes new inputs into the first folder and reads seeds from the second.
    fuzzer.arg(corpus).arg(workspace::workspace_root().join("fuzz/seeds").join(&target));
    Ok(rig::exit_code(program::run_for_status(&mut fuzzer)?))
}

/// Builds the fuzzer and returns its path. With `--target`, the flags apply only to the program, not to build scripts.
fn build_fuzzer(target: &str, folder: &std::path::Path) -> Result<PathBuf, XtaskError> {
    let host = host_triple()?;
    let mut cargo = program::cargo_command(&["build", "--release", "--locked", "--bin", target]);
    cargo.args(["--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    cargo.arg("--target-dir").arg(folder).env("RUSTFLAGS", COVERAGE_FLAGS.join(" "));
    program::run_command(&mut cargo)?;
    Ok(folder.join(host).join("release").join(target))
}

fn host_triple() -> Result<String, XtaskError> {
    let said = program::run_for_output(program::new_command("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| XtaskError::new("`rustc -vV` does not name its host"))
}

impl FuzzOptions {
    fn parse(arguments: &[String]) -> Result<Self, XtaskError> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (target, seconds) = match words.as_slice() {
            [target] => (*target, "60"),
            [target, "--seconds", seconds] => (*target, *seconds),
            _ => return Err(XtaskError::new("say `fuzz TARGET [--seconds N]`")),
        };
        if !TARGETS.contains(&target) {
            let all = TARGETS.join("`, `");
            return Err(XtaskError::new(format!("there is no `{target}` to fuzz, but `{all}`")));
        }
        let seconds = seconds.parse().ok().filter(|seconds| 0 < *seconds);
        let seconds = seconds.ok_or_else(|| XtaskError::new("seconds are a number above 0"))?;
        Ok(Self { target: target.to_owned(), seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Option<FuzzOptions> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        FuzzOptions::parse(&words).ok()
    }

    #[test]
    fn a_target_is_fuzzed_for_a_minute_or_the_given_time() {
        let wish = |seconds| Some(FuzzOptions { target: "search".to_owned(), seconds });
        assert_eq!(parsed("search"), wish(60));
        assert_eq!(parsed("search --seconds 7"), wish(7));
        for wrong in ["", "other", "search --seconds", "search --seconds 0", "search 7"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_target_has_a_source_file_and_seeds() {
        for target in TARGETS {
            let path = workspace::workspace_root().join("fuzz/src").join(format!("{target}.rs"));
            let seeds = workspace::workspace_root().join("fuzz/seeds").join(target);
            assert!(path.is_file() && seeds.is_dir(), "{}", path.display());
        }
    }
}
