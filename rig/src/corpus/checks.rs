//! Checks that must hold for each specification; counts the violations.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use execution::RequestTemplate;
use model::{DiscoveredTool, Execution};
use serde_json::{Value, json};
use sources::openapi;
use sources::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};

use super::specification::{KnownSpecification, reverse_paths};

/// Counts for one specification.
#[derive(Default)]
pub(super) struct SpecificationCounts {
    pub failed: Option<String>,
    pub operations: usize,
    pub tools: usize,
    pub warned: usize,
    pub parameters: usize,
    pub parameters_missing: usize,
    pub bodies: usize,
    pub bodies_missing: usize,
    pub invalid_schemas: usize,
    pub dangling: usize,
    pub bad_names: usize,
    pub unstable_names: usize,
    pub uncallable: usize,
    pub list_bytes: usize,
    pub input_bytes: usize,
    pub output_bytes: usize,
}

/// Runs all checks on one specification.
pub(super) fn check_specification(
    known: &KnownSpecification,
    verbose: bool,
    dump: Option<&Path>,
) -> SpecificationCounts {
    let mut counts = SpecificationCounts::default();
    let tell = |text: String| {
        if verbose {
            eprintln!("  {}: {text}", known.id);
        }
    };
    let specification = match OpenApiSpecification::open_file(&known.file) {
        Ok(specification) => specification,
        Err(error) => return SpecificationCounts { failed: Some(error.to_string()), ..counts },
    };
    let found = match discover(&specification) {
        Ok(found) => found,
        Err(error) => return SpecificationCounts { failed: Some(error), ..counts },
    };
    counts.operations = known.expected.as_ref().map_or(found.operations, |expected| expected.n_ops);
    counts.tools = found.inventory.tools.len();
    for warning in &found.inventory.warnings {
        if warning.message.contains("operation is left out") {
            counts.warned += 1;
        }
        tell(format!("{} {} {}", warning.code, warning.at, warning.message));
    }
    let mut names = HashSet::new();
    for tool in found.inventory.tools.values() {
        let name = &*tool.manifest.name;
        let legal = name.len() <= 64
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !legal || !names.insert(name) {
            counts.bad_names += 1;
            tell(format!("bad name {name}"));
        }
        check_schemas(tool, &mut counts, &tell);
        check_templates(tool, &mut counts, &tell);
        let entry = list_entry(tool);
        counts.list_bytes += entry.to_string().len() + 1;
        counts.input_bytes += entry["inputSchema"].to_string().len();
        counts.output_bytes +=
            entry.get("outputSchema").map_or(0, |schema| schema.to_string().len());
    }
    if let Some(dump) = dump {
        let entries: Vec<Value> = found.inventory.tools.values().map(list_entry).collect();
        let written = std::fs::write(
            dump.join(format!("{}.json", known.id)),
            Value::from(entries).to_string(),
        );
        written.unwrap_or_else(|error| tell(error.to_string()));
    }
    check_expected(known, &found, &mut counts, &tell);
    counts.unstable_names = unstable_names(known, &found, verbose);
    counts
}

fn discover(specification: &OpenApiSpecification) -> Result<DiscoveredInventory, String> {
    let source = "corpus".parse().expect("this is a slug");
    openapi::discover_openapi(source, specification, &SpecOptions::default())
        .map_err(|error| error.to_string())
}

/// A tool as an entry of `tools/list`.
pub(super) fn list_entry(tool: &DiscoveredTool) -> Value {
    let manifest = &tool.manifest;
    let mut entry = json!({
        "name": manifest.name,
        "description": manifest.description,
        "inputSchema": tool.schema(&manifest.input_schema).to_served(),
    });
    if let Some(schema) = &manifest.output_schema {
        entry["outputSchema"] = tool.schema(schema).to_served();
    }
    for (key, value) in &manifest.extra {
        entry[&**key] = value.to_value();
    }
    entry
}

/// The size of a tool in `tools/list` in bytes, without its output schema.
pub(crate) fn list_bytes(tool: &DiscoveredTool) -> usize {
    let mut entry = list_entry(tool);
    entry.as_object_mut().map(|entry| entry.shift_remove("outputSchema"));
    entry.to_string().len() + 1
}

fn check_schemas(tool: &DiscoveredTool, counts: &mut SpecificationCounts, tell: &impl Fn(String)) {
    let manifest = &tool.manifest;
    for schema in std::iter::once(&manifest.input_schema).chain(&manifest.output_schema) {
        let schema = tool.schema(schema).to_served();
        if schema["type"] != "object" {
            counts.invalid_schemas += 1;
        }
        let mut dangling = Vec::new();
        collect_dangling(&schema, &schema, &mut dangling);
        counts.dangling += dangling.len();
        for reference in dangling {
            tell(format!("{}: dangling {reference}", manifest.name));
        }
        let valid =
            jsonschema::draft202012::meta::validate(&schema).map_err(|error| error.to_string());
        let compiled = jsonschema::draft202012::new(&schema).map_err(|error| error.to_string());
        if let Err(error) = valid.and(compiled.map(drop)) {
            counts.invalid_schemas += 1;
            tell(format!(
                "{}: invalid schema: {}",
                manifest.name,
                error.chars().take(200).collect::<String>()
            ));
        }
    }
}

/// Counts templates that execution refuses. Templates without a host are skipped: they need the source's `url`.
fn check_templates(
    tool: &DiscoveredTool,
    counts: &mut SpecificationCounts,
    tell: &impl Fn(String),
) {
    let manifest = &tool.manifest;
    let Execution::SyncHttp(request) = &manifest.execution else { return };
    if request.url_template.starts_with('/') {
        return;
    }
    if let Err(error) = RequestTemplate::compile(&manifest.method, request) {
        counts.uncallable += 1;
        tell(format!("{}: cannot be called: {error}", manifest.name));
    }
}

/// Collects the references of a schema that do not resolve within it. Literal values and property names are not
/// references.
fn collect_dangling(schema: &Value, root: &Value, dangling: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return };
    for (key, value) in object {
        match (key.as_str(), value) {
            ("$ref", Value::String(text)) => {
                let found = text.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                if found.is_none() {
                    dangling.push(text.clone());
                }
            }
            (
                "properties" | "$defs" | "patternProperties" | "dependentSchemas",
                Value::Object(named),
            ) => {
                named.values().for_each(|value| collect_dangling(value, root, dangling));
            }
            ("enum" | "const" | "default" | "examples", _) => {}
            (_, Value::Array(items)) => {
                items.iter().for_each(|item| collect_dangling(item, root, dangling))
            }
            (_, value) => collect_dangling(value, root, dangling),
        }
    }
}

fn check_expected(
    known: &KnownSpecification,
    found: &DiscoveredInventory,
    counts: &mut SpecificationCounts,
    tell: &impl Fn(String),
) {
    let Some(expected) = &known.expected else { return };
    let by_place: BTreeMap<(String, &str), &DiscoveredTool> = found
        .inventory
        .tools
        .values()
        .map(|tool| ((tool.manifest.method.to_ascii_lowercase(), &*tool.manifest.path), tool))
        .collect();
    for operation in &expected.ops {
        let Some(tool) = by_place.get(&(operation.method.clone(), operation.path.as_str())) else {
            tell(format!("no tool for {} {}", operation.method, operation.path));
            continue;
        };
        let schema = tool.schema(&tool.manifest.input_schema).to_value();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let Execution::SyncHttp(request) = &tool.manifest.execution else { continue };
        let templates = format!("{} {:?}", request.url_template, request.headers_template)
            .replace("\\\"", "\"");
        let used = |name: &str| templates.contains(&format!("args[{}]", json!(name)));
        for parameter in &operation.parameters {
            // OpenAPI says that these are not parameters, or an agent must not set them.
            let withheld = ["accept", "content-type", "authorization", "cookie", "content-length"];
            if parameter.location == "header"
                && withheld.contains(&parameter.name.to_ascii_lowercase().as_str())
            {
                continue;
            }
            counts.parameters += 1;
            let other = format!("{}__{}", parameter.name, parameter.location);
            let settable = match parameter.location.as_str() {
                // The body in Swagger 2.0.
                "body" => request.body_template.is_some(),
                "formData" => {
                    let body = request.body_template.as_deref().unwrap_or_default();
                    properties.contains_key(&parameter.name)
                        && body.contains(&json!(parameter.name).to_string())
                }
                _ => [&parameter.name, &other]
                    .iter()
                    .any(|name| properties.contains_key(name.as_str()) && used(name)),
            };
            if !settable {
                counts.parameters_missing += 1;
                tell(format!(
                    "{} {}: {} {}",
                    operation.method, operation.path, parameter.location, parameter.name
                ));
            }
        }
        if operation.body.as_ref().is_some_and(|body| body.takes_input) {
            counts.bodies += 1;
            let settable =
                request.body_template.is_some() && properties.keys().any(|name| !used(name));
            if !settable {
                counts.bodies_missing += 1;
                tell(format!("{} {}: no body", operation.method, operation.path));
            }
        }
    }
}

/// The number of tools whose name or id changes if the operations of the document are reordered.
fn unstable_names(known: &KnownSpecification, found: &DiscoveredInventory, verbose: bool) -> usize {
    let Some(value) = std::fs::read(&known.file)
        .ok()
        .and_then(|text| json::document_text::read_document(&text).ok())
    else {
        return 1;
    };
    let text = reverse_paths(value).to_string();
    let turned = OpenApiSpecification::from_bytes(
        SpecificationAddress::File(known.file.clone()),
        text.as_bytes(),
    );
    let Some(turned) = turned.ok().and_then(|specification| discover(&specification).ok()) else {
        return 1;
    };
    let id = |found: &DiscoveredInventory| -> HashSet<String> {
        let tools = found.inventory.tools.iter();
        tools
            .map(|(id, tool)| {
                format!("{} {} {}", id.as_str(), tool.manifest.name, tool.fingerprint)
            })
            .collect()
    };
    let (one, two) = (id(found), id(&turned));
    if verbose {
        for line in one.symmetric_difference(&two) {
            eprintln!("  unstable {line}");
        }
    }
    one.symmetric_difference(&two).count()
}

impl SpecificationCounts {
    pub(super) fn summary_line(&self, id: &str) -> String {
        if let Some(error) = &self.failed {
            return format!("{id:<24} FAILED {error}");
        }
        format!(
            "{id:<24} operations {:>5} tools {:>5} warned {:>3} parameters missing {}/{} bodies missing {}/{} invalid {} \
             dangling {} names {} unstable {} uncallable {} list {} (in {} out {})",
            self.operations,
            self.tools,
            self.warned,
            self.parameters_missing,
            self.parameters,
            self.bodies_missing,
            self.bodies,
            self.invalid_schemas,
            self.dangling,
            self.bad_names,
            self.unstable_names,
            self.uncallable,
            self.list_bytes,
            self.input_bytes,
            self.output_bytes,
        )
    }
}

/// The totals of all specifications.
#[derive(Default)]
pub(super) struct CorpusTotals {
    specifications: usize,
    failed: usize,
    unaccounted: usize,
    total_counts: SpecificationCounts,
}

impl CorpusTotals {
    pub(super) fn add(&mut self, counts: &SpecificationCounts) {
        self.specifications += 1;
        self.failed += usize::from(counts.failed.is_some());
        self.unaccounted += counts.operations.abs_diff(counts.tools + counts.warned);
        let sum = &mut self.total_counts;
        for (total, one) in [
            (&mut sum.operations, counts.operations),
            (&mut sum.tools, counts.tools),
            (&mut sum.warned, counts.warned),
            (&mut sum.parameters, counts.parameters),
            (&mut sum.parameters_missing, counts.parameters_missing),
            (&mut sum.bodies, counts.bodies),
            (&mut sum.bodies_missing, counts.bodies_missing),
            (&mut sum.invalid_schemas, counts.invalid_schemas),
            (&mut sum.dangling, counts.dangling),
            (&mut sum.bad_names, counts.bad_names),
            (&mut sum.unstable_names, counts.unstable_names),
            (&mut sum.uncallable, counts.uncallable),
            (&mut sum.list_bytes, counts.list_bytes),
            (&mut sum.input_bytes, counts.input_bytes),
            (&mut sum.output_bytes, counts.output_bytes),
        ] {
            *total += one;
        }
    }

    pub(super) fn summary_line(&self) -> String {
        let share =
            100.0 * self.total_counts.tools as f64 / self.total_counts.operations.max(1) as f64;
        format!(
            "{}\nspecifications {} failed {} operations {} tools {} ({share:.2} %) warned {} unaccounted {}",
            self.total_counts.summary_line("total"),
            self.specifications,
            self.failed,
            self.total_counts.operations,
            self.total_counts.tools,
            self.total_counts.warned,
            self.unaccounted,
        )
    }

    pub(super) fn has_no_violations(&self) -> bool {
        let sum = &self.total_counts;
        let faults = self.failed
            + self.unaccounted
            + sum.parameters_missing
            + sum.bodies_missing
            + sum.invalid_schemas
            + sum.dangling
            + sum.bad_names
            + sum.unstable_names
            + sum.uncallable;
        faults == 0 && sum.operations * 995 <= sum.tools * 1000
    }
}
