//! `toolcrib discover`: prints the tools of a target without a server.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io;
use std::io::IsTerminal as _;
use std::sync::Arc;

use model::{
    DiscoveredTool, DiscoveryWarning, Finding, Manifest, McpPrimitive, RawJson, SchemaRef,
    Severity, SourceKind, sanitize_description, sanitize_json, sanitize_text,
};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{VerbOutcome, target_options as options};
use crate::cli_error::CliError;
use crate::inspected_target::InspectedTarget;
use crate::output::count_noun;
use crate::shell_text::shell_quote;
use crate::text_table::table_section;
use crate::{inspected_target, output, shell_text};

/// Maximum number of warnings printed as text; JSON has all.
const MAX_PRINTED_WARNINGS: usize = 20;
/// Width of the output if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 100;
/// Minimum width of the description column, even if paths are long.
const MIN_DESCRIPTION_WIDTH: usize = 24;

pub(crate) async fn discover_target(
    arguments: &options::DiscoverArgs,
) -> Result<VerbOutcome, CliError> {
    if !arguments.more.is_empty() {
        let words = arguments.target.target.iter().chain(&arguments.more);
        let words: Vec<_> = words.map(|word| shell_quote(word)).collect();
        return Err(CliError::ProgramWithoutDashes { words: words.join(" ") });
    }
    inspected_target::warn_allow_private(&arguments.target);
    let target = inspected_target::inspect_target(&arguments.target).await?;
    match arguments.json.json {
        true => output::print_json(&DiscoveryReport::from_target(&target))?,
        false => output::print_text(&report_text(&arguments.target, &target))?,
    }
    Ok(VerbOutcome::Success)
}

/// The JSON output of `discover`.
#[derive(Serialize)]
struct DiscoveryReport<'a> {
    kind: SourceKind,
    source_version: Option<&'a str>,
    operations: usize,
    tools: Vec<DiscoveryReportTool<'a>>,
    warnings: &'a [DiscoveryWarning],
}

/// A tool as agents receive it, and its method and path.
#[derive(Serialize)]
struct DiscoveryReportTool<'a> {
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

impl<'a> DiscoveryReport<'a> {
    fn from_target(target: &'a InspectedTarget) -> Self {
        let inventory = &target.found.inventory;
        Self {
            kind: target.kind,
            source_version: inventory.source_version.as_deref(),
            operations: target.found.operations,
            tools: inventory.tools.values().map(DiscoveryReportTool::from_discovered).collect(),
            warnings: &inventory.warnings,
        }
    }
}

impl<'a> DiscoveryReportTool<'a> {
    fn from_discovered(tool: &'a DiscoveredTool) -> Self {
        let manifest = &tool.manifest;
        let served = |reference| sanitize_json(tool.schema(reference).to_served());
        Self {
            name: &manifest.name,
            title: manifest.title.as_deref().map(sanitize_text),
            description: sanitize_description(&manifest.description),
            input_schema: served(&manifest.input_schema),
            output_schema: manifest.output_schema.as_ref().map(served),
            annotations: manifest
                .extra
                .get("annotations")
                .map(RawJson::to_value)
                .map(sanitize_json),
            tags: &manifest.tags,
            method: &manifest.method,
            path: &manifest.path,
            execution_mode: manifest.execution.mode_name(),
            findings: &tool.findings,
        }
    }
}

/// The text output of `discover`.
fn report_text(options: &options::TargetOptions, target: &InspectedTarget) -> String {
    let given = &options.display_text();
    let inventory = &target.found.inventory;
    let version = inventory.source_version.as_deref();
    let version =
        version.map(|version| format!(", version {}", output::escape_for_terminal(version)));
    let mut has =
        count_noun(manifests_of_kind(target, McpPrimitive::Tool, false).count(), "tool", "tools");
    for (kind, is_template, one, many) in OTHER_PRIMITIVES {
        match manifests_of_kind(target, kind, is_template).count() {
            0 => {}
            count => has += &format!(", {}", count_noun(count, one, many)),
        }
    }
    let mut text = format!(
        "{has} in {} ({}{})\n",
        shell_text::display_target(given),
        target.kind,
        version.unwrap_or_default(),
    );
    text += &match target.kind {
        SourceKind::Mcp => mcp_offer_tables(target),
        _ => tool_table(target),
    };
    text += &warnings_text(&inventory.warnings);
    text += &findings_text(target);
    let tools = || {
        let all = inventory.tools.values();
        all.filter(|tool| tool.manifest.execution.primitive() == McpPrimitive::Tool)
    };
    // Prefer a tool that changes nothing as the example.
    if let Some(tool) = tools().find(|tool| &*tool.manifest.method == "GET").or(tools().next()) {
        text +=
            &format!("\nCall one: {}\n", example_call(given, &options.options_for_call(), tool));
    }
    text
}

/// Primitives other than tools: kind, whether it is a template, singular and plural.
const OTHER_PRIMITIVES: [(McpPrimitive, bool, &str, &str); 3] = [
    (McpPrimitive::Prompt, false, "prompt", "prompts"),
    (McpPrimitive::Resource, false, "resource", "resources"),
    (McpPrimitive::Resource, true, "resource template", "resource templates"),
];

/// All manifests of one kind.
fn manifests_of_kind(
    target: &InspectedTarget,
    kind: McpPrimitive,
    is_template: bool,
) -> impl Iterator<Item = &Manifest<SchemaRef>> {
    let all = target.found.inventory.tools.values().map(|tool| &*tool.manifest);
    all.filter(move |manifest| {
        manifest.execution.primitive() == kind
            && manifest.execution.resource_template().is_some() == is_template
    })
}

/// The offers of an MCP server by kind; they have no method and path.
fn mcp_offer_tables(target: &InspectedTarget) -> String {
    let row = |manifest: &Manifest<SchemaRef>| {
        let execution = &manifest.execution;
        let address = execution.resource_uri().or_else(|| execution.resource_template());
        let name = address.unwrap_or(&manifest.name);
        vec![
            output::escape_for_terminal(name).into_owned(),
            first_line(&manifest.description).into_owned(),
        ]
    };
    let mut text = String::new();
    for (kind, is_template, _, title) in
        [(McpPrimitive::Tool, false, "", "tools")].iter().chain(&OTHER_PRIMITIVES)
    {
        let rows: Vec<_> = manifests_of_kind(target, *kind, *is_template).map(row).collect();
        if !rows.is_empty() {
            let name = if *kind == McpPrimitive::Resource { "URI" } else { "NAME" };
            text += &table_section(&title.to_uppercase(), &[name, "DESCRIPTION"], rows);
        }
    }
    text
}

fn tool_table(target: &InspectedTarget) -> String {
    let all = || target.found.inventory.tools.values().map(|tool| &tool.manifest);
    let tools = || all().filter(|manifest| manifest.execution.primitive() == McpPrimitive::Tool);
    if tools().next().is_none() {
        return String::new();
    }
    let longest = |text: fn(&Manifest<SchemaRef>) -> &str| {
        tools().map(|manifest| text(manifest).chars().count()).max().unwrap_or_default()
    };
    let others = longest(|m| &m.name) + longest(|m| &m.method).max(6) + longest(|m| &m.path);
    // There are four columns, each indented by two.
    let room = terminal_width().saturating_sub(others + 8).max(MIN_DESCRIPTION_WIDTH);
    let row = |manifest: &Arc<Manifest<SchemaRef>>| {
        let columns = [&manifest.name, &manifest.method, &manifest.path];
        let mut row: Vec<String> =
            columns.map(|text| output::escape_for_terminal(text).into_owned()).into();
        row.push(truncated_line(&manifest.description, room));
        row
    };
    let rows = tools().map(row).collect();
    table_section("", &["NAME", "METHOD", "PATH", "DESCRIPTION"], rows)
        .trim_start_matches('\n')
        .to_owned()
}

fn warnings_text(warnings: &[DiscoveryWarning]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", count_noun(warnings.len(), "warning", "warnings"));
    for DiscoveryWarning { code, at, message } in warnings.iter().take(MAX_PRINTED_WARNINGS) {
        let at = if at.is_empty() { "the document" } else { at };
        text += &format!(
            "  {code} at {}: {}\n",
            output::escape_for_terminal(at),
            output::escape_for_terminal(message)
        );
    }
    if MAX_PRINTED_WARNINGS < warnings.len() {
        text +=
            &format!("  … and {} more; --json lists all\n", warnings.len() - MAX_PRINTED_WARNINGS);
    }
    text
}

/// Inspection findings, the most severe first. Notes are in the JSON output only.
fn findings_text(target: &InspectedTarget) -> String {
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
        count_noun(found.len(), "finding", "findings")
    );
    for (name, Finding { check, severity, at, offset, what }) in
        found.iter().take(MAX_PRINTED_WARNINGS)
    {
        let (name, at, what) = (
            output::escape_for_terminal(name),
            output::escape_for_terminal(at),
            output::escape_for_terminal(what),
        );
        let (check, severity) = (output::escape_for_terminal(check), severity.as_str());
        text += &format!("  {severity} {check} in {name} at {at}, character {offset}: {what}\n");
    }
    if MAX_PRINTED_WARNINGS < found.len() {
        text += &format!("  … and {} more; --json lists all\n", found.len() - MAX_PRINTED_WARNINGS);
    }
    text
}

/// An example call with every required argument.
fn example_call(given: &str, again: &str, tool: &DiscoveredTool) -> String {
    let schema = tool.schema(&tool.manifest.input_schema).to_value();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pairs: String = required.map(|name| format!(" {}=…", shell_quote(name))).collect();
    let name = output::escape_for_terminal(&tool.manifest.name);
    if let Some(command) = given.strip_prefix("-- ") {
        return format!("toolcrib call {name}{pairs} -- {}", output::escape_for_terminal(command));
    }
    let given = shell_quote(&shell_text::display_target(given).replace("standard input", "-"));
    format!("toolcrib call {given} {name}{pairs}{again} --dry-run")
}

fn first_line(text: &str) -> Cow<'_, str> {
    output::escape_for_terminal(text.trim().lines().next().unwrap_or_default())
}

/// The first line, truncated to `width` characters.
fn truncated_line(text: &str, width: usize) -> String {
    let line = first_line(text);
    match line.chars().count() <= width {
        true => line.into_owned(),
        false => line.chars().take(width - 1).chain(['…']).collect(),
    }
}

fn terminal_width() -> usize {
    let terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    terminal.map_or(DEFAULT_WIDTH, |(terminal_size::Width(width), _)| usize::from(width))
}
