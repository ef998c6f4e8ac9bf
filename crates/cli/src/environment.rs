//! Program settings from the command line and the environment. Only this file reads environment variables.

use std::collections::BTreeMap;
use std::env::VarError;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use call_log::SqliteCallLog;
use limits::bounded_read::BoundedReadError;
use model::{SecretRef, StdioCommand};
use secrecy::SecretString;
use toolcrib::{JournalLocation, ProgramHost, SealingKey};
use tracing_subscriber::EnvFilter;
use upstream::readable_folders::ReadableFolders;

use crate::arguments::Cli;
use crate::cli_error::CliError;
use crate::hidden_files::hideable_paths;

const JOURNAL_VARIABLE: &str = "TOOLCRIB_JOURNAL";
const SEALING_KEY_VARIABLE: &str = "TOOLCRIB_SEALING_KEY";
const AGENT_KEY_VARIABLE: &str = "TOOLCRIB_KEY";
/// Log directives such as `info,toolcrib_catalog=debug`; finer than `-v`.
const LOG_VARIABLE: &str = "TOOLCRIB_LOG";

/// Log filter of `journal verify`: it reports the problems of folding itself, so the warnings would repeat them.
const VERIFY_LOG_FILTER: &str = "warn,toolcrib_catalog::snapshot_fold=off";

/// The environment variables that every child process needs.
const MINIMAL_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Size limit of a key file.
const MAX_KEY_FILE_BYTES: u64 = 64 << 10;

/// Settings of all verbs.
pub(crate) struct ProgramConfig {
    pub(crate) journal: JournalLocation,
    /// Whether an option or a variable names the journal.
    pub(crate) is_journal_explicit: bool,
    log_filter: String,
}

impl ProgramConfig {
    pub(crate) fn resolve(cli: &Cli) -> Result<Self, CliError> {
        let given = match &cli.options.journal {
            Some(place) => Some(place.clone()),
            None => env_variable(JOURNAL_VARIABLE)?,
        };
        let journal_is_given = given.is_some();
        let journal = given.as_deref().unwrap_or("toolcrib.db").parse()?;
        let by_count = match cli.options.verbose {
            0 if cli.is_verify() => VERIFY_LOG_FILTER,
            0 => "warn",
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        let log = env_variable(LOG_VARIABLE)?.unwrap_or_else(|| by_count.to_owned());
        Ok(Self { journal, is_journal_explicit: journal_is_given, log_filter: log })
    }

    /// Starts logging to stderr.
    pub(crate) fn start_logging(&self) {
        let stderr =
            tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
        stderr
            .without_time()
            .with_target(false)
            .with_env_filter(EnvFilter::new(&self.log_filter))
            .init();
    }

    /// How programs of sources run: hidden from our own files if possible, and which programs the operator has named.
    pub(crate) fn program_host(
        place: &JournalLocation,
        (is_open, named): (bool, Vec<StdioCommand>),
        keys: [Option<&Path>; 2],
    ) -> ProgramHost {
        let journal = match place {
            JournalLocation::File(path) => Some(path.as_path()),
            JournalLocation::Memory | JournalLocation::Postgres(_) => None,
        };
        let record = journal.map(SqliteCallLog::path_beside);
        let files = keys.into_iter().chain([journal, record.as_deref()]).flatten();
        let hidden = if is_open || !named.is_empty() { hideable_paths(files) } else { Vec::new() };
        ProgramHost { hidden, allowed_commands: named, ..supervised_program_host(is_open) }
    }

    /// The sealing key from a file, or otherwise from the environment.
    #[expect(
        clippy::unused_self,
        reason = "the key belongs to the configuration, but is read only where it is needed"
    )]
    pub(crate) fn sealing_key(&self, file: Option<&Path>) -> Result<Option<SealingKey>, CliError> {
        let text = match file {
            Some(path) => Some(
                read_key_file(path)
                    .map_err(|source| CliError::Read { path: path.to_owned(), source })?,
            ),
            None => env_variable(SEALING_KEY_VARIABLE)?,
        };
        let Some(text) = text else { return Ok(None) };
        Ok(Some(SealingKey::new(&SecretString::from(text))?))
    }
}

/// The credential of the agent for which the program acts.
pub(crate) fn agent_key() -> Result<Option<SecretString>, CliError> {
    Ok(env_variable(AGENT_KEY_VARIABLE)?.filter(|key| !key.is_empty()).map(SecretString::from))
}

fn read_key_file(path: &Path) -> io::Result<String> {
    let bytes =
        limits::bounded_read::read_file(path, MAX_KEY_FILE_BYTES).map_err(|error| match error {
            BoundedReadError::Io(error) => error,
            other => io::Error::other(other),
        })?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// How MCP programs are started: found through our `PATH`, and ended together with us. This executable supervises them;
/// `/proc/self/exe` works even if its file is replaced meanwhile.
pub(crate) fn supervised_program_host(is_open: bool) -> ProgramHost {
    let ourselves = cfg!(target_os = "linux").then(|| "/proc/self/exe".into());
    let search_path = std::env::var_os("PATH");
    ProgramHost { allows_any: is_open, search_path, bound_by: ourselves, ..ProgramHost::default() }
}

/// The folders whose files may be served as resources.
pub(crate) fn open_resource_folders(given: &[PathBuf]) -> Result<ReadableFolders, CliError> {
    let mut folders = ReadableFolders::default();
    for path in given {
        let read = |source| CliError::Read { path: path.clone(), source };
        folders.add(path).map_err(read)?;
    }
    Ok(folders)
}

/// Protects this process from child processes: they run as the same user, and our memory and environment hold secrets.
pub(crate) fn protect_this_process() {
    if let Err(error) = upstream::stdio::hide_this_process() {
        tracing::warn!("programs that are started may be able to look into this process: {error}");
    }
}

/// The name for commands that the user copies: the path with which the program was started, or its bare name.
pub(crate) fn program_name() -> String {
    let given = std::env::args_os().next().unwrap_or_default();
    let given = given.to_string_lossy();
    if given.contains('/') { given.into_owned() } else { "toolcrib".to_owned() }
}

/// The environment variables that a child process needs, and no secrets.
pub(crate) fn minimal_environment() -> BTreeMap<OsString, OsString> {
    let known = MINIMAL_VARIABLES.into_iter();
    known.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}

/// Like `minimal_environment`, but by reference for the program of a source: the journal must not store the values.
/// `PATH` is omitted, because the child gets ours anyway.
pub(crate) fn minimal_environment_refs() -> BTreeMap<Box<str>, SecretRef> {
    let set = MINIMAL_VARIABLES
        .into_iter()
        .filter(|name| *name != "PATH" && std::env::var_os(name).is_some());
    set.map(|name| (name.into(), SecretRef::Env(name.into()))).collect()
}

/// Reads an environment variable; an empty one counts as not set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn env_variable(name: &'static str) -> Result<Option<String>, CliError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(CliError::VariableNotText { name }),
    }
}

/// Reads an environment variable that the user named as a secret.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn secret_variable(name: &str) -> Option<String> {
    // No upstream may receive the keys that open the other secrets and the journal.
    let is_ours = name.starts_with("TOOLCRIB_");
    (!is_ours).then(|| std::env::var(name).ok()).flatten()
}
