//! Program settings from the command line and the environment. Only this file reads environment variables.

use std::collections::BTreeMap;
use std::env::VarError;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use catalog::record::SqliteRecords;
use model::{SecretRef, StdioCommand};
use secrecy::SecretString;
use toolcrib::{JournalPlace, ProgramHost, SealingKey};
use tracing_subscriber::EnvFilter;
use upstream::files::Folders;
use upstream::limits::LimitError;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::hidden::hidden;

const JOURNAL: &str = "TOOLCRIB_JOURNAL";
const SEALING_KEY: &str = "TOOLCRIB_SEALING_KEY";
const KEY: &str = "TOOLCRIB_KEY";
/// Log directives such as `info,toolcrib_catalog=debug`; finer than `-v`.
const LOG: &str = "TOOLCRIB_LOG";

/// Log filter of `journal verify`: it reports the problems of folding itself, so the warnings would repeat them.
const WITHOUT_PROBLEMS: &str = "warn,toolcrib_catalog::fold=off";

/// The environment variables that every child process needs.
const LITTLE: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Size limit of a key file.
const KEY_FILE_LIMIT: u64 = 64 << 10;

/// Settings of all verbs.
pub(crate) struct Config {
    pub(crate) journal: JournalPlace,
    /// Whether an option or a variable names the journal.
    pub(crate) journal_is_given: bool,
    log: String,
}

impl Config {
    pub(crate) fn read(cli: &Cli) -> Result<Self, Failure> {
        let given = match &cli.options.journal {
            Some(place) => Some(place.clone()),
            None => variable(JOURNAL)?,
        };
        let journal_is_given = given.is_some();
        let journal = given.as_deref().unwrap_or("toolcrib.db").parse()?;
        let by_count = match cli.options.verbose {
            0 if cli.is_verify() => WITHOUT_PROBLEMS,
            0 => "warn",
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        let log = variable(LOG)?.unwrap_or_else(|| by_count.to_owned());
        Ok(Self { journal, journal_is_given, log })
    }

    /// Starts logging to stderr.
    pub(crate) fn start_logging(&self) {
        let stderr =
            tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
        stderr.without_time().with_target(false).with_env_filter(EnvFilter::new(&self.log)).init();
    }

    /// How programs of sources run: hidden from our own files if possible, and which programs the operator has named.
    pub(crate) fn programs(
        place: &JournalPlace,
        (is_open, named): (bool, Vec<StdioCommand>),
        keys: [Option<&Path>; 2],
    ) -> ProgramHost {
        let journal = match place {
            JournalPlace::File(path) => Some(path.as_path()),
            JournalPlace::Memory | JournalPlace::Postgres(_) => None,
        };
        let record = journal.map(SqliteRecords::beside);
        let files = keys.into_iter().chain([journal, record.as_deref()]).flatten();
        let hidden = if is_open || !named.is_empty() { hidden(files) } else { Vec::new() };
        ProgramHost { hidden, named, ..programs(is_open) }
    }

    /// The sealing key from a file, or otherwise from the environment.
    #[expect(
        clippy::unused_self,
        reason = "the key belongs to the configuration, but is read only where it is needed"
    )]
    pub(crate) fn sealing_key(&self, file: Option<&Path>) -> Result<Option<SealingKey>, Failure> {
        let text = match file {
            Some(path) => Some(
                read_key(path).map_err(|source| Failure::Read { path: path.to_owned(), source })?,
            ),
            None => variable(SEALING_KEY)?,
        };
        let Some(text) = text else { return Ok(None) };
        Ok(Some(SealingKey::new(&SecretString::from(text))?))
    }
}

/// The credential of the agent for which the program acts.
pub(crate) fn key_of_agent() -> Result<Option<SecretString>, Failure> {
    Ok(variable(KEY)?.filter(|key| !key.is_empty()).map(SecretString::from))
}

fn read_key(path: &Path) -> io::Result<String> {
    let bytes = upstream::limits::read_file(path, KEY_FILE_LIMIT).map_err(|error| match error {
        LimitError::Io(error) => error,
        other => io::Error::other(other),
    })?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// How MCP programs are started: found through our `PATH`, and ended together with us. This executable supervises them;
/// `/proc/self/exe` works even if its file is replaced meanwhile.
pub(crate) fn programs(is_open: bool) -> ProgramHost {
    let ourselves = cfg!(target_os = "linux").then(|| "/proc/self/exe".into());
    let search_path = std::env::var_os("PATH");
    ProgramHost { is_open, search_path, bound_by: ourselves, ..ProgramHost::default() }
}

/// The folders whose files may be served as resources.
pub(crate) fn resource_folders(given: &[PathBuf]) -> Result<Folders, Failure> {
    let mut folders = Folders::default();
    for path in given {
        let read = |source| Failure::Read { path: path.clone(), source };
        folders.add(path).map_err(read)?;
    }
    Ok(folders)
}

/// Protects this process from child processes: they run as the same user, and our memory and environment hold secrets.
pub(crate) fn hide_this_process() {
    if let Err(error) = upstream::stdio::hide_this_process() {
        tracing::warn!("programs that are started may be able to look into this process: {error}");
    }
}

/// The name for commands that the user copies: the path with which the program was started, or its bare name.
pub(crate) fn own_name() -> String {
    let given = std::env::args_os().next().unwrap_or_default();
    let given = given.to_string_lossy();
    if given.contains('/') { given.into_owned() } else { "toolcrib".to_owned() }
}

/// The environment variables that a child process needs, and no secrets.
pub(crate) fn little_environment() -> BTreeMap<OsString, OsString> {
    let known = LITTLE.into_iter();
    known.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}

/// Like `minimal_environment`, but by reference for the program of a source: the journal must not store the values.
/// `PATH` is omitted, because the child gets ours anyway.
pub(crate) fn little_environment_by_reference() -> BTreeMap<Box<str>, SecretRef> {
    let set = LITTLE.into_iter().filter(|name| *name != "PATH" && std::env::var_os(name).is_some());
    set.map(|name| (name.into(), SecretRef::Env(name.into()))).collect()
}

/// Reads an environment variable; an empty one counts as not set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable(name: &'static str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::Variable { name }),
    }
}

/// Reads an environment variable that the user named as a secret.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable_of_user(name: &str) -> Option<String> {
    // No upstream may receive the keys that open the other secrets and the journal.
    let is_ours = name.starts_with("TOOLCRIB_");
    (!is_ours).then(|| std::env::var(name).ok()).flatten()
}
