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

use crate::account::{self, UnixAccount};
use crate::xtask_error::XtaskError;
use crate::{program, setup};

/// Start attempts: a different process can take the free port before the server does.
const START_ATTEMPTS: usize = 3;

const WATCHDOG: &str = r#"
    trap "" INT TERM HUP
    folder=$1
    shift
    cat
    "$@"
    rm -rf -- "$folder"
"#;

pub(crate) struct ThrowAwayPostgres {
    server: PostgresCluster,
    port: u16,
    watchdog: Child,
}

impl ThrowAwayPostgres {
    pub(crate) fn start() -> Result<Self, XtaskError> {
        let server = PostgresCluster::new()?;
        let watchdog = server.start_watchdog()?;
        let mut postgres = Self { server, port: 0, watchdog };
        postgres.server.create_cluster()?;
        for _ in 1..START_ATTEMPTS {
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
            ("TOOLCRIB_TEST_POSTGRES_DATA", self.server.data_folder().into()),
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
struct PostgresCluster {
    programs: PathBuf,
    folder: PathBuf,
    /// `None` if it runs as the current user.
    account: Option<UnixAccount>,
}

impl PostgresCluster {
    fn new() -> Result<Self, XtaskError> {
        let programs = setup::postgres_programs().ok_or_else(|| {
            XtaskError::new("the programs of the system package `postgresql` are missing")
        })?;
        let account = if account::is_root()? { Some(account::ordinary_account()?) } else { None };
        let folder = create_folder()?;
        if let Some(account) = &account {
            chown(&folder, Some(account.user), Some(account.group))?;
        }
        Ok(Self { programs, folder, account })
    }

    fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn create_cluster(&self) -> Result<(), XtaskError> {
        let mut initdb = self.cluster_command("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]);
        program::run_for_output(&mut initdb)?;
        Ok(())
    }

    fn listen_on(&self, port: u16) -> Result<(), XtaskError> {
        let settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n"
        );
        fs::write(self.data_folder().join("postgresql.auto.conf"), settings)?;
        let log = self.folder.join("log");
        let mut start = self.cluster_command("pg_ctl");
        start.args(["-w", "start", "-l"]).arg(&log).stdout(Stdio::null()).stderr(Stdio::null());
        if program::run_for_status(&mut start)?.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        Err(XtaskError::new(format!("PostgreSQL did not start:\n{said}")))
    }

    fn start_watchdog(&self) -> Result<Child, XtaskError> {
        let mut stop = self.cluster_command("pg_ctl");
        stop.args(["-m", "immediate", "-w", "stop"]);
        let mut watchdog = program::new_command("sh");
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
    fn cluster_command(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = match &self.account {
            None => program::new_command(path),
            Some(account) => command_as_account(account, &path),
        };
        command.current_dir(&self.folder).arg("-D").arg(self.data_folder());
        command
    }
}

fn command_as_account(account: &UnixAccount, path: &Path) -> Command {
    let mut command = program::new_command("setpriv");
    command.arg(format!("--reuid={}", account.user)).arg(format!("--regid={}", account.group));
    command.arg("--clear-groups").arg(path);
    command
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time makes the folder's name unique; nothing is decided by it"
)]
fn create_folder() -> Result<PathBuf, XtaskError> {
    let nanoseconds =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = format!("toolcrib-postgres-{}-{nanoseconds}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn free_port() -> Result<u16, XtaskError> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
