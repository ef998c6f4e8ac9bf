//! `toolcrib export`: prints the catalog as a configuration file.

use config::declared_config::config_export::write_config;
use toolcrib::JournalLocation;

use crate::arguments::VerbOutcome;
use crate::arguments::plan::ExportConfigArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::verbs::journal::show::read_snapshot;

pub(crate) async fn export_config(
    place: &JournalLocation,
    given: &ExportConfigArgs,
) -> Result<VerbOutcome, CliError> {
    let snapshot = read_snapshot(place, None).await?;
    output::print_text(&write_config(&snapshot, given.format.into())?)?;
    Ok(VerbOutcome::Success)
}
