//! The program `toolcrib`.
//!
//! Results go to stdout; notes, progress, warnings and errors to stderr. Exit codes: 0 success, 1 failure, 2 wrong
//! usage (and `plan`: something would change), 3 problems found, 4 not found, 5 not allowed, 6 conflict, 130
//! interrupted.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tokio::task::JoinError;

use crate::arguments::{Cli, VerbOutcome};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::{dispatch, output};

/// How long interrupted work may take to remove its unfinished files.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the program with the arguments of the process.
pub fn run_program() -> ExitCode {
    // This executable also supervises MCP programs, so that they end together with us.
    if let Some(code) = upstream::stdio::run_as_bound_child() {
        return code;
    }
    match run_cli(Cli::parse()) {
        Ok(code) => code,
        // The reader closed the pipe because it has read enough: `toolcrib journal tail | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::print_notes(&format!("error: {}", failure.full_message()));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run_cli(cli: Cli) -> Result<ExitCode, CliError> {
    let config = ProgramConfig::resolve(&cli)?;
    config.start_logging();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::Start)?;
    let ends_by_itself = cli.handles_interrupts();
    let work = dispatch::run_verb(cli, config);
    let code = match ends_by_itself {
        true => runtime.block_on(async { exit_code(tokio::spawn(work).await) }),
        false => runtime.block_on(run_until_interrupted(work)),
    };
    runtime.shutdown_background();
    code
}

/// Drops the work on Ctrl-C, which removes its unfinished files.
async fn run_until_interrupted(
    work: impl Future<Output = Result<VerbOutcome, CliError>> + Send + 'static,
) -> Result<ExitCode, CliError> {
    let mut work = tokio::spawn(work);
    tokio::select! {
        work = &mut work => exit_code(work),
        Ok(()) = tokio::signal::ctrl_c() => {
            work.abort();
            drop(tokio::time::timeout(CLEANUP_TIMEOUT, work).await);
            Ok(ExitCode::from(130))
        }
    }
}

fn exit_code(work: Result<Result<VerbOutcome, CliError>, JoinError>) -> Result<ExitCode, CliError> {
    match work {
        Ok(Ok(VerbOutcome::Success)) => Ok(ExitCode::SUCCESS),
        Ok(Ok(VerbOutcome::WouldChange)) => Ok(ExitCode::from(2)),
        Ok(Ok(VerbOutcome::ProblemsFound)) => Ok(ExitCode::from(3)),
        Ok(Err(failure)) => Err(failure),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
