//! The program `toolcrib`.
//!
//! Results go to stdout; notes, progress, warnings and errors to stderr. Exit codes: 0 success, 1 failure, 2 wrong
//! usage (and `plan`: something would change), 3 problems found, 4 not found, 5 not allowed, 6 conflict, 130
//! interrupted.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tokio::task::JoinError;

use crate::cli::{Cli, Ended};
use crate::config::Config;
use crate::failure::Failure;
use crate::{cli, out};

/// How long interrupted work may take to remove its unfinished files.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Runs the program with the arguments of the process.
pub fn program() -> ExitCode {
    // This executable also supervises MCP programs, so that they end together with us.
    if let Some(code) = upstream::stdio::run_if_asked() {
        return code;
    }
    match start(Cli::parse()) {
        Ok(code) => code,
        // The reader closed the pipe because it has read enough: `toolcrib journal tail | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            out::notes(&format!("error: {}", failure.sentence()));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn start(cli: Cli) -> Result<ExitCode, Failure> {
    let config = Config::read(&cli)?;
    config.start_logging();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Start)?;
    let ends_by_itself = cli.ends_by_itself();
    let work = cli::run(cli, config);
    let code = match ends_by_itself {
        true => runtime.block_on(async { ended(tokio::spawn(work).await) }),
        false => runtime.block_on(until_interrupted(work)),
    };
    runtime.shutdown_background();
    code
}

/// Drops the work on Ctrl-C, which removes its unfinished files.
async fn until_interrupted(
    work: impl Future<Output = Result<Ended, Failure>> + Send + 'static,
) -> Result<ExitCode, Failure> {
    let mut work = tokio::spawn(work);
    tokio::select! {
        work = &mut work => ended(work),
        Ok(()) = tokio::signal::ctrl_c() => {
            work.abort();
            drop(tokio::time::timeout(LAST_MOMENT, work).await);
            Ok(ExitCode::from(130))
        }
    }
}

fn ended(work: Result<Result<Ended, Failure>, JoinError>) -> Result<ExitCode, Failure> {
    match work {
        Ok(Ok(Ended::Fine)) => Ok(ExitCode::SUCCESS),
        Ok(Ok(Ended::WouldChange)) => Ok(ExitCode::from(2)),
        Ok(Ok(Ended::ProblemsFound)) => Ok(ExitCode::from(3)),
        Ok(Err(failure)) => Err(failure),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
