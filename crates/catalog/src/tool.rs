//! A tool: seen at its source, switched by admins, reviewed where its source asks for it.
//!
//! `decide` holds every rule; `evolve` only records what already happened, so old events always replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use model::{
    Digest, Finding, LabelId, Limit, Manifest, Name, Primitive, SchemaRef, SourceId, ToolId, Trust,
    Visibility,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;
use crate::source::only_if;

/// A manifest whose schemas are references.
pub type StoredManifest = Manifest<SchemaRef>;

/// What is known of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// For ever.
    pub id: ToolId,
    /// Whose it is.
    pub source: SourceId,
    /// As last seen at the source.
    pub manifest: Arc<StoredManifest>,
    /// Of the manifest as last seen.
    pub fingerprint: Digest,
    /// What in the texts of the version last seen a person cannot see or should not trust.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Which version agents get.
    pub served: Served,
    /// Whether an admin has decided about the version last seen.
    pub review: Review,
    /// Whether the source still offers it.
    pub status: Status,
    /// The admin's switch.
    pub enabled: bool,
    /// What an admin says instead of the source.
    #[serde(default, skip_serializing_if = "Override::is_empty")]
    pub overridden: Override,
    /// The admin's words on it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<LabelId>,
    /// When it was first seen.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it went missing at its source; a tool that is there was seen at the source's last refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_since: Option<Timestamp>,
    /// Of its stream.
    pub version: Version,
}

/// Which version of a tool agents get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    /// The one last seen.
    Latest,
    /// The last one an admin approved.
    Earlier(Arc<StoredManifest>),
    /// None was ever approved.
    Nothing,
}

/// Whether an admin has decided about the version last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
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
pub enum Status {
    /// It does.
    Active,
    /// It does not.
    Deprecated,
}

/// What an admin says instead of the source. It survives refreshes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
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
    pub audience: Option<Name>,
    /// Which part of its JSON agents get, as a JMESPath expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Box<str>>,
    /// How many bytes of text agents get at once of what it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<u32>,
    /// How many calls of it there may be, instead of how many the source allows of each tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl Override {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A change to what an admin says instead of the source: what is not given stays, and `Some(None)` takes it back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amendment {
    /// Another name.
    pub name: Option<Option<Box<str>>>,
    /// Another description.
    pub description: Option<Option<Box<str>>>,
    /// Another place to be met.
    pub visibility: Option<Option<Visibility>>,
    /// What an agent's token must allow.
    pub required_scopes: Option<Option<BTreeSet<Box<str>>>>,
    /// For whom the tokens are that its upstream is shown.
    pub audience: Option<Option<Name>>,
    /// Which part of its JSON agents get, as a JMESPath expression.
    pub projection: Option<Option<Box<str>>>,
    /// How many bytes of text agents get at once of what it answers.
    pub max_result_bytes: Option<Option<u32>>,
    /// How many calls of it there may be.
    pub limit: Option<Option<Limit>>,
}

impl Amendment {
    fn applied_to(self, before: &Override) -> Override {
        Override {
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

/// A wish concerning a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ToolCommand {
    /// The source offers it, like this.
    Observe(Observation),
    /// The source no longer offers it.
    Deprecate,
    /// Serve it.
    Enable,
    /// Do not serve it.
    Disable,
    /// Say something else than the source does.
    Override(Override),
    /// Change part of what is said instead of the source; the rest stays.
    Amend(Amendment),
    /// Have exactly these labels.
    Label(BTreeSet<LabelId>),
    /// Serve the version with this fingerprint.
    Approve {
        /// Which.
        fingerprint: Digest,
        /// Although something was found in it.
        despite_findings: bool,
    },
    /// Do not serve the version with this fingerprint.
    Reject {
        /// Which.
        fingerprint: Digest,
        /// Why.
        reason: Box<str>,
    },
    /// Forget it.
    Remove,
}

/// A tool as a discovery found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// Where.
    pub source: SourceId,
    /// What.
    pub manifest: Arc<StoredManifest>,
    /// Of the manifest.
    pub fingerprint: Digest,
    /// What was found in its texts.
    pub findings: Vec<Finding>,
    /// Whether a new version waits for an admin.
    pub trust: Trust,
}

impl Observation {
    /// A version that is not to be trusted waits, whatever is thought of its source (requirement T2).
    fn awaits_review(&self) -> bool {
        self.trust == Trust::Review || self.findings.iter().any(Finding::is_critical)
    }
}

/// What happened to a tool. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolEvent {
    /// It was discovered for the first time.
    #[serde(rename = "ToolRegistered")]
    Registered {
        /// Whose tool it is.
        source: SourceId,
        /// Its description.
        manifest: Arc<StoredManifest>,
        /// The version that is meant.
        fingerprint: Digest,
        /// Whether an administrator must look at it before it is served.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits_review: bool,
        /// What was found in its texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
    },
    /// Its source describes it otherwise than before.
    #[serde(rename = "ToolUpdated")]
    Updated {
        /// Its description.
        manifest: Arc<StoredManifest>,
        /// The version that is meant.
        fingerprint: Digest,
        /// The fields that differ from the version before.
        changed: Vec<Box<str>>,
        /// Whether an administrator must look at it before it is served.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaits_review: bool,
        /// What was found in its texts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        findings: Vec<Finding>,
    },
    /// The same version was looked through again, and other things were found.
    #[serde(rename = "ToolInspected")]
    Inspected {
        /// What was found in its texts.
        findings: Vec<Finding>,
    },
    /// Its source no longer has it; it is kept, and not served.
    #[serde(rename = "ToolDeprecated")]
    Deprecated {},
    /// Its source has it again.
    #[serde(rename = "ToolRestored")]
    Restored {},
    /// An administrator lets it be served again.
    #[serde(rename = "ToolEnabled")]
    Enabled {},
    /// An administrator lets it be served no longer.
    #[serde(rename = "ToolDisabled")]
    Disabled {},
    /// An administrator described it otherwise than its source does.
    #[serde(rename = "ToolOverridden")]
    Overridden {
        /// What was changed.
        #[serde(rename = "override")]
        overridden: Override,
    },
    /// Its labels were replaced by these.
    #[serde(rename = "ToolLabelled")]
    Labelled {
        /// The labels.
        labels: BTreeSet<LabelId>,
    },
    /// An administrator let this version be served.
    #[serde(rename = "ToolApproved")]
    Approved {
        /// The version that is meant.
        fingerprint: Digest,
        /// Whoever approved it had seen that something was found in it, and said so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        despite_findings: bool,
    },
    /// An administrator refused this version.
    #[serde(rename = "ToolRejected")]
    Rejected {
        /// The version that is meant.
        fingerprint: Digest,
        /// Why.
        reason: Box<str>,
    },
    /// It was forgotten.
    #[serde(rename = "ToolRemoved")]
    Removed {},
}

impl Tool {
    /// Every rule about one tool.
    pub fn decide(
        id: &ToolId,
        known: Option<&Self>,
        command: ToolCommand,
    ) -> Result<Vec<ToolEvent>, Refusal> {
        let Some(tool) = known else {
            return match command {
                ToolCommand::Observe(observation) => {
                    let awaits_review = observation.awaits_review();
                    let Observation { source, manifest, fingerprint, findings, trust: _ } =
                        observation;
                    Ok(vec![ToolEvent::Registered {
                        source,
                        manifest,
                        fingerprint,
                        awaits_review,
                        findings,
                    }])
                }
                _ => Err(Refusal::not_found("tool", id)),
            };
        };
        let events = match command {
            ToolCommand::Observe(observation) => tool.observe(observation),
            ToolCommand::Deprecate => {
                only_if(tool.status == Status::Active, ToolEvent::Deprecated {})
            }
            ToolCommand::Enable if tool.status == Status::Deprecated => {
                return Err(Refusal::ToolIsDeprecated { id: id.to_string() });
            }
            ToolCommand::Enable => only_if(!tool.enabled, ToolEvent::Enabled {}),
            ToolCommand::Disable => only_if(tool.enabled, ToolEvent::Disabled {}),
            ToolCommand::Override(overridden) => {
                only_if(overridden != tool.overridden, ToolEvent::Overridden { overridden })
            }
            ToolCommand::Amend(amendment) => {
                tool.can_be_said(&amendment)?;
                let overridden = amendment.applied_to(&tool.overridden);
                only_if(overridden != tool.overridden, ToolEvent::Overridden { overridden })
            }
            ToolCommand::Label(labels) => {
                only_if(labels != tool.labels, ToolEvent::Labelled { labels })
            }
            ToolCommand::Approve { fingerprint, despite_findings } => {
                if tool.review == Review::Approved && tool.fingerprint == fingerprint {
                    return Ok(Vec::new());
                }
                tool.can_review(&fingerprint)?;
                let stand_out = tool.findings.iter().filter(|finding| finding.wants_a_word());
                let findings: Vec<Finding> = stand_out.cloned().collect();
                if !findings.is_empty() && !despite_findings {
                    return Err(Refusal::HasFindings { id: id.to_string(), findings });
                }
                let despite_findings = !findings.is_empty();
                vec![ToolEvent::Approved { fingerprint, despite_findings }]
            }
            ToolCommand::Reject { fingerprint, reason } => {
                tool.can_review(&fingerprint)?;
                only_if(
                    tool.review != Review::Rejected,
                    ToolEvent::Rejected { fingerprint, reason },
                )
            }
            ToolCommand::Remove => vec![ToolEvent::Removed {}],
        };
        Ok(events)
    }

    fn observe(&self, observation: Observation) -> Vec<ToolEvent> {
        let mut events = only_if(self.status == Status::Deprecated, ToolEvent::Restored {});
        if observation.fingerprint == self.fingerprint {
            if observation.findings != self.findings {
                events.push(ToolEvent::Inspected { findings: observation.findings });
            }
        } else {
            // Agents have it already: a change that is taken back leaves nothing to decide.
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

    /// A prompt or a resource has no result of a tool to shape: what would do nothing is refused. Taking it back is not.
    fn can_be_said(&self, amendment: &Amendment) -> Result<(), Refusal> {
        let kind = match self.shown_manifest().execution.primitive() {
            Primitive::Tool => return Ok(()),
            Primitive::Prompt => "prompt",
            Primitive::Resource => "resource",
        };
        let said = [
            ("projection", matches!(amendment.projection, Some(Some(_)))),
            ("max_result_bytes", matches!(amendment.max_result_bytes, Some(Some(_)))),
        ];
        match said.into_iter().find(|(_, is_said)| *is_said) {
            Some((member, _)) => {
                Err(Refusal::OnlyOfTools { id: self.id.to_string(), kind, member })
            }
            None => Ok(()),
        }
    }

    fn can_review(&self, fingerprint: &Digest) -> Result<(), Refusal> {
        if self.fingerprint != *fingerprint {
            return Err(Refusal::ToolHasChanged { id: self.id.to_string() });
        }
        if self.review == Review::Approved {
            return Err(Refusal::NothingToReview { id: self.id.to_string() });
        }
        Ok(())
    }

    /// Records what happened.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &ToolId,
        event: ToolEvent,
        at: Timestamp,
        version: Version,
    ) {
        if let ToolEvent::Registered { source, manifest, fingerprint, awaits_review, findings } =
            event
        {
            let (served, review) = match awaits_review {
                false => (Served::Latest, Review::Approved),
                true => (Served::Nothing, Review::Waiting),
            };
            *known = Some(Self {
                id: id.clone(),
                source,
                manifest,
                fingerprint,
                findings,
                served,
                review,
                status: Status::Active,
                enabled: true,
                overridden: Override::default(),
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
                    (tool.served, tool.review) = (Served::Latest, Review::Approved);
                    return;
                }
                tool.review = Review::Waiting;
                if tool.served == Served::Latest {
                    tool.served = Served::Earlier(before);
                }
            }
            ToolEvent::Inspected { findings } => tool.findings = findings,
            ToolEvent::Deprecated {} => {
                (tool.status, tool.missing_since) = (Status::Deprecated, Some(at))
            }
            ToolEvent::Restored {} => (tool.status, tool.missing_since) = (Status::Active, None),
            ToolEvent::Enabled {} => tool.enabled = true,
            ToolEvent::Disabled {} => tool.enabled = false,
            ToolEvent::Overridden { overridden } => tool.overridden = overridden,
            ToolEvent::Labelled { labels } => tool.labels = labels,
            ToolEvent::Approved { .. } => {
                (tool.served, tool.review) = (Served::Latest, Review::Approved)
            }
            ToolEvent::Rejected { .. } => tool.review = Review::Rejected,
            ToolEvent::Removed {} => *known = None,
        }
    }

    /// The version agents get, if there is one.
    pub fn served_manifest(&self) -> Option<&Arc<StoredManifest>> {
        match &self.served {
            Served::Latest => Some(&self.manifest),
            Served::Earlier(manifest) => Some(manifest),
            Served::Nothing => None,
        }
    }

    /// The version agents get, or else the one that waits: what admins look at and selectors select by.
    pub fn shown_manifest(&self) -> &Arc<StoredManifest> {
        self.served_manifest().unwrap_or(&self.manifest)
    }

    /// The name agents see: the admin's, or else the source's.
    pub fn name(&self) -> &str {
        self.overridden.name.as_deref().unwrap_or(&self.shown_manifest().name)
    }

    /// The description agents see: the admin's, or else the source's.
    pub fn description(&self) -> &str {
        self.overridden.description.as_deref().unwrap_or(&self.shown_manifest().description)
    }
}

/// The names of the fields that differ. As in the fingerprint, the order of keys does not count.
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
