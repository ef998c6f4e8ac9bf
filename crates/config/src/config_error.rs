//! Why a configuration cannot be read, planned or applied.

use std::io;
use std::path::{Path, PathBuf};

use limits::bounded_read::{BoundedReadError, read_file};
use toolcrib::{CommandError, JournalError};

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the configuration cannot be used\n{}", problems.join("\n"))]
    Invalid { problems: Vec<String> },
    #[error("the catalog holds a null, which TOML does not know: export it as YAML")]
    NotToml,
    #[error("the configuration is not applied")]
    NotApplied(#[source] CommandError),
    #[error(
        "somebody has changed `{stream}` since the plan was made: nothing was applied; plan again"
    )]
    OutdatedPlan { stream: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

impl ConfigError {
    /// The error for a plan that could not be applied.
    pub fn not_applied(error: CommandError) -> Self {
        match error {
            CommandError::Journal(JournalError::Conflict { stream, .. }) => {
                Self::OutdatedPlan { stream: stream.to_string() }
            }
            other => Self::NotApplied(other),
        }
    }

    /// The message with all causes, on one line.
    pub fn full_message(&self) -> String {
        model::format_error_chain(self)
    }
}

/// Reads a file of at most `limit` bytes.
pub fn read_limited_file(path: &Path, limit: u64) -> Result<Vec<u8>, ConfigError> {
    read_file(path, limit).map_err(|error| {
        let source = match error {
            BoundedReadError::Io(source) => source,
            other => io::Error::other(other),
        };
        ConfigError::Read { path: path.to_owned(), source }
    })
}
