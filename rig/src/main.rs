//! The test rig: agreement, benchmarks, foreign clients and servers, the corpus, crash runs, the durability trace and a
//! fixture server. Started by `cargo xtask`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program of our own")]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts and kills processes and reads its orders from the environment"
)]

mod agreement;
mod bench;
mod clients;
mod collisions;
mod conformance_client;
mod corpus;
mod crash;
mod durability;
mod fixture;
mod postgres;
mod random;
mod served;
mod servers;
mod started;
mod upstreams;
mod worker;
mod world;
mod wycheproof;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use toolcrib::upstream::stdio;

// The same allocator as the product, so that the benchmarks measure the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The test rig of toolcrib.
#[derive(Parser)]
struct Orders {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Makes up worlds and compares what agents are told with an independent oracle.
    Agreement(agreement::Orders),
    /// Measures, side by side with the bare driver, and writes docs/benchmarks.md.
    Bench(bench::Orders),
    /// Tries foreign clients of MCP on a server, and compares what they see with what they must.
    Clients(clients::Orders),
    /// Speaks MCP to a server as the conformance suite expects of a client.
    ConformanceClient(conformance_client::Orders),
    /// Kills a writing process again and again and counts what is lost.
    Crash(crash::Orders),
    /// Traces a writing process and checks that every acknowledgement came after its flush.
    Durability(durability::Orders),
    /// Tells pairs apart whose hashes begin alike.
    Collisions(collisions::Orders),
    /// Discovers every specification of a folder and compares with what is known of them.
    Corpus(corpus::Orders),
    /// Serves tools, prompts and resources of its own, for suites that try a server of MCP.
    Fixture(fixture::Orders),
    /// Has one of ten sources do harm, and looks what the others notice of it.
    Hostile(upstreams::hostile::Orders),
    /// Tries servers of MCP and authorization servers with a server of ours, and compares what an agent gets with what it must.
    Servers(servers::Orders),
    /// Judges Wycheproof's vectors of JSON Web Signatures.
    Wycheproof(wycheproof::Orders),
    /// Writes until it is killed; started by the others.
    #[command(hide = true)]
    Worker(worker::Orders),
    /// Discovers a specification and says what memory that took; started by `bench`.
    #[command(hide = true)]
    Discovered(bench::openapi::DiscoveredOrders),
    /// Opens a catalog and says what that took; started by `bench`.
    #[command(hide = true)]
    Opened(bench::opened::Orders),
    /// Serves until its standard input ends; started by `bench`.
    #[command(hide = true)]
    Server(bench::doors::server::Orders),
    /// A crib over MCP servers and APIs, until its standard input ends; started by `bench`, `crash` and `hostile`.
    #[command(hide = true)]
    Crib(upstreams::crib::Orders),
    /// An MCP server, until its standard input ends; started by the same.
    #[command(hide = true)]
    Mcp(upstreams::server::Orders),
    /// An HTTP API, likewise.
    #[command(hide = true)]
    Api(upstreams::api::Orders),
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = stdio::run_if_asked() {
        return Ok(code);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match Orders::parse().order {
            Order::Agreement(orders) => agreement::run(&orders).await,
            Order::Bench(orders) => bench::run(orders).await,
            Order::Clients(orders) => clients::run(orders).await,
            Order::ConformanceClient(orders) => conformance_client::run(&orders).await,
            Order::Crash(orders) => crash::run(orders).await,
            Order::Durability(orders) => durability::run(orders).await,
            Order::Collisions(orders) => collisions::run(orders).await,
            Order::Corpus(orders) => corpus::run(&orders),
            Order::Fixture(orders) => fixture::run(&orders).await,
            Order::Hostile(orders) => upstreams::hostile::run(&orders).await,
            Order::Servers(orders) => servers::run(orders).await,
            Order::Wycheproof(orders) => wycheproof::run(&orders),
            Order::Worker(orders) => worker::run(orders).await,
            Order::Discovered(orders) => bench::openapi::print_peak(&orders),
            Order::Opened(orders) => bench::opened::run(orders).await,
            Order::Server(orders) => bench::doors::server::run(orders).await,
            Order::Crib(orders) => upstreams::crib::run(orders).await,
            Order::Mcp(orders) => upstreams::server::run(&orders),
            Order::Api(orders) => upstreams::api::run(&orders),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
