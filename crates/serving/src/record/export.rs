//! `toolcrib execution export`: writes logged calls as JSON Lines, oldest first.

use std::io::{self, BufWriter, Write as _};

use super::{EXECUTIONS, with};
use crate::cli::execution::Which;
use crate::counter::place::Place;
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

pub(super) async fn export(place: &Place, which: &Which) -> Result<(), Failure> {
    let path = with(&format!("{EXECUTIONS}.jsonl"), which.pairs());
    let mut writer = BufWriter::new(io::stdout());
    let (mut calls, mut progress) = (0, Progress::start());
    let write = |bytes: &[u8]| {
        calls += bytes.iter().filter(|byte| **byte == b'\n').count();
        progress.show(|| format!("exported {}", out::counted(calls, "call", "calls")));
        writer.write_all(bytes)
    };
    place.copy(&path, write).await?;
    writer.flush().map_err(Failure::Output)?;
    out::note(&format!("exported {}", out::counted(calls, "call", "calls")));
    Ok(())
}
