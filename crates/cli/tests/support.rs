//! Support for CLI tests: a folder for each test, the program run in it, and a small catalog.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use catalog::group::GroupCommand;
use catalog::journal::SqliteJournal;
use catalog::label::LabelCommand;
use catalog::policy::PolicyCommand;
use catalog::source::{SourceCommand, SyncError};
use catalog::tool::ToolCommand;
use jiff::SignedDuration;
use model::{Execution, Inventory, Manifest, Schema};
use rustix::pty::OpenptFlags;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{Catalog, ChangeContext, ManualClock};

use crate::upstream::{Upstream, answer};

/// Sealing key of sufficient length.
pub(crate) const KEY: &str = "a key for tests that is long enough to seal";

/// URL of an empty database on the server that `cargo xtask` started.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn postgres_database(name: &str) -> String {
    let url = std::env::var("TOOLCRIB_TEST_POSTGRES");
    let url = url.expect("run this through `cargo xtask test`, or see `cargo xtask postgres`");
    let (server, _) = url.rsplit_once('/').unwrap();
    let make = async {
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            client.batch_execute(&format!("{statement} {name}")).await.unwrap();
        }
    };
    runtime().block_on(make);
    format!("{server}/{name}")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Upstream that gives the same answer to every request.
pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> Upstream {
    let answer = answer.into();
    Upstream::replying(move |_| answer.clone())
}

/// Response with status 200.
pub(crate) fn ok(content_type: &str, body: &str) -> Vec<u8> {
    answer("200 OK", &format!("Content-Type: {content_type}\r\n"), body.as_bytes())
}

/// Temporary folder, possibly with a journal.
pub(crate) struct Folder(tempfile::TempDir);

/// Outcome of a run of the program.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Everything that a user would see, as one text for a golden test.
    pub(crate) fn seen(&self) -> String {
        let mut text = self.stdout.clone();
        for line in self.stderr.lines() {
            text += format!("stderr: {line}").trim_end();
            text.push('\n');
        }
        if let Some(code) = self.code.filter(|code| *code != 0) {
            text += &format!("exit code: {code}\n");
        }
        without_digests(&text)
    }

    /// Standard output of a successful run.
    pub(crate) fn output(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

/// Replaces digests, which change with every new field; other tests check that they agree.
fn without_digests(text: &str) -> String {
    let is_hexadecimal = |c: char| c.is_ascii_hexdigit();
    let digests = text.split(|c| !is_hexadecimal(c)).filter(|word| word.len() == 64);
    digests.fold(text.to_owned(), |text, digest| text.replace(digest, "DIGEST"))
}

impl Folder {
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Folder with a small catalog in `toolcrib.db`.
    pub(crate) fn with_catalog() -> Self {
        let folder = Self::empty();
        runtime().block_on(fill(folder.path("toolcrib.db")));
        // The journal's writer releases its lock shortly after the journal is dropped: wait for that.
        fs::File::open(folder.path("toolcrib.db.lock")).unwrap().lock().unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Names of all files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Changes the database without the program's knowledge.
    pub(crate) fn sql(&self, statement: &str) {
        let connection = rusqlite::Connection::open(self.path("toolcrib.db")).unwrap();
        assert!(0 < connection.execute(statement, []).unwrap());
    }

    /// Runs the program; the arguments are separated by white space.
    pub(crate) fn run(&self, arguments: &str) -> Run {
        self.run_with(arguments, "", &[])
    }

    /// Runs the program with an input and an environment.
    pub(crate) fn run_with(
        &self,
        arguments: &str,
        stdin: &str,
        environment: &[(&str, &str)],
    ) -> Run {
        let mut child = self.start(arguments, environment);
        let mut pipe = child.stdin.take().unwrap();
        // A program that does not read its input closes the pipe.
        drop(pipe.write_all(stdin.as_bytes()));
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| {
            // The path of the folder differs between runs.
            String::from_utf8(bytes).unwrap().replace(self.0.path().to_str().unwrap(), "FOLDER")
        };
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs the program at a terminal with typed input; stdout is the final content of the terminal.
    #[expect(clippy::disallowed_methods, reason = "the program is what these tests are about")]
    pub(crate) fn run_at_terminal(
        &self,
        arguments: &str,
        typed: &str,
        environment: &[(&str, &str)],
    ) -> Run {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = fs::File::options().read(true).write(true).open(name).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path()).env_clear();
        command.envs(environment.iter().copied());
        let end = || slave.try_clone().unwrap();
        command.stdin(end()).stderr(end()).stdout(end());
        let mut child = command.spawn().unwrap();
        // The program must have the only other end of the terminal, so that reading ends with the program.
        drop((command, slave));
        let mut terminal = fs::File::from(master);
        terminal.write_all(typed.as_bytes()).unwrap();
        let mut said = Vec::new();
        drop(terminal.read_to_end(&mut said));
        let stdout = String::from_utf8(said).unwrap().replace('\r', "");
        Run { code: child.wait().unwrap().code(), stdout, stderr: String::new() }
    }

    /// Starts the program with only the given environment.
    #[expect(clippy::disallowed_methods, reason = "the program is what these tests are about")]
    pub(crate) fn start(&self, arguments: &str, environment: &[(&str, &str)]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcrib"));
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        command.env_clear().envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

/// Stores a small catalog: one refreshed and one failing source, of two kinds; groups, a policy and a label.
async fn fill(path: PathBuf) {
    let clock = Arc::new(ManualClock::starting_at("2026-05-01T09:00:00Z".parse().unwrap()));
    let journal = SqliteJournal::open(&path, clock.clone()).unwrap();
    let catalog = Catalog::open(Arc::new(journal)).await.unwrap();
    for (number, command) in commands().into_iter().enumerate() {
        let key = format!("step {number}");
        let key = (number == 0).then_some(key.as_str());
        catalog.execute(command, ChangeContext::by_actor("ada"), key).await.unwrap();
        clock.advance(SignedDuration::from_mins(1));
    }
}

fn commands() -> Vec<toolcrib::Command> {
    let petstore = json!({
        "name": "Pet Store", "url": "https://pets.example/openapi.json", "settings": {"kind": "openapi"},
        "auth": {"kind": "bearer", "token": "sealed:petstore-token"},
    });
    let tickets = json!({
        "name": "Tickets",
        "settings": {"kind": "mcp", "command": {
            "program": "tickets-mcp",
            "environment": {"TICKETS_TOKEN": "sealed:tickets-token", "HOME": "env:HOME"},
        }},
    });
    let group = |id: &str, selectors: Value| {
        let new = json!({"id": id, "profile": {"name": id}, "selectors": selectors});
        toolcrib::Command::Group(id.parse().unwrap(), GroupCommand::Create(Box::new(read(new))))
    };
    let policy = json!({
        "name": "Staff may read", "priority": 10, "groups": ["pets-read"],
        "matchers": [{"claim": "role", "operator": "equals", "value": "staff"}],
    });
    let error = SyncError {
        code: "mcp_start_failed".into(),
        message: "tickets-mcp is not installed".into(),
    };
    let source = |id: &str, command| toolcrib::Command::Source(id.parse().unwrap(), command);
    vec![
        source("petstore", SourceCommand::Register(read(petstore))),
        source("petstore", SourceCommand::StartSync),
        toolcrib::Command::Ingest { inventory: Box::new(inventory()), force: false },
        source("tickets", SourceCommand::Register(read(tickets))),
        source("tickets", SourceCommand::FailSync(error)),
        source("tickets", SourceCommand::Disable),
        toolcrib::Command::Label(
            "pii".parse().unwrap(),
            LabelCommand::Create(read(json!({"name": "Personal data"}))),
        ),
        toolcrib::Command::Tool(
            "petstore:getOwner".parse().unwrap(),
            ToolCommand::Label(["pii".parse().unwrap()].into()),
        ),
        toolcrib::Command::Tool("petstore:deletePet".parse().unwrap(), ToolCommand::Disable),
        group("pets-all", json!([{"source": "petstore"}])),
        group("pets-read", json!([{"source": "petstore", "method": "GET"}])),
        toolcrib::Command::Group("pets-all".parse().unwrap(), GroupCommand::Deactivate),
        toolcrib::Command::Policy(
            "staff-read".parse().unwrap(),
            PolicyCommand::Define(read(policy)),
        ),
    ]
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn inventory() -> Inventory {
    let long = "Which pet, by the number on its collar. ".repeat(20);
    let by_id =
        json!({"type": "object", "properties": {"id": {"type": "string", "description": long}}});
    let tool = |name: &str, method: &str, path: &str, schema: &Value| {
        let manifest = Manifest {
            name: name.into(),
            title: None,
            description: "".into(),
            method: method.into(),
            path: path.into(),
            tags: vec!["pets".into()],
            input_schema: Schema::new(schema.clone()).unwrap(),
            output_schema: None,
            execution: Execution::McpCall,
            deprecated: false,
            security: None,
            extra: Default::default(),
        };
        (name.to_owned(), manifest)
    };
    let tools = [
        tool("listPets", "GET", "/pets", &json!({"type": "object"})),
        tool("getOwner", "GET", "/pets/{id}/owner", &by_id),
        tool("deletePet", "DELETE", "/pets/{id}", &by_id),
    ];
    Inventory::new("petstore".parse().unwrap(), tools).unwrap()
}
