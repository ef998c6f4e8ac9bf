//! The configuration file of a server: applied at the start, and again whenever it changes. If a version cannot be
//! applied, the last applied version stays in force, and the reasons are reported.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_types::config_status::{FollowedConfig, FollowerState};
use catalog::Catalog;
use serde_json::Value;
use toolcrib::{ChangeContext, Clock as _, CommandError, JournalError, Position, SystemClock};

use crate::config_error::ConfigError;
use crate::config_plan;
use crate::config_plan::ConfigPlan;
use crate::declared_config::DeclaredConfig;
use crate::file_stamp::FileStamps;

/// Interval between checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How many times a plan is made again if another node changed the catalog in between.
const PLAN_ATTEMPTS: usize = 5;

/// Follows one configuration file and applies its changes.
pub struct ConfigFollower {
    path: PathBuf,
    catalog: Arc<Catalog>,
    /// The `server` settings as they were at the start.
    server_at_start: Value,
    files: FileStamps,
    /// Position of the catalog at the last check for missing tools.
    checked_at: Position,
    pub state: FollowerState,
}

impl ConfigFollower {
    /// Applies the file. If that fails, the server does not start.
    pub async fn start(
        catalog: Arc<Catalog>,
        declared: &DeclaredConfig,
        files: FileStamps,
    ) -> Result<Self, ConfigError> {
        let (position, waiting) = apply_declared(&catalog, declared).await?;
        waiting.iter().for_each(|waiting| tracing::info!("{waiting}"));
        let path = declared.document.path().to_owned();
        let followed = FollowedConfig {
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
            checked_at: position,
            server_at_start: declared.server.clone(),
            state: FollowerState::new(followed),
            catalog,
        })
    }

    /// Checks the file periodically and applies its changes; never returns.
    pub async fn apply_changes_forever(mut self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.check_once().await;
        }
    }

    async fn check_once(&mut self) {
        let position = self.catalog.snapshot().position();
        let has_changed = self.files.have_changed();
        // Overrides declared for a missing tool are applied as soon as its source provides the tool.
        let may_be_there = self.checked_at < position && !self.state.lock().waiting.is_empty();
        if !has_changed && !may_be_there {
            return;
        }
        let (files, declared) = config_plan::read_config_with_stamps(&self.path).await;
        let applied = match declared {
            Ok(declared) => self.reapply(&declared, has_changed).await,
            Err(failure) => Err(failure),
        };
        let is_for_another_time = matches!(
            applied,
            Err(ConfigError::Journal(_)
                | ConfigError::NotApplied(_)
                | ConfigError::OutdatedPlan { .. })
        );
        if !is_for_another_time {
            (self.files, self.checked_at) = (files, position);
        }
        let problems = match applied {
            Ok(()) => return,
            Err(ConfigError::Invalid { problems }) => problems,
            Err(other) => vec![other.full_message()],
        };
        let mut state = self.state.lock();
        if state.problems != problems {
            for problem in &problems {
                tracing::warn!("the configuration before stays in force: {problem}");
            }
        }
        (state.is_applied, state.problems) = (false, problems);
    }

    async fn reapply(
        &self,
        declared: &DeclaredConfig,
        has_changed: bool,
    ) -> Result<(), ConfigError> {
        let (position, waiting) = apply_declared(&self.catalog, declared).await?;
        let needs_restart = differing_fields(&self.server_at_start, &declared.server);
        if has_changed {
            tracing::info!("`{}` is applied", self.path.display());
            for member in &needs_restart {
                tracing::warn!("`{member}` has changed: start the server again to go by it");
            }
        }
        let mut state = self.state.lock();
        let (file, applied_at) = (state.file.clone(), SystemClock.now());
        let (is_applied, problems) = (true, Vec::new());
        *state = FollowedConfig {
            file,
            is_applied,
            applied_at,
            position,
            waiting,
            problems,
            needs_restart,
        };
        Ok(())
    }
}

/// Changes the catalog to the declared state. Retries if another node does so at the same time.
async fn apply_declared(
    catalog: &Catalog,
    declared: &DeclaredConfig,
) -> Result<(Position, Vec<String>), ConfigError> {
    let mut attempts = 1..=PLAN_ATTEMPTS;
    loop {
        let plan = ConfigPlan::compute(catalog, declared, false, Vec::new()).await;
        let ConfigPlan { report: told, supposed } =
            plan.map_err(|refused| refused.into_failure(&declared.document))?;
        attempts.next();
        match catalog.execute_plan(supposed, ChangeContext::by_actor("system:config")).await {
            Ok(position) => {
                let waiting = told.waiting.iter().map(|one| declared.document.describe(one));
                return Ok((position, waiting.collect()));
            }
            Err(CommandError::Journal(JournalError::Conflict { .. })) if !attempts.is_empty() => {
                let head = catalog.journal().head_position().await?;
                catalog.wait_until_visible(head).await.map_err(ConfigError::not_applied)?;
            }
            Err(error) => return Err(ConfigError::not_applied(error)),
        }
    }
}

/// The fields whose values differ.
fn differing_fields(before: &Value, after: &Value) -> BTreeSet<String> {
    let names = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let all = names(before).into_iter().chain(names(after));
    all.filter(|name| before.get(name) != after.get(name)).collect()
}
