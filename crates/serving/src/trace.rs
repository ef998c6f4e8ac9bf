//! What tells that a file was written again. It is taken before a file is read: what is written meanwhile is then seen at
//! the next look.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where a file lies on the disk, when it was written, and how long it is; nothing of one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace(Option<(u64, SystemTime, u64)>);

impl Trace {
    pub(crate) fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self(found.and_then(|found| Some((found.ino(), found.modified().ok()?, found.len()))))
    }
}

/// Files that were read, or tried to be, and what they were like before.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<(PathBuf, Trace)>);

impl Files {
    /// This file is about to be read.
    pub(crate) fn note(&mut self, path: &Path) {
        self.0.push((path.to_owned(), Trace::of(path)));
    }

    pub(crate) fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| Trace::of(path) != *before)
    }
}
