//! `toolcrib journal export`: writes the whole journal as JSON Lines. The file appears only when it is complete.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use tempfile::NamedTempFile;
use toolcrib::{Journal, JournalLocation};

use super::open_to_read;
use crate::arguments::VerbOutcome;
use crate::arguments::journal::JournalExportArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::progress::ProgressLine;

pub(crate) async fn export_journal(
    place: &JournalLocation,
    arguments: &JournalExportArgs,
) -> Result<VerbOutcome, CliError> {
    if arguments.file == Path::new("-") {
        let journal = open_to_read(place).await?;
        let events = write_events(&*journal, &mut BufWriter::new(io::stdout())).await?;
        output::print_note(&exported_text(events));
        return Ok(VerbOutcome::Success);
    }
    let target = ExportFile { path: arguments.file.clone(), force: arguments.force };
    target.check_overwrite(place)?;
    let journal = open_to_read(place).await?;
    let mut file = target.create_temporary()?;
    let events = write_events(&*journal, &mut BufWriter::new(file.as_file_mut())).await?;
    target.persist(file)?;
    output::print_text(&format!("{} to {}", exported_text(events), target.path.display()))?;
    Ok(VerbOutcome::Success)
}

fn exported_text(events: u64) -> String {
    let count = usize::try_from(events).unwrap_or(usize::MAX);
    format!("exported {}", output::count_noun(count, "event", "events"))
}

async fn write_events(
    journal: &dyn Journal,
    writer: &mut (impl Write + Send),
) -> Result<u64, CliError> {
    let mut progress = ProgressLine::start();
    let mut lines: usize = 0;
    let write = |line: &str| {
        lines += 1;
        progress.update(|| format!("exported {}", output::count_noun(lines, "line", "lines")));
        writer.write_all(line.as_bytes())
    };
    let events = toolcrib::export_journal(journal, write).await?;
    writer.flush().map_err(CliError::Output)?;
    Ok(events)
}

/// Whether a file is the journal, or a file that SQLite or toolcrib keeps next to it.
fn is_journal_file(journal: &Path, file: &Path) -> bool {
    ["", "-wal", "-shm", "-journal", ".lock", ".record", ".record-wal", ".record-shm"].iter().any(
        |end| {
            let mut name = journal.as_os_str().to_owned();
            name.push(end);
            name == file.as_os_str()
        },
    )
}

/// The file that an export is written to.
struct ExportFile {
    path: PathBuf,
    force: bool,
}

impl ExportFile {
    /// Rejects a path that must not be overwritten, before any work is done.
    fn check_overwrite(&self, place: &JournalLocation) -> Result<(), CliError> {
        let path = || self.path.clone();
        let Ok(found) = fs::metadata(&self.path) else { return Ok(()) };
        if !found.is_file() {
            return Err(CliError::NotAFile { path: path() });
        }
        if let JournalLocation::File(journal) = place
            && let (Ok(one), Ok(two)) = (journal.canonicalize(), self.path.canonicalize())
            && is_journal_file(&one, &two)
        {
            return Err(CliError::IsJournalFile { path: path() });
        }
        if !self.force {
            return Err(CliError::FileExists { path: path() });
        }
        Ok(())
    }

    /// Creates a temporary file in the same folder, readable by our user only. It is deleted when it is dropped.
    fn create_temporary(&self) -> Result<NamedTempFile, CliError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(CliError::MissingFolder { path: self.path.clone() });
        }
        let made = tempfile::Builder::new().prefix(".toolcrib-export-").tempfile_in(folder);
        // Report without the name of the temporary file, which means nothing to the user.
        made.map_err(|error| self.cannot_write(error.kind().into()))
    }

    /// Flushes the file to disk, then renames it to its final path.
    fn persist(&self, file: NamedTempFile) -> Result<(), CliError> {
        file.as_file().sync_all().map_err(|error| self.cannot_write(error))?;
        let named = match self.force {
            true => file.persist(&self.path),
            false => file.persist_noclobber(&self.path),
        };
        match named {
            Ok(_) => Ok(()),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(CliError::FileExists { path: self.path.clone() })
            }
            Err(refused) => Err(self.cannot_write(refused.error)),
        }
    }

    fn cannot_write(&self, source: io::Error) -> CliError {
        CliError::Write { path: self.path.clone(), source }
    }
}
