//! Tools that run a program: no shell, no injected options, and no process left over afterwards.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ask, CustomSource, Folder, PATH, Server};

/// Server that may start programs.
fn open() -> Server {
    Server::on_folder_with_environment(Folder::empty(), "--allow-stdio", &[PATH])
}

fn with_tools(tools: &Value) -> CustomSource {
    CustomSource::on_server(open(), json!({"tools": tools}))
}

/// Tool that runs a shell script of the admin.
fn script(name: &str, script: &str) -> Value {
    json!({"name": name, "command": {"program": "sh", "arguments": ["-c", script]}})
}

#[test]
fn an_argument_value_stays_one_program_argument() {
    let own = with_tools(&json!([
        {"name": "show", "input_schema": {"properties": {"a": {}, "b": {}}},
            "command": {"program": "printf", "arguments": ["[%s]", "{{a}}", "x={{b}}", "{{ a }}"]}},
        {"name": "free", "command": {"program": "printf", "arguments": ["[%s]", "{{a}}"], "allow_dashes": true}},
        {"name": "echo_input", "command": {"program": "cat", "stdin": true, "output": "json"}},
        {"name": "no_input", "command": {"program": "cat"}},
    ]));
    let odd = "$(id) `id` ; rm -rf / | & > x \"'\\ * ? ~ {{b}} {% x %}";
    let shown = own.text("show", json!({"a": odd, "b": "two words"}));
    assert_eq!(shown, format!("[{odd}][x=two words][{{{{ a }}}}]"));
    assert_eq!(own.text("show", json!({"a": [1, "x"], "b": true})), "[[1,\"x\"]][x=true][{{ a }}]");
    assert_eq!(own.text("show", json!({"b": "-x"})), "[x=-x][{{ a }}]");
    for dash in ["-rf", "--help", "-"] {
        let why = own.failure("show", json!({"a": dash}));
        assert!(why.contains("the argument `a` begins with `-`"), "{why}");
        assert_eq!(own.text("free", json!({"a": dash})), format!("[{dash}]"));
    }
    let given = json!({"deep": {"a": [1, null]}, "text": "x"});
    assert_eq!(own.call("echo_input", given.clone())["structuredContent"], given);
    assert_eq!(own.text("no_input", json!({})), "");
    assert!(own.failure("show", json!({"a": "x\u{0}y"})).contains("zero character"));
}

#[test]
fn a_program_gets_only_its_environment_and_its_secrets_are_redacted() {
    let tools = json!([
        {"name": "env", "command": {"program": "env", "environment": {"TOKEN": "env:TOKEN"}, "directory": "/tmp"}},
        {"name": "where", "command": {"program": "pwd", "directory": "/tmp"}},
    ]);
    let server = Server::on_folder_with_environment(
        Folder::empty(),
        "--allow-stdio",
        &[PATH, ("TOKEN", "s3cret-token"), ("OTHER", "not yours")],
    );
    let own = CustomSource::on_server(server, json!({"tools": tools}));
    let environment = own.text("env", json!({}));
    assert!(environment.contains("TOKEN=***") && environment.contains("PATH="), "{environment}");
    assert!(!environment.contains("s3cret") && !environment.contains("OTHER"), "{environment}");
    assert_eq!(own.text("where", json!({})), "/tmp");
}

#[test]
fn a_failed_program_is_reported_with_the_end_of_its_stderr() {
    let tools = json!([
        script("fails", "echo out; echo why >&2; exit 3"),
        script("loud", "i=0; while [ $i -lt 200 ]; do echo line $i >&2; i=$((i+1)); done; exit 1"),
        script("not_json", "echo {"),
        {"name": "absent", "command": {"program": "/no/such/program"}},
    ]);
    let mut tools = tools;
    tools[2]["command"]["output"] = json!("json");
    let own = with_tools(&tools);
    let result = own.call("fails", json!({}));
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "Error: the program ended with exit status: 3: why");
    let loud = own.failure("loud", json!({}));
    assert!(loud.ends_with("line 199") && !loud.contains("line 100"), "{loud}");
    assert!(own.failure("not_json", json!({})).starts_with("Error: the program did not say JSON"));
    let absent = own.failure("absent", json!({}));
    assert_eq!(absent, "the program of the tool cannot be run here");
    let rest = own.rest("fails", &json!({})).ok();
    assert_eq!(
        (&rest["status"], &rest["error"]["code"]),
        (&json!("failed"), &json!("builtin_error"))
    );
}

#[test]
fn a_program_that_runs_too_long_is_killed_with_its_children() {
    let server = open();
    let noted = server.folder.path("noted");
    let noting = format!("echo $$ $PPID > {0}.new; mv {0}.new {0};", noted.display());
    let tools = json!([
        script("endless", "yes"),
        script("sleeps", &format!("sleep 601 & trap '' TERM; {noting} while :; do sleep 1; done")),
        script("leaves", "sleep 602 & echo left"),
    ]);
    let limits = json!({"timeout": 1});
    let own =
        CustomSource::with_source(server, json!({"settings": {"tools": tools}, "limits": limits}));
    let start = Instant::now();
    assert!(own.failure("endless", json!({})).contains("said more than 1048576 bytes"));
    assert_eq!(own.text("leaves", json!({})), "left");
    let late = own.failure("sleeps", json!({}));
    assert!(late.contains("took too long"), "{late}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let noted = std::fs::read_to_string(noted).unwrap();
    let (program, server) = noted.trim().split_once(' ').unwrap();
    let is_over = || {
        let none_sleeps = ["601", "602"].iter().all(|seconds| !sleeping(seconds));
        !Path::new(&format!("/proc/{program}")).exists() && none_sleeps && zombies(server) == 0
    };
    while !is_over() {
        assert!(start.elapsed() < Duration::from_secs(60), "something is left of {program}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_is_killed_when_the_client_disconnects_or_the_server_dies() {
    let server = open();
    let tools = json!([script("first", "sleep 603"), script("second", "sleep 604")]);
    let mut own = CustomSource::on_server(server, json!({"tools": tools}));
    let begin = |name: &str, seconds: &str| {
        let call = json!({"name": name, "arguments": {}});
        let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&own.key).json(&call);
        let mut connection = own.server.connect();
        ask.write_to(&mut connection);
        wait(|| sleeping(seconds));
        connection
    };
    drop(begin("first", "603"));
    wait(|| !sleeping("603"));
    let second = begin("second", "604");
    own.server.send_signal("KILL");
    own.server.wait_for_exit();
    drop(second);
    wait(|| !sleeping("604"));
}

fn wait(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come about");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn concurrent_programs_are_limited_by_the_source() {
    let tools = json!([script("slow", "sleep 605")]);
    let limits = json!({"per_agent": {"concurrent": 1}, "all": {"concurrent": 1}, "timeout": 3});
    let server = open();
    let own =
        CustomSource::with_source(server, json!({"settings": {"tools": tools}, "limits": limits}));
    thread::scope(|scope| {
        scope.spawn(|| own.failure("slow", json!({})));
        wait(|| sleeping("605"));
        let refused = own.rest("slow", &json!({}));
        assert!(refused.problem().starts_with("429 rate_limited"), "{refused:?}");
    });
}

#[test]
fn a_sandboxed_program_cannot_read_other_files() {
    let server = open();
    let journal = server.folder.files().into_iter().find(|name| name.ends_with(".db")).unwrap();
    let journal = server.folder.path(&journal);
    let command = json!({"program": "cat", "arguments": [journal], "sandbox": {}});
    let own =
        CustomSource::on_server(server, json!({"tools": [{"name": "peek", "command": command}]}));
    let why = own.failure("peek", json!({}));
    assert!(why.contains("ermission denied"), "{why}");
}

/// Whether a process `sleep SECONDS` is running.
fn sleeping(seconds: &str) -> bool {
    let line = format!("sleep\0{seconds}\0");
    processes().any(|process| {
        std::fs::read(process.join("cmdline")).is_ok_and(|found| found == line.as_bytes())
    })
}

/// Number of zombie children of a process.
fn zombies(parent: &str) -> usize {
    let is_one = |process: &std::path::PathBuf| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(") ").map(|(_, after)| after.to_owned()).unwrap_or_default();
        let mut words = after.split(' ');
        words.next() == Some("Z") && words.next() == Some(parent)
    };
    processes().filter(is_one).count()
}

fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit())
    })
}
