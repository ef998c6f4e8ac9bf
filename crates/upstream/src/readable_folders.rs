//! Readable folders: an operator names them, and only files below them can be read, even through symbolic links.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadableFolders(Vec<ReadableFolder>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReadableFolder {
    /// The absolute path as configured.
    configured: PathBuf,
    /// The path with all symbolic links resolved.
    resolved: PathBuf,
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileReadError {
    /// The file is not below any readable folder.
    #[error("the file is not below a folder that may be read")]
    OutsideFolders,
    /// The path is a directory, a device or a pipe.
    #[error("this is not a file")]
    NotAFile,
    #[error("the file has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadableFolders {
    /// Adds a folder, which must exist.
    pub fn add(&mut self, folder: &Path) -> io::Result<()> {
        if !folder.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (given, real) = (std::path::absolute(folder)?, folder.canonicalize()?);
        self.0.push(ReadableFolder { configured: given, resolved: real });
        Ok(())
    }

    /// Whether a path is lexically below one of the folders. Symbolic links are checked only when the file is read.
    pub fn may_contain(&self, path: &Path) -> bool {
        let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        let is_below = |folder: &ReadableFolder| {
            path.starts_with(&folder.configured) || path.starts_with(&folder.resolved)
        };
        path.components().all(is_plain) && self.0.iter().any(is_below)
    }

    /// Reads a whole file of at most `limit` bytes. The read blocks.
    pub fn read_file(&self, path: &Path, limit: usize) -> Result<Vec<u8>, FileReadError> {
        // The path has no links now. If a component becomes a link later, `open_beneath` does not follow it.
        let path = path.canonicalize()?;
        let mut folders = self.0.iter().map(|folder| &folder.resolved);
        let below = folders.find_map(|folder| Some((folder, path.strip_prefix(folder).ok()?)));
        let (folder, rest) = below.ok_or(FileReadError::OutsideFolders)?;
        let file = File::from(open_beneath(folder, rest)?);
        if !file.metadata()?.is_file() {
            return Err(FileReadError::NotAFile);
        }
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        if limit < bytes.len() { Err(FileReadError::TooLarge { limit }) } else { Ok(bytes) }
    }
}

/// Opens a file component by component without following links below the folder. Does not block on pipes.
fn open_beneath(folder: &Path, rest: &Path) -> io::Result<std::os::fd::OwnedFd> {
    let steps = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = openat(CWD, folder, steps, Mode::empty())?;
    let mut parts = rest.components().peekable();
    while let Some(part) = parts.next() {
        let last = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = if parts.peek().is_some() { steps } else { last };
        at = openat(&at, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn world() -> (tempfile::TempDir, ReadableFolders) {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        std::fs::create_dir_all(at("open/in")).unwrap();
        std::fs::create_dir(at("shut")).unwrap();
        std::fs::write(at("open/in/a"), "a").unwrap();
        std::fs::write(at("shut/b"), "b").unwrap();
        symlink(at("shut/b"), at("open/out")).unwrap();
        symlink(at("shut"), at("open/away")).unwrap();
        symlink("in/a", at("open/near")).unwrap();
        let mut folders = ReadableFolders::default();
        folders.add(&at("open")).unwrap();
        assert!(folders.add(&at("open/in/a")).is_err() && folders.add(&at("no")).is_err());
        (world, folders)
    }

    #[test]
    fn files_below_a_folder_are_read_and_links_cannot_leave_it() {
        let (world, folders) = world();
        let read = |name: &str| folders.read_file(&world.path().join(name), 10);
        assert_eq!(read("open/in/a").unwrap(), b"a");
        assert_eq!(read("open/near").unwrap(), b"a");
        for elsewhere in ["shut/b", "open/out", "open/away/b", "open/../shut/b"] {
            assert!(matches!(read(elsewhere), Err(FileReadError::OutsideFolders)), "{elsewhere}");
        }
        assert!(matches!(read("open/in"), Err(FileReadError::NotAFile)));
        assert!(matches!(read("open/no"), Err(FileReadError::Io(_))));
        assert!(matches!(read("open"), Err(FileReadError::NotAFile)));
        let nowhere = ReadableFolders::default().read_file(&world.path().join("open/in/a"), 10);
        assert!(matches!(nowhere, Err(FileReadError::OutsideFolders)));
    }

    #[test]
    fn a_file_is_read_up_to_a_limit_and_a_pipe_is_rejected() {
        let (world, folders) = world();
        let large = world.path().join("open/large");
        std::fs::write(&large, "12345").unwrap();
        assert!(matches!(folders.read_file(&large, 4), Err(FileReadError::TooLarge { limit: 4 })));
        assert_eq!(folders.read_file(&large, 5).unwrap().len(), 5);
        let pipe = world.path().join("open/pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(folders.read_file(&pipe, 4), Err(FileReadError::NotAFile)));
    }

    #[test]
    fn a_path_is_checked_lexically() {
        let (world, folders) = world();
        let folder = world.path().canonicalize().unwrap();
        assert!(folders.may_contain(&folder.join("open/{{name}}.md")));
        for path in ["shut/b", "open/../shut/b", "opener/b"] {
            assert!(!folders.may_contain(&folder.join(path)), "{path}");
        }
    }
}
