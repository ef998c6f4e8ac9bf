//! The aggregate `Source`: registered, refreshed often, removed at most once in each of its lives.
//!
//! `decide` contains every rule; `evolve` only records events that already happened, so old events always replay.

use jiff::Timestamp;
use model::{Digest, DiscoveryWarning, SourceHealth, SourceId, SourceProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command_refusal::CommandRefusal;
use crate::journal::StreamVersion;

/// The state of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub id: SourceId,
    /// Settings chosen by an admin.
    pub profile: SourceProfile,
    /// Switched on by an admin.
    pub enabled: bool,
    /// Derived from the results of its recent refreshes.
    pub health: SourceHealth,
    /// Failed refreshes since the last successful one.
    pub failures: u32,
    /// True if no refresh has begun since the source was registered, enabled, or changed in a way that affects
    /// discovery.
    pub stale: bool,
    /// When the last refresh began.
    pub last_sync_started_at: Option<Timestamp>,
    /// When the last refresh ended, successful or not. `None` while one is running or if the node that began it is
    /// gone.
    pub last_sync_ended_at: Option<Timestamp>,
    /// Error of the last refresh if it failed.
    pub last_sync_error: Option<SyncError>,
    /// Result of the last successful refresh.
    pub inventory: Option<IngestedInventory>,
    pub created_at: Timestamp,
    /// When an admin last changed the source.
    pub updated_at: Timestamp,
    /// Version of its stream.
    pub version: StreamVersion,
}

/// The inventory of a successful refresh, without its manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestedInventory {
    /// Published hash: 16 hexadecimal characters.
    pub inventory_hash: Box<str>,
    /// Digest that decides whether anything changed.
    pub fingerprint: Digest,
    /// Number of tools.
    pub count: usize,
    /// Version that the upstream reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_version: Option<Box<str>>,
    /// Parts that could not be converted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<DiscoveryWarning>,
    /// Time of the refresh, taken from the envelope of the event.
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

/// A command for one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SourceCommand {
    Register(SourceProfile),
    /// Replace the settings.
    Update(SourceProfile),
    /// Serve its tools.
    Enable,
    /// Stop serving its tools.
    Disable,
    /// Remove the source and its tools.
    Remove,
    /// A refresh begins.
    StartSync,
    /// A refresh failed.
    FailSync(SyncError),
    /// A refresh succeeded.
    Ingest(IngestedInventory),
}

/// An event of one source. Stored permanently: variants and fields are added, never renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceEvent {
    /// The source was registered.
    #[serde(rename = "SourceRegistered")]
    Registered { profile: SourceProfile },
    /// The settings were changed.
    #[serde(rename = "SourceUpdated")]
    Updated { profile: SourceProfile },
    /// The source was enabled: its tools are served again.
    #[serde(rename = "SourceEnabled")]
    Enabled {},
    /// The source was disabled: its tools are no longer served and it is no longer refreshed.
    #[serde(rename = "SourceDisabled")]
    Disabled {},
    /// The source was removed with its tools.
    #[serde(rename = "SourceRemoved")]
    Removed {},
    /// A refresh started.
    #[serde(rename = "SourceSyncStarted")]
    SyncStarted {},
    /// A refresh failed; the last known tools stay.
    #[serde(rename = "SourceSyncFailed")]
    SyncFailed { error: SyncError },
    /// A refresh succeeded and its inventory was ingested.
    #[serde(rename = "InventoryIngested")]
    InventoryIngested {
        /// Counts and hashes of the inventory.
        inventory: IngestedInventory,
    },
    /// The health of the source changed.
    #[serde(rename = "SourceHealthChanged")]
    HealthChanged { health: SourceHealth },
}

/// Consecutive failures after which a source is unhealthy.
const UNHEALTHY_FROM: u32 = 3;

impl Source {
    /// Applies every rule about one source.
    pub fn decide(
        id: &SourceId,
        known: Option<&Self>,
        command: SourceCommand,
    ) -> Result<Vec<SourceEvent>, CommandRefusal> {
        let Some(source) = known else {
            return match command {
                SourceCommand::Register(profile) => Ok(vec![SourceEvent::Registered { profile }]),
                _ => Err(CommandRefusal::not_found("source", id)),
            };
        };
        let events = match command {
            SourceCommand::Register(_) => return Err(CommandRefusal::already_exists("source", id)),
            SourceCommand::Update(profile) => {
                let kind = source.profile.settings.kind();
                if profile.settings.kind() != kind {
                    return Err(CommandRefusal::KindIsFixed {
                        id: id.to_string(),
                        kind: kind.as_str(),
                    });
                }
                event_if(profile != source.profile, SourceEvent::Updated { profile })
            }
            SourceCommand::Enable => event_if(!source.enabled, SourceEvent::Enabled {}),
            SourceCommand::Disable => event_if(source.enabled, SourceEvent::Disabled {}),
            SourceCommand::Remove => vec![SourceEvent::Removed {}],
            SourceCommand::StartSync if !source.enabled => {
                return Err(CommandRefusal::SourceIsDisabled { id: id.to_string() });
            }
            SourceCommand::StartSync => vec![SourceEvent::SyncStarted {}],
            SourceCommand::FailSync(error) => {
                let health = if source.failures + 1 < UNHEALTHY_FROM {
                    SourceHealth::Degraded
                } else {
                    SourceHealth::Unhealthy
                };
                source.with_health(health, SourceEvent::SyncFailed { error })
            }
            SourceCommand::Ingest(inventory) => source
                .with_health(SourceHealth::Healthy, SourceEvent::InventoryIngested { inventory }),
        };
        Ok(events)
    }

    fn with_health(&self, health: SourceHealth, event: SourceEvent) -> Vec<SourceEvent> {
        let mut events = vec![event];
        events.extend(event_if(self.health != health, SourceEvent::HealthChanged { health }));
        events
    }

    /// True if a refresh has begun and not ended; if its node is gone, it never will.
    pub fn is_being_refreshed(&self) -> bool {
        self.last_sync_started_at.is_some() && self.last_sync_ended_at.is_none()
    }

    /// Applies an event to the state.
    pub fn evolve(
        known: &mut Option<Self>,
        id: &SourceId,
        event: SourceEvent,
        at: Timestamp,
        version: StreamVersion,
    ) {
        if let SourceEvent::Registered { profile } = event {
            *known = Some(Self::from_registration(id.clone(), profile, at, version));
            return;
        }
        let Some(source) = known else { return };
        source.version = version;
        match event {
            SourceEvent::Registered { .. } => {}
            SourceEvent::Removed {} => *known = None,
            SourceEvent::Updated { profile } => {
                source.stale |= affects_discovery(&source.profile, &profile);
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
                // The previous refresh never ended: its node is gone, perhaps because of that refresh. Count it as
                // failed.
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

    fn from_registration(
        id: SourceId,
        profile: SourceProfile,
        at: Timestamp,
        version: StreamVersion,
    ) -> Self {
        Self {
            id,
            profile,
            enabled: true,
            health: SourceHealth::Unknown,
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

/// True if a refresh may now find a different inventory, or ingest one that was rejected before.
fn affects_discovery(before: &SourceProfile, after: &SourceProfile) -> bool {
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

/// The event if the condition holds, otherwise nothing.
pub(crate) fn event_if<E>(holds: bool, event: E) -> Vec<E> {
    if holds { vec![event] } else { Vec::new() }
}

#[cfg(test)]
mod tests;
