//! `toolcrib journal export`: writes the whole journal as JSON Lines. The file appears only when it is complete.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toolcrib::{Journal, JournalPlace};

use super::open_to_read;
use crate::cli::Ended;
use crate::cli::journal::Export;
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

pub(crate) async fn export(place: &JournalPlace, arguments: &Export) -> Result<Ended, Failure> {
    if arguments.file == Path::new("-") {
        let journal = open_to_read(place).await?;
        let events = write_to(&*journal, &mut BufWriter::new(io::stdout())).await?;
        out::note(&exported(events));
        return Ok(Ended::Fine);
    }
    let target = Target { path: arguments.file.clone(), force: arguments.force };
    target.check(place)?;
    let journal = open_to_read(place).await?;
    let mut file = target.begin()?;
    let events = write_to(&*journal, &mut BufWriter::new(file.as_file_mut())).await?;
    target.complete(file)?;
    out::print(&format!("{} to {}", exported(events), target.path.display()))?;
    Ok(Ended::Fine)
}

fn exported(events: u64) -> String {
    let count = usize::try_from(events).unwrap_or(usize::MAX);
    format!("exported {}", out::counted(count, "event", "events"))
}

async fn write_to(journal: &dyn Journal, writer: &mut (impl Write + Send)) -> Result<u64, Failure> {
    let mut progress = Progress::start();
    let mut lines: usize = 0;
    let write = |line: &str| {
        lines += 1;
        progress.show(|| format!("exported {}", out::counted(lines, "line", "lines")));
        writer.write_all(line.as_bytes())
    };
    let events = toolcrib::export(journal, write).await?;
    writer.flush().map_err(Failure::Output)?;
    Ok(events)
}

/// Whether a file is the journal, or a file that SQLite or toolcrib keeps next to it.
fn is_part_of(journal: &Path, file: &Path) -> bool {
    ["", "-wal", "-shm", "-journal", ".lock", ".record", ".record-wal", ".record-shm"].iter().any(
        |end| {
            let mut name = journal.as_os_str().to_owned();
            name.push(end);
            name == file.as_os_str()
        },
    )
}

/// The file that an export is written to.
struct Target {
    path: PathBuf,
    force: bool,
}

impl Target {
    /// Rejects a path that must not be overwritten, before any work is done.
    fn check(&self, place: &JournalPlace) -> Result<(), Failure> {
        let path = || self.path.clone();
        let Ok(found) = fs::metadata(&self.path) else { return Ok(()) };
        if !found.is_file() {
            return Err(Failure::NotAFile { path: path() });
        }
        if let JournalPlace::File(journal) = place
            && let (Ok(one), Ok(two)) = (journal.canonicalize(), self.path.canonicalize())
            && is_part_of(&one, &two)
        {
            return Err(Failure::IsTheJournal { path: path() });
        }
        if !self.force {
            return Err(Failure::Exists { path: path() });
        }
        Ok(())
    }

    /// Creates a temporary file in the same folder, readable by our user only. It is deleted when it is dropped.
    fn begin(&self) -> Result<NamedTempFile, Failure> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Failure::NoFolder { path: self.path.clone() });
        }
        let made = tempfile::Builder::new().prefix(".toolcrib-export-").tempfile_in(folder);
        // Report without the name of the temporary file, which means nothing to the user.
        made.map_err(|error| self.cannot_write(error.kind().into()))
    }

    /// Flushes the file to disk, then renames it to its final path.
    fn complete(&self, file: NamedTempFile) -> Result<(), Failure> {
        file.as_file().sync_all().map_err(|error| self.cannot_write(error))?;
        let named = match self.force {
            true => file.persist(&self.path),
            false => file.persist_noclobber(&self.path),
        };
        match named {
            Ok(_) => Ok(()),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::Exists { path: self.path.clone() })
            }
            Err(refused) => Err(self.cannot_write(refused.error)),
        }
    }

    fn cannot_write(&self, source: io::Error) -> Failure {
        Failure::Write { path: self.path.clone(), source }
    }
}
