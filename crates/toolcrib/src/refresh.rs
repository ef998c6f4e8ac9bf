//! Refresh: discover a source's inventory, then ingest it as a whole (requirements S2 to S7).
//!
//! Any failure is recorded at the source and changes no tool: the last inventory stays in service. This module does not
//! retry; the next refresh is the retry, and `keep_fresh` schedules it.

mod change_limit;
mod reconciler;
mod refresh_pacing;
mod refresh_requests;
mod refresh_result;
mod refresh_schedule;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use calls::compiled_tool::credential_origin;
use calls::secrets::SecretStore;
use calls::telemetry::ToolcribTelemetry;
use calls::upstream_connections::{ProgramHost, UpstreamConnections, UpstreamError};
use calls::upstream_credentials::{
    CachedToken, CredentialScope, OnBehalfOf, RequestAuth, UpstreamKeyring,
};
use catalog::clock::Clock;
use catalog::journal::{ChangeContext, JournalError, JournalLease};
use catalog::source::{SourceCommand, SyncError};
use catalog::{Catalog, Command, CommandError, CommandRefusal, Snapshot};
use mcp_client::McpError;
use model::{
    CallFailure, ErrorCode, Inventory, SourceId, SourceKind, SourceProfile, SourceSettings,
};
use sources::custom_settings::InvalidCustomSettings;
use sources::workflow_documents::InvalidWorkflowDocument;
use sources::{DiscoveredInventory, DiscoveryError, custom_settings, workflow_documents};
use upstream::http::HttpClient;

use self::change_limit::{ChangeLimits, InventoryChange};
use self::refresh_requests::RefreshRequests;

pub use change_limit::SourceChanges;
pub use refresh_result::{FindingCounts, RefreshResult, RefreshedTool};
pub use refresh_schedule::refresh_due_at as next_refresh;

/// The time limit of a discovery.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(240);
/// How long a refresh waits for another node's refresh of the same source.
const LEASE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often to check whether the other node has finished.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Refreshes the sources of one catalog.
pub struct SourceRefresher {
    catalog: Arc<Catalog>,
    client: HttpClient,
    upstreams: Arc<UpstreamConnections>,
    keyring: Arc<UpstreamKeyring>,
    secrets: Option<Arc<SecretStore>>,
    clock: Arc<dyn Clock>,
    telemetry: Arc<ToolcribTelemetry>,
    turns: Mutex<HashMap<SourceId, RefreshTurn>>,
    refresh_requests: RefreshRequests,
    change_limits: ChangeLimits,
}

/// A lock whose holder refreshes the source on this node.
type RefreshTurn = Arc<tokio::sync::Mutex<()>>;

impl SourceRefresher {
    /// Works on this catalog and sends every request through this client.
    pub fn new(catalog: Arc<Catalog>, client: HttpClient, clock: Arc<dyn Clock>) -> Self {
        let upstreams = UpstreamConnections::new(client.clone(), ProgramHost::default());
        let telemetry: Arc<ToolcribTelemetry> = Arc::default();
        let keyring =
            UpstreamKeyring::new(client.clone(), Arc::clone(&clock), Arc::clone(&telemetry));
        let (keyring, upstreams) = (Arc::new(keyring), Arc::new(upstreams));
        Self::from_parts(catalog, client, upstreams, (keyring, None), (clock, telemetry))
    }

    pub(crate) fn from_parts(
        catalog: Arc<Catalog>,
        client: HttpClient,
        upstreams: Arc<UpstreamConnections>,
        (keyring, secrets): (Arc<UpstreamKeyring>, Option<Arc<SecretStore>>),
        (clock, telemetry): (Arc<dyn Clock>, Arc<ToolcribTelemetry>),
    ) -> Self {
        let (turns, wakes, changes) =
            (Mutex::default(), RefreshRequests::default(), ChangeLimits::default());
        Self {
            catalog,
            client,
            upstreams,
            keyring,
            secrets,
            clock,
            telemetry,
            turns,
            refresh_requests: wakes,
            change_limits: changes,
        }
    }

    /// How much a source has changed within the last hour on this node; `None` if it has not changed.
    pub fn recent_changes(&self, source: &SourceId) -> Option<SourceChanges> {
        self.change_limits.changes_of_source(source, self.clock.now())
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
        context: &ChangeContext,
    ) -> Result<RefreshResult, CommandError> {
        let turn = self.source_turn(source);
        let _turn = turn.lock().await;
        let lease = self.wait_for_lease(source).await?;
        self.refresh_with_lease(source, force, context, &lease, |_| Ok(())).await
    }

    /// Waits, for a limited time, until no other node refreshes the source.
    async fn wait_for_lease(&self, source: &SourceId) -> Result<JournalLease, CommandError> {
        let free = async {
            loop {
                if let Some(lease) =
                    self.catalog.journal().acquire_lease(lease_name(source)).await?
                {
                    return Ok(lease);
                }
                tokio::time::sleep(LEASE_POLL_INTERVAL).await;
            }
        };
        match tokio::time::timeout(LEASE_TIMEOUT, free).await {
            Ok(lease) => lease,
            Err(_) => Err(already_refreshing(source)),
        }
    }

    /// Carries out one refresh under the lease, if the condition holds when it begins.
    async fn refresh_with_lease(
        &self,
        source: &SourceId,
        force: bool,
        context: &ChangeContext,
        lease: &JournalLease,
        condition: impl Fn(&Snapshot) -> Result<(), CommandRefusal> + Send,
    ) -> Result<RefreshResult, CommandError> {
        let start = Instant::now();
        let begin = Command::Source(source.clone(), SourceCommand::StartSync);
        self.catalog.execute_if(begin, condition, context.clone(), None).await?;
        self.refresh_requests.remove_request(source);
        let found = self.discover_source(source).await?;
        if !lease.is_held() {
            // Another node may have begun a refresh: its inventory counts.
            return Err(already_refreshing(source));
        }
        let mut result = match found {
            Ok(found) => {
                let force = force || self.is_declared(source);
                self.ingest_inventory(
                    refresh_result::truncate_warnings(found.inventory),
                    force,
                    context,
                )
                .await?
            }
            Err(error) => self.record_failure(source, error, context).await?,
        };
        let took = start.elapsed();
        self.telemetry.record_refresh(source, result.success, took);
        result.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(result)
    }

    /// Whether the inventory comes from the settings: an admin who removes most of it means it.
    fn is_declared(&self, source: &SourceId) -> bool {
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.source(source);
        entry.is_some_and(|entry| {
            refresh_schedule::is_declared(entry.source.profile.settings.kind())
        })
    }

    /// Discovers the source as it is configured now. The outer error means that it was removed meanwhile.
    async fn discover_source(
        &self,
        source: &SourceId,
    ) -> Result<Result<DiscoveredInventory, SyncError>, CommandError> {
        let snapshot = self.catalog.snapshot();
        let Some(entry) = snapshot.source(source) else {
            let id = source.to_string();
            return Err(CommandRefusal::NotFound { what: "source", id }.into());
        };
        let asked = self.discover_with_token_retry(source, &entry.source.profile);
        Ok(match tokio::time::timeout(DISCOVERY_TIMEOUT, asked).await {
            Ok(found) => found.map_err(|error| sync_error(&error)),
            Err(_) => Err(discovery_timeout(entry.source.profile.settings.kind())),
        })
    }

    /// Discovers again, once, if the source rejects a cached token: its issuer may have revoked it.
    async fn discover_with_token_retry(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
    ) -> Result<DiscoveredInventory, SourceDiscoveryError> {
        let mut held = None;
        let asked = self.discover_once(source, profile, &mut held).await;
        match (asked, held) {
            (Err(error), Some(held))
                if error.is_unauthorized() && self.keyring.invalidate_token(&held).await =>
            {
                self.discover_once(source, profile, &mut None).await
            }
            (asked, _) => asked,
        }
    }

    /// Discovers once; `held` receives the requested token that the source was shown.
    async fn discover_once(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        held: &mut Option<CachedToken>,
    ) -> Result<DiscoveredInventory, SourceDiscoveryError> {
        let secrets = self.secrets.as_deref();
        match &profile.settings {
            SourceSettings::Mcp { .. } => {}
            SourceSettings::Builtin {} => return Ok(builtin_inventory(source)?),
            SourceSettings::Workflow { documents } => {
                return Ok(workflow_documents::discover_workflows(
                    source.clone(),
                    documents.clone(),
                )
                .await?);
            }
            SourceSettings::Custom(settings) => {
                let (source, url) = (source.clone(), profile.url.clone());
                return Ok(custom_settings::discover_custom(source, url, settings.clone()).await?);
            }
            SourceSettings::Openapi(_) | SourceSettings::HttpManifest {} => {
                let client = self.client_with_credential(source, profile, held).await?;
                return Ok(sources::discover_source(source, profile, &client).await?);
            }
        }
        let carried = self
            .keyring
            .mcp_discovery_auth(&CredentialScope::for_source(source, profile), secrets)
            .await;
        let (carried, lacking) = carried.map_err(SourceDiscoveryError::Credential)?;
        *held = carried.token.clone();
        let found = self.list_mcp_server(source, profile, carried).await;
        match lacking {
            // The source requires the token that could not be obtained.
            Some(why) if found.as_ref().is_err_and(SourceDiscoveryError::is_unauthorized) => {
                Err(SourceDiscoveryError::Credential(why))
            }
            _ => found,
        }
    }

    /// The inventory that an MCP server offers to a client with this token and these headers.
    async fn list_mcp_server(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        carried: RequestAuth,
    ) -> Result<DiscoveredInventory, SourceDiscoveryError> {
        let secrets = self.secrets.as_deref();
        let upstream = self.upstreams.for_discovery(source, profile, secrets, carried).await?;
        Ok(sources::mcp::discover_mcp(source, &upstream.connection).await?)
    }

    /// A client that sends the source's credential to the source's origin, if the credential is the same for all
    /// agents.
    async fn client_with_credential(
        &self,
        source: &SourceId,
        profile: &SourceProfile,
        held: &mut Option<CachedToken>,
    ) -> Result<HttpClient, SourceDiscoveryError> {
        let (at, secrets) = (credential_origin(profile), self.secrets.as_deref());
        let client = self.client.with_allowed_texts(&profile.allow);
        let client = client.unwrap_or_else(|_| self.client.clone());
        let client = self
            .keyring
            .client_with_certificate(&client, (source, profile), at.clone(), secrets)
            .await;
        let client = client.map_err(SourceDiscoveryError::Credential)?;
        let (Some(at), false) = (at, profile.auth.is_per_agent()) else {
            return Ok(client);
        };
        let wanted = CredentialScope::for_source(source, profile);
        let given = self.keyring.http_credentials(&wanted, OnBehalfOf::Toolcrib, secrets).await;
        let (given, token) = given.map_err(SourceDiscoveryError::Credential)?;
        *held = token;
        match given.own.and_then(|own| own.for_documents(at)) {
            Some(shown) => Ok(client.with_credential(shown)),
            None => Ok(client),
        }
    }

    async fn ingest_inventory(
        &self,
        inventory: Inventory,
        force: bool,
        context: &ChangeContext,
    ) -> Result<RefreshResult, CommandError> {
        let source = inventory.source.clone();
        let tools = refresh_result::refreshed_tools(&inventory);
        let warnings = inventory.warnings.clone();
        let change = InventoryChange::from_inventory(&self.catalog.snapshot(), &inventory);
        if let Err(error) =
            self.change_limits.count_change(&source, change, force, self.clock.now())
        {
            let failed = self.record_failure(&source, error, context).await?;
            return Ok(failed.with_rejected_inventory(tools, warnings));
        }
        let command = Command::Ingest { inventory: Box::new(inventory), force };
        let error = match self.catalog.execute(command, context.clone(), None).await {
            Ok(executed) => {
                let result: RefreshResult = serde_json::from_value(executed.answer)
                    .expect("an ingest answers with a result");
                return Ok(RefreshResult { tools, ..result }
                    .with_catalog_findings(&self.catalog.snapshot()));
            }
            Err(CommandError::Refused(refusal @ CommandRefusal::ShrinksTooMuch { .. })) => {
                let message = refusal.to_string().into();
                SyncError { code: "inventory_shrinks".into(), message }
            }
            Err(error @ CommandError::Refused(CommandRefusal::NotFound { .. })) => {
                return Err(error);
            }
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
        let failed = self.record_failure(&source, error, context).await?;
        Ok(failed.with_rejected_inventory(tools, warnings))
    }

    /// Records a failure; the result contains it too.
    async fn record_failure(
        &self,
        source: &SourceId,
        error: SyncError,
        context: &ChangeContext,
    ) -> Result<RefreshResult, CommandError> {
        tracing::warn!(%source, code = %error.code, "source `{source}` was not refreshed: {}", error.message);
        self.execute_source_command(source, SourceCommand::FailSync(error.clone()), context)
            .await?;
        let snapshot = self.catalog.snapshot();
        let known = snapshot.source(source).and_then(|entry| entry.source.inventory.as_ref());
        Ok(RefreshResult::failed(source, known, error))
    }

    async fn execute_source_command(
        &self,
        source: &SourceId,
        command: SourceCommand,
        context: &ChangeContext,
    ) -> Result<(), CommandError> {
        let command = Command::Source(source.clone(), command);
        self.catalog.execute(command, context.clone(), None).await.map(drop)
    }

    fn source_turn(&self, source: &SourceId) -> RefreshTurn {
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

fn already_refreshing(source: &SourceId) -> CommandError {
    CommandRefusal::BeingRefreshed { id: source.to_string() }.into()
}

/// The built-in tools of this version.
fn builtin_inventory(source: &SourceId) -> Result<DiscoveredInventory, DiscoveryError> {
    let inventory = builtin::builtin_inventory(source)?;
    Ok(DiscoveredInventory { inventory, operations: builtin::BUILTIN_TOOLS.len() })
}

fn discovery_timeout(kind: SourceKind) -> SyncError {
    let seconds = DISCOVERY_TIMEOUT.as_secs();
    let message = format!("the source has not said what it offers within {seconds} seconds");
    let code = match kind {
        SourceKind::Mcp => "mcp_list_failed",
        _ => "spec_fetch_failed",
    };
    SyncError { code: code.into(), message: message.into() }
}

/// Why a source gave no inventory.
#[derive(Debug, thiserror::Error)]
enum SourceDiscoveryError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    Workflow(#[from] InvalidWorkflowDocument),
    #[error(transparent)]
    Custom(#[from] InvalidCustomSettings),
    #[error("{}", .0.full_message())]
    Credential(CallFailure),
}

impl SourceDiscoveryError {
    /// Whether the source rejected the credential.
    fn is_unauthorized(&self) -> bool {
        matches!(
            self,
            Self::Discovery(
                DiscoveryError::UnexpectedStatus { status: 401, .. }
                    | DiscoveryError::McpListFailed(McpError::Unauthorized { status: 401, .. })
            ) | Self::Upstream(UpstreamError::Mcp(McpError::Unauthorized { status: 401, .. }))
        )
    }
}

/// The error and its causes in one sentence. None of them contains a secret; quoted text of an upstream is converted to
/// plain text here, before it is stored, logged and shown.
fn sync_error(error: &SourceDiscoveryError) -> SyncError {
    let code = match error {
        SourceDiscoveryError::Discovery(error) => error.code(),
        SourceDiscoveryError::Upstream(_) => "mcp_connect_failed",
        SourceDiscoveryError::Workflow(_) | SourceDiscoveryError::Custom(_) => "spec_parse_failed",
        SourceDiscoveryError::Credential(failure) => match failure.code {
            ErrorCode::ClientCredentialsFailed => "client_credentials_failed",
            _ => "credential_unusable",
        },
    };
    let message = model::printable_line(&model::format_error_chain(error)).into();
    SyncError { code: code.into(), message }
}
