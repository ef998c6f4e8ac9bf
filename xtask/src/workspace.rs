//! The files of the workspace, without build output.

use std::fs;
use std::path::{Path, PathBuf};

use crate::xtask_error::XtaskError;

pub(crate) fn workspace_root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Every file below a folder, including hidden ones, sorted; empty if the folder does not exist.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, XtaskError> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_file() {
                files.push(entry.path());
            }
            if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                folders.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn read_file(file: &Path) -> Result<String, XtaskError> {
    fs::read_to_string(file)
        .map_err(|error| XtaskError::new(format!("cannot read {}: {error}", file.display())))
}

/// The path of a file relative to the workspace root.
pub(crate) fn relative_path(file: &Path) -> String {
    file.strip_prefix(workspace_root()).unwrap_or(file).display().to_string()
}
