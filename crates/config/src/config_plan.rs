//! `toolcrib plan` and `toolcrib apply`: computes the changes of a configuration file, and applies them.
//!
//! A plan is the difference between the catalog and its state after the commands of the file. Applying stores exactly
//! the planned events: if an affected entity has changed in between, nothing is stored.

pub mod plan_diff;
pub(crate) mod plan_notes;

use std::path::Path;
use std::sync::Arc;

use api_types::problem::Problem;
use model::Claims;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{
    AccessEffect, Catalog, Clock as _, Command, CommandError, CommandPlan, JournalLocation,
    Position, RefusedCommand, Snapshot, SystemClock,
};

use self::plan_diff::{PlannedChange, diff_objects};
use crate::config_error::ConfigError;
use crate::declared_config::DeclaredConfig;
use crate::declared_config::config_document::ConfigDocument;
use crate::declared_config::config_problem::{ConfigProblem, ConfigProblems};
use crate::declared_config::declared_commands::{DeclaredCommand, DeclaredCommands};
use crate::declared_config::declared_objects::declared_objects;
use crate::declared_config::section_entries::PlanIdentity;
use crate::file_stamp::FileStamps;

/// The changes of a file.
pub struct ConfigPlan {
    pub report: PlanReport,
    /// The events, ready to be stored.
    pub supposed: CommandPlan,
}

/// What is said of a plan.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanReport {
    /// Of the last event that was known.
    pub position: Position,
    /// How many events it takes.
    pub events: usize,
    /// What would be others than it is.
    pub changes: Vec<PlannedChange>,
    /// What would change for whom.
    pub identities: Vec<IdentityEffect>,
    /// What is declared of tools that are not known yet.
    pub waiting: ConfigProblems,
    /// What is most likely not meant, or not known before it is done.
    pub notes: ConfigProblems,
}

/// What would change for somebody.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlannedEffect")]
pub struct IdentityEffect {
    /// Who.
    pub name: String,
    #[serde(flatten)]
    pub effect: AccessEffect,
}

/// The reason why a plan cannot be made.
pub enum PlanError {
    /// The catalog would reject the declared state.
    Rejected(ConfigProblems),
    Failed(CommandError),
}

impl PlanError {
    /// Adds the positions in the file.
    pub fn into_failure(self, document: &ConfigDocument) -> ConfigError {
        match self {
            Self::Rejected(mistakes) => document.to_failure(mistakes),
            Self::Failed(error) => ConfigError::not_applied(error),
        }
    }
}

impl IdentityEffect {
    pub fn is_affected(&self) -> bool {
        let AccessEffect { gained, lost, renamed, before, after, .. } = &self.effect;
        !gained.is_empty() || !lost.is_empty() || !renamed.is_empty() || before != after
    }
}

impl ConfigPlan {
    /// Computes the changes of a file in a catalog, and their effect on identities.
    pub async fn compute(
        catalog: &Catalog,
        declared: &DeclaredConfig,
        prune: bool,
        identities: Vec<PlanIdentity>,
    ) -> Result<Self, PlanError> {
        let before = catalog.snapshot();
        let DeclaredCommands { commands: wishes, missing_tools: waiting } =
            DeclaredCommands::from_declared(declared, &before, prune);
        let (fields, commands): (Vec<String>, Vec<Command>) =
            wishes.into_iter().map(|DeclaredCommand { field, command }| (field, command)).unzip();
        let supposed = catalog.plan_commands(&before, &commands).await;
        let supposed =
            supposed.map_err(|refused| plan_error(declared, &before, &fields, refused))?;
        let told = PlanReport {
            position: before.position(),
            events: supposed.len(),
            changes: diff_objects(
                &declared_objects(&before),
                &declared_objects(&supposed.snapshot),
            ),
            identities: compare_identities(&before, &supposed.snapshot, identities),
            waiting: waiting
                .iter()
                .map(|one| plan_notes::missing_tool_note(&before, one))
                .collect(),
            notes: plan_notes::collect_notes(declared, &before, &supposed.snapshot),
        };
        Ok(Self { report: told, supposed })
    }
}

fn compare_identities(
    before: &Snapshot,
    after: &Snapshot,
    identities: Vec<PlanIdentity>,
) -> Vec<IdentityEffect> {
    let (names, claims): (Vec<String>, Vec<Arc<Claims>>) =
        identities.into_iter().map(|identity| (identity.name, identity.claims)).unzip();
    let effects = toolcrib::access_effects(before, after, &claims);
    names.into_iter().zip(effects).map(|(name, effect)| IdentityEffect { name, effect }).collect()
}

/// Converts a rejection by the catalog, with the field of the file that caused it.
fn plan_error(
    declared: &DeclaredConfig,
    before: &Snapshot,
    fields: &[String],
    refused: RefusedCommand,
) -> PlanError {
    let RefusedCommand { number, error } = refused;
    match error {
        CommandError::Refused(refusal) => {
            let field = fields.get(number).map_or("", String::as_str);
            let unknown = plan_notes::unresolved_references(declared, before, field, &refusal);
            PlanError::Rejected(match unknown.is_empty() {
                true => ConfigProblem::from_problem(Problem::from(refusal), field),
                false => unknown,
            })
        }
        other => PlanError::Failed(other),
    }
}

/// All identities to compare: the holders of valid API keys, those named in the file, and those on the command line.
pub fn all_identities(
    snapshot: &Snapshot,
    declared: &DeclaredConfig,
    given: Vec<PlanIdentity>,
) -> Vec<PlanIdentity> {
    let now = SystemClock.now();
    let keys = snapshot.keys().filter(|key| key.is_valid_at(now)).map(|key| PlanIdentity {
        name: format!("key:{}", key.id),
        claims: Arc::clone(&key.profile.claims),
    });
    keys.chain(declared.identities.iter().cloned()).chain(given).collect()
}

/// Checks that a file could be applied to an empty catalog, so that a rejected file creates no journal.
pub async fn check_on_empty_catalog(declared: &DeclaredConfig) -> Result<(), ConfigError> {
    let nothing = Catalog::open(JournalLocation::Memory.open(SystemClock).await?).await?;
    let plan = ConfigPlan::compute(&nothing, declared, false, Vec::new()).await;
    plan.map(drop).map_err(|refused| refused.into_failure(&declared.document))
}

/// Reads a file in the background.
pub async fn read_config(path: &Path) -> Result<DeclaredConfig, ConfigError> {
    read_config_with_stamps(path).await.1
}

/// Like `read_config`, with the stamps of all files that were read.
pub async fn read_config_with_stamps(
    path: &Path,
) -> (FileStamps, Result<DeclaredConfig, ConfigError>) {
    let path = path.to_owned();
    limits::run_low_priority(move || {
        let mut files = FileStamps::default();
        let declared = DeclaredConfig::read_with_stamps(&path, &mut files);
        (files, declared)
    })
    .await
}
