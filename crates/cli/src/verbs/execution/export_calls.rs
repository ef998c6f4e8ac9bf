//! `toolcrib execution export`: writes logged calls as JSON Lines, oldest first.

use std::io;
use std::io::{BufWriter, Write as _};

use super::{EXECUTIONS, with_query};
use crate::admin_client::admin_backend::AdminBackend;
use crate::arguments::execution::CallFilterArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::progress::ProgressLine;

pub(super) async fn export_calls(
    place: &AdminBackend,
    which: &CallFilterArgs,
) -> Result<(), CliError> {
    let path = with_query(&format!("{EXECUTIONS}.jsonl"), which.query_pairs());
    let mut writer = BufWriter::new(io::stdout());
    let (mut calls, mut progress) = (0, ProgressLine::start());
    let write = |bytes: &[u8]| {
        calls += bytes.iter().filter(|byte| **byte == b'\n').count();
        progress.update(|| format!("exported {}", output::count_noun(calls, "call", "calls")));
        writer.write_all(bytes)
    };
    place.download(&path, write).await?;
    writer.flush().map_err(CliError::Output)?;
    output::print_note(&format!("exported {}", output::count_noun(calls, "call", "calls")));
    Ok(())
}
