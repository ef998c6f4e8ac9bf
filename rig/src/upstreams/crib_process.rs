//! `crib`: a crib with MCP servers and APIs as sources, and two agents that have all its tools, as a separate process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::{Catalog, Command};
use config::ConnectionLimits;
use model::SourceId;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib::{
    ChangeContext, JournalLocation, ProgramHost, SystemClock, Toolcrib, ToolcribOptions,
    new_api_key,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::bench::endpoints::bench_server::{ReadyMessage, exit_with_stdin};
use crate::bench::endpoints::server_process::ServerProcess;

/// The names of the agents.
pub(crate) const AGENTS: [&str; 2] = ["north", "south"];

#[derive(clap::Args)]
pub(crate) struct CribArgs {
    /// Sources, each as `ID=PROFILE`.
    sources: Vec<String>,
}

/// An MCP server of the rig that the crib starts.
pub(crate) fn stdio_source(id: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let ourselves = std::env::current_exe()?;
    let arguments: Vec<&str> = ["mcp", "--name", id].iter().chain(arguments).copied().collect();
    let command =
        json!({"program": ourselves.to_str().context("no text")?, "arguments": arguments});
    let profile = json!({"name": id, "settings": {"kind": "mcp", "command": command}});
    Ok(format!("{id}={profile}"))
}

/// An MCP server of the rig that is already running.
pub(crate) fn http_source(id: &str, address: SocketAddr) -> String {
    let (url, allow) = (format!("http://{address}/mcp"), [address.to_string()]);
    let profile = json!({"name": id, "url": url, "allow": allow, "settings": {"kind": "mcp"}});
    format!("{id}={profile}")
}

/// An API of the rig that is already running.
pub(crate) fn api_source(id: &str, address: SocketAddr) -> String {
    let (url, allow) = (format!("http://{address}"), [address.to_string()]);
    let specification = json!({"url": format!("{url}/openapi.json")});
    let settings = json!({"kind": "openapi", "specification": specification});
    let profile = json!({"name": id, "url": url, "allow": allow, "settings": settings});
    format!("{id}={profile}")
}

/// Starts a crib in a separate process.
pub(crate) fn start_process(sources: &[String]) -> anyhow::Result<ServerProcess> {
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    ServerProcess::start_command("crib", &sources)
}

pub(crate) async fn run(orders: CribArgs) -> anyhow::Result<()> {
    exit_with_stdin();
    let (crib, keys) = build_source_crib(&orders.sources).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let keeps = crib.clone();
    // As a production server does.
    tokio::spawn(async move { tokio::join!(keeps.keep_fresh(), keeps.keep_searchable()) });
    let (doors, _) = http_api::build_endpoints(crib, endpoint::ServerOptions::default());
    println!("{}", serde_json::to_string(&ReadyMessage { address, keys })?);
    server::serve_connections(listener, doors, ConnectionLimits::default(), std::future::pending())
        .await;
    Ok(())
}

/// Builds the crib. Returns it and the keys of the agents.
pub(crate) async fn build_source_crib(
    sources: &[String],
) -> anyhow::Result<(Toolcrib, BTreeMap<String, String>)> {
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let bound_by = Some("/proc/self/exe".into());
    let programs = ProgramHost { allows_any: true, bound_by, ..ProgramHost::default() };
    let options = ToolcribOptions { programs, ..ToolcribOptions::default() };
    let crib =
        Toolcrib::new(catalog, HttpClient::new(EgressPolicy::default()), SystemClock, options);
    let mut groups = Vec::new();
    for source in sources {
        let (id, profile) = source.split_once('=').context("a source is `ID=PROFILE`")?;
        add_source(&crib, &id.parse()?, serde_json::from_str(profile)?).await?;
        groups.push(id);
    }
    let mut keys = BTreeMap::new();
    for agent in AGENTS {
        let matchers = json!([{"claim": "agent", "operator": "equals", "value": agent}]);
        let rules = json!({"name": agent, "matchers": matchers, "groups": groups});
        let define = PolicyCommand::Define(serde_json::from_value(rules)?);
        execute_command(&crib, Command::Policy(agent.parse()?, define)).await?;
        add_key(&crib, &mut keys, agent, json!({"claims": {"agent": agent}})).await?;
    }
    add_key(&crib, &mut keys, "admin", json!({"admin": true})).await?;
    Ok((crib, keys))
}

/// Registers a source and a group of all its tools.
async fn add_source(crib: &Toolcrib, id: &SourceId, profile: Value) -> anyhow::Result<()> {
    let register = SourceCommand::Register(serde_json::from_value(profile)?);
    execute_command(crib, Command::Source(id.clone(), register)).await?;
    let found = crib.refresher().refresh(id, false, &ChangeContext::by_actor("rig")).await?;
    anyhow::ensure!(found.created == 3, "`{id}` was not discovered: {found:?}");
    let group = json!({"id": id, "profile": {"name": id}, "selectors": [{"source": id}]});
    let create = GroupCommand::Create(Box::new(serde_json::from_value(group)?));
    execute_command(crib, Command::Group(id.as_str().parse()?, create)).await
}

async fn add_key(
    crib: &Toolcrib,
    keys: &mut BTreeMap<String, String>,
    name: &str,
    mut profile: Value,
) -> anyhow::Result<()> {
    profile["name"] = json!(name);
    let (key, create) = new_api_key(&name.parse()?, serde_json::from_value(profile)?);
    execute_command(crib, Command::Key(name.parse()?, create)).await?;
    keys.insert(name.to_owned(), key.expose_secret().to_owned());
    Ok(())
}

async fn execute_command(crib: &Toolcrib, command: Command) -> anyhow::Result<()> {
    crib.catalog().execute(command, ChangeContext::by_actor("rig"), None).await?;
    Ok(())
}
