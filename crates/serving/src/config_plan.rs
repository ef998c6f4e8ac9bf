//! `toolcrib plan` and `toolcrib apply`: computes the changes of a configuration file, and applies them.
//!
//! A plan is the difference between the catalog and its state after the commands of the file. Applying stores exactly
//! the planned events: if an affected entity has changed in between, nothing is stored.

pub(crate) mod apply_plan;
pub(crate) mod plan_diff;
pub(crate) mod plan_notes;
pub(crate) mod plan_text;
mod remote_plan;

use std::path::Path;
use std::sync::Arc;

use model::Claims;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{
    AccessEffect, Catalog, Clock as _, Command, CommandError, CommandPlan, JournalLocation,
    Position, RefusedCommand, Snapshot, SystemClock,
};

use self::plan_diff::{PlannedChange, diff_objects};
use crate::cli::VerbOutcome;
use crate::cli::plan::{self as options, PlanOptions};
use crate::cli_error::CliError;
use crate::declared_config::DeclaredConfig;
use crate::declared_config::config_document::ConfigDocument;
use crate::declared_config::config_problem::{ConfigProblem, ConfigProblems};
use crate::declared_config::declared_commands::{DeclaredCommand, DeclaredCommands};
use crate::declared_config::declared_objects::declared_objects;
use crate::declared_config::section_entries::PlanIdentity;
use crate::environment::ProgramConfig;
use crate::explain;
use crate::file_stamp::FileStamps;
use crate::journal::open_to_read;
use crate::problem::Problem;

/// The changes of a file.
pub(crate) struct ConfigPlan {
    pub(crate) report: PlanReport,
    /// The events, ready to be stored.
    pub(crate) supposed: CommandPlan,
}

/// What is said of a plan.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub(crate) struct PlanReport {
    /// Of the last event that was known.
    pub(crate) position: Position,
    /// How many events it takes.
    pub(crate) events: usize,
    /// What would be others than it is.
    pub(crate) changes: Vec<PlannedChange>,
    /// What would change for whom.
    pub(crate) identities: Vec<IdentityEffect>,
    /// What is declared of tools that are not known yet.
    pub(crate) waiting: ConfigProblems,
    /// What is most likely not meant, or not known before it is done.
    pub(crate) notes: ConfigProblems,
}

/// What would change for somebody.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlannedEffect")]
pub(crate) struct IdentityEffect {
    /// Who.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) effect: AccessEffect,
}

/// The reason why a plan cannot be made.
pub(crate) enum PlanError {
    /// The catalog would reject the declared state.
    Rejected(ConfigProblems),
    Failed(CommandError),
}

impl PlanError {
    /// Adds the positions in the file.
    pub(crate) fn into_failure(self, document: &ConfigDocument) -> CliError {
        match self {
            Self::Rejected(mistakes) => document.to_failure(mistakes),
            Self::Failed(error) => CliError::not_applied(error),
        }
    }
}

impl IdentityEffect {
    pub(crate) fn is_affected(&self) -> bool {
        let AccessEffect { gained, lost, renamed, before, after, .. } = &self.effect;
        !gained.is_empty() || !lost.is_empty() || !renamed.is_empty() || before != after
    }
}

impl ConfigPlan {
    /// Computes the changes of a file in a catalog, and their effect on identities.
    pub(crate) async fn compute(
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
pub(crate) fn all_identities(
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

/// Parses the identities on the command line.
pub(crate) async fn named_identities(given: &[String]) -> Result<Vec<PlanIdentity>, CliError> {
    let mut identities = Vec::with_capacity(given.len());
    for given in given {
        let claims = Arc::new(explain::read_claims(given).await?);
        let stem = Path::new(given).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let is_json = given.trim_start().starts_with('{');
        let name = stem.filter(|_| !is_json).unwrap_or_else(|| given.clone());
        identities.push(PlanIdentity { name, claims });
    }
    Ok(identities)
}

/// `toolcrib plan`. A missing journal counts as an empty one, and is not created.
pub(crate) async fn run_plan(
    config: &ProgramConfig,
    given: &options::PlanArgs,
) -> Result<VerbOutcome, CliError> {
    let wanted = &given.wanted;
    let (told, document) = match &wanted.at.server {
        Some(_) => remote_plan::fetch_report(config, wanted).await?,
        None => plan_locally(&config.journal, wanted).await?,
    };
    plan_text::print_plan(&told, &document, &wanted.json)?;
    Ok(if told.changes.is_empty() { VerbOutcome::Success } else { VerbOutcome::WouldChange })
}

async fn plan_locally(
    place: &JournalLocation,
    wanted: &PlanOptions,
) -> Result<(PlanReport, ConfigDocument), CliError> {
    let declared = read_config(&wanted.file).await?;
    let journal = match place {
        JournalLocation::File(path) if !path.exists() => {
            JournalLocation::Memory.open(SystemClock).await?
        }
        place => open_to_read(place).await?,
    };
    let catalog = Catalog::open(journal).await?;
    let named = named_identities(&wanted.identities).await?;
    let identities = all_identities(&catalog.snapshot(), &declared, named);
    let plan = ConfigPlan::compute(&catalog, &declared, wanted.prune, identities).await;
    let plan = plan.map_err(|refused| refused.into_failure(&declared.document))?;
    Ok((plan.report, declared.document))
}

/// Checks that a file could be applied to an empty catalog, so that a rejected file creates no journal.
pub(crate) async fn check_on_empty_catalog(declared: &DeclaredConfig) -> Result<(), CliError> {
    let nothing = Catalog::open(JournalLocation::Memory.open(SystemClock).await?).await?;
    let plan = ConfigPlan::compute(&nothing, declared, false, Vec::new()).await;
    plan.map(drop).map_err(|refused| refused.into_failure(&declared.document))
}

/// Reads a file in the background.
pub(crate) async fn read_config(path: &Path) -> Result<DeclaredConfig, CliError> {
    read_config_with_stamps(path).await.1
}

/// Like `read_config`, with the stamps of all files that were read.
pub(crate) async fn read_config_with_stamps(
    path: &Path,
) -> (FileStamps, Result<DeclaredConfig, CliError>) {
    let path = path.to_owned();
    upstream::run_low_priority(move || {
        let mut files = FileStamps::default();
        let declared = DeclaredConfig::read_with_stamps(&path, &mut files);
        (files, declared)
    })
    .await
}
