//! A source: registered, refreshed often, removed at most once in each of its lives.
//!
//! `decide` holds every rule; `evolve` only records what already happened, so old events always replay.

use jiff::Timestamp;
use model::{Digest, Health, SourceId, SourceProfile, Warning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::journal::Version;
use crate::refusal::Refusal;

/// What is known of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// For ever.
    pub id: SourceId,
    /// What an admin says of it.
    pub profile: SourceProfile,
    /// The admin's switch.
    pub enabled: bool,
    /// How its refreshes went lately.
    pub health: Health,
    /// Refreshes that failed since the last that succeeded.
    pub failures: u32,
    /// Whether a refresh is missing: none has begun since it was registered, enabled, or told to ask otherwise.
    pub stale: bool,
    /// When the last refresh began.
    pub last_sync_started_at: Option<Timestamp>,
    /// When the last refresh ended, well or not; none while it goes on, or if whoever began it is gone.
    pub last_sync_ended_at: Option<Timestamp>,
    /// Why the last refresh failed, if it did.
    pub last_sync_error: Option<SyncError>,
    /// What the last successful refresh found.
    pub inventory: Option<IngestedInventory>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When an admin last changed it.
    pub updated_at: Timestamp,
    /// Of its stream.
    pub version: Version,
}

/// What a successful refresh found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedInventory {
    /// Published: 16 hexadecimal characters.
    pub inventory_hash: Box<str>,
    /// Decides whether anything changed.
    pub fingerprint: Digest,
    /// How many tools.
    pub count: usize,
    /// The upstream's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_version: Option<Box<str>>,
    /// What could not be converted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// When; the envelope says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Why a refresh failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncError {
    /// A stable word: `spec_fetch_failed`.
    pub code: Box<str>,
    /// A sentence without secrets.
    pub message: Box<str>,
}

/// A wish concerning a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SourceCommand {
    /// Make it known.
    Register(SourceProfile),
    /// Change what is said of it.
    Update(SourceProfile),
    /// Serve its tools.
    Enable,
    /// Do not serve its tools.
    Disable,
    /// Forget it and its tools.
    Remove,
    /// A refresh begins.
    StartSync,
    /// A refresh failed.
    FailSync(SyncError),
    /// A refresh succeeded.
    Ingest(IngestedInventory),
}

/// What happened to a source. Stored for ever: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceEvent {
    /// It was made known.
    #[serde(rename = "SourceRegistered")]
    Registered {
        /// What it is now.
        profile: SourceProfile,
    },
    /// Its settings were changed.
    #[serde(rename = "SourceUpdated")]
    Updated {
        /// What it is now.
        profile: SourceProfile,
    },
    /// Its tools are served again.
    #[serde(rename = "SourceEnabled")]
    Enabled {},
    /// Its tools are no longer served, and it is no longer asked.
    #[serde(rename = "SourceDisabled")]
    Disabled {},
    /// It was forgotten, with its tools.
    #[serde(rename = "SourceRemoved")]
    Removed {},
    /// Its tools are being discovered.
    #[serde(rename = "SourceSyncStarted")]
    SyncStarted {},
    /// Its tools could not be discovered; the last known ones stay.
    #[serde(rename = "SourceSyncFailed")]
    SyncFailed {
        /// Why.
        error: SyncError,
    },
    /// Its tools were discovered, and taken over.
    #[serde(rename = "InventoryIngested")]
    InventoryIngested {
        /// What was found, counted.
        inventory: IngestedInventory,
    },
    /// How well its refreshes go was changed.
    #[serde(rename = "SourceHealthChanged")]
    HealthChanged {
        /// How it is now.
        health: Health,
    },
}

/// This many failures in a row make a source unhealthy.
const UNHEALTHY_FROM: u32 = 3;

impl Source {
    /// Every rule about one source.
    pub fn decide(
        id: &SourceId,
        known: Option<&Self>,
        command: SourceCommand,
    ) -> Result<Vec<SourceEvent>, Refusal> {
        let Some(source) = known else {
            return match command {
                SourceCommand::Register(profile) => Ok(vec![SourceEvent::Registered { profile }]),
                _ => Err(Refusal::not_found("source", id)),
            };
        };
        let events = match command {
            SourceCommand::Register(_) => return Err(Refusal::already_exists("source", id)),
            SourceCommand::Update(profile) => {
                let kind = source.profile.settings.kind();
                if profile.settings.kind() != kind {
                    return Err(Refusal::KindIsForEver { id: id.to_string(), kind: kind.as_str() });
                }
                only_if(profile != source.profile, SourceEvent::Updated { profile })
            }
            SourceCommand::Enable => only_if(!source.enabled, SourceEvent::Enabled {}),
            SourceCommand::Disable => only_if(source.enabled, SourceEvent::Disabled {}),
            SourceCommand::Remove => vec![SourceEvent::Removed {}],
            SourceCommand::StartSync if !source.enabled => {
                return Err(Refusal::SourceIsDisabled { id: id.to_string() });
            }
            SourceCommand::StartSync => vec![SourceEvent::SyncStarted {}],
            SourceCommand::FailSync(error) => {
                let health = if source.failures + 1 < UNHEALTHY_FROM {
                    Health::Degraded
                } else {
                    Health::Unhealthy
                };
                source.with_health(health, SourceEvent::SyncFailed { error })
            }
            SourceCommand::Ingest(inventory) => {
                source.with_health(Health::Healthy, SourceEvent::InventoryIngested { inventory })
            }
        };
        Ok(events)
    }

    fn with_health(&self, health: Health, event: SourceEvent) -> Vec<SourceEvent> {
        let mut events = vec![event];
        events.extend(only_if(self.health != health, SourceEvent::HealthChanged { health }));
        events
    }

    /// Whether a refresh has begun and not ended; perhaps it never will.
    pub fn is_being_refreshed(&self) -> bool {
        self.last_sync_started_at.is_some() && self.last_sync_ended_at.is_none()
    }

    /// Records what happened.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &SourceId,
        event: SourceEvent,
        at: Timestamp,
        version: Version,
    ) {
        if let SourceEvent::Registered { profile } = event {
            *known = Some(Self::registered(id.clone(), profile, at, version));
            return;
        }
        let Some(source) = known else { return };
        source.version = version;
        match event {
            SourceEvent::Registered { .. } => {}
            SourceEvent::Removed {} => *known = None,
            SourceEvent::Updated { profile } => {
                source.stale |= is_asked_otherwise(&source.profile, &profile);
                source.profile = profile;
                source.updated_at = at;
            }
            SourceEvent::Enabled {} => {
                source.enabled = true;
                source.stale = true;
                source.updated_at = at;
            }
            SourceEvent::Disabled {} => {
                source.enabled = false;
                source.updated_at = at;
            }
            SourceEvent::SyncStarted {} => {
                // Nobody ended the one before: whoever began it is gone, perhaps because of it.
                source.failures += u32::from(source.is_being_refreshed());
                source.stale = false;
                source.last_sync_started_at = Some(at);
                source.last_sync_ended_at = None;
            }
            SourceEvent::SyncFailed { error } => {
                source.last_sync_ended_at = Some(at);
                source.failures += 1;
                source.last_sync_error = Some(error);
            }
            SourceEvent::InventoryIngested { inventory } => {
                source.last_sync_ended_at = Some(at);
                source.failures = 0;
                source.last_sync_error = None;
                source.inventory = Some(IngestedInventory { at: Some(at), ..inventory });
            }
            SourceEvent::HealthChanged { health } => source.health = health,
        }
    }

    fn registered(id: SourceId, profile: SourceProfile, at: Timestamp, version: Version) -> Self {
        Self {
            id,
            profile,
            enabled: true,
            health: Health::Unknown,
            failures: 0,
            stale: true,
            last_sync_started_at: None,
            last_sync_ended_at: None,
            last_sync_error: None,
            inventory: None,
            created_at: at,
            updated_at: at,
            version,
        }
    }
}

/// Whether a refresh may find something else than before, or take it in where it was held back.
fn is_asked_otherwise(before: &SourceProfile, after: &SourceProfile) -> bool {
    let SourceProfile {
        name: _,
        description: _,
        url,
        settings,
        auth,
        client_certificate,
        allow,
        forward_headers: _,
        required_scopes: _,
        limits: _,
        trust: _,
        visibility: _,
        refresh_every: _,
        shrink_limit,
    } = before;
    (url, settings, auth, client_certificate, allow, shrink_limit)
        != (
            &after.url,
            &after.settings,
            &after.auth,
            &after.client_certificate,
            &after.allow,
            &after.shrink_limit,
        )
}

/// The event, if there is anything to say.
pub(crate) fn only_if<E>(holds: bool, event: E) -> Vec<E> {
    if holds { vec![event] } else { Vec::new() }
}

#[cfg(test)]
mod tests;
