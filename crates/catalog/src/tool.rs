//! The aggregate `Tool`: observed at its source, switched by admins, reviewed if its source requires it.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use model::{
    CallLimit, Digest, DisplayName, Finding, LabelId, Manifest, McpPrimitive, SchemaRef, SourceId,
    ToolId, Trust, Visibility,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;
use crate::source::event_if;

/// A manifest whose schemas are references to stored documents.
pub type StoredManifest = Manifest<SchemaRef>;

/// The state of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub id: ToolId,
    pub source: SourceId,
    /// Manifest as last observed at the source.
    pub manifest: Arc<StoredManifest>,
    /// Fingerprint of that manifest.
    pub fingerprint: Digest,
    /// Hidden or suspicious content in the texts of the last observed version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The version that agents get.
    pub served: ServedVersion,
    /// Review of the last observed version.
    pub review: ReviewState,
    /// Whether the source still offers the tool.
    pub status: ToolStatus,
    /// Switched on by an admin.
    pub enabled: bool,
    /// Values that an admin set in place of those of the source.
    #[serde(default, skip_serializing_if = "ToolOverride::is_empty")]
    pub overridden: ToolOverride,
    /// Labels set by an admin.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<LabelId>,
    /// When the tool was first observed.
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When the tool went missing at its source. `None` means that the last refresh of the source saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_since: Option<Timestamp>,
    /// Version of its stream.
    pub version: StreamVersion,
}

/// The version of a tool that agents get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedVersion {
    /// The last observed version.
    Latest,
    /// The last approved version.
    Earlier(Arc<StoredManifest>),
    /// No version was ever approved.
    Nothing,
}

/// Whether an admin has decided about the version last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Review")]
pub enum ReviewState {
    /// Served.
    Approved,
    /// Waiting.
    Waiting,
    /// Refused.
    Rejected,
}

/// Whether the source still offers a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Status")]
pub enum ToolStatus {
    /// It does.
    Active,
    /// It does not.
    Deprecated,
}

/// What an admin says instead of the source. It survives refreshes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Override")]
pub struct ToolOverride {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Another description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
    /// Another place to be met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// What an agent's token must allow, instead of what the source or its specification says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_scopes: Option<BTreeSet<Box<str>>>,
    /// For whom the tokens are that its upstream is shown, instead of whom the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<DisplayName>,
    /// Which part of its JSON agents get, as a JMESPath expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Box<str>>,
    /// How many bytes of text agents get at once of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<u32>,
    /// How many calls of it there may be, instead of how many the source allows of each tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<CallLimit>,
}

impl ToolOverride {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A partial change of an override: `None` keeps a value, and `Some(None)` restores the value of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolOverrideChange {
    pub name: Option<Option<Box<str>>>,
    pub description: Option<Option<Box<str>>>,
    pub visibility: Option<Option<Visibility>>,
    /// Scopes that an agent's token must have.
    pub required_scopes: Option<Option<BTreeSet<Box<str>>>>,
    /// Audience of the tokens that the upstream receives.
    pub audience: Option<Option<DisplayName>>,
    /// JMESPath expression that selects the part of a JSON result that agents get.
    pub projection: Option<Option<Box<str>>>,
    /// Upper bound for the text of one result, in bytes.
    pub max_result_bytes: Option<Option<u32>>,
    /// Rate limit for calls of this tool.
    pub limit: Option<Option<CallLimit>>,
}

impl ToolOverrideChange {
    fn apply_to(self, before: &ToolOverride) -> ToolOverride {
        ToolOverride {
            name: self.name.unwrap_or_else(|| before.name.clone()),
            description: self.description.unwrap_or_else(|| before.description.clone()),
            visibility: self.visibility.unwrap_or(before.visibility),
            required_scopes: self.required_scopes.unwrap_or_else(|| before.required_scopes.clone()),
            audience: self.audience.unwrap_or_else(|| before.audience.clone()),
            projection: self.projection.unwrap_or_else(|| before.projection.clone()),
            max_result_bytes: self.max_result_bytes.unwrap_or(before.max_result_bytes),
            limit: self.limit.unwrap_or(before.limit),
        }
    }
}

/// A command for one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ToolCommand {
    /// A refresh found the tool with this manifest.
    Observe(ToolObservation),
    /// The source no longer offers the tool.
    Deprecate,
    /// Serve the tool.
    Enable,
    /// Stop serving the tool.
    Disable,
    /// Replace the override.
    Override(ToolOverride),
    /// Change some values of the override and keep the others.
    Amend(ToolOverrideChange),
    /// Replace the labels.
    Label(BTreeSet<LabelId>),
    /// Serve the version with this fingerprint.
    Approve {
        fingerprint: Digest,
        /// Approve although the version has findings.
        despite_findings: bool,
    },
    /// Reject the version with this fingerprint.
    Reject { fingerprint: Digest, reason: Box<str> },
    /// Remove the tool.
    Remove,
}

/// A tool as a discovery found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolObservation {
    pub source: SourceId,
    pub manifest: Arc<StoredManifest>,
    /// Fingerprint of the manifest.
    pub fingerprint: Digest,
    /// Findings in its texts.
    pub findings: Vec<Finding>,
    /// Whether a new version needs a review.
    pub trust: Trust,
}

impl ToolObservation {
    /// A version with critical findings needs a review even if its source is trusted (requirement T2).
    fn awaits_review(&self) -> bool {
        self.trust == Trust::Review || self.findings.iter().any(Finding::is_critical)
    }
}

/// An event of one tool. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolEvent {
    /// The tool was discovered for the first time.
    #[serde(rename = "ToolRegistered")]
    Registered {
        source: SourceId,
        manifest: Arc<StoredManifest>,
        /// Fingerprint of this version.
        fingerprint: Digest,
        /// True if an admin must review the version before it is served.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits_review: bool,
        /// Findings in its texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
    },
    /// The source describes the tool differently than before.
    #[serde(rename = "ToolUpdated")]
    Updated {
        manifest: Arc<StoredManifest>,
        /// Fingerprint of this version.
        fingerprint: Digest,
        /// Names of the fields that differ from the previous version.
        changed: Vec<Box<str>>,
        /// True if an admin must review the version before it is served.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits_review: bool,
        /// Findings in its texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
    },
    /// The same version was inspected again, with different findings.
    #[serde(rename = "ToolInspected")]
    Inspected {
        /// Findings in its texts.
        findings: Vec<Finding>,
    },
    /// The source no longer offers the tool; it is kept and not served.
    #[serde(rename = "ToolDeprecated")]
    Deprecated {},
    /// The source offers the tool again.
    #[serde(rename = "ToolRestored")]
    Restored {},
    /// An admin enabled the tool.
    #[serde(rename = "ToolEnabled")]
    Enabled {},
    /// An admin disabled the tool.
    #[serde(rename = "ToolDisabled")]
    Disabled {},
    /// An admin replaced values of the source.
    #[serde(rename = "ToolOverridden")]
    Overridden {
        /// The complete new override.
        #[serde(rename = "override")]
        overridden: ToolOverride,
    },
    /// An admin replaced the labels.
    #[serde(rename = "ToolLabelled")]
    Labelled { labels: BTreeSet<LabelId> },
    /// An admin approved this version.
    #[serde(rename = "ToolApproved")]
    Approved {
        fingerprint: Digest,
        /// The version had findings, and the admin approved it explicitly despite them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        despite_findings: bool,
    },
    /// An admin rejected this version.
    #[serde(rename = "ToolRejected")]
    Rejected { fingerprint: Digest, reason: Box<str> },
    /// The tool was removed.
    #[serde(rename = "ToolRemoved")]
    Removed {},
}

impl Tool {
    /// Applies every rule about one tool.
    pub fn decide(
        id: &ToolId,
        known: Option<&Self>,
        command: ToolCommand,
    ) -> Result<Vec<ToolEvent>, CommandRefusal> {
        let Some(tool) = known else {
            return match command {
                ToolCommand::Observe(observation) => {
                    let awaits_review = observation.awaits_review();
                    let ToolObservation { source, manifest, fingerprint, findings, trust: _ } =
                        observation;
                    Ok(vec![ToolEvent::Registered {
                        source,
                        manifest,
                        fingerprint,
                        awaits_review,
                        findings,
                    }])
                }
                _ => Err(CommandRefusal::not_found("tool", id)),
            };
        };
        let events = match command {
            ToolCommand::Observe(observation) => tool.observe_version(observation),
            ToolCommand::Deprecate => {
                event_if(tool.status == ToolStatus::Active, ToolEvent::Deprecated {})
            }
            ToolCommand::Enable if tool.status == ToolStatus::Deprecated => {
                return Err(CommandRefusal::ToolIsDeprecated { id: id.to_string() });
            }
            ToolCommand::Enable => event_if(!tool.enabled, ToolEvent::Enabled {}),
            ToolCommand::Disable => event_if(tool.enabled, ToolEvent::Disabled {}),
            ToolCommand::Override(overridden) => {
                event_if(overridden != tool.overridden, ToolEvent::Overridden { overridden })
            }
            ToolCommand::Amend(amendment) => {
                tool.check_applicable(&amendment)?;
                let overridden = amendment.apply_to(&tool.overridden);
                event_if(overridden != tool.overridden, ToolEvent::Overridden { overridden })
            }
            ToolCommand::Label(labels) => {
                event_if(labels != tool.labels, ToolEvent::Labelled { labels })
            }
            ToolCommand::Approve { fingerprint, despite_findings } => {
                if tool.review == ReviewState::Approved && tool.fingerprint == fingerprint {
                    return Ok(Vec::new());
                }
                tool.check_reviewable(&fingerprint)?;
                let stand_out =
                    tool.findings.iter().filter(|finding| finding.needs_acknowledgement());
                let findings: Vec<Finding> = stand_out.cloned().collect();
                if !findings.is_empty() && !despite_findings {
                    return Err(CommandRefusal::HasFindings { id: id.to_string(), findings });
                }
                let despite_findings = !findings.is_empty();
                vec![ToolEvent::Approved { fingerprint, despite_findings }]
            }
            ToolCommand::Reject { fingerprint, reason } => {
                tool.check_reviewable(&fingerprint)?;
                event_if(
                    tool.review != ReviewState::Rejected,
                    ToolEvent::Rejected { fingerprint, reason },
                )
            }
            ToolCommand::Remove => vec![ToolEvent::Removed {}],
        };
        Ok(events)
    }

    fn observe_version(&self, observation: ToolObservation) -> Vec<ToolEvent> {
        let mut events = event_if(self.status == ToolStatus::Deprecated, ToolEvent::Restored {});
        if observation.fingerprint == self.fingerprint {
            if observation.findings != self.findings {
                events.push(ToolEvent::Inspected { findings: observation.findings });
            }
        } else {
            // Agents already get this version: reverting a change leaves nothing to review.
            let is_approved = self
                .served_manifest()
                .is_some_and(|manifest| manifest.fingerprint() == observation.fingerprint);
            let awaits_review = observation.awaits_review() && !is_approved;
            events.push(ToolEvent::Updated {
                changed: changed_fields(&self.manifest, &observation.manifest),
                manifest: observation.manifest,
                fingerprint: observation.fingerprint,
                awaits_review,
                findings: observation.findings,
            });
        }
        events
    }

    /// Rejects settings that shape tool results on a prompt or resource, where they would have no effect. Removing them
    /// is allowed.
    fn check_applicable(&self, amendment: &ToolOverrideChange) -> Result<(), CommandRefusal> {
        let kind = match self.current_manifest().execution.primitive() {
            McpPrimitive::Tool => return Ok(()),
            McpPrimitive::Prompt => "prompt",
            McpPrimitive::Resource => "resource",
        };
        let said = [
            ("projection", matches!(amendment.projection, Some(Some(_)))),
            ("max_result_bytes", matches!(amendment.max_result_bytes, Some(Some(_)))),
        ];
        match said.into_iter().find(|(_, is_said)| *is_said) {
            Some((member, _)) => {
                Err(CommandRefusal::OnlyOfTools { id: self.id.to_string(), kind, member })
            }
            None => Ok(()),
        }
    }

    fn check_reviewable(&self, fingerprint: &Digest) -> Result<(), CommandRefusal> {
        if self.fingerprint != *fingerprint {
            return Err(CommandRefusal::ToolHasChanged { id: self.id.to_string() });
        }
        if self.review == ReviewState::Approved {
            return Err(CommandRefusal::NothingToReview { id: self.id.to_string() });
        }
        Ok(())
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &ToolId,
        event: ToolEvent,
        at: Timestamp,
        version: StreamVersion,
    ) {
        if let ToolEvent::Registered { source, manifest, fingerprint, awaits_review, findings } =
            event
        {
            let (served, review) = match awaits_review {
                false => (ServedVersion::Latest, ReviewState::Approved),
                true => (ServedVersion::Nothing, ReviewState::Waiting),
            };
            *known = Some(Self {
                id: id.clone(),
                source,
                manifest,
                fingerprint,
                findings,
                served,
                review,
                status: ToolStatus::Active,
                enabled: true,
                overridden: ToolOverride::default(),
                labels: BTreeSet::new(),
                created_at: at,
                updated_at: at,
                missing_since: None,
                version,
            });
            return;
        }
        let Some(tool) = known else { return };
        tool.version = version;
        tool.updated_at = at;
        match event {
            ToolEvent::Registered { .. } => {}
            ToolEvent::Updated { manifest, fingerprint, awaits_review, findings, .. } => {
                let before = std::mem::replace(&mut tool.manifest, manifest);
                (tool.fingerprint, tool.findings) = (fingerprint, findings);
                if !awaits_review {
                    (tool.served, tool.review) = (ServedVersion::Latest, ReviewState::Approved);
                    return;
                }
                tool.review = ReviewState::Waiting;
                if tool.served == ServedVersion::Latest {
                    tool.served = ServedVersion::Earlier(before);
                }
            }
            ToolEvent::Inspected { findings } => tool.findings = findings,
            ToolEvent::Deprecated {} => {
                (tool.status, tool.missing_since) = (ToolStatus::Deprecated, Some(at))
            }
            ToolEvent::Restored {} => {
                (tool.status, tool.missing_since) = (ToolStatus::Active, None)
            }
            ToolEvent::Enabled {} => tool.enabled = true,
            ToolEvent::Disabled {} => tool.enabled = false,
            ToolEvent::Overridden { overridden } => tool.overridden = overridden,
            ToolEvent::Labelled { labels } => tool.labels = labels,
            ToolEvent::Approved { .. } => {
                (tool.served, tool.review) = (ServedVersion::Latest, ReviewState::Approved)
            }
            ToolEvent::Rejected { .. } => tool.review = ReviewState::Rejected,
            ToolEvent::Removed {} => *known = None,
        }
    }

    /// The version that agents get, if one was approved.
    pub fn served_manifest(&self) -> Option<&Arc<StoredManifest>> {
        match &self.served {
            ServedVersion::Latest => Some(&self.manifest),
            ServedVersion::Earlier(manifest) => Some(manifest),
            ServedVersion::Nothing => None,
        }
    }

    /// The version that agents get, or the one pending review: admins see it and selectors match against it.
    pub fn current_manifest(&self) -> &Arc<StoredManifest> {
        self.served_manifest().unwrap_or(&self.manifest)
    }

    /// The name that agents see: the override, or that of the source.
    pub fn name(&self) -> &str {
        self.overridden.name.as_deref().unwrap_or(&self.current_manifest().name)
    }

    /// The description that agents see: the override, or that of the source.
    pub fn description(&self) -> &str {
        self.overridden.description.as_deref().unwrap_or(&self.current_manifest().description)
    }
}

/// Names of the fields that differ. As in the fingerprint, the order of object keys does not matter.
fn changed_fields(before: &StoredManifest, after: &StoredManifest) -> Vec<Box<str>> {
    const FIELDS: [&str; 12] = [
        "name",
        "title",
        "description",
        "method",
        "path",
        "tags",
        "input_schema",
        "output_schema",
        "execution",
        "deprecated",
        "security",
        "extra",
    ];
    let [before, after] =
        [before, after].map(|manifest| serde_json::to_value(manifest).expect("a manifest is JSON"));
    FIELDS
        .into_iter()
        .filter(|field| before.get(field) != after.get(field))
        .map(Into::into)
        .collect()
}

#[cfg(test)]
mod tests;
