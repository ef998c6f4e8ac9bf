//! `toolcrib journal verify`: folds all events from the start, and compares the result with a server's state.

use toolcrib::{Catalog, JournalError, JournalLocation, JournalVerification};

use super::open_to_read;
use crate::arguments::{JsonFlag, VerbOutcome};
use crate::cli_error::CliError;
use crate::output;
use crate::progress::ProgressLine;

pub(crate) async fn verify_journal(
    place: &JournalLocation,
    format: &JsonFlag,
) -> Result<VerbOutcome, CliError> {
    let verification = match fold_and_compare(place).await {
        // The journal is too damaged to be read to its end. This is a finding, not a failure of the command.
        Err(CliError::Journal(damage @ JournalError::Damaged { .. })) => JournalVerification {
            problems: vec![damage.to_string()],
            ..JournalVerification::default()
        },
        other => other?,
    };
    output::print_verified(
        format,
        verification.problems.is_empty(),
        &verification,
        verification_text,
    )
}

async fn fold_and_compare(place: &JournalLocation) -> Result<JournalVerification, CliError> {
    let journal = open_to_read(place).await?;
    // Load from the last checkpoint, as a server does. Drop the catalog at once: it need not follow the journal.
    let live = Catalog::open(journal.clone()).await?.snapshot();
    let total = live.position();
    let mut progress = ProgressLine::start();
    let tell = |done: u64| progress.update(|| format!("verified {done} of {total} events"));
    Ok(toolcrib::verify_journal(&*journal, &live, tell).await?)
}

fn verification_text(verification: &JournalVerification) -> String {
    let JournalVerification {
        events, streams, documents, not_understood, rebuilt, problems, ..
    } = verification;
    let mut text = format!("events     {events}\nstreams    {streams}\ndocuments  {documents}\n");
    if let Some(digest) = rebuilt {
        text += &format!("digest     {digest}\n");
    }
    if 0 < *not_understood {
        text += &format!("not understood by this version, and kept: {not_understood}\n");
    }
    text += &output::problems_text(problems);
    text
}
