//! The servers by others: how each of them is started and registered.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::clients::order_api::OrderApi;

/// Deadline for a started program to listen.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// One server with one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignServer {
    Everything,
    EverythingHttp,
    EverythingSse,
    Filesystem,
    /// The same server, with one process per agent.
    FilesystemAlone,
    Memory,
    Time,
    Git,
    Fetch,
    Sqlite,
}

impl ForeignServer {
    pub(super) const ALL: [Self; 10] = [
        Self::Everything,
        Self::EverythingHttp,
        Self::EverythingSse,
        Self::Filesystem,
        Self::FilesystemAlone,
        Self::Memory,
        Self::Time,
        Self::Git,
        Self::Fetch,
        Self::Sqlite,
    ];

    /// The id of its source.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::EverythingHttp => "everything-http",
            Self::EverythingSse => "everything-sse",
            Self::Filesystem => "filesystem",
            Self::FilesystemAlone => "filesystem-own",
            Self::Memory => "memory",
            Self::Time => "time",
            Self::Git => "git",
            Self::Fetch => "fetch",
            Self::Sqlite => "sqlite",
        }
    }

    /// The number of tools for an agent with all capabilities.
    pub(super) fn tool_count(self) -> usize {
        match self {
            Self::Everything => 16,
            // One tool requires roots, which are not offered to stdio servers.
            Self::EverythingHttp | Self::EverythingSse => 17,
            Self::Filesystem | Self::FilesystemAlone => 14,
            Self::Memory => 9,
            Self::Time => 2,
            Self::Git => 12,
            Self::Fetch => 1,
            Self::Sqlite => 6,
        }
    }

    /// The transport argument of `everything`, and the URL path.
    fn transport(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::EverythingHttp => Some(("streamableHttp", "mcp")),
            Self::EverythingSse => Some(("sse", "sse")),
            Self::Everything
            | Self::Filesystem
            | Self::FilesystemAlone
            | Self::Memory
            | Self::Time
            | Self::Git
            | Self::Fetch
            | Self::Sqlite => None,
        }
    }

    pub(super) fn is_program(self) -> bool {
        self.transport().is_none()
    }
}

/// Paths of the installed servers.
#[derive(Clone)]
pub(super) struct InstalledPackages {
    pub(super) node: PathBuf,
    pub(super) packages: PathBuf,
    pub(super) python: PathBuf,
    pub(super) older_python: PathBuf,
}

/// The environment of the servers: folders and files, and an HTTP API on loopback.
pub(super) struct ServerWorkspace {
    installed: InstalledPackages,
    folder: TempDir,
    pub(super) page: OrderApi,
    http_servers: Vec<(ForeignServer, String, Child)>,
}

impl ServerWorkspace {
    pub(super) async fn create(
        installed: InstalledPackages,
        wanted: &[ForeignServer],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let place = Self { installed, folder, page: OrderApi::open()?, http_servers: Vec::new() };
        fs::create_dir(place.path("files"))?;
        // The environment of a program is in files: the network only carries references.
        fs::write(place.path("greeting.secret"), "hello")?;
        let memory = place.path("memory.jsonl");
        fs::write(place.path("memory.secret"), memory.as_os_str().as_encoded_bytes())?;
        make_repository(&place.path("repository")).await?;
        place.start_http_servers(wanted).await
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn path_text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Program and arguments of a server.
    pub(super) fn command(&self, server: ForeignServer) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let node = |package: &str, arguments: &[&str]| {
            let script = format!("node_modules/@modelcontextprotocol/{package}/dist/index.js");
            let script = text(&self.installed.packages.join(script));
            let words = [text(&self.installed.node), script];
            words.into_iter().chain(arguments.iter().map(ToString::to_string)).collect()
        };
        let python = |folder: &Path, name: &str, arguments: &[&str]| {
            let program = text(&folder.join("bin").join(name));
            let words = [program].into_iter();
            words.chain(arguments.iter().map(ToString::to_string)).collect()
        };
        let current = &self.installed.python;
        match server {
            ForeignServer::Everything => node("server-everything", &["stdio"]),
            ForeignServer::EverythingHttp | ForeignServer::EverythingSse => {
                let transport = server.transport().map_or("", |(transport, _)| transport);
                node("server-everything", &[transport])
            }
            ForeignServer::Filesystem | ForeignServer::FilesystemAlone => {
                node("server-filesystem", &[&self.path_text("files")])
            }
            ForeignServer::Memory => node("server-memory", &[]),
            ForeignServer::Time => python(current, "mcp-server-time", &["--local-timezone", "UTC"]),
            ForeignServer::Git => {
                python(current, "mcp-server-git", &["--repository", &self.path_text("repository")])
            }
            // The server refuses loopback without this option, and the tests have no other network.
            ForeignServer::Fetch => python(current, "mcp-server-fetch", &["--allow-private-ips"]),
            ForeignServer::Sqlite => {
                let file = self.path_text("orders.db");
                python(&self.installed.older_python, "mcp-server-sqlite", &["--db-path", &file])
            }
        }
    }

    /// The body that registers the server as a source.
    pub(super) fn source_body(&self, server: ForeignServer) -> Value {
        let mut source = json!({
            "id": server.id(), "name": server.id(), "allow": ["127.0.0.1"], "settings": {"kind": "mcp"},
        });
        let listening = self.http_servers.iter().find(|(found, ..)| *found == server);
        if let Some((_, url, _)) = listening {
            source["url"] = json!(url);
            return source;
        }
        let secret = |name: &str| format!("file:{}", self.path_text(name));
        let environment = match server {
            ForeignServer::Everything => json!({"GREETING": secret("greeting.secret")}),
            ForeignServer::Memory => json!({"MEMORY_FILE_PATH": secret("memory.secret")}),
            _ => json!({}),
        };
        let command = self.command(server);
        source["settings"]["command"] =
            json!({"program": command[0], "arguments": command[1..], "environment": environment});
        if server == ForeignServer::FilesystemAlone {
            source["settings"]["isolation"] = json!("per_agent");
        }
        source
    }

    /// The number of processes that we started ourselves.
    pub(super) fn http_server_count(&self) -> usize {
        self.http_servers.len()
    }

    async fn start_http_servers(mut self, wanted: &[ForeignServer]) -> anyhow::Result<Self> {
        for server in wanted {
            if let Some((_, path)) = server.transport() {
                let port = free_port()?;
                let process = self.start_process(*server, port).await?;
                let url = format!("http://127.0.0.1:{port}/{path}");
                self.http_servers.push((*server, url, process));
            }
        }
        Ok(self)
    }

    async fn start_process(&self, server: ForeignServer, port: u16) -> anyhow::Result<Child> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(self.command(server));
        command.env("PORT", port.to_string()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().context("cannot start `setpriv`")?;
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < deadline, "{server:?} does not listen on port {port}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(process)
    }
}

/// Picks a free port, because the servers cannot choose and print one themselves.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A git repository with one commit.
async fn make_repository(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder)?;
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    for arguments in [
        &["init", "--quiet"][..],
        &["commit", "--quiet", "--allow-empty", "--no-gpg-sign", "--message", "Open the pizzeria"],
    ] {
        let mut git = Command::new("git");
        let status = git.current_dir(folder).args(who).args(arguments).status().await?;
        ensure!(status.success(), "`git {}` failed", arguments.join(" "));
    }
    Ok(())
}
