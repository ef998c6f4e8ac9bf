//! What the command line and the environment say together. The only place that reads the environment.

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
/// Directives such as `info,toolcrib_catalog=debug`; says more than `-v` can.
const LOG: &str = "TOOLCRIB_LOG";

/// What folding warns about is what `verify` reports as problems; once is enough.
const WITHOUT_PROBLEMS: &str = "warn,toolcrib_catalog::fold=off";

/// What programs need of the environment to run at all.
const LITTLE: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// More than any key has.
const KEY_FILE_LIMIT: u64 = 64 << 10;

/// What holds for every verb.
pub(crate) struct Config {
    pub(crate) journal: JournalPlace,
    /// Whether somebody said where it is.
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

    /// Sends what the libraries have to say to stderr.
    pub(crate) fn start_logging(&self) {
        let stderr =
            tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
        stderr.without_time().with_target(false).with_env_filter(EnvFilter::new(&self.log)).init();
    }

    /// Programs of sources, kept from our own files where they can be; and those that whoever started us has named.
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

    /// The key from a file, or else from the environment.
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

/// The credential of the agent we speak for.
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

/// Programs that speak MCP are found where we were, and end with us: by way of this very program, even if its file is
/// replaced meanwhile.
pub(crate) fn programs(is_open: bool) -> ProgramHost {
    let ourselves = cfg!(target_os = "linux").then(|| "/proc/self/exe".into());
    let search_path = std::env::var_os("PATH");
    ProgramHost { is_open, search_path, bound_by: ourselves, ..ProgramHost::default() }
}

/// The folders whose files may be resources.
pub(crate) fn resource_folders(given: &[PathBuf]) -> Result<Folders, Failure> {
    let mut folders = Folders::default();
    for path in given {
        let read = |source| Failure::Read { path: path.clone(), source };
        folders.add(path).map_err(read)?;
    }
    Ok(folders)
}

/// Programs that we start are of the same user, and our memory and environment hold secrets.
pub(crate) fn hide_this_process() {
    if let Err(error) = upstream::stdio::hide_this_process() {
        tracing::warn!("programs that are started may be able to look into this process: {error}");
    }
}

/// How we were started, for commands that somebody is to paste: by a path, or found by our name.
pub(crate) fn own_name() -> String {
    let given = std::env::args_os().next().unwrap_or_default();
    let given = given.to_string_lossy();
    if given.contains('/') { given.into_owned() } else { "toolcrib".to_owned() }
}

/// As much of the environment as a program needs to run at all, and nothing that is anybody's secret.
pub(crate) fn little_environment() -> BTreeMap<OsString, OsString> {
    let known = LITTLE.into_iter();
    known.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect()
}

/// The same for the program of a source: by reference, so that its values are in no journal. Its `PATH` is ours anyway.
pub(crate) fn little_environment_by_reference() -> BTreeMap<Box<str>, SecretRef> {
    let set = LITTLE.into_iter().filter(|name| *name != "PATH" && std::env::var_os(name).is_some());
    set.map(|name| (name.into(), SecretRef::Env(name.into()))).collect()
}

/// A variable that is empty counts as not set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable(name: &'static str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::Variable { name }),
    }
}

/// A variable that the user named, for a secret.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable_of_user(name: &str) -> Option<String> {
    // What opens the other secrets and the journal is for nobody's upstream.
    let is_ours = name.starts_with("TOOLCRIB_");
    (!is_ours).then(|| std::env::var(name).ok()).flatten()
}
