//! A Unix socket and its file. No client can connect before the mode is set; the file of a dead server is replaced; and
//! the server removes its own file at the end.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tokio::net::UnixListener;

use crate::listen_address::SocketMode;

/// A listening Unix socket.
pub(super) struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    /// Identifies our file: another process may have replaced it.
    inode: u64,
}

impl SocketFile {
    pub(super) fn bind(path: &Path, mode: SocketMode) -> io::Result<Self> {
        reject_foreign_file(path)?;
        // Bind in a private folder, until the mode is set.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder =
            tempfile::Builder::new().prefix(".").tempdir_in(parent.unwrap_or(Path::new(".")))?;
        let fresh = folder.path().join("s");
        let listener = UnixListener::bind(&fresh)?;
        fs::set_permissions(&fresh, Permissions::from_mode(mode.0))?;
        let inode = fs::symlink_metadata(&fresh)?.ino();
        fs::rename(&fresh, path)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Removes the file if it is still ours, so that no further client connects.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.ino() == self.inode => fs::remove_file(&self.path),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "`{}` cannot be removed: {error}", self.path.display());
        }
    }
}

/// Rejects a path where another process listens, and a file that is no socket.
fn reject_foreign_file(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}
