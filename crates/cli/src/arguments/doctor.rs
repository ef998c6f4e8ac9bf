//! Options of `doctor`.

use std::path::PathBuf;

use clap::Args;

use super::{JsonFlag, KEY_FILE_HELP};

#[derive(Args, Debug)]
#[command(after_help = "\
Looks at the journal, the configuration, keys, secrets, the clock, issuers, embeddings, sources, TLS
files and limits. Changes nothing; a server may be running. The exit code is 0 if all works and 3 if
something does not; what will end soon is a warning.

Examples:
  toolcrib doctor
  toolcrib doctor --config toolcrib.yaml --tls-cert crib.pem --tls-key crib.key
  toolcrib doctor --json | jq '.findings[] | select(.state != \"ok\")'")]
pub(crate) struct DoctorArgs {
    /// The configuration of the server
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The certificate of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file with the key
    #[arg(long, value_name = "FILE", help = KEY_FILE_HELP)]
    pub(crate) sealing_key_file: Option<PathBuf>,
    /// Do not ask sources and embeddings whether they are there
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
