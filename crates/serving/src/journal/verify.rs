//! `toolcrib journal verify`: folds all events from the start, and compares the result with a server's state.

use toolcrib::{Catalog, JournalError, JournalPlace, Verification};

use super::open_to_read;
use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

pub(crate) async fn verify(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    let verification = match inspect(place).await {
        // The journal is too damaged to be read to its end. This is a finding, not a failure of the command.
        Err(Failure::Journal(damage @ JournalError::Damaged { .. })) => {
            Verification { problems: vec![damage.to_string()], ..Verification::default() }
        }
        other => other?,
    };
    out::print_verified(format, verification.problems.is_empty(), &verification, text)
}

async fn inspect(place: &JournalPlace) -> Result<Verification, Failure> {
    let journal = open_to_read(place).await?;
    // Load from the last checkpoint, as a server does. Drop the catalog at once: it need not follow the journal.
    let live = Catalog::open(journal.clone()).await?.snapshot();
    let total = live.position();
    let mut progress = Progress::start();
    let tell = |done: u64| progress.show(|| format!("verified {done} of {total} events"));
    Ok(toolcrib::verify(&*journal, &live, tell).await?)
}

fn text(verification: &Verification) -> String {
    let Verification { events, streams, documents, not_understood, rebuilt, problems, .. } =
        verification;
    let mut text = format!("events     {events}\nstreams    {streams}\ndocuments  {documents}\n");
    if let Some(digest) = rebuilt {
        text += &format!("digest     {digest}\n");
    }
    if 0 < *not_understood {
        text += &format!("not understood by this version, and kept: {not_understood}\n");
    }
    text += &out::problems(problems);
    text
}
