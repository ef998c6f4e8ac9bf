//! Finds the executable of a program. Relative paths are rejected, as they depend on where the server was started.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::ProgramSpec;

pub(super) fn find_program(program: &ProgramSpec) -> io::Result<PathBuf> {
    let command = &program.command;
    if command.is_absolute() {
        return if is_executable(command) { Ok(command.clone()) } else { Err(not_found()) };
    }
    let mut parts = command.components();
    let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else {
        let why = "the command must be an absolute path or a bare name";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    let given = program.environment.get(std::ffi::OsStr::new("PATH"));
    let path = given.or(program.search_path.as_ref()).ok_or_else(not_found)?;
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut files = folders.map(|folder| folder.join(command));
    files.find(|file| is_executable(file)).ok_or_else(not_found)
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn not_found() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such program")
}
