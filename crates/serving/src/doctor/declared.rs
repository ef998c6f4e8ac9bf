//! Checks of the configuration file: whether it can be read and applied, and whether its embeddings endpoint works.

use std::path::Path;
use std::sync::Arc;

use toolcrib::{Catalog, Secrets};
use upstream::egress::Egress;
use upstream::http::HttpClient;

use super::Finding;
use crate::config::Config;
use crate::failure::Failure;
use crate::plan::{self, Plan};
use crate::progress;
use crate::serve::settings::{Search, Settings};

const MEND: &str = "a server with this file does not start: mend it";

/// The settings of a server with this file. A file that the catalog rejects is a finding too.
pub(super) async fn settings(
    file: Option<&Path>,
    catalog: Option<&Catalog>,
) -> Result<(Settings, Option<Finding>), Finding> {
    let wrong = |failure: Failure| Finding::problem("config", failure.sentence(), MEND);
    let Some(file) = file else {
        return Ok((Settings::of(None, None).map_err(wrong)?, None));
    };
    let declared = plan::read(file).await.map_err(wrong)?;
    let settings = Settings::of(Some(&declared), None).map_err(wrong)?;
    let Some(catalog) = catalog else { return Ok((settings, None)) };
    let finding = match Plan::make(catalog, &declared, false, Vec::new()).await {
        Err(refused) => wrong(refused.of(&declared.document)),
        Ok(plan) if plan.told.changes.is_empty() => Finding::ok("config", "it is in force"),
        Ok(_) => {
            let says = "it can be applied, and is not in force yet";
            let advice = format!("see what it would change: toolcrib plan {}", file.display());
            Finding::warning("config", says, advice)
        }
    };
    Ok((settings, Some(finding)))
}

/// Checks that the source of embeddings exists and returns a vector.
pub(super) async fn search(
    search: &Search,
    config: &Config,
    secrets: &Arc<Secrets>,
    is_offline: bool,
) -> Option<Finding> {
    let maker = match search.embeddings(&config.journal).await {
        Ok(embeddings) => embeddings?.maker,
        Err(error) => return Some(Finding::problem("embeddings", model::sentence(&error), MEND)),
    };
    if is_offline {
        return Some(Finding::ok("embeddings", "nothing is known against them"));
    }
    let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
    let texts = ["a text".to_owned()];
    let asked = toolcrib::vectors(maker, &client, Some(Arc::clone(secrets)), &texts);
    Some(match progress::during("asking for a vector", asked).await {
        Ok(_) => Finding::ok("embeddings", "a text has a vector"),
        Err(error) => {
            let advice =
                "tools are found by words alone until then: is the address right, and the key?";
            Finding::problem("embeddings", model::sentence(&error), advice)
        }
    })
}
