//! Ingest: compares an inventory with the known tools and decides one atomic step.

use std::collections::HashSet;
use std::sync::Arc;

use model::{DiscoveredTool, Inventory};
use serde_json::json;

use crate::command::{CommandDecision, expected_version};
use crate::command_refusal::CommandRefusal;
use crate::journal::StreamName;
use crate::snapshot::Snapshot;
use crate::source::{IngestedInventory, Source, SourceCommand};
use crate::tool::{Tool, ToolCommand, ToolEvent, ToolObservation, ToolStatus};
use crate::tool_table::CataloguedTool;

/// Number of tools of a refresh by outcome.
#[derive(Default)]
struct IngestCounts {
    created: usize,
    updated: usize,
    unchanged: usize,
    deprecated: usize,
    restored: usize,
}

pub(crate) fn decide_ingest(
    snapshot: &Snapshot,
    inventory: &Inventory,
    force: bool,
) -> Result<CommandDecision, CommandRefusal> {
    let id = &inventory.source;
    let entry = snapshot.source(id).ok_or_else(|| CommandRefusal::not_found("source", id))?;
    let source = &entry.source;
    let mut decision = CommandDecision::default();
    let mut counts = IngestCounts::default();

    let same =
        source.inventory.as_ref().is_some_and(|known| known.fingerprint == inventory.fingerprint);
    if same && !force {
        counts.unchanged = inventory.tools.len();
    } else {
        let known: Vec<_> = entry.tools.iter().filter_map(|slot| snapshot.tool_at(slot)).collect();
        let gone = find_missing_tools(&known, inventory);
        guard_against_shrinking(source, &known, gone.len(), force)?;
        for (tool, discovered) in &inventory.tools {
            let known = snapshot.tool(tool).map(|entry| &entry.tool);
            let command = ToolCommand::Observe(build_observation(source, discovered));
            let events = Tool::decide(tool, known, command)?;
            count_change(&mut counts, &events);
            if !events.is_empty() {
                decision.documents.extend(discovered.documents.iter().cloned());
            }
            let stream = StreamName::for_tool(tool);
            let version = expected_version(snapshot, &stream, known.map(|tool| tool.version));
            decision.add_events(stream, version, &events);
        }
        for entry in &gone {
            let events = Tool::decide(&entry.tool.id, Some(&entry.tool), ToolCommand::Deprecate)?;
            decision.add_events(StreamName::for_tool(&entry.tool.id), entry.tool.version, &events);
        }
        counts.deprecated = gone.len();
        // A definition that many tools share is stored once.
        let mut seen = HashSet::new();
        decision.documents.retain(|document| seen.insert(document.digest));
    }

    let ingested = IngestedInventory {
        inventory_hash: inventory.published_hash.as_str().into(),
        fingerprint: inventory.fingerprint,
        count: inventory.tools.len(),
        source_version: inventory.source_version.as_deref().map(Into::into),
        warnings: inventory.warnings.clone(),
        at: None,
    };
    let events = Source::decide(id, Some(source), SourceCommand::Ingest(ingested))?;
    decision.add_events(StreamName::for_source(id), source.version, &events);
    decision.answer = json!({
        "source_id": id, "success": true, "discovered": inventory.tools.len(),
        "created": counts.created, "updated": counts.updated, "unchanged": counts.unchanged,
        "deprecated": counts.deprecated, "restored": counts.restored,
        "inventory_hash": inventory.published_hash, "source_version": inventory.source_version,
        "warnings": inventory.warnings,
    });
    Ok(decision)
}

fn build_observation(source: &Source, discovered: &DiscoveredTool) -> ToolObservation {
    ToolObservation {
        source: source.id.clone(),
        manifest: Arc::clone(&discovered.manifest),
        fingerprint: discovered.fingerprint,
        findings: discovered.findings.clone(),
        trust: source.profile.trust,
    }
}

fn find_missing_tools<'a>(
    known: &[&'a Arc<CataloguedTool>],
    inventory: &Inventory,
) -> Vec<&'a Arc<CataloguedTool>> {
    let gone = |entry: &&&Arc<CataloguedTool>| {
        entry.tool.status == ToolStatus::Active && !inventory.tools.contains_key(&entry.tool.id)
    };
    known.iter().filter(gone).copied().collect()
}

/// Rejects suspicious refreshes: an upstream that returns nothing is more often broken than empty.
fn guard_against_shrinking(
    source: &Source,
    known: &[&Arc<CataloguedTool>],
    gone: usize,
    force: bool,
) -> Result<(), CommandRefusal> {
    let known = known.iter().filter(|entry| entry.tool.status == ToolStatus::Active).count();
    let limit = source.profile.shrink_limit;
    if !force && 0 < gone && (gone == known || usize::from(limit) * known < gone * 100) {
        return Err(CommandRefusal::ShrinksTooMuch {
            id: source.id.to_string(),
            gone,
            known,
            limit,
        });
    }
    Ok(())
}

fn count_change(counts: &mut IngestCounts, events: &[ToolEvent]) {
    let any = |wanted: fn(&ToolEvent) -> bool| events.iter().any(wanted);
    if events.is_empty() || matches!(events, [ToolEvent::Inspected { .. }]) {
        counts.unchanged += 1;
    } else if any(|event| matches!(event, ToolEvent::Registered { .. })) {
        counts.created += 1;
    } else if any(|event| matches!(event, ToolEvent::Restored {})) {
        counts.restored += 1;
    } else {
        counts.updated += 1;
    }
}
