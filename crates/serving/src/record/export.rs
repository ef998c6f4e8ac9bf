//! `toolcrib record export`: all recorded calls as JSON Lines, the oldest first.

use std::io::{self, BufWriter, Write as _};

use toolcrib::{CallFilter, JournalPlace};

use crate::cli::Ended;
use crate::failure::Failure;
use crate::out;

const PAGE: usize = 1_000;

pub(crate) async fn export(place: &JournalPlace) -> Result<Ended, Failure> {
    let records = super::open(place).await?;
    let head = records.chain().await?.head.id;
    let (mut after, mut written) = (0, 0);
    let mut writer = BufWriter::new(io::stdout());
    while after < head {
        let (before, limit) = (Some(head + 1), PAGE);
        let filter = CallFilter {
            after: Some(after),
            before,
            limit,
            oldest_first: true,
            ..Default::default()
        };
        let rows = records.read(filter).await?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        written += rows.len();
        for row in &rows {
            writeln!(writer, "{}", row.to_line()).map_err(Failure::Output)?;
        }
    }
    writer.flush().map_err(Failure::Output)?;
    out::note(&format!("exported {}", out::counted(written, "call", "calls")));
    Ok(Ended::Fine)
}
