//! Runs a program once: it gets its input, and its output is complete when it exits.
//!
//! Dropping the future ends the program together with all processes it started.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::{
    ProgramLimits, ProgramSpec, StderrTail, find_program, process_group, process_starter,
    stderr_ring, stdin_queue,
};

const READ_BYTES: usize = 16 * 1024;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    pub stdout: Vec<u8>,
    /// The last lines of standard error, without control characters that could affect a terminal.
    pub stderr: String,
    /// The status in the system's words: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub status: String,
    /// Whether the status means success.
    pub is_success: bool,
}

/// Why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum ProgramRunError {
    /// The program could not be started, or its output not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The program wrote more than the limit to its output.
    #[error("the program said more than {limit} bytes")]
    OutputTooLarge { limit: usize },
}

/// Runs a program to its end. Keeps at most `max_stdout` bytes of its output and the last lines of its standard error.
pub async fn run_program(
    program: &ProgramSpec,
    input: Vec<u8>,
    max_stdout: usize,
    stderr_lines: usize,
    limits: ProgramLimits,
) -> Result<ProgramOutput, ProgramRunError> {
    let file = find_program::find_program(program)?;
    let mut child = process_starter::start_program(program, &file).await?;
    let given = stdin_queue::StdinQueue::new(child.stdin.take(), limits.max_queue)?;
    let mut stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let stderr = StderrTail::new(limits.max_stderr).0;
    stderr_ring::drain_stderr(child.stderr.take(), stderr.clone());
    let (_keeper, mut ended) = process_group::supervise_child(child, given.clone(), limits.grace)?;
    // A program may succeed without reading its input.
    given.send_line(input).unwrap_or_default();
    given.close_when_drained();
    let mut said = Vec::new();
    let how = tokio::select! {
        heard = read_output(&mut stdout, &mut said, max_stdout) => {
            heard?;
            None
        }
        ended = ended.wait_for(Option::is_some) => ended.ok().and_then(|ended| ended.clone()),
    };
    let how = match how {
        Some(how) => {
            // A descendant may still hold the pipe open until the group is ended, or longer if it has left the group.
            let rest = read_output(&mut stdout, &mut said, max_stdout);
            timeout(limits.grace + DRAIN_TIMEOUT, rest).await.unwrap_or(Ok(()))?;
            Some(how)
        }
        None => ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()),
    };
    let how = how.ok_or_else(|| io::Error::other("nobody has seen how it ended"))?;
    timeout(DRAIN_TIMEOUT, stderr.wait_until_complete()).await.unwrap_or_default();
    let stderr = stderr.last_lines(stderr_lines);
    Ok(ProgramOutput { stdout: said, stderr, status: how.status, is_success: how.is_success })
}

/// Output written before the exit is available at once.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Reads to the end, unless the output exceeds the limit. It is cancel-safe.
async fn read_output(
    stdout: &mut (impl AsyncRead + Unpin),
    said: &mut Vec<u8>,
    limit: usize,
) -> Result<(), ProgramRunError> {
    loop {
        said.reserve(READ_BYTES);
        if stdout.read_buf(said).await? == 0 {
            return Ok(());
        }
        if limit < said.len() {
            return Err(ProgramRunError::OutputTooLarge { limit });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> ProgramSpec {
        let arguments = ["-c", script].map(Into::into).to_vec();
        ProgramSpec { arguments, ..ProgramSpec::new("/bin/sh") }
    }

    async fn ran(script: &str, input: &str) -> Result<ProgramOutput, ProgramRunError> {
        let limits =
            ProgramLimits { grace: Duration::from_millis(200), ..ProgramLimits::default() };
        run_program(&shell(script), input.into(), 1000, 5, limits).await
    }

    #[tokio::test]
    async fn a_program_gets_its_input_and_the_end_of_it() {
        let ran = ran("cat; echo aside >&2; exit 3", "hello").await.unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.stderr.as_str()), (&b"hello"[..], "aside"));
        assert_eq!((ran.status.as_str(), ran.is_success), ("exit status: 3", false));
    }

    #[tokio::test]
    async fn a_program_may_exit_without_reading_its_input() {
        let ran = ran("echo done", &"x".repeat(1 << 20)).await.unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.is_success), (&b"done\n"[..], true));
    }

    #[tokio::test]
    async fn a_program_with_endless_output_is_ended() {
        let ran = ran("yes", "").await;
        assert!(matches!(ran, Err(ProgramRunError::OutputTooLarge { limit: 1000 })), "{ran:?}");
    }

    #[tokio::test]
    async fn leftover_processes_do_not_delay_the_output_and_are_ended() {
        let start = Instant::now();
        let ran = ran("sleep 600 & echo $!", "").await.unwrap();
        assert!(ran.is_success && start.elapsed() < Duration::from_secs(30));
        let left: i32 = String::from_utf8(ran.stdout).unwrap().trim().parse().unwrap();
        let left = rustix::process::Pid::from_raw(left).unwrap();
        while rustix::process::test_kill_process(left).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(30), "it is still there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_missing_program_is_reported() {
        let error =
            run_program(&ProgramSpec::new("/no/such"), Vec::new(), 1, 1, ProgramLimits::default())
                .await;
        assert_eq!(error.unwrap_err().to_string(), "there is no such program");
    }
}
