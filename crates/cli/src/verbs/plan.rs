//! `toolcrib plan` and `toolcrib apply`: what a configuration file would change, and changing it.

pub(crate) mod apply_plan;
mod plan_text;
mod remote_plan;

use std::path::Path;
use std::sync::Arc;

use config::config_plan::{ConfigPlan, PlanReport, all_identities, read_config};
use config::declared_config::config_document::ConfigDocument;
use config::declared_config::section_entries::PlanIdentity;
use toolcrib::{Catalog, JournalLocation, SystemClock};

use crate::arguments::plan::PlanOptions;
use crate::arguments::{VerbOutcome, plan as options};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::verbs::explain;
use crate::verbs::journal::open_to_read;

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
