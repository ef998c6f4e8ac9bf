//! `toolcrib serve`: runs one node. It opens the journal, listens, and drains its connections before it stops.

pub(crate) mod first_admin;
mod otlp_env;
mod serve_mode;
mod startup_message;
use std::sync::Arc;
use std::time::Duration;

use api_types::server_names::ServerNames;
use catalog::Snapshot;
use config::config_follower::ConfigFollower;
use config::config_plan;
use config::connection_limits::ConnectionLimits;
use config::file_stamp::FileStamps;
use config::server_settings::ServerSettings;
use endpoint::app_state::ServerOptions;
use endpoint::protected_resource::ProtectedResource;
use http_api::{metrics, router};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use server::listen_address::ListenAddress;
use server::listener::ServerListener;
use server::tls::ReloadingTls;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use toolcrib::telemetry::OtlpExporter;
use toolcrib::{
    Authenticator, CallRecorder, Catalog, Clock as _, IssuerConfig, JournalLocation, KeyTiming,
    Registry, SealingKey, SecretStore, SystemClock, Toolcrib,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use self::serve_mode::{ServeMode, StartupDetails};
use crate::arguments::VerbOutcome;
use crate::arguments::serve::ServeArgs;
use crate::cli_error::CliError;
use crate::environment;
use crate::environment::ProgramConfig;

/// Maximum concurrent connections of the separate metrics address.
const METRICS_MAX_CONNECTIONS: usize = 64;
/// Interval between memory releases, and the size of an allocation that makes the allocator purge its free pages.
const MEMORY_RELEASE_INTERVAL: Duration = Duration::from_secs(2);
const PURGING_ALLOCATION: usize = 1 << 20;

pub(crate) async fn run_server(
    config: &ProgramConfig,
    arguments: &ServeArgs,
) -> Result<VerbOutcome, CliError> {
    let place = ServeMode::journal_location(config, arguments)?;
    let (files, declared) = match &arguments.config {
        Some(path) => {
            let (files, declared) = config_plan::read_config_with_stamps(path).await;
            (files, Some(declared?))
        }
        None => (FileStamps::default(), None),
    };
    let settings = ServerSettings::from_declared(declared.as_ref(), arguments.public_url.as_ref())?;
    let sealing_key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
    let otlp =
        otlp_env::read_otlp_settings(arguments.otlp_endpoint.as_ref(), environment::env_variable)?;
    let tls = load_tls(arguments)?;
    let resource_folders = environment::open_resource_folders(&arguments.resource_folder)?;
    // Bind before anything is opened: if the port is taken, nothing is left behind.
    let opened = ServerListener::bind(&arguments.listen, arguments.socket_mode, tls.clone());
    let (listener, listen) = opened
        .map_err(|source| CliError::CannotListen { address: arguments.listen.clone(), source })?;
    let metrics_place = arguments.metrics_listen.as_ref();
    let metrics_place = metrics_place.map(|place| {
        let opened = ServerListener::bind(place, arguments.socket_mode, None);
        opened.map_err(|source| CliError::CannotListen { address: place.clone(), source })
    });
    let metrics_place = metrics_place.transpose()?;
    // Check before the journal is opened: a rejected start must not create a new journal file.
    let has_issuers = !settings.issuers.is_empty();
    let anonymous = is_anonymous_allowed(&listen, arguments.allow_anonymous, has_issuers);
    let is_new = match &place {
        JournalLocation::File(path) => !path.exists(),
        JournalLocation::Memory => true,
        JournalLocation::Postgres(_) => false,
    };
    if is_new && !anonymous && !has_issuers {
        return Err(CliError::NoPossibleCaller { address: listen });
    }
    if let (true, Some(declared)) = (is_new, &declared) {
        config_plan::check_on_empty_catalog(declared).await?;
    }
    let embeddings = settings.search.embeddings(&place).await?;
    let offer = ServeMode::resolve(arguments, is_new).await?;
    let named = offer.named_programs();
    if arguments.allow_stdio || !named.is_empty() {
        environment::protect_this_process();
    }
    let journal = place.open(SystemClock).await?;
    let seal = sealing_key.as_ref().map(SealingKey::derive_client_seal);
    let secrets = SecretStore::new(
        Arc::clone(&journal),
        sealing_key,
        SystemClock,
        environment::secret_variable,
    );
    let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
    let exporter = otlp.map(|otlp| {
        // The operator configured this address, and collectors usually run in the private network.
        let near = client.with_egress(EgressPolicy { allow_private: true, allowed: Vec::new() });
        OtlpExporter::new(otlp, near, SystemClock)
    });
    let (cache, limits, record) =
        (settings.cache_limits(), settings.connection_limits(), settings.record_options());
    let per_agent = settings.per_agent_limit();
    let (hosts, origins) = (settings.allowed_hosts, settings.allowed_origins);
    let names = ServerNames::new(hosts, origins, settings.public_url.as_ref());
    let resource = ProtectedResource {
        url: settings.public_url.unwrap_or_else(|| listen.default_public_url(tls.is_some())),
        issuers: settings.issuers.iter().map(|issuer| issuer.issuer.clone()).collect(),
        scopes: settings.scopes,
    };
    let authenticator = build_authenticator(settings.issuers, &client, &secrets).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let now = SystemClock.now();
    if !anonymous && !has_issuers && !has_valid_key(&catalog.snapshot(), now) {
        return Err(CliError::NoPossibleCaller { address: listen });
    }
    let secrets = Some(Arc::new(secrets));
    let recorder = match record {
        Some(options) => Some(CallRecorder::start(place.open_call_log().await?, options)),
        None => None,
    };
    // Start following only after every step that can still abort the startup.
    let follower = match &declared {
        Some(declared) => Some(ConfigFollower::start(Arc::clone(&catalog), declared, files).await?),
        None => None,
    };
    let keys = [arguments.sealing_key_file.as_deref(), arguments.tls_key.as_deref()];
    let behaviour = toolcrib::ToolcribOptions {
        anonymous,
        authenticator,
        cache,
        per_agent,
        secrets,
        programs: ProgramConfig::program_host(&place, (arguments.allow_stdio, named), keys),
        resource_folders,
        registry: Registry::new(),
        recorder: recorder.clone(),
        learns_from_usage: settings.search.learns,
        embeddings,
        tracer: exporter.as_ref().and_then(|exporter| exporter.tracer()),
    };
    let crib = Toolcrib::new(Arc::clone(&catalog), client, SystemClock, behaviour);
    let options = ServerOptions {
        anonymous_is_local: anonymous && !arguments.allow_anonymous,
        allow_stdio: arguments.allow_stdio,
        seal,
        names: listen.server_names(names.clone(), !anonymous),
        resource,
        exporter: exporter.clone(),
    };
    let (endpoints, app) = router::build_endpoints(crib, options);
    if let Some(follower) = follower {
        app.set_config_follower(follower.state.clone());
        app.spawn_background(follower.apply_changes_forever());
    }
    let made = offer.prepare(&app, anonymous).await?;
    // Create the key only after every step that can fail, because it is printed only once.
    let admin =
        first_admin::create_first_admin_key(&catalog, now, has_issuers, arguments.new_admin_key)
            .await?;
    let key = admin.as_ref().map(|key| key.expose_secret());
    let here = startup_message::ServerLocation::from_address(&listen, tls.is_some());
    let said = made
        .startup_text(&app.crib, &StartupDetails { place: &here, journal: &place, key, anonymous });
    // Install the signal handlers first: a process that reads the startup message may send a signal at once.
    let stopped = stop_signal()?;
    let metrics_at = metrics_place.as_ref().map(|(_, place)| place);
    startup_message::print_startup_message(&here, &app.options.names, metrics_at, &said)?;
    tls.into_iter().for_each(|tls| app.spawn_background(tls.reload_on_change()));
    app.spawn_background(release_memory_periodically());
    let crib = app.crib.clone();
    app.spawn_background(async move { crib.keep_fresh().await });
    let crib = app.crib.clone();
    app.spawn_background(async move { crib.keep_searchable().await });
    let crib = app.crib.clone();
    app.spawn_background(async move { crib.keep_usage_updated().await });
    if let Some(recorder) = recorder.clone() {
        app.spawn_background(async move { recorder.keep_pruned(&SystemClock).await });
    }
    if let Some(exporter) = exporter.clone() {
        let told = app.clone();
        app.spawn_background(async move {
            exporter.run_pushes(|| metrics::collect_metrics(&told)).await
        });
    }
    let limits = ConnectionLimits {
        max_connections: server::file_descriptors::raise_connection_capacity(
            limits.max_connections,
        ),
        ..limits
    };
    let drained = async {
        stopped.await;
        app.start_draining();
        tokio::time::sleep(Duration::from_secs(arguments.drain_delay.into())).await;
    };
    let (served, until) = oneshot::channel::<()>();
    let beside = async {
        let Some((listener, place)) = metrics_place else { return };
        let alone = metrics::metrics_only_router(&app, place.server_names(names, true));
        let limits = ConnectionLimits {
            max_connections: METRICS_MAX_CONNECTIONS,
            drain_timeout: Duration::ZERO,
            ..limits
        };
        server::accept_loop::serve_connections(listener, alone, limits, async {
            drop(until.await)
        })
        .await;
    };
    tokio::join!(beside, async {
        let pressure = Arc::clone(&app.load_shedder);
        server::accept_loop::serve_with_load_shedding(
            listener, endpoints, limits, pressure, drained,
        )
        .await;
        drop(served);
    });
    app.stop().await;
    if let Some(exporter) = exporter {
        exporter.push_remaining(&metrics::collect_metrics(&app)).await;
    }
    drop(app);
    // Close the recorder last: dropped calls are recorded too.
    if let Some(recorder) = recorder {
        recorder.close().await;
    }
    // All other users of the catalog are gone: unfinished calls were dropped.
    match Arc::into_inner(catalog) {
        Some(catalog) => catalog.close().await,
        None => tracing::warn!("something still uses the catalog: it is not closed"),
    }
    Ok(VerbOutcome::Success)
}

/// The TLS certificate, if one is configured.
fn load_tls(arguments: &ServeArgs) -> Result<Option<ReloadingTls>, CliError> {
    match (&arguments.tls_cert, &arguments.tls_key, &arguments.listen) {
        (Some(_), Some(_), ListenAddress::Unix(_)) => Err(CliError::TlsOnSocket),
        (Some(certificate), Some(key), ListenAddress::Tcp(_)) => {
            Ok(Some(ReloadingTls::load(certificate, key)?))
        }
        (None, _, _) | (_, None, _) => Ok(None),
    }
}

/// The authenticator for tokens of the configured issuers; `None` if there are no issuers.
async fn build_authenticator(
    issuers: Vec<IssuerConfig>,
    client: &HttpClient,
    secrets: &SecretStore,
) -> Result<Option<Arc<Authenticator>>, CliError> {
    if issuers.is_empty() {
        return Ok(None);
    }
    let (clock, timing) = (Arc::new(SystemClock), KeyTiming::default());
    let authenticator = Authenticator::new(issuers, client, secrets, clock, timing).await?;
    Ok(Some(Arc::new(authenticator)))
}

/// Whether callers without a credential are accepted: if the flag is set, or if the server listens only on this machine
/// and no issuer is configured.
fn is_anonymous_allowed(listen: &ListenAddress, flag: bool, has_issuers: bool) -> bool {
    flag || (listen.is_local() && !has_issuers)
}

fn has_valid_key(snapshot: &Snapshot, now: Timestamp) -> bool {
    snapshot.keys().any(|key| key.is_valid_at(now))
}

/// Returns free memory to the operating system. The allocator purges with a delay, and only while the program
/// allocates; an idle server would keep the memory. The text inspector's memory is released too: it is rarely used.
async fn release_memory_periodically() {
    loop {
        tokio::time::sleep(MEMORY_RELEASE_INTERVAL).await;
        model::release_inspector_memory();
        drop(std::hint::black_box(Vec::<u8>::with_capacity(PURGING_ALLOCATION)));
    }
}

/// Resolves when the process receives SIGINT or SIGTERM.
fn stop_signal() -> Result<impl Future<Output = ()>, CliError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Start)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Start)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_callers_are_accepted_only_locally_or_with_the_flag() {
        let allowed = |address: &str, flag, issuers| {
            is_anonymous_allowed(&address.parse().unwrap(), flag, issuers)
        };
        assert!(allowed("127.0.0.1:1", false, false));
        assert!(allowed("[::1]:1", false, false));
        assert!(allowed("unix:crib", false, false));
        assert!(!allowed("127.0.0.1:1", false, true));
        assert!(!allowed("0.0.0.0:1", false, false));
        assert!(!allowed("192.0.2.1:1", false, false));
        assert!(allowed("0.0.0.0:1", true, true));
    }
}
