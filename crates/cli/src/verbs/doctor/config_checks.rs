//! Checks of the configuration file: whether it can be read and applied, and whether its embeddings endpoint works.

use std::path::Path;
use std::sync::Arc;

use config::config_error::ConfigError;
use config::config_plan;
use config::config_plan::ConfigPlan;
use config::server_settings::{SearchSettings, ServerSettings};
use toolcrib::{Catalog, SecretStore};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::DoctorFinding;
use crate::environment::ProgramConfig;
use crate::progress;

const INVALID_CONFIG_ADVICE: &str = "a server with this file does not start: mend it";

/// The settings of a server with this file. A file that the catalog rejects is a finding too.
pub(super) async fn check_settings(
    file: Option<&Path>,
    catalog: Option<&Catalog>,
) -> Result<(ServerSettings, Option<DoctorFinding>), DoctorFinding> {
    let wrong = |failure: ConfigError| {
        DoctorFinding::problem("config", failure.full_message(), INVALID_CONFIG_ADVICE)
    };
    let Some(file) = file else {
        return Ok((ServerSettings::from_declared(None, None).map_err(wrong)?, None));
    };
    let declared = config_plan::read_config(file).await.map_err(wrong)?;
    let settings = ServerSettings::from_declared(Some(&declared), None).map_err(wrong)?;
    let Some(catalog) = catalog else { return Ok((settings, None)) };
    let finding = match ConfigPlan::compute(catalog, &declared, false, Vec::new()).await {
        Err(refused) => wrong(refused.into_failure(&declared.document)),
        Ok(plan) if plan.report.changes.is_empty() => DoctorFinding::ok("config", "it is in force"),
        Ok(_) => {
            let says = "it can be applied, and is not in force yet";
            let advice = format!("see what it would change: toolcrib plan {}", file.display());
            DoctorFinding::warning("config", says, advice)
        }
    };
    Ok((settings, Some(finding)))
}

/// Checks that the source of embeddings exists and returns a vector.
pub(super) async fn check_embeddings(
    search: &SearchSettings,
    config: &ProgramConfig,
    secrets: &Arc<SecretStore>,
    is_offline: bool,
) -> Option<DoctorFinding> {
    let maker = match search.embeddings(&config.journal).await {
        Ok(embeddings) => embeddings?.backend,
        Err(error) => {
            return Some(DoctorFinding::problem(
                "embeddings",
                model::format_error_chain(&error),
                INVALID_CONFIG_ADVICE,
            ));
        }
    };
    if is_offline {
        return Some(DoctorFinding::ok("embeddings", "nothing is known against them"));
    }
    let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
    let texts = ["a text".to_owned()];
    let asked = toolcrib::embed_texts(maker, &client, Some(Arc::clone(secrets)), &texts);
    Some(match progress::show_while("asking for a vector", asked).await {
        Ok(_) => DoctorFinding::ok("embeddings", "a text has a vector"),
        Err(error) => {
            let advice =
                "tools are found by words alone until then: is the address right, and the key?";
            DoctorFinding::problem("embeddings", model::format_error_chain(&error), advice)
        }
    })
}
