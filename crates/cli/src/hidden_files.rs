//! Selects the files of the server, such as journal and keys, that can be hidden from child processes.
//!
//! A child process cannot open paths that appear beside the path to a hidden file after it started (`upstream/stdio`).
//! So files are hidden only where other users create nothing along the path: in folders that root owns and only root
//! may write, outside of the user's home. A folder with nothing but such files is hidden as a whole, regardless of its
//! owner.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The paths that can be hidden to protect these files.
pub(crate) fn hideable_paths<'a>(files: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    let files: Vec<PathBuf> =
        files.into_iter().filter_map(|file| file.canonicalize().ok()).collect();
    let home = std::env::home_dir();
    let hidden = filter_hideable(&files, home.as_deref(), is_root_only);
    for file in files.iter().filter(|file| !hidden.iter().any(|hidden| file.starts_with(hidden))) {
        tracing::info!(
            "the programs of sources can read `{}`, as it is not in a folder of its own below folders of root: give \
             sources a `sandbox`, or move it",
            file.display()
        );
    }
    hidden
}

fn filter_hideable(
    files: &[PathBuf],
    home: Option<&Path>,
    is_settled: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = files.iter().map(|file| enclosing_folder(file, files)).collect();
    hidden.retain(|path| {
        let is_home = home.is_some_and(|home| home.starts_with(path));
        let mut above = path.ancestors().skip(1);
        let has_home_above = above.clone().any(|folder| Some(folder) == home);
        !is_home && !has_home_above && above.all(&is_settled)
    });
    hidden.sort_unstable();
    hidden.dedup();
    hidden
}

/// The folder of a file if it contains nothing else, otherwise the file. Files of a journal share its name as prefix.
fn enclosing_folder(file: &Path, files: &[PathBuf]) -> PathBuf {
    let is_ours = |path: PathBuf| {
        let path = path.to_string_lossy();
        files.iter().any(|file| path.starts_with(&*file.to_string_lossy()))
    };
    let folder = file.parent().filter(|folder| *folder != Path::new("/"));
    let entries = folder.and_then(|folder| folder.read_dir().ok());
    let are_ours = entries.is_some_and(|all| all.flatten().all(|entry| is_ours(entry.path())));
    folder.filter(|_| are_ours).unwrap_or(file).to_owned()
}

/// Whether only root can create files in the folder.
fn is_root_only(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|folder| folder.uid() == 0 && folder.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_only_our_files_below_root_only_folders_is_hidden_whole() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let at = |name: &str| base.join(name);
        for name in ["own/crib.db", "own/crib.db-wal", "shared/crib.db", "shared/server.js"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "").unwrap();
        }
        let hidden = |file: &str, home: Option<&str>, unsettled: &[&str]| {
            let home = home.map(at);
            let is_settled = |folder: &Path| !unsettled.iter().any(|name| folder == at(name));
            let hidden = filter_hideable(&[at(file)], home.as_deref(), is_settled);
            hidden.first().map(|path| path.strip_prefix(&base).unwrap().display().to_string())
        };
        let own = Some("own".to_owned());
        assert_eq!(hidden("own/crib.db", None, &["own"]), own);
        assert_eq!(hidden("own/crib.db", Some("other"), &[]), own);
        assert_eq!(hidden("own/crib.db", Some("own"), &[]), None);
        assert_eq!(hidden("own/crib.db", Some(""), &[]), None);
        assert_eq!(hidden("own/crib.db", None, &[""]), None);
        assert_eq!(hidden("shared/crib.db", None, &[]), Some("shared/crib.db".to_owned()));
        assert_eq!(hidden("shared/crib.db", None, &["shared"]), None);
    }
}
