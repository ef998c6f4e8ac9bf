//! The program `toolcrib`.
//!
//! Results go to stdout; notes, progress, warnings and errors to stderr. Exit codes: 0 fine, 1 failed, 2 wrong usage,
//! 3 problems found, 130 interrupted.

mod call;
mod cli;
mod config;
mod discover;
mod explain;
mod failure;
mod journal;
mod out;
mod progress;
mod secret;
mod table;
mod target;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::cli::{Cli, Ended};
use crate::config::Config;
use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long interrupted work may take to remove what it had not finished.
const LAST_MOMENT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(code) => code,
        // Whoever read our output has seen enough: `toolcrib journal tail | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            out::notes(&format!("error: {}", failure.sentence()));
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<ExitCode, Failure> {
    let config = Config::read(&cli)?;
    config.start_logging();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Start)?;
    let code = runtime.block_on(until_interrupted(cli::run(cli, config)));
    runtime.shutdown_background();
    code
}

/// On Ctrl-C the work is dropped, and with it every file it had not finished.
async fn until_interrupted(
    work: impl Future<Output = Result<Ended, Failure>> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let mut work = tokio::spawn(work);
    let ended = tokio::select! {
        ended = &mut work => ended,
        Ok(()) = tokio::signal::ctrl_c() => {
            work.abort();
            drop(tokio::time::timeout(LAST_MOMENT, work).await);
            return Ok(ExitCode::from(130));
        }
    };
    match ended {
        Ok(Ok(Ended::Fine)) => Ok(ExitCode::SUCCESS),
        Ok(Ok(Ended::ProblemsFound)) => Ok(ExitCode::from(3)),
        Ok(Err(failure)) => Err(failure),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
