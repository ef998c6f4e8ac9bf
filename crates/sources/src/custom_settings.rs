//! Sources of kind `custom`: settings that an admin wrote, read and compiled once to prove that they can be used.

use std::fmt;

use execution::{HttpTool, HttpToolResponse, schema_problem};
use limits::run_low_priority;
use model::{
    CustomHolds, CustomSettings, CustomWork, Execution, Inventory, InventoryError, SourceId,
    SourceUrl, ToolId,
};
use serde_json::json;

use crate::custom::{CustomDeclaration, CustomProblem};
use crate::{DiscoveredInventory, custom};

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCustomSettings {
    /// All problems, each with its field path in the settings.
    pub problems: Vec<CustomProblem>,
}

impl fmt::Display for InvalidCustomSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.problems.iter().map(|CustomProblem { at, why }| match at.is_empty() {
            true => why.clone(),
            false => format!("`{at}`: {why}"),
        });
        f.write_str(&said.collect::<Vec<_>>().join("; "))
    }
}

impl std::error::Error for InvalidCustomSettings {}

impl From<InventoryError> for InvalidCustomSettings {
    fn from(error: InventoryError) -> Self {
        let why = error.to_string();
        Self { problems: vec![CustomProblem { at: String::new(), why }] }
    }
}

/// Reads the settings of a source of kind `custom`, or returns all problems with them. Paths are relative to its `url`.
pub fn read_custom(
    source: &SourceId,
    url: Option<&SourceUrl>,
    settings: &CustomSettings,
) -> Result<Inventory, InvalidCustomSettings> {
    let declared = custom::read_custom_settings(source, url, settings)
        .map_err(|problems| InvalidCustomSettings { problems })?;
    let problems: Vec<_> = declared.iter().flat_map(|one| compile_problems(source, one)).collect();
    if !problems.is_empty() {
        return Err(InvalidCustomSettings { problems });
    }
    let manifests =
        declared.into_iter().map(|CustomDeclaration { key, manifest, .. }| (key, manifest));
    Ok(Inventory::new(source.clone(), manifests)?)
}

pub async fn discover_custom(
    source: SourceId,
    url: Option<SourceUrl>,
    settings: CustomSettings,
) -> Result<DiscoveredInventory, InvalidCustomSettings> {
    let inventory = run_low_priority(move || read_custom(&source, url.as_ref(), &settings)).await?;
    let operations = inventory.tools.len();
    Ok(DiscoveredInventory { inventory, operations })
}

/// Problems that only compilation finds.
fn compile_problems(source: &SourceId, declared: &CustomDeclaration) -> Vec<CustomProblem> {
    let CustomDeclaration { at, key, manifest } = declared;
    let mut problems = Vec::new();
    let mut say = |member: &str, why: String| {
        problems.push(CustomProblem { at: format!("{at}.{member}"), why })
    };
    let input = manifest.input_schema.to_value();
    if let Some(why) = schema_problem(&input) {
        say("input_schema", why);
    }
    let output = manifest.output_schema.as_ref().map(|schema| schema.to_value());
    if let Some(why) = output.as_ref().and_then(schema_problem) {
        say("output_schema", why);
    }
    let Ok(id) = ToolId::new(source, key) else { return problems };
    let (member, method, request) = match (&manifest.execution, manifest.execution.custom_work()) {
        (Execution::SyncHttp(request) | Execution::AsyncPoll { request, .. }, _) => {
            ("request", &*manifest.method, request)
        }
        (
            _,
            Some(
                CustomWork::Resource { holds: CustomHolds::Request(request), .. }
                | CustomWork::Template { holds: CustomHolds::Request(request), .. },
            ),
        ) => ("url", "GET", request),
        _ => return problems,
    };
    let compiled = HttpTool::from_request(id, (method, request), &json!({}), HttpToolResponse::Api);
    if let Err(error) = compiled {
        say(member, error.to_string());
    }
    problems
}
