//! A child program and its descendants die with the server, even if the server is killed. The program has fewer rights
//! than the server, and in a sandbox it can open only the configured paths.
//!
//! This test has its own `main`, because like the real server it must be able to start itself as the binder.
#![expect(clippy::disallowed_methods, reason = "a test starts what it needs")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolcrib_mcp_client::{ConnectionSettings, McpConnection, McpError, McpTarget};
use upstream::stdio;
use upstream::stdio::{ProgramSpec, SandboxPaths};

const TESTS: [(&str, fn()); 4] = [
    (
        "a_program_and_its_child_die_with_a_killed_server",
        a_program_and_its_child_die_with_a_killed_server,
    ),
    ("a_program_has_fewer_rights_than_the_server", a_program_has_fewer_rights_than_the_server),
    (
        "a_sandbox_allows_only_its_paths_and_the_system",
        a_sandbox_allows_only_its_paths_and_the_system,
    ),
    ("a_sandbox_without_a_binder_is_an_error", a_sandbox_without_a_binder_is_an_error),
];
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

/// A server that evaluates its last argument; `tried` gives the error code of a failed action.
const TRIES: &str = "import errno, json, os, resource, sys
def tried(action):
    try:
        action()
        return 'fine'
    except OSError as error:
        return errno.errorcode[error.errno]
found = eval(sys.argv[-1])
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get('method') == 'server/discover':
        result = {'supportedVersions': ['2026-07-28'], 'capabilities': {}, 'found': found}
        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)
";

fn main() -> ExitCode {
    if let Some(code) = stdio::run_as_bound_child() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has(SERVER) {
        run_server();
    } else if has("--list") {
        for (name, _) in TESTS.iter().filter(|_| !has("--ignored")) {
            print_line(&format!("{name}: test"));
        }
    } else {
        let names_one = TESTS.iter().any(|(name, _)| has(name));
        for (_, test) in TESTS.iter().filter(|(name, _)| !names_one || has(name)) {
            test();
        }
        print_line("ok");
    }
    ExitCode::SUCCESS
}

fn a_program_and_its_child_die_with_a_killed_server() {
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

fn a_program_has_fewer_rights_than_the_server() {
    let expression = "{
        'rights': [line.strip() for line in open('/proc/self/status') if line.startswith('NoNewPrivs')],
        'core': resource.getrlimit(resource.RLIMIT_CORE),
        'files': resource.getrlimit(resource.RLIMIT_NOFILE),
        'processes': 0 < resource.getrlimit(resource.RLIMIT_NPROC)[0],
        'environment': tried(lambda: open(f'/proc/{os.getppid()}/environ').read()),
        'memory': tried(lambda: open(f'/proc/{os.getppid()}/mem')),
        'signal': tried(lambda: os.kill(os.getppid(), 0)),
        'own child': tried(lambda: os.kill(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600'), 9)),
        'variables': sorted(name for name in os.environ if name != 'LC_CTYPE'),
    }";
    let found =
        evaluate_in_program(expression, None).unwrap_or_else(|error| fail(&error.to_string()));
    assert_eq!(found["rights"], json!(["NoNewPrivs:\t1"]));
    assert_eq!(found["core"], json!([0, 0]));
    let files = &found["files"];
    assert!(files[0].as_u64() <= Some(1024) && files[1].as_u64() <= Some(4096), "{found:?}");
    assert_eq!(found["processes"], json!(true));
    assert_eq!(found["variables"], json!(["PATH"]));
    assert_eq!(found["own child"], json!("fine"));
    if has_scopes() {
        let at_others = ["environment", "memory", "signal"].map(|what| found[what].clone());
        assert_eq!(at_others, ["EACCES", "EACCES", "EPERM"]);
    }
}

fn a_sandbox_allows_only_its_paths_and_the_system() {
    let folder = tempfile::tempdir().expect("there is room");
    let at = |name: &str| folder.path().join(name);
    for name in ["read", "write", "other"] {
        std::fs::create_dir(at(name)).expect("it is new");
        std::fs::write(at(name).join("file"), "secret").expect("it can be written");
    }
    let expression = format!(
        "{{f'{{folder}} {{mode}}': tried(lambda: open(f'{}/{{folder}}/file', mode).close())
            for folder in ['read', 'write', 'other'] for mode in ['r', 'a']}}
        | {{'new': tried(lambda: open('{0}/write/new', 'w').close()),
            'list': tried(lambda: os.listdir('{0}/other')),
            'start': tried(lambda: os.spawnlp(os.P_WAIT, 'true', 'true')),
            'user': tried(lambda: open('/etc/passwd').close()),
            'shadow': tried(lambda: open('/etc/shadow').close())}}",
        folder.path().display()
    );
    // The prefix of the Python installation, which may be outside the system folders.
    let python = python().canonicalize().expect("it is there");
    let python = python.ancestors().nth(2).expect("it is in a `bin`").to_owned();
    let sandbox =
        SandboxPaths { read: vec![at("read"), at("gone"), python], write: vec![at("write")] };
    let found = match evaluate_in_program(&expression, Some(sandbox)) {
        // Without Landlock in the kernel the program does not start.
        Err(McpError::ProgramEnded { how, .. }) if !has_scopes() => {
            assert_eq!(&*how, "exit status: 126");
            return;
        }
        tried => tried.unwrap_or_else(|error| fail(&error.to_string())),
    };
    let expected = json!({
        "read r": "fine", "read a": "EACCES", "write r": "fine", "write a": "fine", "other r": "EACCES",
        "other a": "EACCES", "new": "fine", "list": "EACCES", "start": "fine", "user": "fine", "shadow": "EACCES",
    });
    assert_eq!(Value::Object(found), expected);
}

fn a_sandbox_without_a_binder_is_an_error() {
    let mut program = ProgramSpec::new(python());
    program.sandbox = Some(SandboxPaths::default());
    let Err(McpError::ProgramNotStarted { source, .. }) = open(program) else {
        fail("it was started")
    };
    assert_eq!(source.to_string(), "there is nothing here that could put it into its sandbox");
}

/// Evaluates a Python expression in a program that is bound to this process.
fn evaluate_in_program(
    expression: &str,
    sandbox: Option<SandboxPaths>,
) -> Result<Map<String, Value>, McpError> {
    let mut program = ProgramSpec::new(python());
    program.arguments = vec!["-c".into(), TRIES.into(), expression.replace('\n', " ").into()];
    program.environment.insert("PATH".into(), "/usr/bin:/bin".into());
    program.binder = std::env::current_exe().ok();
    program.sandbox = sandbox;
    let about = open(program)?;
    Ok(about.get("found").and_then(Value::as_object).cloned().unwrap_or_default())
}

fn open(program: ProgramSpec) -> Result<Map<String, Value>, McpError> {
    let runtime = tokio::runtime::Runtime::new().expect("there are threads to be had");
    runtime.block_on(async {
        let target = McpTarget::Program(program);
        let connection = McpConnection::open(&target, &ConnectionSettings::default()).await?;
        Ok(connection.server_description().server.clone())
    })
}

/// Whether Landlock isolates signals and `/proc` of outside processes; kernels support that since 6.12.
fn has_scopes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

fn is_alive(process: &std::path::Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn run_server() {
    let runtime = tokio::runtime::Runtime::new().expect("there are threads to be had");
    runtime.block_on(async {
        let mut program = ProgramSpec::new(python());
        program.arguments = vec!["-c".into(), SCRIPT.into()];
        program.binder = std::env::current_exe().ok();
        let target = McpTarget::Program(program);
        let opened = McpConnection::open(&target, &ConnectionSettings::default()).await;
        let connection = opened.unwrap_or_else(|error| fail(&error.to_string()));
        let pids = connection.server_description().server.get("pids").map(ToString::to_string);
        print_line(&pids.unwrap_or_default());
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

fn print_line(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}

#[expect(clippy::panic, reason = "in a test a panic is an answer")]
fn fail(why: &str) -> ! {
    panic!("{why}")
}
