//! Authorization servers by others: a real `toolcrib serve` accepts the tokens of their users and clients, and gets
//! tokens for upstreams from them. It finds their endpoints by OpenID Connect Discovery.

mod authority_setup;
mod client_credentials;
mod key_rotation;
mod oidc_provider;
mod token_exchange;

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::ResultTable;
use super::foreign_server::InstalledPackages;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignAuthority {
    /// Exchanges tokens (RFC 8693). Its tokens for client credentials are not of the type `Bearer`.
    Idpyoidc,
    /// Issues tokens for client credentials, and rotates its keys.
    OidcProvider,
}

impl ForeignAuthority {
    pub(super) const ALL: [Self; 2] = [Self::Idpyoidc, Self::OidcProvider];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Idpyoidc => "idpyoidc",
            Self::OidcProvider => "oidc-provider",
        }
    }

    /// Runs every check of this server and prints a row for each.
    pub(super) async fn run(self, installed: &InstalledPackages, table: &mut ResultTable) {
        let start = Instant::now();
        match self {
            Self::Idpyoidc => {
                table.print_row(self.id(), "exchange", start, token_exchange::run(installed).await);
            }
            Self::OidcProvider => {
                table.print_row(
                    self.id(),
                    "own token",
                    start,
                    client_credentials::run(installed).await,
                );
                let start = Instant::now();
                table.print_row(self.id(), "rotation", start, key_rotation::run(installed).await);
            }
        }
    }
}

/// The path of a program in `rig/clients`.
fn program_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

/// The URL of an authorization server, from its output.
fn parse_listening_url(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("listens on ")).map(str::to_owned)
}
