//! Secrets: events hold references; the values are read here, from the environment, from files, or unsealed.
//!
//! Sealed secrets lie in the journal's database, outside the journal, under a key given at start (AES-256-GCM with the
//! name as associated data, so that one cannot stand in for another). Without the key they are noise.

mod handed_out;
mod key;
mod known;

use std::path::Path;
use std::sync::Arc;

use catalog::clock::Clock;
use catalog::journal::{Journal, JournalError};
use jiff::Timestamp;
use model::SecretRef;
use secrecy::{ExposeSecret as _, SecretString};

use self::handed_out::HandedOut;
use self::key::KEY_FROM;
pub use self::key::SealingKey;
use self::known::Known;

/// The largest secret, in bytes.
const LIMIT: u64 = 64 << 10;

/// Why a secret could not be had or kept. Never says the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// No such variable.
    #[error("the environment variable `{name}` is not set")]
    NotInEnvironment {
        /// Its name.
        name: String,
    },
    /// No such file, or too large, or not text.
    #[error("the secret file `{path}` cannot be read ({cause})")]
    File {
        /// Its path.
        path: String,
        /// Why.
        cause: String,
    },
    /// Nothing under that name.
    #[error("no secret is sealed under `{name}`: put one there with `toolcrib secret set {name}`")]
    NotSealed {
        /// The name.
        name: String,
    },
    /// Another key, or damage.
    #[error("the secret `{name}` was sealed with another key")]
    OtherKey {
        /// The name.
        name: String,
    },
    /// No key was given.
    #[error(
        "sealed secrets need a key: give one with TOOLCRIB_SEALING_KEY or --sealing-key-file \
         (`openssl rand -base64 32 > FILE` makes one)"
    )]
    NoKey,
    /// The key is too short.
    #[error(
        "a sealing key has at least {KEY_FROM} characters: make one with `openssl rand -base64 32`"
    )]
    WeakKey,
    /// More than a secret may have.
    #[error("a secret has at most {LIMIT} bytes and is not empty")]
    Size,
    /// No name for a secret.
    #[error("a secret's name has 1 to 1024 bytes and no control characters")]
    Name,
    /// A reference where a name belongs.
    #[error("give the name alone: `{name}`")]
    Prefixed {
        /// The name.
        name: String,
    },
    /// The database.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

type Environment = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Reads, seals and removes secrets.
pub struct Secrets {
    journal: Arc<dyn Journal>,
    key: Option<SealingKey>,
    clock: Arc<dyn Clock>,
    known: Known,
    environment: Box<Environment>,
    handed_out: HandedOut,
}

impl Secrets {
    /// Over a journal's database; `environment` looks up variables.
    pub fn new(
        journal: Arc<dyn Journal>,
        key: Option<SealingKey>,
        clock: impl Clock + 'static,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let (known, environment) = (Known::new(Arc::clone(&clock)), Box::new(environment));
        Self { journal, key, clock, known, environment, handed_out: HandedOut::default() }
    }

    /// How sources refer to what is sealed under a name.
    pub fn reference(name: &str) -> Result<SecretRef, SecretError> {
        if let Some(name) = name.strip_prefix("sealed:") {
            return Err(SecretError::Prefixed { name: name.to_owned() });
        }
        format!("sealed:{name}").parse().map_err(|_| SecretError::Name)
    }

    /// The value behind a reference.
    pub async fn read(&self, secret: &SecretRef) -> Result<SecretString, SecretError> {
        let value = match secret {
            SecretRef::Env(name) => {
                let value = (self.environment)(name).map(SecretString::from);
                value.ok_or_else(|| SecretError::NotInEnvironment { name: name.to_string() })?
            }
            SecretRef::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.expect("reading a file does not panic")?
            }
            SecretRef::Sealed(name) => self.known.get(name, self.unseal(name)).await?,
        };
        self.handed_out.note(secret, &value);
        Ok(value)
    }

    async fn unseal(&self, name: &str) -> Result<SecretString, SecretError> {
        let key = self.key.as_ref().ok_or(SecretError::NoKey)?;
        let sealed = self.journal.sealed(name.to_owned()).await?;
        let sealed = sealed.ok_or_else(|| SecretError::NotSealed { name: name.to_owned() })?;
        key.unseal(name, &sealed).ok_or_else(|| SecretError::OtherKey { name: name.to_owned() })
    }

    /// Seals a value under a name and says how to refer to it.
    pub async fn seal(&self, name: &str, value: &SecretString) -> Result<SecretRef, SecretError> {
        let secret = Self::reference(name)?;
        let key = self.key.as_ref().ok_or(SecretError::NoKey)?;
        let length = value.expose_secret().len() as u64;
        if length == 0 || LIMIT < length {
            return Err(SecretError::Size);
        }
        // One journal, one key: with two, nobody would know which secret needs which.
        if let Some(other) =
            self.journal.sealed_names().await?.into_iter().find(|other| other != name)
        {
            self.unseal(&other).await?;
        }
        let sealed = key.seal(name, value, self.clock.now());
        self.journal.seal(name.to_owned(), Some(sealed)).await?;
        self.known.set(name, value);
        Ok(secret)
    }

    /// Removes what is sealed under a name.
    pub async fn remove(&self, name: &str) -> Result<(), SecretError> {
        if self.journal.sealed(name.to_owned()).await?.is_none() {
            return Err(SecretError::NotSealed { name: name.to_owned() });
        }
        self.journal.seal(name.to_owned(), None).await?;
        self.known.remove(name);
        Ok(())
    }

    /// Names of everything sealed.
    pub async fn names(&self) -> Result<Vec<String>, SecretError> {
        Ok(self.journal.sealed_names().await?)
    }

    /// When what is sealed under a name was set, as far as that is known.
    pub async fn set_at(&self, name: &str) -> Result<Option<Timestamp>, SecretError> {
        let sealed = self.journal.sealed(name.to_owned()).await?;
        Ok(sealed.and_then(|sealed| key::sealed_at(&sealed)))
    }

    /// The text with every secret that was handed out replaced by its reference: for messages of upstreams.
    pub fn redact(&self, text: &str) -> String {
        self.handed_out.redact(text)
    }

    /// The same of about so many bytes of the beginning of a text. Nothing is left of a secret that goes on behind them.
    pub(crate) fn redact_beginning(&self, text: &str, bytes: usize) -> String {
        self.handed_out.redact_beginning(text, bytes)
    }
}

fn read_file(path: &str) -> Result<SecretString, SecretError> {
    let cannot = |cause: String| SecretError::File { path: path.to_owned(), cause };
    // What the system tells of processes is nobody's secret to send.
    let real = Path::new(path).canonicalize().map_err(|error| cannot(error.to_string()))?;
    if ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder)) {
        return Err(cannot("it is no file of a user".into()));
    }
    let bytes = upstream::limits::read_file(Path::new(path), LIMIT)
        .map_err(|error| cannot(error.to_string()))?;
    let text =
        str::from_utf8(&bytes).map_err(|_| cannot("stream did not contain valid UTF-8".into()))?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}

#[cfg(test)]
mod tests;
