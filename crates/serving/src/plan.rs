//! `toolcrib plan` and `toolcrib apply`: what a configuration file would change, and changing it.
//!
//! A plan is the difference between the catalog and what it would be after the commands of the file. What is applied is
//! what was planned, event by event: if something of it has changed meanwhile, nothing is stored.

pub(crate) mod apply;
pub(crate) mod change;
pub(crate) mod notes;
pub(crate) mod shown;

use std::path::Path;
use std::sync::Arc;

use model::Claims;
use serde::Serialize;
use toolcrib::{
    Catalog, Clock as _, Command, CommandError, Effect, JournalPlace, Position, RefusedAt,
    Snapshot, Supposed, SystemClock,
};

use self::change::{Changed, changes};
use crate::cli::Ended;
use crate::cli::plan as options;
use crate::declared::Declared;
use crate::declared::entry::Identity;
use crate::declared::mistake::Mistake;
use crate::declared::objects::objects;
use crate::declared::wishes::{Wish, Wishes};
use crate::failure::Failure;
use crate::journal::open_to_read;
use crate::problem::Problem;
use crate::{explain, out};

/// What a file would change.
pub(crate) struct Plan {
    pub(crate) told: Told,
    /// The events, ready to be stored.
    pub(crate) supposed: Supposed,
}

/// What is said of a plan.
#[derive(Serialize)]
pub(crate) struct Told {
    /// Of the last event that was known.
    pub(crate) position: Position,
    /// How many events it takes.
    pub(crate) events: usize,
    /// What would be others than it is.
    pub(crate) changes: Vec<Changed>,
    /// What would change for whom.
    pub(crate) identities: Vec<Compared>,
    /// What is declared of tools that are not known yet.
    pub(crate) waiting: Vec<String>,
    /// What is most likely not meant, or not known before it is done.
    pub(crate) notes: Vec<String>,
}

/// What would change for somebody.
#[derive(Serialize)]
pub(crate) struct Compared {
    /// Who.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) effect: Effect,
}

impl Compared {
    pub(crate) fn is_affected(&self) -> bool {
        let Effect { gained, lost, renamed, before, after, .. } = &self.effect;
        !gained.is_empty() || !lost.is_empty() || !renamed.is_empty() || before != after
    }
}

impl Plan {
    /// What a file would change in a catalog, and for whom.
    pub(crate) async fn make(
        catalog: &Catalog,
        declared: &Declared,
        prune: bool,
        identities: Vec<Identity>,
    ) -> Result<Self, Failure> {
        let before = catalog.snapshot();
        let Wishes { wishes, waiting } = Wishes::of(declared, &before, prune);
        let (fields, commands): (Vec<String>, Vec<Command>) =
            wishes.into_iter().map(|Wish { field, command }| (field, command)).unzip();
        let supposed = catalog.suppose(&before, &commands).await;
        let supposed = supposed.map_err(|refused| refusal(declared, &before, &fields, refused))?;
        let notes = notes::of(declared, &before, &supposed.snapshot);
        let told = Told {
            position: before.position(),
            events: supposed.len(),
            changes: changes(&objects(&before), &objects(&supposed.snapshot)),
            identities: compare(&before, &supposed.snapshot, identities),
            waiting: waiting.iter().map(|one| notes::waiting(declared, &before, one)).collect(),
            notes: notes.iter().map(|note| declared.document.told(note)).collect(),
        };
        Ok(Self { told, supposed })
    }
}

fn compare(before: &Snapshot, after: &Snapshot, identities: Vec<Identity>) -> Vec<Compared> {
    let (names, claims): (Vec<String>, Vec<Arc<Claims>>) =
        identities.into_iter().map(|identity| (identity.name, identity.claims)).unzip();
    let effects = toolcrib::effects(before, after, &claims);
    names.into_iter().zip(effects).map(|(name, effect)| Compared { name, effect }).collect()
}

/// Why a file cannot be applied, with the line that wants what is refused.
fn refusal(
    declared: &Declared,
    before: &Snapshot,
    fields: &[String],
    refused: RefusedAt,
) -> Failure {
    let RefusedAt { number, error } = refused;
    match error {
        CommandError::Refused(refusal) => {
            let field = fields.get(number).map_or("", String::as_str);
            let unknown = notes::unknown(declared, before, field, &refusal);
            let mistakes = match unknown.is_empty() {
                true => Mistake::all_of(Problem::from(refusal), field),
                false => unknown,
            };
            declared.document.refuse(mistakes)
        }
        other => Failure::not_applied(other),
    }
}

/// Everybody whose tools are compared: the holders of good keys, those that the file names, and those that were given.
pub(crate) async fn identities(
    snapshot: &Snapshot,
    declared: &Declared,
    given: &[String],
) -> Result<Vec<Identity>, Failure> {
    let now = SystemClock.now();
    let keys = snapshot.keys().filter(|key| key.is_good_at(now)).map(|key| Identity {
        name: format!("key:{}", key.id),
        claims: Arc::clone(&key.profile.claims),
    });
    let mut identities: Vec<Identity> = keys.collect();
    identities.extend(declared.identities.iter().cloned());
    for given in given {
        let claims = Arc::new(explain::claims(given).await?);
        let stem = Path::new(given).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let is_json = given.trim_start().starts_with('{');
        let name = stem.filter(|_| !is_json).unwrap_or_else(|| given.clone());
        identities.push(Identity { name, claims });
    }
    Ok(identities)
}

/// `toolcrib plan`. A journal that is not there is planned for as an empty one, and is not made.
pub(crate) async fn plan(place: &JournalPlace, given: &options::Plan) -> Result<Ended, Failure> {
    let declared = read(&given.file).await?;
    let journal = match place {
        JournalPlace::File(path) if !path.exists() => {
            JournalPlace::Memory.open(SystemClock).await?
        }
        place => open_to_read(place).await?,
    };
    let catalog = Catalog::open(journal).await?;
    let identities = identities(&catalog.snapshot(), &declared, &given.identities).await?;
    let plan = Plan::make(&catalog, &declared, given.prune, identities).await?;
    match given.json.json {
        true => out::print_json(&plan.told)?,
        false => out::print(&shown::text(&plan.told))?,
    }
    Ok(if plan.told.changes.is_empty() { Ended::Fine } else { Ended::WouldChange })
}

/// Reads a file where that keeps nobody waiting.
pub(crate) async fn read(path: &Path) -> Result<Declared, Failure> {
    let path = path.to_owned();
    upstream::aside(move || Declared::read(&path)).await
}
