//! `toolcrib discover`: prints the tools of a target without a server.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use model::{
    Discovered, Finding, Kind, Manifest, Primitive, RawJson, SchemaRef, Severity, Warning,
    show_json, shown_description, shown_text,
};
use serde::Serialize;
use serde_json::Value;

use crate::cli::Ended;
use crate::cli::target as options;
use crate::failure::Failure;
use crate::out::{self, counted, quoted};
use crate::table::section;
use crate::target::{self, Target};

/// Maximum number of warnings printed as text; JSON has all.
const WARNINGS: usize = 20;
/// Width of the output if stdout is not a terminal.
const WIDTH: usize = 100;
/// Minimum width of the description column, even if paths are long.
const DESCRIPTION_FROM: usize = 24;

pub(crate) async fn discover(arguments: &options::Discover) -> Result<Ended, Failure> {
    if !arguments.more.is_empty() {
        let words = arguments.target.target.iter().chain(&arguments.more);
        let words: Vec<_> = words.map(|word| quoted(word)).collect();
        return Err(Failure::ProgramWithoutDashes { words: words.join(" ") });
    }
    target::warn(&arguments.target);
    let target = target::read(&arguments.target).await?;
    match arguments.json.json {
        true => out::print_json(&Shown::of(&target))?,
        false => out::print(&text(&arguments.target, &target))?,
    }
    Ok(Ended::Fine)
}

/// The JSON output of `discover`.
#[derive(Serialize)]
struct Shown<'a> {
    kind: Kind,
    source_version: Option<&'a str>,
    operations: usize,
    tools: Vec<ShownTool<'a>>,
    warnings: &'a [Warning],
}

/// A tool as agents receive it, and its method and path.
#[derive(Serialize)]
struct ShownTool<'a> {
    name: &'a str,
    title: Option<Cow<'a, str>>,
    description: Cow<'a, str>,
    input_schema: Value,
    output_schema: Option<Value>,
    annotations: Option<Value>,
    tags: &'a [Box<str>],
    method: &'a str,
    path: &'a str,
    execution_mode: &'static str,
    #[serde(skip_serializing_if = "<[Finding]>::is_empty")]
    findings: &'a [Finding],
}

impl<'a> Shown<'a> {
    fn of(target: &'a Target) -> Self {
        let inventory = &target.found.inventory;
        Self {
            kind: target.kind,
            source_version: inventory.source_version.as_deref(),
            operations: target.found.operations,
            tools: inventory.tools.values().map(ShownTool::of).collect(),
            warnings: &inventory.warnings,
        }
    }
}

impl<'a> ShownTool<'a> {
    fn of(tool: &'a Discovered) -> Self {
        let manifest = &tool.manifest;
        let served = |reference| show_json(tool.schema(reference).to_served());
        Self {
            name: &manifest.name,
            title: manifest.title.as_deref().map(shown_text),
            description: shown_description(&manifest.description),
            input_schema: served(&manifest.input_schema),
            output_schema: manifest.output_schema.as_ref().map(served),
            annotations: manifest.extra.get("annotations").map(RawJson::to_value).map(show_json),
            tags: &manifest.tags,
            method: &manifest.method,
            path: &manifest.path,
            execution_mode: manifest.execution.mode(),
            findings: &tool.findings,
        }
    }
}

/// The text output of `discover`.
fn text(options: &options::Target, target: &Target) -> String {
    let given = &options.shown();
    let inventory = &target.found.inventory;
    let version = inventory.source_version.as_deref();
    let version = version.map(|version| format!(", version {}", out::plain(version)));
    let mut has = counted(offered(target, Primitive::Tool, false).count(), "tool", "tools");
    for (kind, is_template, one, many) in OTHERS {
        match offered(target, kind, is_template).count() {
            0 => {}
            count => has += &format!(", {}", counted(count, one, many)),
        }
    }
    let mut text = format!(
        "{has} in {} ({}{})\n",
        target::shown(given),
        target.kind,
        version.unwrap_or_default(),
    );
    text += &match target.kind {
        Kind::Mcp => offers(target),
        _ => table(target),
    };
    text += &warnings(&inventory.warnings);
    text += &findings(target);
    let tools = || {
        let all = inventory.tools.values();
        all.filter(|tool| tool.manifest.execution.primitive() == Primitive::Tool)
    };
    // Prefer a tool that changes nothing as the example.
    if let Some(tool) = tools().find(|tool| &*tool.manifest.method == "GET").or(tools().next()) {
        text += &format!("\nCall one: {}\n", example(given, &options.again(), tool));
    }
    text
}

/// Primitives other than tools: kind, whether it is a template, singular and plural.
const OTHERS: [(Primitive, bool, &str, &str); 3] = [
    (Primitive::Prompt, false, "prompt", "prompts"),
    (Primitive::Resource, false, "resource", "resources"),
    (Primitive::Resource, true, "resource template", "resource templates"),
];

/// All manifests of one kind.
fn offered(
    target: &Target,
    kind: Primitive,
    is_template: bool,
) -> impl Iterator<Item = &Manifest<SchemaRef>> {
    let all = target.found.inventory.tools.values().map(|tool| &*tool.manifest);
    all.filter(move |manifest| {
        manifest.execution.primitive() == kind
            && manifest.execution.resource_template().is_some() == is_template
    })
}

/// The offers of an MCP server by kind; they have no method and path.
fn offers(target: &Target) -> String {
    let row = |manifest: &Manifest<SchemaRef>| {
        let execution = &manifest.execution;
        let address = execution.resource_uri().or_else(|| execution.resource_template());
        let name = address.unwrap_or(&manifest.name);
        vec![out::plain(name).into_owned(), first_line(&manifest.description).into_owned()]
    };
    let mut text = String::new();
    for (kind, is_template, _, title) in
        [(Primitive::Tool, false, "", "tools")].iter().chain(&OTHERS)
    {
        let rows: Vec<_> = offered(target, *kind, *is_template).map(row).collect();
        if !rows.is_empty() {
            let name = if *kind == Primitive::Resource { "URI" } else { "NAME" };
            text += &section(&title.to_uppercase(), &[name, "DESCRIPTION"], rows);
        }
    }
    text
}

fn table(target: &Target) -> String {
    let all = || target.found.inventory.tools.values().map(|tool| &tool.manifest);
    let tools = || all().filter(|manifest| manifest.execution.primitive() == Primitive::Tool);
    if tools().next().is_none() {
        return String::new();
    }
    let longest = |text: fn(&Manifest<SchemaRef>) -> &str| {
        tools().map(|manifest| text(manifest).chars().count()).max().unwrap_or_default()
    };
    let others = longest(|m| &m.name) + longest(|m| &m.method).max(6) + longest(|m| &m.path);
    // There are four columns, each indented by two.
    let room = width().saturating_sub(others + 8).max(DESCRIPTION_FROM);
    let row = |manifest: &Arc<Manifest<SchemaRef>>| {
        let columns = [&manifest.name, &manifest.method, &manifest.path];
        let mut row: Vec<String> = columns.map(|text| out::plain(text).into_owned()).into();
        row.push(cut(&manifest.description, room));
        row
    };
    let rows = tools().map(row).collect();
    section("", &["NAME", "METHOD", "PATH", "DESCRIPTION"], rows)
        .trim_start_matches('\n')
        .to_owned()
}

fn warnings(warnings: &[Warning]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", counted(warnings.len(), "warning", "warnings"));
    for Warning { code, at, message } in warnings.iter().take(WARNINGS) {
        let at = if at.is_empty() { "the document" } else { at };
        text += &format!("  {code} at {}: {}\n", out::plain(at), out::plain(message));
    }
    if WARNINGS < warnings.len() {
        text += &format!("  … and {} more; --json lists all\n", warnings.len() - WARNINGS);
    }
    text
}

/// Inspection findings, the most severe first. Notes are in the JSON output only.
fn findings(target: &Target) -> String {
    let tools = target.found.inventory.tools.values();
    let found =
        tools.flat_map(|tool| tool.findings.iter().map(|finding| (&*tool.manifest.name, finding)));
    let mut found: Vec<(&str, &Finding)> =
        found.filter(|(_, finding)| Severity::Note < finding.severity).collect();
    if found.is_empty() {
        return String::new();
    }
    found.sort_by_key(|(_, finding)| Reverse(finding.severity));
    let mut text = format!(
        "\n{} in texts that a person cannot see or should not trust\n",
        counted(found.len(), "finding", "findings")
    );
    for (name, Finding { check, severity, at, offset, what }) in found.iter().take(WARNINGS) {
        let (name, at, what) = (out::plain(name), out::plain(at), out::plain(what));
        let (check, severity) = (out::plain(check), severity.as_str());
        text += &format!("  {severity} {check} in {name} at {at}, character {offset}: {what}\n");
    }
    if WARNINGS < found.len() {
        text += &format!("  … and {} more; --json lists all\n", found.len() - WARNINGS);
    }
    text
}

/// An example call with every required argument.
fn example(given: &str, again: &str, tool: &Discovered) -> String {
    let schema = tool.schema(&tool.manifest.input_schema).to_value();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pairs: String = required.map(|name| format!(" {}=…", quoted(name))).collect();
    let name = out::plain(&tool.manifest.name);
    if let Some(command) = given.strip_prefix("-- ") {
        return format!("toolcrib call {name}{pairs} -- {}", out::plain(command));
    }
    let given = quoted(&target::shown(given).replace("standard input", "-"));
    format!("toolcrib call {given} {name}{pairs}{again} --dry-run")
}

fn first_line(text: &str) -> Cow<'_, str> {
    out::plain(text.trim().lines().next().unwrap_or_default())
}

/// The first line, truncated to `width` characters.
fn cut(text: &str, width: usize) -> String {
    let line = first_line(text);
    match line.chars().count() <= width {
        true => line.into_owned(),
        false => line.chars().take(width - 1).chain(['…']).collect(),
    }
}

fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map_or(WIDTH, |(terminal_size::Width(width), _)| usize::from(width))
}
