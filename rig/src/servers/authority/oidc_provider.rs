//! `oidc-provider`, which can be restarted with other keys, and a toolcrib that trusts it.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::authority_setup::{AuthoritySetup, access_token};
use super::{parse_listening_url, program_path};
use crate::child_program::ChildProgram;
use crate::servers::foreign_server::InstalledPackages;

/// The audience of the agents' tokens.
const AUDIENCE: &str = "https://crib.example.com";
/// The client id of the agent.
pub(super) const AGENT: &str = "agent";

pub(super) struct OidcProvider {
    server: ChildProgram,
    issuer: String,
    program: ProviderProgram,
}

struct ProviderProgram {
    node: PathBuf,
    package: PathBuf,
    /// A file for each current or former key.
    keys: TempDir,
}

impl OidcProvider {
    /// Starts the server. It signs with the first of its keys.
    pub(super) async fn start(
        installed: &InstalledPackages,
        keys: &[&str],
    ) -> anyhow::Result<Self> {
        let program = ProviderProgram {
            node: installed.node.clone(),
            package: installed.packages.join("node_modules/oidc-provider/lib/index.js"),
            keys: tempfile::tempdir()?,
        };
        let (server, issuer) = program.start("0", keys).await?;
        Ok(Self { server, issuer, program })
    }

    /// Restarts the server with these keys, at the same address.
    pub(super) async fn restart(&mut self, keys: &[&str]) -> anyhow::Result<()> {
        self.stop().await?;
        let port = self.issuer.rsplit(':').next().unwrap_or_default();
        (self.server, _) = self.program.start(port, keys).await?;
        Ok(())
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        self.server.stop(Signal::TERM).await
    }

    pub(super) async fn open_setup(&self) -> anyhow::Result<AuthoritySetup> {
        AuthoritySetup::open(&self.issuer, json!({"audience": AUDIENCE})).await
    }
}

impl ProviderProgram {
    async fn start(&self, port: &str, keys: &[&str]) -> anyhow::Result<(ChildProgram, String)> {
        let mut node = Command::new(&self.node);
        node.arg(program_path("authority-oidc-provider.mjs")).arg(&self.package);
        node.arg(port).arg(self.keys.path()).args(keys);
        ChildProgram::start(&node, parse_listening_url).await
    }
}

/// Gets a token for the agent, with the agent's own client credentials.
pub(super) async fn agent_token(world: &AuthoritySetup) -> anyhow::Result<String> {
    let grant = ("grant_type", "client_credentials");
    let form = [grant, ("scope", "orders"), ("resource", AUDIENCE)];
    access_token(&world.post_form("token", AGENT, &form).await?)
}
