//! Runs the request cases of a folder: small specifications, each with a call and the request that it must become.

mod case_request;
mod compare_request;
mod request_case;
mod sent_request;
mod url_normalization;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::DiscoveredTool;
use serde_json::{Value, json};
use sources::openapi::{DiscoveredInventory, OpenApiSpecification, SpecOptions};
use sources::{DiscoveryError, openapi};

use self::compare_request::CaseVerdict;
use self::request_case::RequestCase;
use super::checks::list_entry;

/// Counts of the results of all cases.
#[derive(Default)]
pub(super) struct CaseTotals {
    exact: usize,
    lenient: usize,
    failed: usize,
}

impl CaseTotals {
    pub(super) fn summary_line(&self) -> String {
        let Self { exact, lenient, failed } = self;
        let all = exact + lenient + failed;
        format!("cases {all} exact {exact} lenient {lenient} failed {failed}")
    }

    pub(super) fn all_exact(&self) -> bool {
        self.lenient == 0 && self.failed == 0
    }
}

/// Runs all cases of a folder whose name contains `only`, and prints each case that is not exact.
pub(super) fn run_cases(folder: &Path, only: Option<&str>) -> anyhow::Result<CaseTotals> {
    let mut totals = CaseTotals::default();
    for case in request_case::list_cases(folder)? {
        if only.is_some_and(|only| !case.id.contains(only)) {
            continue;
        }
        match judge_case(&case).with_context(|| case.id.clone())? {
            CaseVerdict::Exact => totals.exact += 1,
            CaseVerdict::Lenient(why) => {
                totals.lenient += 1;
                println!("{:<32} lenient: {why}", case.id);
            }
            CaseVerdict::Failed(why) => {
                totals.failed += 1;
                println!("{:<32} FAILED {why}", case.id);
            }
        }
    }
    Ok(totals)
}

fn judge_case(case: &RequestCase) -> anyhow::Result<CaseVerdict> {
    let folder = tempfile::tempdir()?;
    let file = case.write_specification(folder.path())?;
    let started = Instant::now();
    let found = discover_case(&file);
    let took = started.elapsed();
    if case.load.max_seconds.is_some_and(|most| Duration::from_secs(most) < took) {
        return Ok(CaseVerdict::Failed(format!("discovery took {took:?}")));
    }
    let found = match found {
        Ok(found) => found,
        Err(error) if case.load.allows_error(&error.to_string()) => return Ok(CaseVerdict::Exact),
        Err(error) => return Ok(CaseVerdict::Failed(error.to_string())),
    };
    let tools: Vec<&DiscoveredTool> = found.inventory.tools.values().collect();
    let Some(tool) = tools.iter().find(|tool| case.calls_tool(tool)) else {
        return Ok(CaseVerdict::Failed(format!("there is no tool: {}", joined_warnings(&found))));
    };
    if let Some(fault) =
        find_name_fault(case, tool, &tools).or_else(|| find_schema_fault(case, tool))
    {
        return Ok(CaseVerdict::Failed(fault));
    }
    let sent = case_request::render_request(case, tool);
    Ok(compare_request::compare_request(&case.expect, sent.as_ref()))
}

fn discover_case(file: &Path) -> Result<DiscoveredInventory, DiscoveryError> {
    let source = "case".parse().expect("this is a slug");
    openapi::discover_openapi(
        source,
        &OpenApiSpecification::open_file(file)?,
        &SpecOptions::default(),
    )
}

fn joined_warnings(found: &DiscoveredInventory) -> String {
    let warnings: Vec<&str> =
        found.inventory.warnings.iter().map(|warning| &*warning.message).collect();
    warnings.join("; ")
}

fn find_name_fault(
    case: &RequestCase,
    tool: &DiscoveredTool,
    tools: &[&DiscoveredTool],
) -> Option<String> {
    let name = &*tool.manifest.name;
    if let Some(count) = case.tools_expected.filter(|count| *count != tools.len()) {
        return Some(format!("{} tools instead of {count}", tools.len()));
    }
    if let Some(wanted) = case.tool.name.as_ref().filter(|wanted| *wanted != name) {
        return Some(format!("the tool is called `{name}` instead of `{wanted}`"));
    }
    if let Some(pattern) = &case.tool.name_pattern
        && let Some(tool) = tools
            .iter()
            .find(|tool| !request_case::matches_ecma_regex(pattern, &tool.manifest.name))
    {
        return Some(format!("the name `{}` does not match `{pattern}`", tool.manifest.name));
    }
    let same = tools.iter().filter(|other| other.manifest.name.eq_ignore_ascii_case(name));
    (case.tool.unique && same.count() != 1).then(|| format!("the name `{name}` is not unique"))
}

fn find_schema_fault(case: &RequestCase, tool: &DiscoveredTool) -> Option<String> {
    let schema = &list_entry(tool)["inputSchema"];
    let properties: Vec<&String> =
        schema["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    if let Some(wanted) = &case.tool.properties
        && !is_same_set(&json!(wanted), &json!(properties))
    {
        return Some(format!("properties {properties:?} instead of {wanted:?}"));
    }
    if let Some(wanted) = &case.tool.required
        && !is_same_set(&json!(wanted), schema.get("required").unwrap_or(&json!([])))
    {
        return Some(format!("required {} instead of {wanted:?}", schema["required"]));
    }
    let validator = match jsonschema::draft202012::new(schema) {
        Ok(validator) => validator,
        Err(error) => return Some(format!("the input schema is invalid: {error}")),
    };
    let refused = case.schema.accepts.iter().find(|arguments| !validator.is_valid(arguments));
    if let Some(arguments) = refused {
        return Some(format!("the input schema refuses {arguments}"));
    }
    let taken = case.schema.rejects.iter().find(|arguments| validator.is_valid(arguments));
    taken.map(|arguments| format!("the input schema takes {arguments}: {schema}"))
}

fn is_same_set(one: &Value, two: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut texts: Vec<String> =
            value.as_array().into_iter().flatten().map(Value::to_string).collect();
        texts.sort();
        texts
    };
    sorted(one) == sorted(two)
}
