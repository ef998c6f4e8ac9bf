//! A temporary PostgreSQL server on a free port, removed without a trace when we exit.
//!
//! A watchdog process reads a pipe of ours. When the pipe closes, because the value is dropped or we are killed with
//! SIGKILL, the watchdog stops the server and removes the folder. Nothing else does.
//! `fsync` stays on, because durability is under test. All settings are in a file, so that `rig` can kill the server
//! and start it again with a bare `pg_ctl -D … start`.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::account::{self, Account};
use crate::failure::Failure;
use crate::{program, setup};

/// Start attempts: a different process can take the free port before the server does.
const ATTEMPTS: usize = 3;

const WATCHDOG: &str = r#"
    trap "" INT TERM HUP
    folder=$1
    shift
    cat
    "$@"
    rm -rf -- "$folder"
"#;

pub(crate) struct ThrowAwayPostgres {
    server: Server,
    port: u16,
    watchdog: Child,
}

impl ThrowAwayPostgres {
    pub(crate) fn start() -> Result<Self, Failure> {
        let server = Server::new()?;
        let watchdog = server.watchdog()?;
        let mut postgres = Self { server, port: 0, watchdog };
        postgres.server.create_cluster()?;
        for _ in 1..ATTEMPTS {
            postgres.port = free_port()?;
            if postgres.server.listen_on(postgres.port).is_ok() {
                return Ok(postgres);
            }
        }
        postgres.port = free_port()?;
        postgres.server.listen_on(postgres.port)?;
        Ok(postgres)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The variables that tests and `rig` need to use, kill and restart this server.
    pub(crate) fn environment(&self) -> [(&'static str, OsString); 4] {
        let user = self.server.account.as_ref().map_or("", |account| account.name.as_str());
        [
            ("TOOLCRIB_TEST_POSTGRES", self.url().into()),
            ("TOOLCRIB_TEST_POSTGRES_DATA", self.server.cluster().into()),
            ("TOOLCRIB_TEST_POSTGRES_BIN", self.server.programs.clone().into()),
            ("TOOLCRIB_TEST_POSTGRES_USER", user.into()),
        ]
    }
}

impl Drop for ThrowAwayPostgres {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let folder = self.server.folder.display();
        match self.watchdog.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => eprintln!("warning: PostgreSQL in {folder} was not removed: {status}"),
            Err(error) => eprintln!("warning: PostgreSQL in {folder} was not removed: {error}"),
        }
    }
}

/// The programs and files of the server, and the account it runs as.
struct Server {
    programs: PathBuf,
    folder: PathBuf,
    /// `None` if it runs as the current user.
    account: Option<Account>,
}

impl Server {
    fn new() -> Result<Self, Failure> {
        let programs = setup::postgres_programs().ok_or_else(|| {
            Failure::new("the programs of the system package `postgresql` are missing")
        })?;
        let account = if account::we_are_root()? { Some(account::ordinary()?) } else { None };
        let folder = create_folder()?;
        if let Some(account) = &account {
            chown(&folder, Some(account.user), Some(account.group))?;
        }
        Ok(Self { programs, folder, account })
    }

    fn cluster(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn create_cluster(&self) -> Result<(), Failure> {
        let mut initdb = self.command("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]);
        program::output(&mut initdb)?;
        Ok(())
    }

    fn listen_on(&self, port: u16) -> Result<(), Failure> {
        let settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n"
        );
        fs::write(self.cluster().join("postgresql.auto.conf"), settings)?;
        let log = self.folder.join("log");
        let mut start = self.command("pg_ctl");
        start.args(["-w", "start", "-l"]).arg(&log).stdout(Stdio::null()).stderr(Stdio::null());
        if program::status(&mut start)?.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        Err(Failure::new(format!("PostgreSQL did not start:\n{said}")))
    }

    fn watchdog(&self) -> Result<Child, Failure> {
        let mut stop = self.command("pg_ctl");
        stop.args(["-m", "immediate", "-w", "stop"]);
        let mut watchdog = program::command("sh");
        watchdog
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(&self.folder)
            .arg(stop.get_program())
            .args(stop.get_args());
        watchdog.current_dir(std::env::temp_dir()).process_group(0);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(watchdog.spawn()?)
    }

    /// A command that runs one of the server's programs on our cluster, as a non-root account: the server refuses root.
    fn command(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = match &self.account {
            None => program::command(path),
            Some(account) => as_account(account, &path),
        };
        command.current_dir(&self.folder).arg("-D").arg(self.cluster());
        command
    }
}

fn as_account(account: &Account, path: &Path) -> Command {
    let mut command = program::command("setpriv");
    command.arg(format!("--reuid={}", account.user)).arg(format!("--regid={}", account.group));
    command.arg("--clear-groups").arg(path);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time makes the folder's name unique; nothing is decided by it"
)]
fn create_folder() -> Result<PathBuf, Failure> {
    let nanoseconds =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = format!("toolcrib-postgres-{}-{nanoseconds}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
