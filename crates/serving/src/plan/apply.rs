//! `toolcrib apply`: makes the catalog as a file declares it, in one step or not at all.

use std::io::{self, IsTerminal as _, Write as _};

use toolcrib::{Catalog, Context, JournalPlace, SystemClock};

use super::{Plan, identities, read, shown};
use crate::cli::Ended;
use crate::cli::plan::Apply;
use crate::failure::Failure;
use crate::journal::open_or_make;
use crate::out;

pub(crate) async fn apply(place: &JournalPlace, given: &Apply) -> Result<Ended, Failure> {
    let declared = read(&given.file).await?;
    if matches!(place, JournalPlace::File(path) if !path.exists()) {
        // What is refused leaves no new journal behind.
        let nothing = Catalog::open(JournalPlace::Memory.open(SystemClock).await?).await?;
        Plan::make(&nothing, &declared, given.prune, Vec::new()).await?;
    }
    let catalog = Catalog::open(open_or_make(place).await?).await?;
    let identities = identities(&catalog.snapshot(), &declared, &given.identities).await?;
    let Plan { told, supposed } = Plan::make(&catalog, &declared, given.prune, identities).await?;
    match given.json.json {
        true => out::print_json(&told)?,
        false => out::print(&shown::text(&told))?,
    }
    if supposed.is_empty() {
        catalog.close().await;
        return Ok(Ended::Fine);
    }
    if !given.yes && io::stdin().is_terminal() && io::stderr().is_terminal() && !asked().await? {
        catalog.close().await;
        out::note("nothing was changed");
        return Ok(Ended::Fine);
    }
    let position = catalog.carry_out(supposed, Context::by("cli:apply")).await;
    let position = position.map_err(Failure::not_applied)?;
    catalog.close().await;
    out::note(&format!("applied: {} events, up to event {position}", told.events));
    Ok(Ended::Fine)
}

/// Whether somebody says yes.
async fn asked() -> Result<bool, Failure> {
    let answer = tokio::task::spawn_blocking(|| {
        write!(io::stderr(), "Apply this? [y/N] ")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.expect("reading does not panic").map_err(Failure::Stdin)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
