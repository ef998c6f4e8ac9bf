//! Refresh: discover a source's inventory, then ingest it as a whole (requirements S2 to S7).
//!
//! Any failure is recorded at the source and changes no tool: the last inventory stays in service. This module does not
//! retry; the next refresh is the retry, and `keep_fresh` schedules it.

mod changes;
mod due;
mod keep_fresh;
mod rests;
mod result;
mod wakes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::clock::Clock;
use catalog::journal::{Context, JournalError, Lease};
use catalog::source::{SourceCommand, SyncError};
use catalog::{Catalog, Command, CommandError, Refusal, Snapshot};
use discovery::{DiscoveryError, Found};
use model::{ErrorCode, Failure, Inventory, Kind, Settings, SourceId, SourceProfile};
use upstream::http::HttpClient;
use upstream::mcp::McpError;

use self::changes::{Change, Changes};
use self::wakes::Wakes;
use crate::credentials::{Carried, For, Held, Keyring, Whose};
use crate::custom::{self, InvalidCustom};
use crate::secrets::Secrets;
use crate::telemetry::Telemetry;
use crate::upstreams::{ProgramHost, UpstreamError, Upstreams};
use crate::view::origin;
use crate::workflows::{self, InvalidDocument};

pub use changes::SourceChanges;
pub use due::due as next_refresh;
pub use result::{FindingCounts, RefreshResult, RefreshedTool};

/// The time limit of a discovery.
const DISCOVERED_WITHIN: Duration = Duration::from_secs(240);
/// How long a refresh waits for another node's refresh of the same source.
const TURN_WITHIN: Duration = Duration::from_secs(60);
/// How often to check whether the other node has finished.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Refreshes the sources of one catalog.
pub struct Refresher {
    catalog: Arc<Catalog>,
    client: HttpClient,
    upstreams: Arc<Upstreams>,
    keyring: Arc<Keyring>,
    secrets: Option<Arc<Secrets>>,
    clock: Arc<dyn Clock>,
    telemetry: Arc<Telemetry>,
    turns: Mutex<HashMap<SourceId, Turn>>,
    wakes: Wakes,
    changes: Changes,
}

/// A lock whose holder refreshes the source on this node.
type Turn = Arc<tokio::sync::Mutex<()>>;

impl Refresher {
    /// Works on this catalog and sends every request through this client.
    pub fn new(catalog: Arc<Catalog>, client: HttpClient, clock: Arc<dyn Clock>) -> Self {
        let upstreams = Upstreams::new(client.clone(), ProgramHost::default());
        let telemetry: Arc<Telemetry> = Arc::default();
        let keyring = Keyring::new(client.clone(), Arc::clone(&clock), Arc::clone(&telemetry));
        let (keyring, upstreams) = (Arc::new(keyring), Arc::new(upstreams));
        Self::over(catalog, client, upstreams, (keyring, None), (clock, telemetry))
    }

    pub(crate) fn over(
        catalog: Arc<Catalog>,
        client: HttpClient,
        upstreams: Arc<Upstreams>,
        (keyring, secrets): (Arc<Keyring>, Option<Arc<Secrets>>),
        (clock, telemetry): (Arc<dyn Clock>, Arc<Telemetry>),
    ) -> Self {
        let (turns, wakes, changes) = (Mutex::default(), Wakes::default(), Changes::default());
        Self {
            catalog,
            client,
            upstreams,
            keyring,
            secrets,
            clock,
            telemetry,
            turns,
            wakes,
            changes,
        }
    }

    /// How much a source has changed within the last hour on this node; `None` if it has not changed.
    pub fn changes_of(&self, source: &SourceId) -> Option<SourceChanges> {
        self.changes.of(source, self.clock.now())
    }

    /// Refreshes a source. With `force` it skips no step and quarantines no change.
    ///
    /// A failed refresh is a result. An error means that the source does not exist or is disabled, or that the journal
    /// cannot be written. Refreshes of one source take turns, across all nodes; if another node takes too long, that is
    /// an error too.
    pub async fn refresh(
        &self,
        source: &SourceId,
        force: bool,
        context: &Context,
    ) -> Result<RefreshResult, CommandError> {
        let turn = self.turn(source);
        let _turn = turn.lock().await;
        let lease = self.lease(source).await?;
        self.carry_out(source, force, context, &lease, |_| Ok(())).await
    }

    /// Waits, for a limited time, until no other node refreshes the source.
    async fn lease(&self, source: &SourceId) -> Result<Lease, CommandError> {
        let free = async {
            loop {
                if let Some(lease) = self.catalog.journal().lease(lease_name(source)).await? {
                    return Ok(lease);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(TURN_WITHIN, free).await {
            Ok(lease) => lease,
            Err(_) => Err(being_refreshed(source)),
        }
    }

    /// Carries out one refresh under the lease, if the condition holds when it begins.
    async fn carry_out(
        &self,
        source: &SourceId,
        force: bool,
        context: &Context,
        lease: &Lease,
        condition: impl Fn(&Snapshot) -> Result<(), Refusal> + Send,
    ) -> Result<RefreshResult, CommandError> {
        let start = Instant::now();
        let begin = Command::Source(source.clone(), SourceCommand::StartSync);
        self.catalog.execute_if(begin, condition, context.clone(), None).await?;
        self.wakes.answer(source);
        let found = self.discover(source).await?;
        if !lease.is_held() {
            // Another node may have begun a refresh: its inventory counts.
            return Err(being_refreshed(source));
        }
        let mut result = match found {
            Ok(found) => {
                let force = force || self.is_declared(source);
                self.ingest(result::shortened(found.inventory), force, context).await?
            }
            Err(error) => self.fail(source, error, context).await?,
        };
        let took = start.elapsed();
        self.telemetry.refreshed(source, result.success, took);
        result.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(result)
    }

    /// Whether the inventory comes from the settings: an admin who removes most of it means it.
    fn is_declared(&self, source: &SourceId) -> bool {
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.source(source);
        entry.is_some_and(|entry| due::is_declared(entry.source.profile.settings.kind()))
    }

    /// Discovers the source as it is configured now. The outer error means that it was removed meanwhile.
    async fn discover(&self, source: &SourceId) -> Result<Result<Found, SyncError>, CommandError> {
        let snapshot = self.catalog.snapshot();
        let Some(entry) = snapshot.source(source) else {
            let id = source.to_string();
            return Err(Refusal::NotFound { what: "source", id }.into());
        };
        let asked = self.ask(source, &entry.source.profile);
        Ok(match tokio::time::timeout(DISCOVERED_WITHIN, asked).await {
            Ok(found) => found.map_err(|error| failure(&error)),
            Err(_) => Err(too_slow(entry.source.profile.settings.kind())),
        })
    }

    /// Discovers again, once, if the source rejects a cached token: its issuer may have revoked it.
    async fn ask(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
    ) -> Result<Found, NotDiscovered> {
        let mut held = None;
        let asked = self.ask_once(source, profile, &mut held).await;
        match (asked, held) {
            (Err(error), Some(held)) if error.is_refused() && self.keyring.refused(&held).await => {
                self.ask_once(source, profile, &mut None).await
            }
            (asked, _) => asked,
        }
    }

    /// Discovers once; `held` receives the requested token that the source was shown.
    async fn ask_once(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        held: &mut Option<Held>,
    ) -> Result<Found, NotDiscovered> {
        let secrets = self.secrets.as_deref();
        match &profile.settings {
            Settings::Mcp { .. } => {}
            Settings::Builtin {} => return Ok(built_in(source)?),
            Settings::Workflow { documents } => {
                return Ok(workflows::discover(source.clone(), documents.clone()).await?);
            }
            Settings::Custom(settings) => {
                let (source, url) = (source.clone(), profile.url.clone());
                return Ok(custom::discover(source, url, settings.clone()).await?);
            }
            Settings::Openapi(_) | Settings::HttpManifest {} => {
                let client = self.showing(source, profile, held).await?;
                return Ok(discovery::discover(source, profile, &client).await?);
            }
        }
        let carried = self.keyring.carried_to_list(&For::source(source, profile), secrets).await;
        let (carried, lacking) = carried.map_err(NotDiscovered::Credential)?;
        *held = carried.token.clone();
        let found = self.list(source, profile, carried).await;
        match lacking {
            // The source requires the token that could not be obtained.
            Some(why) if found.as_ref().is_err_and(NotDiscovered::is_refused) => {
                Err(NotDiscovered::Credential(why))
            }
            _ => found,
        }
    }

    /// The inventory that an MCP server offers to a client with this token and these headers.
    async fn list(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        carried: Carried,
    ) -> Result<Found, NotDiscovered> {
        let secrets = self.secrets.as_deref();
        let upstream = self.upstreams.for_discovery(source, profile, secrets, carried).await?;
        Ok(discovery::mcp::discover(source, &upstream.connection).await?)
    }

    /// A client that sends the source's credential to the source's origin, if the credential is the same for all
    /// agents.
    async fn showing(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        held: &mut Option<Held>,
    ) -> Result<HttpClient, NotDiscovered> {
        let (at, secrets) = (origin(profile), self.secrets.as_deref());
        let client = self.client.allowing_texts(&profile.allow);
        let client = client.unwrap_or_else(|_| self.client.clone());
        let client = self.keyring.identified(&client, (source, profile), at.clone(), secrets).await;
        let client = client.map_err(NotDiscovered::Credential)?;
        let (Some(at), false) = (at, profile.auth.is_per_agent()) else {
            return Ok(client);
        };
        let wanted = For::source(source, profile);
        let given = self.keyring.given(&wanted, Whose::Ours, secrets).await;
        let (given, token) = given.map_err(NotDiscovered::Credential)?;
        *held = token;
        match given.own.and_then(|own| own.shown(at)) {
            Some(shown) => Ok(client.showing(shown)),
            None => Ok(client),
        }
    }

    async fn ingest(
        &self,
        inventory: Inventory,
        force: bool,
        context: &Context,
    ) -> Result<RefreshResult, CommandError> {
        let source = inventory.source.clone();
        let tools = result::tools(&inventory);
        let warnings = inventory.warnings.clone();
        let change = Change::of(&self.catalog.snapshot(), &inventory);
        if let Err(error) = self.changes.allow(&source, change, force, self.clock.now()) {
            let failed = self.fail(&source, error, context).await?;
            return Ok(failed.held_back(tools, warnings));
        }
        let command = Command::Ingest { inventory: Box::new(inventory), force };
        let error = match self.catalog.execute(command, context.clone(), None).await {
            Ok(executed) => {
                let result: RefreshResult = serde_json::from_value(executed.answer)
                    .expect("an ingest answers with a result");
                return Ok(RefreshResult { tools, ..result }.in_view_of(&self.catalog.snapshot()));
            }
            Err(CommandError::Refused(refusal @ Refusal::ShrinksTooMuch { .. })) => {
                let message = refusal.to_string().into();
                SyncError { code: "inventory_shrinks".into(), message }
            }
            Err(error @ CommandError::Refused(Refusal::NotFound { .. })) => return Err(error),
            Err(CommandError::Refused(refusal)) => {
                SyncError { code: "save_failed".into(), message: refusal.to_string().into() }
            }
            Err(CommandError::Busy { .. }) => {
                let message = "the source or its tools are being changed by others".into();
                SyncError { code: "save_failed".into(), message }
            }
            // Retrying would fail again: the journal works, but the inventory is too large for it or not storable.
            Err(CommandError::Journal(
                error @ (JournalError::TooLarge { .. }
                | JournalError::NotText { .. }
                | JournalError::Refused { .. }),
            )) => SyncError { code: "save_failed".into(), message: error.to_string().into() },
            Err(error) => return Err(error),
        };
        let failed = self.fail(&source, error, context).await?;
        Ok(failed.held_back(tools, warnings))
    }

    /// Records a failure; the result contains it too.
    async fn fail(
        &self,
        source: &SourceId,
        error: SyncError,
        context: &Context,
    ) -> Result<RefreshResult, CommandError> {
        tracing::warn!(%source, code = %error.code, "source `{source}` was not refreshed: {}", error.message);
        self.tell(source, SourceCommand::FailSync(error.clone()), context).await?;
        let snapshot = self.catalog.snapshot();
        let known = snapshot.source(source).and_then(|entry| entry.source.inventory.as_ref());
        Ok(RefreshResult::failed(source, known, error))
    }

    async fn tell(
        &self,
        source: &SourceId,
        command: SourceCommand,
        context: &Context,
    ) -> Result<(), CommandError> {
        let command = Command::Source(source.clone(), command);
        self.catalog.execute(command, context.clone(), None).await.map(drop)
    }

    fn turn(&self, source: &SourceId) -> Turn {
        let mut turns = self.turns.lock().expect("no one panics while holding the turns");
        // Drop locks without waiters; they are created again when needed.
        turns.retain(|_, turn| 1 < Arc::strong_count(turn));
        Arc::clone(turns.entry(source.clone()).or_default())
    }
}

/// The name of the lease for refreshing the source.
fn lease_name(source: &SourceId) -> String {
    format!("refresh {source}")
}

fn being_refreshed(source: &SourceId) -> CommandError {
    Refusal::BeingRefreshed { id: source.to_string() }.into()
}

/// The built-in tools of this version.
fn built_in(source: &SourceId) -> Result<Found, DiscoveryError> {
    let inventory = builtin::inventory(source)?;
    Ok(Found { inventory, operations: builtin::ALL.len() })
}

fn too_slow(kind: Kind) -> SyncError {
    let seconds = DISCOVERED_WITHIN.as_secs();
    let message = format!("the source has not said what it offers within {seconds} seconds");
    let code = match kind {
        Kind::Mcp => "mcp_list_failed",
        _ => "spec_fetch_failed",
    };
    SyncError { code: code.into(), message: message.into() }
}

/// Why a source gave no inventory.
#[derive(Debug, thiserror::Error)]
enum NotDiscovered {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Workflow(#[from] InvalidDocument),
    #[error(transparent)]
    Custom(#[from] InvalidCustom),
    #[error("{}", .0.in_full())]
    Credential(Failure),
}

impl NotDiscovered {
    /// Whether the source rejected the credential.
    fn is_refused(&self) -> bool {
        matches!(
            self,
            Self::Discovery(
                DiscoveryError::Status { status: 401, .. }
                    | DiscoveryError::Mcp(McpError::Unauthorized { status: 401, .. })
            ) | Self::Upstream(UpstreamError::Mcp(McpError::Unauthorized { status: 401, .. }))
        )
    }
}

/// The error and its causes in one sentence. None of them contains a secret; quoted text of an upstream is converted to
/// plain text here, before it is stored, logged and shown.
fn failure(error: &NotDiscovered) -> SyncError {
    let code = match error {
        NotDiscovered::Discovery(error) => error.code(),
        NotDiscovered::Upstream(_) => "mcp_connect_failed",
        NotDiscovered::Workflow(_) | NotDiscovered::Custom(_) => "spec_parse_failed",
        NotDiscovered::Credential(failure) => match failure.code {
            ErrorCode::ClientCredentialsFailed => "client_credentials_failed",
            _ => "credential_unusable",
        },
    };
    let message = model::plain_line(&model::sentence(error)).into();
    SyncError { code: code.into(), message }
}
