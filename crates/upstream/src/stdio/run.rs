//! A program that is run for one answer: it is given its input, and has said all it has to say when it ends.
//!
//! Whoever no longer waits drops the run, and the program ends with all that it started.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::{Program, ProgramLimits, Stderr, find, outbox, ring, starter, tree};

const READ: usize = 16 * 1024;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// All that it said.
    pub stdout: Vec<u8>,
    /// The last that it said on the side, without what could steer a terminal.
    pub stderr: String,
    /// As the system says it: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub how: String,
    /// Whether that means that all went well.
    pub is_success: bool,
}

/// Why there is no answer of a program.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started, or not be heard.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It said more than is taken.
    #[error("the program said more than {limit} bytes")]
    TooMuch {
        /// What is taken.
        limit: usize,
    },
}

/// Runs a program to its end. Of what it says so many bytes are taken, of what it says on the side the last lines.
pub async fn run(
    program: &Program,
    input: Vec<u8>,
    max_stdout: usize,
    stderr_lines: usize,
    limits: ProgramLimits,
) -> Result<Ran, RunError> {
    let file = find::find(program)?;
    let mut child = starter::start(program, &file).await?;
    let given = outbox::Outbox::new(child.stdin.take(), limits.max_queue)?;
    let mut stdout = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let stderr = Stderr::new(limits.max_stderr).0;
    ring::drain(child.stderr.take(), stderr.clone());
    let (_keeper, mut ended) = tree::keep(child, given.clone(), limits.grace)?;
    // It may do what it does without reading anything.
    given.send(input).unwrap_or_default();
    given.finish();
    let mut said = Vec::new();
    let how = tokio::select! {
        heard = hear(&mut stdout, &mut said, max_stdout) => {
            heard?;
            None
        }
        ended = ended.wait_for(Option::is_some) => ended.ok().and_then(|ended| ended.clone()),
    };
    let how = match how {
        Some(how) => {
            // Something that it started may still hold the other end, until it ends with the group; or has left that.
            let rest = hear(&mut stdout, &mut said, max_stdout);
            timeout(limits.grace + REST, rest).await.unwrap_or(Ok(()))?;
            Some(how)
        }
        None => ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()),
    };
    let how = how.ok_or_else(|| io::Error::other("nobody has seen how it ended"))?;
    timeout(REST, stderr.whole()).await.unwrap_or_default();
    let stderr = stderr.tail(stderr_lines);
    Ok(Ran { stdout: said, stderr, how: how.how, is_success: how.is_success })
}

/// What was said before the end is there at once.
const REST: Duration = Duration::from_millis(250);

/// Reads to the end, unless it is too much. It can be dropped and called again.
async fn hear(
    stdout: &mut (impl AsyncRead + Unpin),
    said: &mut Vec<u8>,
    limit: usize,
) -> Result<(), RunError> {
    loop {
        said.reserve(READ);
        if stdout.read_buf(said).await? == 0 {
            return Ok(());
        }
        if limit < said.len() {
            return Err(RunError::TooMuch { limit });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Program {
        let arguments = ["-c", script].map(Into::into).to_vec();
        Program { arguments, ..Program::new("/bin/sh") }
    }

    async fn ran(script: &str, input: &str) -> Result<Ran, RunError> {
        let limits =
            ProgramLimits { grace: Duration::from_millis(200), ..ProgramLimits::default() };
        run(&shell(script), input.into(), 1000, 5, limits).await
    }

    #[tokio::test]
    async fn a_program_is_given_its_input_and_its_end() {
        let ran = ran("cat; echo aside >&2; exit 3", "hello").await.unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.stderr.as_str()), (&b"hello"[..], "aside"));
        assert_eq!((ran.how.as_str(), ran.is_success), ("exit status: 3", false));
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_is_not_waited_for() {
        let ran = ran("echo done", &"x".repeat(1 << 20)).await.unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.is_success), (&b"done\n"[..], true));
    }

    #[tokio::test]
    async fn a_program_without_an_end_is_cut_off() {
        let ran = ran("yes", "").await;
        assert!(matches!(ran, Err(RunError::TooMuch { limit: 1000 })), "{ran:?}");
    }

    #[tokio::test]
    async fn what_a_program_leaves_behind_does_not_hold_up_its_answer() {
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
    async fn a_program_that_is_not_there_is_said_to_be() {
        let error =
            run(&Program::new("/no/such"), Vec::new(), 1, 1, ProgramLimits::default()).await;
        assert_eq!(error.unwrap_err().to_string(), "there is no such program");
    }
}
