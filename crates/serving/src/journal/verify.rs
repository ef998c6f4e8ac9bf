//! `toolcrib journal verify`: fold from zero, and compare with what a server would serve after a start.

use toolcrib::{Catalog, JournalError, JournalPlace, Verification};

use super::open_to_read;
use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

pub(crate) async fn verify(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    let verification = match inspect(place).await {
        // So damaged that it cannot be read to the end: that is what the question was about.
        Err(Failure::Journal(damage @ JournalError::Damaged { .. })) => {
            Verification { problems: vec![damage.to_string()], ..Verification::default() }
        }
        other => other?,
    };
    out::print_verified(format, verification.problems.is_empty(), &verification, text)
}

async fn inspect(place: &JournalPlace) -> Result<Verification, Failure> {
    let journal = open_to_read(place).await?;
    // From the last checkpoint, as a server starts. The catalog itself goes at once: nobody has to keep it up to date.
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
