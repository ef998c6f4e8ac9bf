//! `toolcrib apply`: changes the catalog to the state that a file declares, in one step or not at all.

use toolcrib::{Catalog, Context, JournalPlace};

use super::{Plan, away, identities, named, read, shown, try_on_nothing};
use crate::cli::Ended;
use crate::cli::plan::Apply;
use crate::config::Config;
use crate::counter::place::in_use;
use crate::failure::Failure;
use crate::journal::open_or_make;
use crate::out::{self, counted};

pub(crate) async fn apply(config: &Config, given: &Apply) -> Result<Ended, Failure> {
    let wanted = &given.wanted;
    if wanted.at.server.is_some() {
        return there(config, given).await;
    }
    let place = &config.journal;
    let declared = read(&wanted.file).await?;
    if matches!(place, JournalPlace::File(path) if !path.exists()) {
        try_on_nothing(&declared).await?;
    }
    let catalog = Catalog::open(open_or_make(place).await.map_err(in_use)?).await?;
    let identities = identities(&catalog.snapshot(), &declared, named(&wanted.identities).await?);
    let plan = Plan::make(&catalog, &declared, wanted.prune, identities).await;
    let Plan { told, supposed } = plan.map_err(|refused| refused.of(&declared.document))?;
    shown::print(&told, &declared.document, &wanted.json)?;
    if supposed.is_empty() {
        catalog.close().await;
        return Ok(Ended::Fine);
    }
    if !given.yes && !out::agreed("Apply this?").await? {
        catalog.close().await;
        return Ok(nothing_changed());
    }
    let position = catalog.carry_out(supposed, Context::by("cli:apply")).await;
    let position = position.map_err(Failure::not_applied)?;
    catalog.close().await;
    Ok(applied(told.events, position.0))
}

/// Applies the plan of a running server, and fails if the plan has changed.
async fn there(config: &Config, given: &Apply) -> Result<Ended, Failure> {
    let planned = away::ask(config, &given.wanted).await?;
    shown::print(&planned.told, &planned.document, &given.wanted.json)?;
    if planned.told.changes.is_empty() {
        return Ok(Ended::Fine);
    }
    if !given.yes && !out::agreed("Apply this?").await? {
        return Ok(nothing_changed());
    }
    let told = planned.apply().await?;
    Ok(applied(told.events, told.position.0))
}

fn nothing_changed() -> Ended {
    out::note("nothing was changed");
    Ended::Fine
}

fn applied(events: usize, position: u64) -> Ended {
    let events = counted(events, "event", "events");
    out::note(&format!("applied: {events}, up to event {position}"));
    Ended::Fine
}
