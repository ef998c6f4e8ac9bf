//! `toolcrib journal show`: prints the catalog as of now or of an earlier moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::moment_argument::MomentArgument;
use jiff::Timestamp;
use model::{GroupId, KeyId, LabelId, PolicyId, SourceHealth, SourceId, SourceKind};
use serde::Serialize;
use toolcrib::{Catalog, JournalLocation, JournalMoment, Position, Snapshot};

use super::open_to_read;
use crate::arguments::VerbOutcome;
use crate::arguments::journal::JournalShowArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::output::count_noun;
use crate::text_table::table_section;

pub(crate) async fn show_journal(
    place: &JournalLocation,
    arguments: &JournalShowArgs,
) -> Result<VerbOutcome, CliError> {
    let snapshot = read_snapshot(place, arguments.at.as_ref()).await?;
    let shown = SnapshotSummary::from_snapshot(&snapshot);
    match arguments.json.json {
        true => output::print_json(&shown)?,
        false => output::print_text(&shown.to_text())?,
    }
    Ok(VerbOutcome::Success)
}

/// The catalog as of now, or as of the given moment.
pub(crate) async fn read_snapshot(
    place: &JournalLocation,
    at: Option<&MomentArgument>,
) -> Result<Arc<Snapshot>, CliError> {
    let journal = open_to_read(place).await?;
    let Some(MomentArgument(moment)) = at else {
        return Ok(Catalog::open(journal).await?.snapshot());
    };
    let end = journal.head_position().await?.0;
    match moment {
        JournalMoment::Position(Position(asked)) if end < *asked => {
            return Err(CliError::PositionAhead { asked: *asked, end });
        }
        JournalMoment::Position(_) | JournalMoment::Time(_) => {}
    }
    Ok(Arc::new(toolcrib::snapshot_at(&*journal, *moment).await?))
}

/// A summary of a snapshot, printed as tables or as JSON.
#[derive(Serialize)]
struct SnapshotSummary {
    position: Position,
    time: Option<Timestamp>,
    events_not_understood: u64,
    tools: usize,
    tools_served: usize,
    sources: Vec<SourceRow>,
    groups: Vec<GroupRow>,
    policies: Vec<PolicyRow>,
    labels: Vec<LabelRow>,
    keys: Vec<KeyRow>,
}

#[derive(Serialize)]
struct SourceRow {
    id: SourceId,
    name: String,
    kind: SourceKind,
    health: SourceHealth,
    enabled: bool,
    tools: usize,
}

#[derive(Serialize)]
struct GroupRow {
    id: GroupId,
    name: String,
    active: bool,
    /// Selected + explicit − excluded.
    members: usize,
    /// Members that nothing stops, such as a disabled tool or group.
    served: usize,
}

#[derive(Serialize)]
struct PolicyRow {
    id: PolicyId,
    name: String,
    active: bool,
    priority: u32,
    groups: BTreeSet<GroupId>,
}

#[derive(Serialize)]
struct KeyRow {
    id: KeyId,
    name: String,
    admin: bool,
    revoked: bool,
    expires_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct LabelRow {
    id: LabelId,
    name: String,
    tools: usize,
}

impl SnapshotSummary {
    fn from_snapshot(snapshot: &Snapshot) -> Self {
        let sources = snapshot.sources().map(|entry| SourceRow {
            id: entry.source.id.clone(),
            name: entry.source.profile.name.to_string(),
            kind: entry.source.profile.settings.kind(),
            health: entry.source.health,
            enabled: entry.source.enabled,
            tools: entry.tools.len(),
        });
        let groups = snapshot.groups().map(|entry| GroupRow {
            id: entry.group.id.clone(),
            name: entry.group.profile.name.to_string(),
            active: entry.group.active,
            members: entry.members.len(),
            served: snapshot.group_tools(&entry.group.id).map_or(0, |tools| tools.len()),
        });
        let policies = snapshot.policies().map(|policy| PolicyRow {
            id: policy.id.clone(),
            name: policy.rules.name.to_string(),
            active: policy.active,
            priority: policy.rules.priority,
            groups: policy.rules.groups().clone(),
        });
        let keys = snapshot.keys().map(|key| KeyRow {
            id: key.id.clone(),
            name: key.profile.name.to_string(),
            admin: key.profile.admin,
            revoked: key.revoked,
            expires_at: key.profile.expires_at,
        });
        let labels = snapshot.labels().map(|label| LabelRow {
            id: label.id.clone(),
            name: label.profile.name.to_string(),
            tools: snapshot.tools().filter(|entry| entry.tool.labels.contains(&label.id)).count(),
        });
        Self {
            position: snapshot.position(),
            time: snapshot.time(),
            events_not_understood: snapshot.not_understood(),
            tools: snapshot.tool_count(),
            tools_served: snapshot.served().len(),
            sources: sources.collect(),
            groups: groups.collect(),
            policies: policies.collect(),
            labels: labels.collect(),
            keys: keys.collect(),
        }
    }

    fn to_text(&self) -> String {
        let Some(time) = self.time else {
            return "The catalog is empty: nothing is recorded up to this moment
"
            .to_owned();
        };
        let mut text = format!(
            "The catalog after event {} of {time:.3}
",
            self.position
        );
        if 0 < self.events_not_understood {
            let count = self.events_not_understood;
            text += &format!(
                "Events that this version does not understand, and that are kept: {count}\n"
            );
        }
        text += &self.source_table();
        text += &format!(
            "\n{}, {} served\n",
            count_noun(self.tools, "tool", "tools"),
            self.tools_served
        );
        text += &self.group_table();
        text += &self.policy_table();
        text += &self.label_table();
        if !self.keys.is_empty() {
            text += &self.key_table();
        }
        text
    }

    fn source_table(&self) -> String {
        let row = |source: &SourceRow| {
            let (kind, health) = (source.kind.to_string(), health_text(source.health).to_owned());
            vec![
                source.id.to_string(),
                kind,
                health,
                yes_or_no(source.enabled),
                source.tools.to_string(),
            ]
        };
        let rows = self.sources.iter().map(row).collect();
        table_section(
            &count_noun(self.sources.len(), "source", "sources"),
            &["ID", "KIND", "HEALTH", "ENABLED", "TOOLS"],
            rows,
        )
    }

    fn group_table(&self) -> String {
        let row = |group: &GroupRow| {
            vec![
                group.id.to_string(),
                yes_or_no(group.active),
                group.members.to_string(),
                group.served.to_string(),
            ]
        };
        let rows = self.groups.iter().map(row).collect();
        table_section(
            &count_noun(self.groups.len(), "group", "groups"),
            &["ID", "ACTIVE", "MEMBERS", "SERVED"],
            rows,
        )
    }

    fn policy_table(&self) -> String {
        let row = |policy: &PolicyRow| {
            let groups: Vec<_> = policy.groups.iter().map(GroupId::as_str).collect();
            vec![
                policy.id.to_string(),
                yes_or_no(policy.active),
                policy.priority.to_string(),
                groups.join(", "),
            ]
        };
        let rows = self.policies.iter().map(row).collect();
        table_section(
            &count_noun(self.policies.len(), "policy", "policies"),
            &["ID", "ACTIVE", "PRIORITY", "GROUPS"],
            rows,
        )
    }

    fn key_table(&self) -> String {
        let row = |key: &KeyRow| {
            let ends = match (key.revoked, key.expires_at) {
                (true, _) => "revoked".to_owned(),
                (false, Some(time)) => time.to_string(),
                (false, None) => "never".to_owned(),
            };
            vec![key.id.to_string(), key.name.clone(), yes_or_no(key.admin), ends]
        };
        let rows = self.keys.iter().map(row).collect();
        table_section(
            &count_noun(self.keys.len(), "key", "keys"),
            &["ID", "NAME", "ADMIN", "ENDS"],
            rows,
        )
    }

    fn label_table(&self) -> String {
        let row = |label: &LabelRow| {
            vec![label.id.to_string(), label.name.clone(), label.tools.to_string()]
        };
        let rows = self.labels.iter().map(row).collect();
        table_section(
            &count_noun(self.labels.len(), "label", "labels"),
            &["ID", "NAME", "TOOLS"],
            rows,
        )
    }
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn health_text(health: SourceHealth) -> &'static str {
    match health {
        SourceHealth::Unknown => "unknown",
        SourceHealth::Healthy => "healthy",
        SourceHealth::Degraded => "degraded",
        SourceHealth::Unhealthy => "unhealthy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_position_a_time_or_a_date() {
        let read = |text: &str| {
            text.parse::<MomentArgument>()
                .map(|MomentArgument(moment)| moment)
                .map_err(|error| error.to_string())
        };
        let time = |text: &str| Ok(JournalMoment::Time(text.parse().unwrap()));
        assert_eq!(read("120"), Ok(JournalMoment::Position(Position(120))));
        assert_eq!(read("2026-05-01T12:00:00+02:00"), time("2026-05-01T10:00:00Z"));
        assert_eq!(read("2026-05-01"), time("2026-05-01T00:00:00Z"));
        for text in ["", "-1", "yesterday", "2026-13-01", "2026-05-01T12:00:00", "2026-05"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
