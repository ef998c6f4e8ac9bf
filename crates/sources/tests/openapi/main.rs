//! From the text of a specification to an inventory, through the public API.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod limits;
mod names;
mod pizzeria;
mod references;
mod tolerance;

use std::time::{Duration, Instant};

use serde_json::Value;
use toolcrib_sources::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};
use toolcrib_sources::{DiscoveryError, openapi};

fn discovered(text: &str) -> DiscoveredInventory {
    discovery_of(text).unwrap()
}

fn discovery_of(text: &str) -> Result<DiscoveredInventory, DiscoveryError> {
    let specification =
        OpenApiSpecification::from_bytes(SpecificationAddress::Inline, text.as_bytes())?;
    openapi::discover_openapi("pizzeria".parse().unwrap(), &specification, &SpecOptions::default())
}

/// Discovers tools and fails if that takes too long; about a second is expected, even on a slow machine.
fn discover_quickly(specification: &str) -> DiscoveredInventory {
    let started = Instant::now();
    let found = discovered(specification);
    // Unbounded work would take hours; the generous limit tolerates a busy machine.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    found
}

fn names(found: &DiscoveredInventory) -> Vec<&str> {
    found.inventory.tools.values().map(|tool| &*tool.manifest.name).collect()
}

/// `code: message` of every warning except the one about missing servers.
fn warnings(found: &DiscoveredInventory) -> Vec<String> {
    let warnings =
        found.inventory.warnings.iter().filter(|warning| &*warning.code != "no_base_url");
    warnings.map(|warning| format!("{}: {}", warning.code, warning.message)).collect()
}

/// The input schema of a tool.
fn input(found: &DiscoveredInventory, name: &str) -> Value {
    let mut tools = found.inventory.tools.values();
    let tool = tools.find(|tool| &*tool.manifest.name == name).expect("there is such a tool");
    tool.schema(&tool.manifest.input_schema).to_served()
}
