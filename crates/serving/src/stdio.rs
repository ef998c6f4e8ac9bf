//! `toolcrib stdio`: the tools of one identity over MCP on standard input and output, for the program that starts it.

use std::sync::Arc;

use model::{Agent, Claims};
use toolcrib::{
    CallDoor, Catalog, Identity, JournalPlace, RecordOptions, Recorder, SealingKey, Secrets,
    SystemClock, Toolcrib,
};
use upstream::egress::Egress;
use upstream::http::HttpClient;

use crate::app::{App, Options};
use crate::cli::Ended;
use crate::cli::serve::Stdio;
use crate::coming::Coming;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::mcp::{self, Peer};
use crate::targets::register::register;
use crate::targets::{self, Wanted};
use crate::watching::Standing;
use crate::{explain, out, router};

pub(crate) async fn speak(config: &Config, arguments: &Stdio) -> Result<Ended, Failure> {
    let wanted = targets::look_at(&arguments.targets).await?;
    let (has_targets, named) = (!wanted.is_empty(), targets::programs(&wanted));
    if arguments.allow_stdio || !named.is_empty() {
        config::hide_this_process();
    }
    let sealing_key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
    let claims = match &arguments.claims {
        Some(given) => Some(explain::claims(given).await?),
        None => None,
    };
    let place = if has_targets { &JournalPlace::Memory } else { &config.journal };
    // Open read-only: a server may be using the journal.
    let journal = place.open_read_only(SystemClock).await?;
    let seal = sealing_key.as_ref().map(SealingKey::for_clients);
    let secrets =
        Secrets::new(Arc::clone(&journal), sealing_key, SystemClock, config::variable_of_user);
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
    let recorder = recorder(place).await;
    let behaviour = toolcrib::Options {
        recorder,
        anonymous: true,
        secrets: Some(Arc::new(secrets)),
        programs: Config::programs(
            place,
            (arguments.allow_stdio, named),
            [arguments.sealing_key_file.as_deref(), None],
        ),
        resource_folders: config::resource_folders(&arguments.resource_folder)?,
        ..toolcrib::Options::default()
    };
    let crib = Toolcrib::new(catalog, client, SystemClock, behaviour);
    let (_, app) = router::doors(crib, Options { seal, ..Options::default() });
    if has_targets {
        serve_targets(&app, wanted).await?;
    }
    let who = match (claims, config::key_of_agent()?) {
        (Some(claims), _) => Standing::here(of_claims(claims)),
        (None, Some(key)) if !has_targets => {
            Standing::shown(&app, key).await.map_err(Failure::KeyOfAgent)?
        }
        (None, _) => Standing::here(Identity::anonymous()),
    };
    let all = app.clone();
    let peer = Peer::new(app, who, arguments.group.clone(), arguments.mode);
    let peer = peer.coming(CallDoor::Stdio, &Coming::default());
    if peer.view().is_err() {
        return Err(Failure::NoSuchGroup(
            arguments.group.iter().map(ToString::to_string).collect(),
        ));
    }
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    let spoken = mcp::stdio::speak(peer, input, tokio::io::stdout()).await;
    all.stop().await;
    if let Some(recorder) = all.crib.recorder() {
        recorder.close().await;
    }
    spoken.map_err(Failure::Output)?;
    Ok(Ended::Fine)
}

/// Registers the targets before the first request is answered, and keeps their tools fresh.
async fn serve_targets(app: &App, wanted: Vec<Wanted>) -> Result<(), Failure> {
    for one in register(&app.crib, wanted, true).await? {
        if let Some(problem) = one.problem {
            out::note(&format!("warning: {} is not there: {problem}", one.shown));
        }
    }
    let crib = app.crib.clone();
    app.later(async move { crib.keep_fresh().await });
    Ok(())
}

/// Opens the call log beside the server's, if it is writable: the journal itself is opened read-only.
async fn recorder(place: &JournalPlace) -> Option<Arc<Recorder>> {
    match place.open_record().await {
        Ok(records) => Some(Recorder::start(records, RecordOptions::default())),
        Err(error) => {
            tracing::warn!(%error, "calls are not recorded: {error}");
            None
        }
    }
}

/// The identity of the given claims. They need no proof: the user who starts the process can read the journal anyway.
fn of_claims(claims: Claims) -> Identity {
    let agent = Agent::new("stdio", Arc::new(claims));
    Identity { agent, ..Identity::anonymous() }
}
