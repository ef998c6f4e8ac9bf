//! A program dies with the server that started it, even if that is killed, and so does what the program started.
//!
//! This test is a program with a `main` of its own, as it must be what a server is: one that can become another.
#![expect(clippy::disallowed_methods, reason = "a test starts what it needs")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use toolcrib_upstream::mcp::{Connection, Settings, Target};
use toolcrib_upstream::stdio::{self, Program};

const NAME: &str = "a_program_and_its_child_die_with_a_server_that_is_killed";
const SERVER: &str = "--be-a-server";
const SCRIPT: &str = "import json, os, subprocess, sys
inner = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'
child = subprocess.Popen([sys.executable, '-c', inner])
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get('method') == 'server/discover':
        result = {'supportedVersions': ['2026-07-28'], 'capabilities': {}, 'pids': [os.getpid(), child.pid]}
        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)
import time
time.sleep(600)
";

fn main() -> ExitCode {
    if let Some(code) = stdio::run_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has(SERVER) {
        be_a_server();
    } else if has("--list") {
        if !has("--ignored") {
            say(&format!("{NAME}: test"));
        }
    } else {
        a_program_and_its_child_die_with_a_server_that_is_killed();
        say("ok");
    }
    ExitCode::SUCCESS
}

fn a_program_and_its_child_die_with_a_server_that_is_killed() {
    let mut server = run(Command::new(std::env::current_exe().expect("it runs")).arg(SERVER));
    let mut line = String::new();
    let output = server.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("the server says something");
    let pids = line.trim().trim_matches(['[', ']']).split(',');
    let family: Vec<_> = pids.map(|pid| PathBuf::from(format!("/proc/{pid}"))).collect();
    assert!(family.len() == 2 && family.iter().all(|process| is_alive(process)), "{family:?}");
    server.kill().expect("it runs");
    server.wait().expect("it was killed");
    let start = Instant::now();
    while family.iter().any(|process| is_alive(process)) {
        assert!(start.elapsed() < Duration::from_secs(5), "one of them is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(process: &std::path::Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn be_a_server() {
    let runtime = tokio::runtime::Runtime::new().expect("there are threads to be had");
    runtime.block_on(async {
        let mut program = Program::new(python());
        program.arguments = vec!["-c".into(), SCRIPT.into()];
        program.bound_by = std::env::current_exe().ok();
        let target = Target::Program(program);
        let opened = Connection::open(&target, &Settings::default()).await;
        let connection = opened.unwrap_or_else(|error| fail(&error.to_string()));
        let pids = connection.about().server.get("pids").map(ToString::to_string);
        say(&pids.unwrap_or_default());
        std::future::pending::<()>().await;
    });
}

fn python() -> PathBuf {
    let asks = "import sys; print(sys.executable)";
    let found = run(Command::new("python3").args(["-c", asks])).wait_with_output();
    let found = String::from_utf8(found.expect("python3 runs").stdout);
    found.expect("a path is a text").trim().into()
}

fn run(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it can be started")
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}

#[expect(clippy::panic, reason = "in a test a panic is an answer")]
fn fail(why: &str) -> ! {
    panic!("{why}")
}
