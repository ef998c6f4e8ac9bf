//! `toolcrib stdio`: the tools of one identity over MCP on standard input and output, for the program that starts it.

use std::sync::Arc;

use endpoint::app_state::{AppState, ServerOptions};
use endpoint::request_context::RequestContext;
use endpoint::view_subscription::AuthenticatedCaller;
use http_api::router;
use mcp_server::McpPeer;
use model::{Agent, Claims};
use toolcrib::{
    CallEndpoint, CallLogOptions, CallRecorder, CallerIdentity, Catalog, JournalLocation,
    SealingKey, SecretStore, SystemClock, Toolcrib,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::arguments::VerbOutcome;
use crate::arguments::serve::StdioArgs;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::local_targets::LocalTarget;
use crate::local_targets::register_targets::register_targets;
use crate::verbs::explain;
use crate::{environment, local_targets, output};

pub(crate) async fn run_stdio(
    config: &ProgramConfig,
    arguments: &StdioArgs,
) -> Result<VerbOutcome, CliError> {
    let wanted = local_targets::inspect_targets(&arguments.targets).await?;
    let (has_targets, named) = (!wanted.is_empty(), local_targets::target_programs(&wanted));
    if arguments.allow_stdio || !named.is_empty() {
        environment::protect_this_process();
    }
    let sealing_key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
    let claims = match &arguments.claims {
        Some(given) => Some(explain::read_claims(given).await?),
        None => None,
    };
    let place = if has_targets { &JournalLocation::Memory } else { &config.journal };
    // Open read-only: a server may be using the journal.
    let journal = place.open_read_only(SystemClock).await?;
    let seal = sealing_key.as_ref().map(SealingKey::derive_client_seal);
    let secrets = SecretStore::new(
        Arc::clone(&journal),
        sealing_key,
        SystemClock,
        environment::secret_variable,
    );
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
    let recorder = open_recorder(place).await;
    let behaviour = toolcrib::ToolcribOptions {
        recorder,
        anonymous: true,
        secrets: Some(Arc::new(secrets)),
        programs: ProgramConfig::program_host(
            place,
            (arguments.allow_stdio, named),
            [arguments.sealing_key_file.as_deref(), None],
        ),
        resource_folders: environment::open_resource_folders(&arguments.resource_folder)?,
        ..toolcrib::ToolcribOptions::default()
    };
    let crib = Toolcrib::new(catalog, client, SystemClock, behaviour);
    let (_, app) =
        router::build_endpoints(crib, ServerOptions { seal, ..ServerOptions::default() });
    if has_targets {
        serve_targets(&app, wanted).await?;
    }
    let who = match (claims, environment::agent_key()?) {
        (Some(claims), _) => AuthenticatedCaller::set_at_startup(identity_from_claims(claims)),
        (None, Some(key)) if !has_targets => AuthenticatedCaller::authenticate_bearer(&app, key)
            .await
            .map_err(CliError::AgentKeyRejected)?,
        (None, _) => AuthenticatedCaller::set_at_startup(CallerIdentity::anonymous()),
    };
    let all = app.clone();
    let peer = McpPeer::new(app, who, arguments.group.clone(), arguments.mode.into());
    let peer = peer.with_origin(CallEndpoint::Stdio, &RequestContext::default());
    if peer.view().is_err() {
        return Err(CliError::NoSuchGroup(
            arguments.group.iter().map(ToString::to_string).collect(),
        ));
    }
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    let spoken = mcp_server::mcp_stdio::serve_client(peer, input, tokio::io::stdout()).await;
    all.stop().await;
    if let Some(recorder) = all.crib.recorder() {
        recorder.close().await;
    }
    spoken.map_err(CliError::Output)?;
    Ok(VerbOutcome::Success)
}

/// Registers the targets before the first request is answered, and keeps their tools fresh.
async fn serve_targets(app: &AppState, wanted: Vec<LocalTarget>) -> Result<(), CliError> {
    for one in register_targets(&app.crib, wanted, true).await? {
        if let Some(problem) = one.problem {
            output::print_note(&format!("warning: {} is not there: {problem}", one.display_text));
        }
    }
    let crib = app.crib.clone();
    app.spawn_background(async move { crib.keep_fresh().await });
    Ok(())
}

/// Opens the call log beside the server's, if it is writable: the journal itself is opened read-only.
async fn open_recorder(place: &JournalLocation) -> Option<Arc<CallRecorder>> {
    match place.open_call_log().await {
        Ok(records) => Some(CallRecorder::start(records, CallLogOptions::default())),
        Err(error) => {
            tracing::warn!(%error, "calls are not recorded: {error}");
            None
        }
    }
}

/// The identity of the given claims. They need no proof: the user who starts the process can read the journal anyway.
fn identity_from_claims(claims: Claims) -> CallerIdentity {
    let agent = Agent::new("stdio", Arc::new(claims));
    CallerIdentity { agent, ..CallerIdentity::anonymous() }
}
