//! Options of `secret`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{JsonFlag, KEY_FILE_HELP};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Seal a value, read from standard input, under a name
    #[command(after_help = "\
The key that seals is a long random text, the same one the server gets. A value that is already
there is replaced. A server seals with its own key; it uses the new value from the next call on, and
other nodes do within a second.

Examples:
  openssl rand -base64 32 > sealing.key
  toolcrib secret set billing-token --sealing-key-file sealing.key < token.txt
  toolcrib secret set billing-token --sealing-key-file sealing.key    # asks for the value
  toolcrib secret set billing-token --server http://localhost:8080 < token.txt")]
    Set(SetSecretArgs),
    /// List the names of the sealed secrets
    List(JsonFlag),
    /// Remove a sealed secret
    Remove {
        /// Its name
        name: String,
        /// Do not ask; where there is nobody to ask, nothing is asked
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct SetSecretArgs {
    /// Its name: `billing-token` is referred to as `sealed:billing-token`
    pub(crate) name: String,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
}
