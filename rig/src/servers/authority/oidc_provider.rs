//! `oidc-provider`, which can be restarted with other keys, and a toolcrib that trusts it.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::world::{World, token};
use super::{place, program};
use crate::servers::server::Installed;
use crate::started::Started;

/// The audience of the agents' tokens.
const AUDIENCE: &str = "https://crib.example.com";
/// The client id of the agent.
pub(super) const AGENT: &str = "agent";

pub(super) struct OidcProvider {
    server: Started,
    issuer: String,
    program: Program,
}

struct Program {
    node: PathBuf,
    package: PathBuf,
    /// A file for each current or former key.
    keys: TempDir,
}

impl OidcProvider {
    /// Starts the server. It signs with the first of its keys.
    pub(super) async fn start(installed: &Installed, keys: &[&str]) -> anyhow::Result<Self> {
        let program = Program {
            node: installed.node.clone(),
            package: installed.packages.join("node_modules/oidc-provider/lib/index.js"),
            keys: tempfile::tempdir()?,
        };
        let (server, issuer) = program.start("0", keys).await?;
        Ok(Self { server, issuer, program })
    }

    /// Restarts the server with these keys, at the same address.
    pub(super) async fn again(&mut self, keys: &[&str]) -> anyhow::Result<()> {
        self.end().await?;
        let port = self.issuer.rsplit(':').next().unwrap_or_default();
        (self.server, _) = self.program.start(port, keys).await?;
        Ok(())
    }

    pub(super) async fn end(&mut self) -> anyhow::Result<()> {
        self.server.end(Signal::TERM).await
    }

    pub(super) async fn world(&self) -> anyhow::Result<World> {
        World::open(&self.issuer, json!({"audience": AUDIENCE})).await
    }
}

impl Program {
    async fn start(&self, port: &str, keys: &[&str]) -> anyhow::Result<(Started, String)> {
        let mut node = Command::new(&self.node);
        node.arg(program("authority-oidc-provider.mjs")).arg(&self.package);
        node.arg(port).arg(self.keys.path()).args(keys);
        Started::start(&node, place).await
    }
}

/// Gets a token for the agent, with the agent's own client credentials.
pub(super) async fn agents_token(world: &World) -> anyhow::Result<String> {
    let grant = ("grant_type", "client_credentials");
    let form = [grant, ("scope", "orders"), ("resource", AUDIENCE)];
    token(&world.ask("token", AGENT, &form).await?)
}
