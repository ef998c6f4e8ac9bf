//! A server as started in a terminal, and commands pasted from its startup message.
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command};

use crate::support::Folder;

/// Running server with its startup message; killed at the end of the test.
pub(super) struct Running {
    child: Child,
    pub(super) said: String,
}

impl Running {
    /// Starts the server on a free port with only `PATH` in its environment, and reads its output up to a line that
    /// begins with `last`.
    pub(super) fn start(folder: &Folder, arguments: &str, last: &str) -> Self {
        let (options, command) = match arguments.split_once(" -- ") {
            Some((options, command)) => (options, format!(" -- {command}")),
            None => (arguments, String::new()),
        };
        let arguments = format!("serve {options} --listen 127.0.0.1:0{command}");
        let mut child = folder.start(&arguments, &[("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, said: String::new() };
        for line in lines {
            let line = line.unwrap();
            running.said += &format!("{line}\n");
            if line.starts_with(last) {
                return running;
            }
        }
        let mut error = String::new();
        running.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("it did not start: {}{error}", running.said);
    }

    /// URL of the server.
    pub(super) fn url(&self) -> &str {
        self.said.lines().next().unwrap().strip_prefix("toolcrib serves on ").unwrap()
    }

    /// Indented lines below a title.
    pub(super) fn lines_below(&self, title: &str) -> Vec<&str> {
        let lines = self.said.lines().skip_while(|line| !line.starts_with(title)).skip(1);
        lines.take_while(|line| line.starts_with("  ")).map(str::trim).collect()
    }

    /// Startup message without values that differ between runs.
    pub(super) fn startup_message(&self) -> String {
        let said = self.said.replace(self.url(), "URL");
        let said = said.replace(env!("CARGO_BIN_EXE_toolcrib"), "toolcrib");
        let secret = |line: &str| match line.split_once("tcrib_first-admin_") {
            Some((before, _)) => format!("{before}tcrib_first-admin_…\n"),
            None => format!("{line}\n"),
        };
        said.lines().map(secret).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs lines in a shell with an empty environment.
#[expect(clippy::disallowed_methods, reason = "people paste commands into a shell")]
pub(super) fn run_in_shell(folder: &Folder, lines: &str) -> (Option<i32>, String) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", lines]).current_dir(folder.path("")).env_clear();
    let output = shell.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}
