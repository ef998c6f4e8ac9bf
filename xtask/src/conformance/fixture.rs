//! `rig fixture`: our server with the tools, prompts and resources that the conformance suite requires.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::conformance::suite;
use crate::xtask_error::XtaskError;
use crate::{program, setup, workspace};

/// Startup timeout. The program is already built, so it only has to open a port.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);

const URL_PREFIX: &str = "listening on ";

pub(super) struct FixtureServer {
    process: Child,
    url: String,
}

impl FixtureServer {
    pub(super) fn start(rig: &OsStr, verbose: bool) -> Result<Self, XtaskError> {
        setup::ensure_system_programs()?;
        // The server dies with us, even if we are killed with SIGKILL.
        let mut command = program::new_command("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(rig).args(["fixture", "--port", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if !verbose {
            fs::create_dir_all(suite::results_folder())?;
            let log = suite::results_folder().join("fixture.log");
            eprintln!("fixture: {}", workspace::relative_path(&log));
            command.stderr(File::create(log)?);
        }
        let mut server = Self { process: command.spawn()?, url: String::new() };
        let stdout = server.process.stdout.take();
        server.url = first_line(stdout).as_deref().and_then(parse_url).ok_or_else(|| {
            XtaskError::new(
                "`rig fixture` did not begin with `listening on http://127.0.0.1:PORT/mcp`",
            )
        })?;
        Ok(server)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for FixtureServer {
    fn drop(&mut self) {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = killed {
            eprintln!("warning: `rig fixture` was not ended: {error}");
        }
    }
}

/// The first line of the server's output. The rest is read and discarded, so that the server never blocks on the pipe.
fn first_line(stdout: Option<ChildStdout>) -> Option<String> {
    let mut stdout = BufReader::new(stdout?);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        if stdout.read_line(&mut line).is_ok() && sender.send(line).is_ok() {
            io::copy(&mut stdout, &mut io::sink()).ok();
        }
    });
    receiver.recv_timeout(STARTUP_TIMEOUT).ok()
}

fn parse_url(line: &str) -> Option<String> {
    let url = line.trim_end().strip_prefix(URL_PREFIX)?;
    url.starts_with("http://").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_contains_the_url_of_the_server() {
        let url = "http://127.0.0.1:4711/mcp";
        assert_eq!(parse_url(&format!("listening on {url}\n")).as_deref(), Some(url));
        assert_eq!(parse_url(""), None);
        assert_eq!(parse_url("error: the port is taken"), None);
    }
}
