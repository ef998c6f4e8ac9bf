//! A shell for typing commands one after the other, in network and process namespaces of its own.
//!
//! The network has only `lo`: every port is free, and nothing outside can be reached. When the shell ends, the kernel
//! kills all processes that it started.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]
#![expect(clippy::disallowed_methods, reason = "readers type commands into a shell")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A command that takes longer counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Options of `unshare`; first those for root, because root may not be allowed to create a user namespace.
const NAMESPACES: [&str; 2] = ["-npf", "-Urnpf"];

const START: &str = "ip link set lo up && exec bash";

pub(crate) struct Shell {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
}

impl Shell {
    /// Starts in a folder, with these programs first in `PATH` and an otherwise empty environment.
    pub(crate) fn start(folder: &Path, programs: &Path, home: &Path) -> Self {
        let works = |namespaces: &&&str| {
            let tried = Command::new("unshare").args([namespaces, "true"]).output();
            tried.unwrap().status.success()
        };
        let namespaces = NAMESPACES.iter().find(works);
        let namespaces = namespaces.expect("`unshare` must be allowed, for a network of our own");
        let mut shell = Command::new("unshare");
        shell.args([namespaces, "--kill-child", "sh", "-c", START]).current_dir(folder);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", programs.display());
        shell.env_clear().env("PATH", path).env("HOME", home).env("LANG", "C.UTF-8");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let (sender, answers) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut shell = Self { child, stdin, answers };
        // `-m` gives each background command a process group, to stop it as a whole; stderr would show job messages.
        assert_eq!(
            shell.send_line("set -m -o pipefail; exec 2> /dev/null; echo $?").as_deref(),
            Some("0")
        );
        shell
    }

    /// Runs a command; returns its exit code, or `None` if it hangs.
    pub(crate) fn run(&mut self, command: &str, output: &str) -> Option<i32> {
        self.send_line(&format!("{{ {command}\n}} < /dev/null > {output} 2>&1; echo $?"))?
            .parse()
            .ok()
    }

    /// Starts a command that does not end by itself; returns the id of its process group.
    pub(crate) fn start_in_background(&mut self, command: &str, output: &str) -> Option<String> {
        // The signal goes to the whole group. The shell around the command ignores it and reports the exit code.
        self.send_line(&format!(
            "{{ trap : TERM; {command}\n}} < /dev/null > {output} 2>&1 & echo $!"
        ))
    }

    /// Ends a process group with SIGTERM; returns the exit code, or `None` if it hangs.
    pub(crate) fn stop(&mut self, group: &str) -> Option<i32> {
        self.send_line(&format!("kill -TERM -- -{group}; wait {group}; echo $?"))?.parse().ok()
    }

    fn send_line(&mut self, line: &str) -> Option<String> {
        writeln!(self.stdin, "{line}").unwrap();
        self.answers.recv_timeout(PATIENCE).ok()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
