//! `toolcrib serve`: runs one node. It opens the journal, listens, and drains its connections before it stops.

mod again;
mod connection;
pub(crate) mod connections;
pub(crate) mod descriptors;
mod early;
pub(crate) mod first_admin;
pub(crate) mod follow;
mod greeting;
pub(crate) mod listen;
pub(crate) mod listener;
mod offer;
mod otlp;
pub(crate) mod pressure;
mod pulse;
pub(crate) mod settings;
mod socket_file;
mod spoken;
pub(crate) mod tls;

use std::sync::Arc;
use std::time::Duration;

use catalog::Snapshot;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use toolcrib::telemetry::Exporter;
use toolcrib::{
    Authenticator, Catalog, Clock as _, IssuerConfig, JournalPlace, Recorder, Registry, SealingKey,
    Secrets, SystemClock, Timing, Toolcrib,
};
use upstream::egress::Egress;
use upstream::http::HttpClient;

use self::connections::Limits;
use self::follow::Follower;
use self::listen::Listen;
use self::listener::Listener;
use self::offer::{Beside, Offer};
use self::settings::Settings;
use self::tls::Tls;
use crate::app::Options;
use crate::cli::Ended;
use crate::cli::serve::Serve;
use crate::config::Config;
use crate::failure::Failure;
use crate::names::Names;
use crate::protected_resource::ProtectedResource;
use crate::trace::Files;
use crate::{config, metrics, plan, router};

/// Maximum concurrent connections of the separate metrics address.
const METRICS_PLACES: usize = 64;
/// Interval between memory releases, and the size of an allocation that makes the allocator purge its free pages.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(2);
const LARGE: usize = 1 << 20;

pub(crate) async fn serve(config: &Config, arguments: &Serve) -> Result<Ended, Failure> {
    let place = Offer::journal(config, arguments)?;
    let (files, declared) = match &arguments.config {
        Some(path) => {
            let (files, declared) = plan::read_noting(path).await;
            (files, Some(declared?))
        }
        None => (Files::default(), None),
    };
    let settings = Settings::of(declared.as_ref(), arguments.public_url.as_ref())?;
    let sealing_key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
    let otlp = otlp::read(arguments.otlp_endpoint.as_ref(), config::variable)?;
    let tls = tls(arguments)?;
    let resource_folders = config::resource_folders(&arguments.resource_folder)?;
    // Bind before anything is opened: if the port is taken, nothing is left behind.
    let opened = Listener::open(&arguments.listen, arguments.socket_mode, tls.clone());
    let (listener, listen) =
        opened.map_err(|source| Failure::Listen { address: arguments.listen.clone(), source })?;
    let metrics_place = arguments.metrics_listen.as_ref();
    let metrics_place = metrics_place.map(|place| {
        let opened = Listener::open(place, arguments.socket_mode, None);
        opened.map_err(|source| Failure::Listen { address: place.clone(), source })
    });
    let metrics_place = metrics_place.transpose()?;
    // Check before the journal is opened: a rejected start must not create a new journal file.
    let has_issuers = !settings.issuers.is_empty();
    let anonymous = anonymous_allowed(&listen, arguments.allow_anonymous, has_issuers);
    let is_new = match &place {
        JournalPlace::File(path) => !path.exists(),
        JournalPlace::Memory => true,
        JournalPlace::Postgres(_) => false,
    };
    if is_new && !anonymous && !has_issuers {
        return Err(Failure::NobodyCanCome { address: listen });
    }
    if let (true, Some(declared)) = (is_new, &declared) {
        plan::try_on_nothing(declared).await?;
    }
    let embeddings = settings.search.embeddings(&place).await?;
    let offer = Offer::read(arguments, is_new).await?;
    let named = offer.programs();
    if arguments.allow_stdio || !named.is_empty() {
        config::hide_this_process();
    }
    let journal = place.open(SystemClock).await?;
    let seal = sealing_key.as_ref().map(SealingKey::for_clients);
    let secrets =
        Secrets::new(Arc::clone(&journal), sealing_key, SystemClock, config::variable_of_user);
    let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
    let exporter = otlp.map(|otlp| {
        // The operator configured this address, and collectors usually run in the private network.
        let near = client.with_egress(Egress { allow_private: true, allowed: Vec::new() });
        Exporter::new(otlp, near, SystemClock)
    });
    let (cache, limits, record) = (settings.cache(), settings.limits(), settings.record());
    let per_agent = settings.per_agent();
    let (hosts, origins) = (settings.allowed_hosts, settings.allowed_origins);
    let names = Names::new(hosts, origins, settings.public_url.as_ref());
    let resource = ProtectedResource {
        url: settings.public_url.unwrap_or_else(|| listen.url(tls.is_some())),
        issuers: settings.issuers.iter().map(|issuer| issuer.issuer.clone()).collect(),
        scopes: settings.scopes,
    };
    let authenticator = authenticator(settings.issuers, &client, &secrets).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let now = SystemClock.now();
    if !anonymous && !has_issuers && !has_good_key(&catalog.snapshot(), now) {
        return Err(Failure::NobodyCanCome { address: listen });
    }
    let secrets = Some(Arc::new(secrets));
    let recorder = match record {
        Some(options) => Some(Recorder::start(place.open_record().await?, options)),
        None => None,
    };
    // Start following only after every step that can still abort the startup.
    let follower = match &declared {
        Some(declared) => Some(Follower::start(Arc::clone(&catalog), declared, files).await?),
        None => None,
    };
    let keys = [arguments.sealing_key_file.as_deref(), arguments.tls_key.as_deref()];
    let behaviour = toolcrib::Options {
        anonymous,
        authenticator,
        cache,
        per_agent,
        secrets,
        programs: Config::programs(&place, (arguments.allow_stdio, named), keys),
        resource_folders,
        registry: Registry::new(),
        recorder: recorder.clone(),
        learns: settings.search.learns,
        embeddings,
        tracer: exporter.as_ref().and_then(|exporter| exporter.tracer()),
    };
    let crib = Toolcrib::new(Arc::clone(&catalog), client, SystemClock, behaviour);
    let options = Options {
        anonymous_is_local: anonymous && !arguments.allow_anonymous,
        allow_stdio: arguments.allow_stdio,
        seal,
        names: listen.names(names.clone(), !anonymous),
        resource,
        exporter: exporter.clone(),
    };
    let (doors, app) = router::doors(crib, options);
    if let Some(follower) = follower {
        app.follow(follower.state.clone());
        app.later(follower.keep_applied());
    }
    let made = offer.make(&app, anonymous).await?;
    // Create the key only after every step that can fail, because it is printed only once.
    let admin = first_admin::make(&catalog, now, has_issuers, arguments.new_admin_key).await?;
    let key = admin.as_ref().map(|key| key.expose_secret());
    let here = greeting::Place::of(&listen, tls.is_some());
    let said = made.text(&app.crib, &Beside { place: &here, journal: &place, key, anonymous });
    // Install the signal handlers first: a process that reads the startup message may send a signal at once.
    let stopped = stopped()?;
    let metrics_at = metrics_place.as_ref().map(|(_, place)| place);
    greeting::greet(&here, &app.options.names, metrics_at, &said)?;
    tls.into_iter().for_each(|tls| app.later(tls.keep_fresh()));
    app.later(give_memory_back());
    let crib = app.crib.clone();
    app.later(async move { crib.keep_fresh().await });
    let crib = app.crib.clone();
    app.later(async move { crib.keep_searchable().await });
    let crib = app.crib.clone();
    app.later(async move { crib.keep_counting().await });
    if let Some(recorder) = recorder.clone() {
        app.later(async move { recorder.keep_tidy(&SystemClock).await });
    }
    if let Some(exporter) = exporter.clone() {
        let told = app.clone();
        app.later(async move { exporter.push(|| metrics::reading(&told)).await });
    }
    let limits = Limits { places: descriptors::places(limits.places), ..limits };
    let drained = async {
        stopped.await;
        app.drain();
        tokio::time::sleep(Duration::from_secs(arguments.drain_delay.into())).await;
    };
    let (served, until) = oneshot::channel::<()>();
    let beside = async {
        let Some((listener, place)) = metrics_place else { return };
        let alone = metrics::alone(&app, place.names(names, true));
        let limits = Limits { places: METRICS_PLACES, last_answers: Duration::ZERO, ..limits };
        connections::serve(listener, alone, limits, async { drop(until.await) }).await;
    };
    tokio::join!(beside, async {
        let pressure = Arc::clone(&app.pressure);
        connections::serve_under(listener, doors, limits, pressure, drained).await;
        drop(served);
    });
    app.stop().await;
    if let Some(exporter) = exporter {
        exporter.push_last(&metrics::reading(&app)).await;
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
    Ok(Ended::Fine)
}

/// The TLS certificate, if one is configured.
fn tls(arguments: &Serve) -> Result<Option<Tls>, Failure> {
    match (&arguments.tls_cert, &arguments.tls_key, &arguments.listen) {
        (Some(_), Some(_), Listen::Unix(_)) => Err(Failure::TlsOnSocket),
        (Some(certificate), Some(key), Listen::Tcp(_)) => Ok(Some(Tls::read(certificate, key)?)),
        (None, _, _) | (_, None, _) => Ok(None),
    }
}

/// The authenticator for tokens of the configured issuers; `None` if there are no issuers.
async fn authenticator(
    issuers: Vec<IssuerConfig>,
    client: &HttpClient,
    secrets: &Secrets,
) -> Result<Option<Arc<Authenticator>>, Failure> {
    if issuers.is_empty() {
        return Ok(None);
    }
    let (clock, timing) = (Arc::new(SystemClock), Timing::default());
    let authenticator = Authenticator::new(issuers, client, secrets, clock, timing).await?;
    Ok(Some(Arc::new(authenticator)))
}

/// Whether callers without a credential are accepted: if the flag is set, or if the server listens only on this machine
/// and no issuer is configured.
fn anonymous_allowed(listen: &Listen, flag: bool, has_issuers: bool) -> bool {
    flag || (listen.is_local() && !has_issuers)
}

fn has_good_key(snapshot: &Snapshot, now: Timestamp) -> bool {
    snapshot.keys().any(|key| key.is_good_at(now))
}

/// Returns free memory to the operating system. The allocator purges with a delay, and only while the program
/// allocates; an idle server would keep the memory. The text inspector's memory is released too: it is rarely used.
async fn give_memory_back() {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        model::rest_from_inspecting();
        drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}

/// Resolves when the process receives SIGINT or SIGTERM.
fn stopped() -> Result<impl Future<Output = ()>, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Start)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Start)?;
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
            anonymous_allowed(&address.parse().unwrap(), flag, issuers)
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
