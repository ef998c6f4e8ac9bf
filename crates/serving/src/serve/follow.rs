//! The configuration file of a server: applied at the start, and again whenever it changes. If a version cannot be
//! applied, the last applied version stays in force, and the reasons are reported.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use catalog::Catalog;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib::{Clock as _, CommandError, Context, JournalError, Position, SystemClock};

use crate::declared::Declared;
use crate::failure::Failure;
use crate::plan::{self, Plan};
use crate::trace::Files;

/// Interval between checks of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many times a plan is made again if another node changed the catalog in between.
const ATTEMPTS: usize = 5;

/// How a configuration file is followed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub(crate) struct Followed {
    /// Which.
    pub(crate) file: String,
    /// Whether what it says now is in force.
    pub(crate) is_applied: bool,
    /// When a version of it was last applied.
    applied_at: Timestamp,
    /// Of the catalog that was as it said.
    position: Position,
    /// What is declared of tools that are not known yet.
    waiting: Vec<String>,
    /// Why the version that is there now is not applied.
    problems: Vec<String>,
    /// What the server reads when it starts, and what now stands otherwise in the file.
    needs_restart: BTreeSet<String>,
}

/// The shared state of the follower, for the admin API.
#[derive(Clone)]
pub(crate) struct State(Arc<Mutex<Followed>>);

impl State {
    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.0.lock().expect("no one panics while holding what is followed")
    }

    pub(crate) fn now(&self) -> Followed {
        self.lock().clone()
    }
}

/// Follows one configuration file and applies its changes.
pub(super) struct Follower {
    path: PathBuf,
    catalog: Arc<Catalog>,
    /// The `server` settings as they were at the start.
    server: Value,
    files: Files,
    /// Position of the catalog at the last check for missing tools.
    looked_at: Position,
    pub(super) state: State,
}

impl Follower {
    /// Applies the file. If that fails, the server does not start.
    pub(super) async fn start(
        catalog: Arc<Catalog>,
        declared: &Declared,
        files: Files,
    ) -> Result<Self, Failure> {
        let (position, waiting) = apply(&catalog, declared).await?;
        waiting.iter().for_each(|waiting| tracing::info!("{waiting}"));
        let path = declared.document.path().to_owned();
        let followed = Followed {
            file: path.display().to_string(),
            is_applied: true,
            applied_at: SystemClock.now(),
            position,
            waiting,
            problems: Vec::new(),
            needs_restart: BTreeSet::new(),
        };
        Ok(Self {
            path,
            files,
            looked_at: position,
            server: declared.server.clone(),
            state: State(Arc::new(Mutex::new(followed))),
            catalog,
        })
    }

    /// Checks the file periodically and applies its changes; never returns.
    pub(super) async fn keep_applied(mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let position = self.catalog.snapshot().position();
        let has_changed = self.files.have_changed();
        // Overrides declared for a missing tool are applied as soon as its source provides the tool.
        let may_be_there = self.looked_at < position && !self.state.lock().waiting.is_empty();
        if !has_changed && !may_be_there {
            return;
        }
        let (files, declared) = plan::read_noting(&self.path).await;
        let applied = match declared {
            Ok(declared) => self.again(&declared, has_changed).await,
            Err(failure) => Err(failure),
        };
        let is_for_another_time = matches!(
            applied,
            Err(Failure::Journal(_) | Failure::NotApplied(_) | Failure::Overtaken { .. })
        );
        if !is_for_another_time {
            (self.files, self.looked_at) = (files, position);
        }
        let problems = match applied {
            Ok(()) => return,
            Err(Failure::Declared { problems }) => problems,
            Err(other) => vec![other.sentence()],
        };
        let mut state = self.state.lock();
        if state.problems != problems {
            for problem in &problems {
                tracing::warn!("the configuration before stays in force: {problem}");
            }
        }
        (state.is_applied, state.problems) = (false, problems);
    }

    async fn again(&self, declared: &Declared, has_changed: bool) -> Result<(), Failure> {
        let (position, waiting) = apply(&self.catalog, declared).await?;
        let needs_restart = differing(&self.server, &declared.server);
        if has_changed {
            tracing::info!("`{}` is applied", self.path.display());
            for member in &needs_restart {
                tracing::warn!("`{member}` has changed: start the server again to go by it");
            }
        }
        let mut state = self.state.lock();
        let (file, applied_at) = (state.file.clone(), SystemClock.now());
        let (is_applied, problems) = (true, Vec::new());
        *state =
            Followed { file, is_applied, applied_at, position, waiting, problems, needs_restart };
        Ok(())
    }
}

/// Changes the catalog to the declared state. Retries if another node does so at the same time.
async fn apply(catalog: &Catalog, declared: &Declared) -> Result<(Position, Vec<String>), Failure> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        let plan = Plan::make(catalog, declared, false, Vec::new()).await;
        let Plan { told, supposed } = plan.map_err(|refused| refused.of(&declared.document))?;
        attempts.next();
        match catalog.carry_out(supposed, Context::by("system:config")).await {
            Ok(position) => {
                let waiting = told.waiting.iter().map(|one| declared.document.told(one));
                return Ok((position, waiting.collect()));
            }
            Err(CommandError::Journal(JournalError::Conflict { .. })) if !attempts.is_empty() => {
                let head = catalog.journal().head().await?;
                catalog.shown(head).await.map_err(Failure::not_applied)?;
            }
            Err(error) => return Err(Failure::not_applied(error)),
        }
    }
}

/// The fields whose values differ.
fn differing(before: &Value, after: &Value) -> BTreeSet<String> {
    let names = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let all = names(before).into_iter().chain(names(after));
    all.filter(|name| before.get(name) != after.get(name)).collect()
}
