//! Discovery of OpenAPI: its cost compared with the bare parse of the same bytes, its memory, and the size of the
//! lists.
//!
//! Measures the CPU time of the thread, the best of several alternating rounds: a busy machine disturbs it least.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use json::document_text;
use serde_json::Value;
use sources::openapi;
use sources::openapi::{OpenApiSpecification, SpecOptions};

use super::peers::PEERS;
use super::report::{BenchReport, RatioBound};
use super::synthetic;
use crate::corpus::{CorpusFolder, KnownSpecification, list_bytes, specifications};

const ROUNDS: usize = 7;

/// The costs of one specification.
struct SpecificationCosts {
    id: String,
    bytes: usize,
    is_json: bool,
    bare: f64,
    ours: f64,
    memory: f64,
    /// Bytes of `tools/list`, without the output schemas.
    list: usize,
}

/// Measures the specifications of a folder, or two generated ones.
pub(crate) fn run(report: &mut BenchReport, folder: Option<&Path>) -> anyhow::Result<()> {
    let made;
    let opened = match folder {
        Some(folder) => CorpusFolder::open(folder)?,
        None => {
            made = synthetic::create_folder()?;
            CorpusFolder::open(made.path())?
        }
    };
    let known = specifications(&opened)?;
    let mut all = Vec::new();
    for known in &known {
        let costs = measure_specification(known).with_context(|| known.id.clone())?;
        eprintln!(
            "{:<24} {:>9} bytes, parse {:>8.2} ms, discovery {:>8.2} ms ({:.2} ×), memory {:.1} ×, list {}",
            costs.id,
            costs.bytes,
            costs.bare,
            costs.ours,
            costs.ours / costs.bare,
            costs.memory / costs.bytes as f64,
            costs.list,
        );
        all.push(costs);
    }
    let largest = |is_json: bool| {
        all.iter().filter(|costs| costs.is_json == is_json).max_by_key(|costs| costs.bytes)
    };
    if let Some(json) = largest(true) {
        report.add(
            format!("largest JSON, {}", json.id),
            json.ours,
            json.bare,
            "ms",
            RatioBound::AtMost(3.0),
        );
    }
    if let Some(yaml) = largest(false) {
        report.add(
            format!("largest YAML, {}", yaml.id),
            yaml.ours,
            yaml.bare,
            "ms",
            RatioBound::AtMost(2.0),
        );
    }
    let ours = all.iter().map(|costs| costs.ours).sum();
    let bare = all.iter().map(|costs| costs.bare).sum();
    report.add(
        format!("all {} specifications", all.len()),
        ours,
        bare,
        "ms",
        RatioBound::AtMost(2.5),
    );
    let share = |costs: &&SpecificationCosts| costs.memory / costs.bytes as f64;
    // For a small file, the memory of the process itself would dominate.
    let large = all.iter().filter(|costs| 500_000 < costs.bytes);
    if let Some(worst) = large.max_by(|one, two| share(one).total_cmp(&share(two))) {
        let what = format!("most memory beside its size, {}", worst.id);
        report.add(
            what,
            worst.memory / 1e6,
            worst.bytes as f64 / 1e6,
            "MB",
            RatioBound::AtMost(12.0),
        );
    }
    for (id, smallest, loses) in PEERS {
        let Some(costs) = all.iter().find(|costs| costs.id == *id) else { continue };
        let bound = if *loses { RatioBound::None } else { RatioBound::AtMost(1.0) };
        let note = if *loses { ", which leaves content out" } else { "" };
        let what = format!("`tools/list` of {id}, against the smallest peer{note}");
        report.add(what, costs.list as f64 / 1e3, *smallest as f64 / 1e3, "kB", bound);
    }
    Ok(())
}

fn measure_specification(known: &KnownSpecification) -> anyhow::Result<SpecificationCosts> {
    let specification = OpenApiSpecification::open_file(&known.file)?;
    let folder = known.file.parent().unwrap_or(Path::new(""));
    let files: Vec<PathBuf> =
        specification.document_addresses().map(|address| folder.join(address)).collect();
    drop(specification);
    let mut bytes = 0;
    for file in &files {
        bytes += usize::try_from(std::fs::metadata(file)?.len())?;
    }
    let is_json = known.file.extension().is_some_and(|ending| ending == "json");
    let (mut bare, mut ours) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        bare = bare.min(read_time(&files) + files.iter().map(|file| parse_time(file)).sum::<f64>());
        ours = ours.min(cpu_milliseconds(|| discover_file(&known.file)));
    }
    let found = discover_file(&known.file)?;
    Ok(SpecificationCosts {
        id: known.id.clone(),
        bytes,
        is_json,
        bare,
        ours,
        memory: discovery_memory(&known.file)?,
        list: found.inventory.tools.values().map(list_bytes).sum(),
    })
}

/// The time to parse the file into a tree: by `serde_json`, or by our YAML reader.
fn parse_time(file: &Path) -> f64 {
    let bytes = std::fs::read(file).unwrap_or_default();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => cpu_milliseconds(|| serde_json::from_slice::<Value>(bytes)),
        _ => cpu_milliseconds(|| {
            document_text::parse_document(str::from_utf8(bytes).unwrap_or_default())
        }),
    }
}

fn discover_file(file: &Path) -> anyhow::Result<openapi::DiscoveredInventory> {
    let specification = OpenApiSpecification::open_file(file)?;
    let found =
        openapi::discover_openapi("bench".parse()?, &specification, &SpecOptions::default())?;
    Ok(found)
}

/// Milliseconds of CPU time of the work. The result is dropped after the measurement.
fn cpu_milliseconds<T>(work: impl FnOnce() -> T) -> f64 {
    let start = cpu_nanoseconds();
    let result = work();
    let spent = cpu_nanoseconds() - start;
    drop(result);
    spent / 1e6
}

/// The time to read the files, which is part of discovery.
fn read_time(files: &[PathBuf]) -> f64 {
    cpu_milliseconds(|| files.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>())
}

/// CPU time of this thread.
fn cpu_nanoseconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Peak memory of a process that discovers a specification, minus that of one that discovers a tiny one.
fn discovery_memory(file: &Path) -> anyhow::Result<f64> {
    let tiny = tempfile::Builder::new().suffix(".json").tempfile()?;
    std::fs::write(tiny.path(), r#"{"openapi":"3.1.0","paths":{"/a":{"get":{"responses":{}}}}}"#)?;
    Ok(child_peak(file)? - child_peak(tiny.path())?)
}

fn child_peak(file: &Path) -> anyhow::Result<f64> {
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.arg("discovered").arg(file);
    let output = child.output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Discovers a specification and says what memory that took; started by `bench`.
#[derive(clap::Args)]
pub(crate) struct DiscoveredArgs {
    file: PathBuf,
}

pub(crate) fn print_peak(orders: &DiscoveredArgs) -> anyhow::Result<()> {
    let found = discover_file(&orders.file)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kilobytes: f64 = peak.trim().trim_end_matches(" kB").trim().parse()?;
    drop(found);
    println!("{}", kilobytes * 1024.0);
    Ok(())
}
