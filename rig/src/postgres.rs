//! The temporary PostgreSQL server that `cargo xtask` starts for the rig.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio_postgres::NoTls;

/// URL of the server.
pub(crate) fn server_url() -> anyhow::Result<String> {
    std::env::var("TOOLCRIB_TEST_POSTGRES")
        .context("no PostgreSQL: start this through `cargo xtask`")
}

/// Creates an empty database and returns its URL.
pub(crate) async fn fresh_database(name: &str) -> anyhow::Result<String> {
    let url = server_url()?;
    let client = connect(&url).await?;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    let (server, _) = url.rsplit_once('/').context("a URL has a path")?;
    Ok(format!("{server}/{name}"))
}

pub(crate) async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Kills the whole server, as a power cut would, and starts it again.
pub(crate) fn crash_server() -> anyhow::Result<()> {
    let data = PathBuf::from(std::env::var("TOOLCRIB_TEST_POSTGRES_DATA")?);
    let bin = PathBuf::from(std::env::var("TOOLCRIB_TEST_POSTGRES_BIN")?);
    let user = std::env::var("TOOLCRIB_TEST_POSTGRES_USER").unwrap_or_default();
    let pid_file = std::fs::read_to_string(data.join("postmaster.pid"))?;
    let pid = pid_file.lines().next().context("postmaster.pid is empty")?.to_owned();
    let status = Command::new("kill").args(["-9", &pid]).status()?;
    if !status.success() {
        bail!("the server could not be killed");
    }
    let pg_ctl = bin.join("pg_ctl");
    let data = data.display().to_string();
    let log = std::env::temp_dir().join(format!("toolcrib-crash-{}.log", std::process::id()));
    std::fs::write(&log, "")?;
    if !user.is_empty() {
        Command::new("chown").arg(&user).arg(&log).status()?;
    }
    let start = Instant::now();
    // The killed server leaves its lock file until the kernel has reaped the process.
    while start.elapsed() < Duration::from_secs(30) {
        let mut command = if user.is_empty() {
            Command::new(&pg_ctl)
        } else {
            let mut command = Command::new("setpriv");
            command
                .args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"])
                .arg(&pg_ctl);
            command
        };
        command.current_dir("/").args(["-D", &data, "-w", "-t", "20", "start", "-l"]).arg(&log);
        let output = command.output()?;
        if output.status.success() {
            std::fs::remove_file(&log).ok();
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("the server did not come back: {}", std::fs::read_to_string(&log).unwrap_or_default())
}
