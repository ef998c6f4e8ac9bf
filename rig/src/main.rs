//! The test rig: agreement, benchmarks, foreign clients and servers, the corpus, crash runs, the durability trace and a
//! fixture server. Started by `cargo xtask`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program of our own")]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts and kills processes and reads its orders from the environment"
)]

mod agreement;
mod bench;
mod child_program;
mod clients;
mod collisions;
mod conformance_client;
mod corpus;
mod crash;
mod durability;
mod fixture;
mod postgres;
mod sample_inventory;
mod seeded_random;
mod servers;
mod toolcrib_server;
mod upstreams;
mod worker;
mod wycheproof;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use upstream::stdio;

// The same allocator as the product, so that the benchmarks measure the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The test rig of toolcrib.
#[derive(Parser)]
struct RigArgs {
    #[command(subcommand)]
    order: RigCommand,
}

#[derive(Subcommand)]
enum RigCommand {
    /// Makes up worlds and compares what agents are told with an independent oracle.
    Agreement(agreement::AgreementArgs),
    /// Measures, side by side with the bare driver, and writes docs/benchmarks.md.
    Bench(bench::BenchArgs),
    /// Tries foreign clients of MCP on a server, and compares what they see with what they must.
    Clients(clients::ClientsArgs),
    /// Speaks MCP to a server as the conformance suite expects of a client.
    ConformanceClient(conformance_client::ConformanceClientArgs),
    /// Kills a writing process again and again and counts what is lost.
    Crash(crash::CrashArgs),
    /// Traces a writing process and checks that every acknowledgement came after its flush.
    Durability(durability::DurabilityArgs),
    /// Tells pairs apart whose hashes begin alike.
    Collisions(collisions::CollisionsArgs),
    /// Discovers every specification of a folder and compares with what is known of them.
    Corpus(corpus::CorpusArgs),
    /// Serves tools, prompts and resources of its own, for suites that try a server of MCP.
    Fixture(fixture::FixtureArgs),
    /// Has one of ten sources do harm, and looks what the others notice of it.
    Hostile(upstreams::hostile::HostileArgs),
    /// Tries servers of MCP and authorization servers with a server of ours, and compares what an agent gets with what it must.
    Servers(servers::ServersArgs),
    /// Judges Wycheproof's vectors of JSON Web Signatures.
    Wycheproof(wycheproof::WycheproofArgs),
    /// Writes until it is killed; started by the others.
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
    /// Discovers a specification and says what memory that took; started by `bench`.
    #[command(hide = true)]
    Discovered(bench::openapi::DiscoveredArgs),
    /// Opens a catalog and says what that took; started by `bench`.
    #[command(hide = true)]
    Opened(bench::open_catalog::OpenedArgs),
    /// Serves until its standard input ends; started by `bench`.
    #[command(hide = true)]
    Server(bench::endpoints::bench_server::BenchServerArgs),
    /// A crib over MCP servers and APIs, until its standard input ends; started by `bench`, `crash` and `hostile`.
    #[command(hide = true)]
    Crib(upstreams::crib_process::CribArgs),
    /// An MCP server, until its standard input ends; started by the same.
    #[command(hide = true)]
    Mcp(upstreams::echo_server::EchoServerArgs),
    /// An HTTP API, likewise.
    #[command(hide = true)]
    Api(upstreams::echo_api::EchoApiArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = stdio::run_as_bound_child() {
        return Ok(code);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match RigArgs::parse().order {
            RigCommand::Agreement(orders) => agreement::run(&orders).await,
            RigCommand::Bench(orders) => bench::run(orders).await,
            RigCommand::Clients(orders) => clients::run(orders).await,
            RigCommand::ConformanceClient(orders) => conformance_client::run(&orders).await,
            RigCommand::Crash(orders) => crash::run(orders).await,
            RigCommand::Durability(orders) => durability::run(orders).await,
            RigCommand::Collisions(orders) => collisions::run(orders).await,
            RigCommand::Corpus(orders) => corpus::run(&orders),
            RigCommand::Fixture(orders) => fixture::run(&orders).await,
            RigCommand::Hostile(orders) => upstreams::hostile::run(&orders).await,
            RigCommand::Servers(orders) => servers::run(orders).await,
            RigCommand::Wycheproof(orders) => wycheproof::run(&orders),
            RigCommand::Worker(orders) => worker::run(orders).await,
            RigCommand::Discovered(orders) => bench::openapi::print_peak(&orders),
            RigCommand::Opened(orders) => bench::open_catalog::run(orders).await,
            RigCommand::Server(orders) => bench::endpoints::bench_server::run(orders).await,
            RigCommand::Crib(orders) => upstreams::crib_process::run(orders).await,
            RigCommand::Mcp(orders) => upstreams::echo_server::run(&orders),
            RigCommand::Api(orders) => upstreams::echo_api::run(&orders),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
