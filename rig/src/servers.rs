//! `rig servers`: MCP servers by others, each registered with a real `toolcrib serve`, listed and called by agents of
//! both protocol eras; and authorization servers by others, for tokens in both directions.
//!
//! In every case, no process may survive the server, even if the server is killed.

mod agent;
mod answers;
mod authority;
mod direct;
mod left;
mod lossless;
mod server;
mod trial;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::json;

use self::agent::{Agent, ERAS};
use self::authority::Authority;
use self::direct::Direct;
use self::server::{Installed, Place, Server};
use crate::served::Served;

const OPTIONS: [&str; 1] = ["--allow-stdio"];

#[derive(clap::Args)]
pub(crate) struct Orders {
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

pub(crate) async fn run(orders: Orders) -> anyhow::Result<()> {
    let only = orders.only.as_deref().unwrap_or_default();
    let all = Server::ALL.into_iter();
    let wanted: Vec<Server> = all.filter(|server| server.id().contains(only)).collect();
    let all = Authority::ALL.into_iter();
    let authorities: Vec<Authority> = all.filter(|one| one.id().contains(only)).collect();
    ensure!(!wanted.is_empty() || !authorities.is_empty(), "there is no server `{only}`");
    let installed = Installed {
        node: orders.node,
        packages: orders.packages,
        python: orders.python,
        older_python: orders.older_python,
    };
    left::take_in_orphans()?;
    let mut table = Table::begin();
    if !wanted.is_empty() {
        try_all(&installed, &wanted, &mut table).await?;
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

async fn try_all(
    installed: &Installed,
    wanted: &[Server],
    table: &mut Table,
) -> anyhow::Result<()> {
    let place = Place::make(installed.clone(), wanted).await?;
    let mut served = Served::open(&OPTIONS).await?;
    let keys = register(&served, &place, wanted).await?;
    for (server, key) in wanted.iter().zip(&keys) {
        for era in ERAS {
            let start = Instant::now();
            let calls = try_one(*server, &served, key, era, &place).await;
            table.row(server.id(), era.version(), start, calls);
        }
    }
    for (server, key) in wanted.iter().zip(&keys).filter(|(server, _)| server.is_program()) {
        let start = Instant::now();
        let calls = compare(*server, &served, key, &place).await;
        table.row(server.id(), "lossless", start, calls);
    }
    if wanted.contains(&Server::Everything) && wanted.contains(&Server::EverythingHttp) {
        let start = Instant::now();
        table.row("everything", "clash", start, compare_clash(&served, &place).await);
    }
    let start = Instant::now();
    table.row("all", "stopped", start, stop(&mut served, &place, Signal::TERM).await);
    let start = Instant::now();
    let killed = kill(&mut served, &place, wanted, &keys).await;
    table.row("all", "killed", start, killed);
    Ok(())
}

/// Registers all servers. Returns one key per server, which is granted only the tools of that server.
async fn register(
    served: &Served,
    place: &Place,
    wanted: &[Server],
) -> anyhow::Result<Vec<String>> {
    let admin = &served.admin;
    for server in wanted {
        admin.post("sources", place.source(*server)).await?;
    }
    let mut keys = Vec::new();
    for server in wanted {
        let id = server.id();
        admin.wait_for(id).await?;
        let kinds = ["tool", "prompt", "resource"];
        let selectors = kinds.map(|kind| json!({"kind": kind, "source": id}));
        let group = json!({"id": id, "name": id, "selector_mode": "any", "selectors": selectors});
        admin.post("groups", group).await?;
        keys.push(key(served, id, &[*server]).await?);
    }
    Ok(keys)
}

/// Creates an agent that has the tools of these servers, and returns its key.
async fn key(served: &Served, name: &str, servers: &[Server]) -> anyhow::Result<String> {
    let matchers = json!([{"claim": "role", "operator": "equals", "value": name}]);
    let groups: Vec<&str> = servers.iter().map(|server| server.id()).collect();
    let policy = json!({"name": name, "groups": groups, "matchers": matchers});
    served.admin.post("policies", policy).await?;
    let made = served.admin.post("keys", json!({"name": name, "claims": {"role": name}})).await?;
    Ok(made["key"].as_str().context("a new key is shown")?.to_owned())
}

async fn try_one(
    server: Server,
    served: &Served,
    key: &str,
    era: agent::Era,
    place: &Place,
) -> anyhow::Result<usize> {
    let agent = Agent::connect(&served.url, key, era).await?;
    trial::run(server, &agent, place).await
}

/// Compares a direct connection to the server with the connection through toolcrib.
async fn compare(
    server: Server,
    served: &Served,
    key: &str,
    place: &Place,
) -> anyhow::Result<usize> {
    let mut direct = Direct::start(&place.command(server)).await?;
    let tools = direct.tools().await?;
    let mut calls = 0;
    for era in ERAS {
        let agent = Agent::connect(&served.url, key, era).await?;
        lossless::compare_tools(&tools, &agent.tools().await?)?;
        if server == Server::Everything {
            calls += lossless::compare_calls(&mut direct, &agent, server.id()).await?;
        }
    }
    Ok(calls)
}

/// Compares the lists of an agent with two copies of one server: clashing names are qualified, nothing else differs.
async fn compare_clash(served: &Served, place: &Place) -> anyhow::Result<usize> {
    let servers = [Server::Everything, Server::EverythingHttp];
    let key = key(served, "both", &servers).await?;
    let tools = Direct::start(&place.command(Server::Everything)).await?.tools().await?;
    for era in ERAS {
        let agent = Agent::connect(&served.url, &key, era).await?;
        let mut listed = agent.tools().await?;
        for server in servers {
            let own = lossless::take_named(&mut listed, &format!("{}__", server.id()));
            lossless::compare_tools(&tools, &own)?;
        }
        // Only the HTTP server offers this tool, so its name does not clash.
        let others = trial::names(&listed);
        ensure!(others == ["get-roots-list"], "the other tools are {others:?}");
        let told = agent.call("everything__get-sum", json!({"a": 1, "b": 1})).await?;
        let text = &told.result["content"][0]["text"];
        ensure!(*text == "The sum of 1 and 1 is 2.", "the sum is {text}");
    }
    Ok(ERAS.len())
}

/// Stops the server. Afterwards, only the processes that we started ourselves may remain.
async fn stop(served: &mut Served, place: &Place, signal: Signal) -> anyhow::Result<usize> {
    let before = left::count()?;
    ensure!(place.listening() + 1 < before, "there is nothing that could be left");
    served.server.end(signal).await?;
    left::wait_for(place.listening()).await?;
    Ok(0)
}

/// Restarts the server, calls the tools that it knew before, and kills it: no process may remain.
async fn kill(
    served: &mut Served,
    place: &Place,
    wanted: &[Server],
    keys: &[String],
) -> anyhow::Result<usize> {
    served.again(&OPTIONS).await?;
    let mut calls = 0;
    for (server, key) in wanted.iter().zip(keys).filter(|(server, _)| **server != Server::Sqlite) {
        calls += try_one(*server, served, key, agent::Era::Legacy, place).await?;
    }
    stop(served, place, Signal::KILL).await?;
    Ok(calls)
}

/// Prints one result per line, and counts the failures.
struct Table {
    rows: usize,
    wrong: usize,
}

impl Table {
    fn begin() -> Self {
        println!("{:<15}  {:<10}  calls  seconds", "server", "agent");
        Self { rows: 0, wrong: 0 }
    }

    fn row(&mut self, server: &str, what: &str, start: Instant, calls: anyhow::Result<usize>) {
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
