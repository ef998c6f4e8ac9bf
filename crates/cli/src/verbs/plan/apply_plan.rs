//! `toolcrib apply`: changes the catalog to the state that a file declares, in one step or not at all.

use config::config_error::ConfigError;
use config::config_plan::check_on_empty_catalog;
use toolcrib::{Catalog, ChangeContext, JournalLocation};

use super::{ConfigPlan, all_identities, named_identities, plan_text, read_config, remote_plan};
use crate::admin_client::admin_backend::suggest_server;
use crate::arguments::VerbOutcome;
use crate::arguments::plan::ApplyArgs;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::output;
use crate::output::count_noun;
use crate::verbs::journal::open_or_create;

pub(crate) async fn run_apply(
    config: &ProgramConfig,
    given: &ApplyArgs,
) -> Result<VerbOutcome, CliError> {
    let wanted = &given.wanted;
    if wanted.at.server.is_some() {
        return apply_on_server(config, given).await;
    }
    let place = &config.journal;
    let declared = read_config(&wanted.file).await?;
    if matches!(place, JournalLocation::File(path) if !path.exists()) {
        check_on_empty_catalog(&declared).await?;
    }
    let catalog = Catalog::open(open_or_create(place).await.map_err(suggest_server)?).await?;
    let identities =
        all_identities(&catalog.snapshot(), &declared, named_identities(&wanted.identities).await?);
    let plan = ConfigPlan::compute(&catalog, &declared, wanted.prune, identities).await;
    let ConfigPlan { report: told, supposed } =
        plan.map_err(|refused| refused.into_failure(&declared.document))?;
    plan_text::print_plan(&told, &declared.document, &wanted.json)?;
    if supposed.is_empty() {
        catalog.close().await;
        return Ok(VerbOutcome::Success);
    }
    if !given.yes && !output::confirm("Apply this?").await? {
        catalog.close().await;
        return Ok(report_unchanged());
    }
    let position = catalog.execute_plan(supposed, ChangeContext::by_actor("cli:apply")).await;
    let position = position.map_err(ConfigError::not_applied)?;
    catalog.close().await;
    Ok(report_applied(told.events, position.0))
}

/// Applies the plan of a running server, and fails if the plan has changed.
async fn apply_on_server(
    config: &ProgramConfig,
    given: &ApplyArgs,
) -> Result<VerbOutcome, CliError> {
    let planned = remote_plan::request_plan(config, &given.wanted).await?;
    plan_text::print_plan(&planned.report, &planned.document, &given.wanted.json)?;
    if planned.report.changes.is_empty() {
        return Ok(VerbOutcome::Success);
    }
    if !given.yes && !output::confirm("Apply this?").await? {
        return Ok(report_unchanged());
    }
    let told = planned.apply().await?;
    Ok(report_applied(told.events, told.position.0))
}

fn report_unchanged() -> VerbOutcome {
    output::print_note("nothing was changed");
    VerbOutcome::Success
}

fn report_applied(events: usize, position: u64) -> VerbOutcome {
    let events = count_noun(events, "event", "events");
    output::print_note(&format!("applied: {events}, up to event {position}"));
    VerbOutcome::Success
}
