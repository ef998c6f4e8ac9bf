//! `toolcrib plan` and `toolcrib apply`: computes the changes of a configuration file, and applies them.
//!
//! A plan is the difference between the catalog and its state after the commands of the file. Applying stores exactly
//! the planned events: if an affected entity has changed in between, nothing is stored.

pub(crate) mod apply;
mod away;
pub(crate) mod change;
pub(crate) mod notes;
pub(crate) mod shown;

use std::path::Path;
use std::sync::Arc;

use model::Claims;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{
    Catalog, Clock as _, Command, CommandError, Effect, JournalPlace, Position, RefusedAt,
    Snapshot, Supposed, SystemClock,
};

use self::change::{Changed, changes};
use crate::cli::Ended;
use crate::cli::plan::{self as options, Wanted};
use crate::config::Config;
use crate::declared::Declared;
use crate::declared::document::Document;
use crate::declared::entry::Identity;
use crate::declared::mistake::{Mistake, Mistakes};
use crate::declared::objects::objects;
use crate::declared::wishes::{Wish, Wishes};
use crate::explain;
use crate::failure::Failure;
use crate::journal::open_to_read;
use crate::problem::Problem;
use crate::trace::Files;

/// The changes of a file.
pub(crate) struct Plan {
    pub(crate) told: Told,
    /// The events, ready to be stored.
    pub(crate) supposed: Supposed,
}

/// What is said of a plan.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Plan")]
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
    pub(crate) waiting: Mistakes,
    /// What is most likely not meant, or not known before it is done.
    pub(crate) notes: Mistakes,
}

/// What would change for somebody.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlannedEffect")]
pub(crate) struct Compared {
    /// Who.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) effect: Effect,
}

/// The reason why a plan cannot be made.
pub(crate) enum NotPlanned {
    /// The catalog would reject the declared state.
    Refused(Mistakes),
    Failed(CommandError),
}

impl NotPlanned {
    /// Adds the positions in the file.
    pub(crate) fn of(self, document: &Document) -> Failure {
        match self {
            Self::Refused(mistakes) => document.refuse(mistakes),
            Self::Failed(error) => Failure::not_applied(error),
        }
    }
}

impl Compared {
    pub(crate) fn is_affected(&self) -> bool {
        let Effect { gained, lost, renamed, before, after, .. } = &self.effect;
        !gained.is_empty() || !lost.is_empty() || !renamed.is_empty() || before != after
    }
}

impl Plan {
    /// Computes the changes of a file in a catalog, and their effect on identities.
    pub(crate) async fn make(
        catalog: &Catalog,
        declared: &Declared,
        prune: bool,
        identities: Vec<Identity>,
    ) -> Result<Self, NotPlanned> {
        let before = catalog.snapshot();
        let Wishes { wishes, waiting } = Wishes::of(declared, &before, prune);
        let (fields, commands): (Vec<String>, Vec<Command>) =
            wishes.into_iter().map(|Wish { field, command }| (field, command)).unzip();
        let supposed = catalog.suppose(&before, &commands).await;
        let supposed = supposed.map_err(|refused| refusal(declared, &before, &fields, refused))?;
        let told = Told {
            position: before.position(),
            events: supposed.len(),
            changes: changes(&objects(&before), &objects(&supposed.snapshot)),
            identities: compare(&before, &supposed.snapshot, identities),
            waiting: waiting.iter().map(|one| notes::waiting(&before, one)).collect(),
            notes: notes::of(declared, &before, &supposed.snapshot),
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

/// Converts a rejection by the catalog, with the field of the file that caused it.
fn refusal(
    declared: &Declared,
    before: &Snapshot,
    fields: &[String],
    refused: RefusedAt,
) -> NotPlanned {
    let RefusedAt { number, error } = refused;
    match error {
        CommandError::Refused(refusal) => {
            let field = fields.get(number).map_or("", String::as_str);
            let unknown = notes::unknown(declared, before, field, &refusal);
            NotPlanned::Refused(match unknown.is_empty() {
                true => Mistake::all_of(Problem::from(refusal), field),
                false => unknown,
            })
        }
        other => NotPlanned::Failed(other),
    }
}

/// All identities to compare: the holders of valid API keys, those named in the file, and those on the command line.
pub(crate) fn identities(
    snapshot: &Snapshot,
    declared: &Declared,
    given: Vec<Identity>,
) -> Vec<Identity> {
    let now = SystemClock.now();
    let keys = snapshot.keys().filter(|key| key.is_good_at(now)).map(|key| Identity {
        name: format!("key:{}", key.id),
        claims: Arc::clone(&key.profile.claims),
    });
    keys.chain(declared.identities.iter().cloned()).chain(given).collect()
}

/// Parses the identities on the command line.
pub(crate) async fn named(given: &[String]) -> Result<Vec<Identity>, Failure> {
    let mut identities = Vec::with_capacity(given.len());
    for given in given {
        let claims = Arc::new(explain::claims(given).await?);
        let stem = Path::new(given).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let is_json = given.trim_start().starts_with('{');
        let name = stem.filter(|_| !is_json).unwrap_or_else(|| given.clone());
        identities.push(Identity { name, claims });
    }
    Ok(identities)
}

/// `toolcrib plan`. A missing journal counts as an empty one, and is not created.
pub(crate) async fn plan(config: &Config, given: &options::Plan) -> Result<Ended, Failure> {
    let wanted = &given.wanted;
    let (told, document) = match &wanted.at.server {
        Some(_) => away::plan(config, wanted).await?,
        None => here(&config.journal, wanted).await?,
    };
    shown::print(&told, &document, &wanted.json)?;
    Ok(if told.changes.is_empty() { Ended::Fine } else { Ended::WouldChange })
}

async fn here(place: &JournalPlace, wanted: &Wanted) -> Result<(Told, Document), Failure> {
    let declared = read(&wanted.file).await?;
    let journal = match place {
        JournalPlace::File(path) if !path.exists() => {
            JournalPlace::Memory.open(SystemClock).await?
        }
        place => open_to_read(place).await?,
    };
    let catalog = Catalog::open(journal).await?;
    let named = named(&wanted.identities).await?;
    let identities = identities(&catalog.snapshot(), &declared, named);
    let plan = Plan::make(&catalog, &declared, wanted.prune, identities).await;
    let plan = plan.map_err(|refused| refused.of(&declared.document))?;
    Ok((plan.told, declared.document))
}

/// Checks that a file could be applied to an empty catalog, so that a rejected file creates no journal.
pub(crate) async fn try_on_nothing(declared: &Declared) -> Result<(), Failure> {
    let nothing = Catalog::open(JournalPlace::Memory.open(SystemClock).await?).await?;
    let plan = Plan::make(&nothing, declared, false, Vec::new()).await;
    plan.map(drop).map_err(|refused| refused.of(&declared.document))
}

/// Reads a file in the background.
pub(crate) async fn read(path: &Path) -> Result<Declared, Failure> {
    read_noting(path).await.1
}

/// Like `read_config`, with the stamps of all files that were read.
pub(crate) async fn read_noting(path: &Path) -> (Files, Result<Declared, Failure>) {
    let path = path.to_owned();
    upstream::aside(move || {
        let mut files = Files::default();
        let declared = Declared::read_noting(&path, &mut files);
        (files, declared)
    })
    .await
}
