//! Secrets: events hold references; this module reads the values, from the environment, from files, or by decryption.
//!
//! Sealed (encrypted) secrets are stored in the journal's database, outside the journal, under a key given at start
//! (AES-256-GCM with the name as associated data, so that one cannot replace another). Without the key they are
//! unreadable.

mod disclosed_secrets;
mod sealing_key;
mod unsealed_cache;

use std::path::Path;
use std::sync::Arc;

use catalog::clock::Clock;
use catalog::journal::{Journal, JournalError};
use jiff::Timestamp;
use model::SecretRef;
use secrecy::{ExposeSecret as _, SecretString};

use self::disclosed_secrets::DisclosedSecrets;
use self::sealing_key::KEY_FROM;
pub use self::sealing_key::SealingKey;
use self::unsealed_cache::UnsealedCache;

/// The largest secret, in bytes.
const LIMIT: u64 = 64 << 10;

/// Why a secret could not be read or stored. The text never contains the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The environment variable is not set.
    #[error("the environment variable `{name}` is not set")]
    NotInEnvironment {
        /// The name of the variable.
        name: String,
    },
    /// The file does not exist, is too large, or is not UTF-8.
    #[error("the secret file `{path}` cannot be read ({cause})")]
    File {
        /// The path of the file.
        path: String,
        cause: String,
    },
    /// No secret is stored under the name.
    #[error("no secret is sealed under `{name}`: put one there with `toolcrib secret set {name}`")]
    NotSealed {
        /// The name of the secret.
        name: String,
    },
    /// The secret was encrypted with another key, or is damaged.
    #[error("the secret `{name}` was sealed with another key")]
    OtherKey {
        /// The name of the secret.
        name: String,
    },
    /// No sealing key was given.
    #[error(
        "sealed secrets need a key: give one with TOOLCRIB_SEALING_KEY or --sealing-key-file \
         (`openssl rand -base64 32 > FILE` makes one)"
    )]
    NoKey,
    /// The sealing key is too short.
    #[error(
        "a sealing key has at least {KEY_FROM} characters: make one with `openssl rand -base64 32`"
    )]
    WeakKey,
    /// The value is empty or too large.
    #[error("a secret has at most {LIMIT} bytes and is not empty")]
    Size,
    /// The name is not valid for a secret.
    #[error("a secret's name has 1 to 1024 bytes and no control characters")]
    Name,
    /// A reference was given instead of a name.
    #[error("give the name alone: `{name}`")]
    Prefixed {
        /// The name alone.
        name: String,
    },
    /// The database failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

type EnvironmentLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Reads, seals and removes secrets.
pub struct SecretStore {
    journal: Arc<dyn Journal>,
    key: Option<SealingKey>,
    clock: Arc<dyn Clock>,
    unsealed: UnsealedCache,
    environment: Box<EnvironmentLookup>,
    disclosed: DisclosedSecrets,
}

impl SecretStore {
    /// Uses a journal's database; `environment` looks up variables.
    pub fn new(
        journal: Arc<dyn Journal>,
        key: Option<SealingKey>,
        clock: impl Clock + 'static,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let (known, environment) = (UnsealedCache::new(Arc::clone(&clock)), Box::new(environment));
        Self {
            journal,
            key,
            clock,
            unsealed: known,
            environment,
            disclosed: DisclosedSecrets::default(),
        }
    }

    /// The reference that sources use for the sealed secret of this name.
    pub fn sealed_reference(name: &str) -> Result<SecretRef, SecretError> {
        if let Some(name) = name.strip_prefix("sealed:") {
            return Err(SecretError::Prefixed { name: name.to_owned() });
        }
        format!("sealed:{name}").parse().map_err(|_| SecretError::Name)
    }

    /// Reads the value behind a reference.
    pub async fn read_secret(&self, secret: &SecretRef) -> Result<SecretString, SecretError> {
        let value = match secret {
            SecretRef::Env(name) => {
                let value = (self.environment)(name).map(SecretString::from);
                value.ok_or_else(|| SecretError::NotInEnvironment { name: name.to_string() })?
            }
            SecretRef::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_secret_file(&path)).await;
                read.expect("reading a file does not panic")?
            }
            SecretRef::Sealed(name) => {
                self.unsealed.get_value(name, self.unseal_secret(name)).await?
            }
        };
        self.disclosed.note_value(secret, &value);
        Ok(value)
    }

    async fn unseal_secret(&self, name: &str) -> Result<SecretString, SecretError> {
        let key = self.key.as_ref().ok_or(SecretError::NoKey)?;
        let sealed = self.journal.encrypted_secret(name.to_owned()).await?;
        let sealed = sealed.ok_or_else(|| SecretError::NotSealed { name: name.to_owned() })?;
        key.unseal_value(name, &sealed)
            .ok_or_else(|| SecretError::OtherKey { name: name.to_owned() })
    }

    /// Seals a value under a name and returns the reference to it.
    pub async fn seal_secret(
        &self,
        name: &str,
        value: &SecretString,
    ) -> Result<SecretRef, SecretError> {
        let secret = Self::sealed_reference(name)?;
        let key = self.key.as_ref().ok_or(SecretError::NoKey)?;
        let length = value.expose_secret().len() as u64;
        if length == 0 || LIMIT < length {
            return Err(SecretError::Size);
        }
        // One journal, one key: with two keys, it would be unclear which secret needs which.
        if let Some(other) =
            self.journal.encrypted_secret_names().await?.into_iter().find(|other| other != name)
        {
            self.unseal_secret(&other).await?;
        }
        let sealed = key.seal_value(name, value, self.clock.now());
        self.journal.store_encrypted_secret(name.to_owned(), Some(sealed)).await?;
        self.unsealed.set_value(name, value);
        Ok(secret)
    }

    /// Removes the sealed secret of this name.
    pub async fn remove_secret(&self, name: &str) -> Result<(), SecretError> {
        if self.journal.encrypted_secret(name.to_owned()).await?.is_none() {
            return Err(SecretError::NotSealed { name: name.to_owned() });
        }
        self.journal.store_encrypted_secret(name.to_owned(), None).await?;
        self.unsealed.remove_value(name);
        Ok(())
    }

    /// The names of all sealed secrets.
    pub async fn sealed_names(&self) -> Result<Vec<String>, SecretError> {
        Ok(self.journal.encrypted_secret_names().await?)
    }

    /// When the sealed secret of this name was set, if known.
    pub async fn sealed_at(&self, name: &str) -> Result<Option<Timestamp>, SecretError> {
        let sealed = self.journal.encrypted_secret(name.to_owned()).await?;
        Ok(sealed.and_then(|sealed| sealing_key::sealed_at(&sealed)))
    }

    /// Replaces every secret that was read so far by its reference: for messages of upstreams.
    pub fn redact(&self, text: &str) -> String {
        self.disclosed.redact(text)
    }

    /// Redacts about the first `bytes` of a text. A secret that continues after them is removed completely.
    pub(crate) fn redact_beginning(&self, text: &str, bytes: usize) -> String {
        self.disclosed.redact_beginning(text, bytes)
    }
}

fn read_secret_file(path: &str) -> Result<SecretString, SecretError> {
    let cannot = |cause: String| SecretError::File { path: path.to_owned(), cause };
    // Process state that the system exposes as files must not be sent as a secret.
    let real = Path::new(path).canonicalize().map_err(|error| cannot(error.to_string()))?;
    if ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder)) {
        return Err(cannot("it is no file of a user".into()));
    }
    let bytes = limits::bounded_read::read_file(Path::new(path), LIMIT)
        .map_err(|error| cannot(error.to_string()))?;
    let text =
        str::from_utf8(&bytes).map_err(|_| cannot("stream did not contain valid UTF-8".into()))?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}

#[cfg(test)]
mod tests;
