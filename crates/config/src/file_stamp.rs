//! Detects changed files by inode, modification time and length. Take the stamp before reading the file: the next check
//! then notices a write during the read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Inode, modification time and length of a file; `None` if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp(Option<(u64, SystemTime, u64)>);

impl FileStamp {
    pub fn read_stamp(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self(found.and_then(|found| Some((found.ino(), found.modified().ok()?, found.len()))))
    }
}

/// The files read so far, each with its stamp from before it was read.
#[derive(Debug, Default)]
pub struct FileStamps(Vec<(PathBuf, FileStamp)>);

impl FileStamps {
    /// Records the stamp of a file; call this before reading it.
    pub(crate) fn record_file(&mut self, path: &Path) {
        self.0.push((path.to_owned(), FileStamp::read_stamp(path)));
    }

    pub(crate) fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| FileStamp::read_stamp(path) != *before)
    }
}
