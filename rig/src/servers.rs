//! `rig servers`: MCP servers by others, each registered with a real `toolcrib serve`, listed and called by agents of
//! both protocol eras; and authorization servers by others, for tokens in both directions.
//!
//! In every case, no process may survive the server, even if the server is killed.

mod agent_answers;
mod authority;
mod descendants;
mod direct_client;
mod foreign_server;
mod lossless_check;
mod mcp_agent;
mod server_trial;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::json;

use self::authority::ForeignAuthority;
use self::direct_client::DirectClient;
use self::foreign_server::{ForeignServer, InstalledPackages, ServerWorkspace};
use self::mcp_agent::{ERAS, McpAgent};
use crate::toolcrib_server::RunningToolcrib;

const OPTIONS: [&str; 1] = ["--allow-stdio"];

#[derive(clap::Args)]
pub(crate) struct ServersArgs {
    /// Node.js
    #[arg(long)]
    node: PathBuf,
    /// A folder with the packages from npm, in `node_modules`
    #[arg(long)]
    packages: PathBuf,
    /// A Python environment with the packages from `PyPI`
    #[arg(long)]
    python: PathBuf,
    /// The same with `mcp` before its second version
    #[arg(long)]
    older_python: PathBuf,
    /// Only the servers whose name contains this
    #[arg(long)]
    only: Option<String>,
}

pub(crate) async fn run(orders: ServersArgs) -> anyhow::Result<()> {
    let only = orders.only.as_deref().unwrap_or_default();
    let all = ForeignServer::ALL.into_iter();
    let wanted: Vec<ForeignServer> = all.filter(|server| server.id().contains(only)).collect();
    let all = ForeignAuthority::ALL.into_iter();
    let authorities: Vec<ForeignAuthority> = all.filter(|one| one.id().contains(only)).collect();
    ensure!(!wanted.is_empty() || !authorities.is_empty(), "there is no server `{only}`");
    let installed = InstalledPackages {
        node: orders.node,
        packages: orders.packages,
        python: orders.python,
        older_python: orders.older_python,
    };
    descendants::become_subreaper()?;
    let mut table = ResultTable::begin();
    if !wanted.is_empty() {
        test_servers(&installed, &wanted, &mut table).await?;
    }
    for authority in authorities {
        authority.run(&installed, &mut table).await;
    }
    println!("{} of {} as they must be", table.rows - table.wrong, table.rows);
    if table.wrong > 0 {
        std::process::exit(1);
    }
    Ok(())
}

async fn test_servers(
    installed: &InstalledPackages,
    wanted: &[ForeignServer],
    table: &mut ResultTable,
) -> anyhow::Result<()> {
    let place = ServerWorkspace::create(installed.clone(), wanted).await?;
    let mut served = RunningToolcrib::open(&OPTIONS).await?;
    let keys = register_all(&served, &place, wanted).await?;
    for (server, key) in wanted.iter().zip(&keys) {
        for era in ERAS {
            let start = Instant::now();
            let calls = test_server(*server, &served, key, era, &place).await;
            table.print_row(server.id(), era.version(), start, calls);
        }
    }
    for (server, key) in wanted.iter().zip(&keys).filter(|(server, _)| server.is_program()) {
        let start = Instant::now();
        let calls = compare_with_direct(*server, &served, key, &place).await;
        table.print_row(server.id(), "lossless", start, calls);
    }
    if wanted.contains(&ForeignServer::Everything)
        && wanted.contains(&ForeignServer::EverythingHttp)
    {
        let start = Instant::now();
        table.print_row("everything", "clash", start, compare_clash(&served, &place).await);
    }
    let start = Instant::now();
    table.print_row("all", "stopped", start, stop_server(&mut served, &place, Signal::TERM).await);
    let start = Instant::now();
    let killed = restart_and_kill(&mut served, &place, wanted, &keys).await;
    table.print_row("all", "killed", start, killed);
    Ok(())
}

/// Registers all servers. Returns one key per server, which is granted only the tools of that server.
async fn register_all(
    served: &RunningToolcrib,
    place: &ServerWorkspace,
    wanted: &[ForeignServer],
) -> anyhow::Result<Vec<String>> {
    let admin = &served.admin;
    for server in wanted {
        admin.post("sources", place.source_body(*server)).await?;
    }
    let mut keys = Vec::new();
    for server in wanted {
        let id = server.id();
        admin.wait_for_inventory(id).await?;
        let kinds = ["tool", "prompt", "resource"];
        let selectors = kinds.map(|kind| json!({"kind": kind, "source": id}));
        let group = json!({"id": id, "name": id, "selector_mode": "any", "selectors": selectors});
        admin.post("groups", group).await?;
        keys.push(create_key(served, id, &[*server]).await?);
    }
    Ok(keys)
}

/// Creates an agent that has the tools of these servers, and returns its key.
async fn create_key(
    served: &RunningToolcrib,
    name: &str,
    servers: &[ForeignServer],
) -> anyhow::Result<String> {
    let matchers = json!([{"claim": "role", "operator": "equals", "value": name}]);
    let groups: Vec<&str> = servers.iter().map(|server| server.id()).collect();
    let policy = json!({"name": name, "groups": groups, "matchers": matchers});
    served.admin.post("policies", policy).await?;
    let made = served.admin.post("keys", json!({"name": name, "claims": {"role": name}})).await?;
    Ok(made["key"].as_str().context("a new key is shown")?.to_owned())
}

async fn test_server(
    server: ForeignServer,
    served: &RunningToolcrib,
    key: &str,
    era: mcp_agent::AgentEra,
    place: &ServerWorkspace,
) -> anyhow::Result<usize> {
    let agent = McpAgent::connect(&served.url, key, era).await?;
    server_trial::run_trial(server, &agent, place).await
}

/// Compares a direct connection to the server with the connection through toolcrib.
async fn compare_with_direct(
    server: ForeignServer,
    served: &RunningToolcrib,
    key: &str,
    place: &ServerWorkspace,
) -> anyhow::Result<usize> {
    let mut direct = DirectClient::start(&place.command(server)).await?;
    let tools = direct.list_tools().await?;
    let mut calls = 0;
    for era in ERAS {
        let agent = McpAgent::connect(&served.url, key, era).await?;
        lossless_check::compare_tools(&tools, &agent.list_tools().await?)?;
        if server == ForeignServer::Everything {
            calls += lossless_check::compare_calls(&mut direct, &agent, server.id()).await?;
        }
    }
    Ok(calls)
}

/// Compares the lists of an agent with two copies of one server: clashing names are qualified, nothing else differs.
async fn compare_clash(served: &RunningToolcrib, place: &ServerWorkspace) -> anyhow::Result<usize> {
    let servers = [ForeignServer::Everything, ForeignServer::EverythingHttp];
    let key = create_key(served, "both", &servers).await?;
    let tools =
        DirectClient::start(&place.command(ForeignServer::Everything)).await?.list_tools().await?;
    for era in ERAS {
        let agent = McpAgent::connect(&served.url, &key, era).await?;
        let mut listed = agent.list_tools().await?;
        for server in servers {
            let own = lossless_check::take_prefixed(&mut listed, &format!("{}__", server.id()));
            lossless_check::compare_tools(&tools, &own)?;
        }
        // Only the HTTP server offers this tool, so its name does not clash.
        let others = server_trial::tool_names(&listed);
        ensure!(others == ["get-roots-list"], "the other tools are {others:?}");
        let told = agent.call_tool("everything__get-sum", json!({"a": 1, "b": 1})).await?;
        let text = &told.result["content"][0]["text"];
        ensure!(*text == "The sum of 1 and 1 is 2.", "the sum is {text}");
    }
    Ok(ERAS.len())
}

/// Stops the server. Afterwards, only the processes that we started ourselves may remain.
async fn stop_server(
    served: &mut RunningToolcrib,
    place: &ServerWorkspace,
    signal: Signal,
) -> anyhow::Result<usize> {
    let before = descendants::count_descendants()?;
    ensure!(place.http_server_count() + 1 < before, "there is nothing that could be left");
    served.server.stop(signal).await?;
    descendants::wait_until_left(place.http_server_count()).await?;
    Ok(0)
}

/// Restarts the server, calls the tools that it knew before, and kills it: no process may remain.
async fn restart_and_kill(
    served: &mut RunningToolcrib,
    place: &ServerWorkspace,
    wanted: &[ForeignServer],
    keys: &[String],
) -> anyhow::Result<usize> {
    served.restart(&OPTIONS).await?;
    let mut calls = 0;
    for (server, key) in
        wanted.iter().zip(keys).filter(|(server, _)| **server != ForeignServer::Sqlite)
    {
        calls += test_server(*server, served, key, mcp_agent::AgentEra::Legacy, place).await?;
    }
    stop_server(served, place, Signal::KILL).await?;
    Ok(calls)
}

/// Prints one result per line, and counts the failures.
struct ResultTable {
    rows: usize,
    wrong: usize,
}

impl ResultTable {
    fn begin() -> Self {
        println!("{:<15}  {:<10}  calls  seconds", "server", "agent");
        Self { rows: 0, wrong: 0 }
    }

    fn print_row(
        &mut self,
        server: &str,
        what: &str,
        start: Instant,
        calls: anyhow::Result<usize>,
    ) {
        self.rows += 1;
        let seconds = start.elapsed().as_secs_f64();
        match calls {
            Ok(calls) => println!("{server:<15}  {what:<10}  {calls:>5}  {seconds:>7.1}"),
            Err(error) => {
                self.wrong += 1;
                let why = format!("{error:#}").replace('\n', "\n    ");
                println!("{server:<15}  {what:<10}     no  {seconds:>7.1}\n    {why}");
            }
        }
    }
}
