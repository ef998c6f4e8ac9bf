//! `rig clients`: MCP clients by others, each run against a real server.
//!
//! Every client has a program in `rig/clients` that does what agents do and prints its observations as one line of
//! JSON. The expected values are in `clients/verdict.rs`: no program judges itself.

mod client_run;
pub(crate) mod order_api;
mod pizzeria;
mod verdict;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;
use tokio::process::Command;

use self::client_run::{CLIENT_RUNS, ClientEnvironment, ClientRun};
use self::pizzeria::PizzeriaServer;
use self::verdict::ClientVerdict;
use crate::child_program::ChildProgram;

#[derive(clap::Args)]
pub(crate) struct ClientsArgs {
    /// Node.js
    #[arg(long)]
    node: PathBuf,
    /// A folder with the packages from npm, in `node_modules`
    #[arg(long)]
    packages: PathBuf,
    /// Python with the packages from `PyPI`
    #[arg(long)]
    python: PathBuf,
    /// Only the clients whose name contains this
    #[arg(long)]
    only: Option<String>,
}

pub(crate) async fn run(orders: ClientsArgs) -> anyhow::Result<()> {
    if !all_are_good(orders).await? {
        std::process::exit(1);
    }
    Ok(())
}

async fn all_are_good(orders: ClientsArgs) -> anyhow::Result<bool> {
    let only = orders.only.as_deref().unwrap_or_default();
    let wanted: Vec<_> = CLIENT_RUNS.iter().filter(|one| one.name().contains(only)).collect();
    ensure!(!wanted.is_empty(), "there is no client `{only}`");
    let pizzeria = PizzeriaServer::open().await?;
    let (fixture, fixture_url) = start_fixture().await?;
    let home = tempfile::tempdir()?;
    let surroundings = ClientEnvironment {
        node: orders.node,
        packages: orders.packages,
        python: orders.python,
        home: home.path().to_owned(),
        url: pizzeria.served.url.clone(),
        program: pizzeria.served.program.clone(),
        journal: pizzeria.served.journal.clone(),
        key: pizzeria.key.clone(),
        fixture_url,
    };
    println!("{}", ClientVerdict::heading());
    let mut wrong = 0;
    for attempt in &wanted {
        let verdict = judge_run(attempt, &surroundings, &pizzeria).await;
        println!("{verdict}");
        wrong += usize::from(!verdict.passed());
    }
    drop(fixture);
    println!("{} of {} as they must be", wanted.len() - wrong, wanted.len());
    Ok(wrong == 0)
}

async fn judge_run(
    attempt: &ClientRun,
    surroundings: &ClientEnvironment,
    pizzeria: &PizzeriaServer,
) -> ClientVerdict {
    let started = Instant::now();
    let seen = attempt.run(surroundings).await;
    // Take the requests now, so that they do not count for the next client.
    let sent = pizzeria.upstream.take_requests();
    ClientVerdict::judge(attempt, seen, &sent, started.elapsed())
}

async fn start_fixture() -> anyhow::Result<(ChildProgram, String)> {
    let mut rig = Command::new(std::env::current_exe()?);
    rig.args(["fixture", "--port", "0"]);
    ChildProgram::start(&rig, |said| Some(said.trim().strip_prefix("listening on ")?.to_owned()))
        .await
}
