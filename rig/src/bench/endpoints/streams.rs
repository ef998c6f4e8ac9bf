//! Streams: the memory of many idle ones, and the time until all of them receive a change.

use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::measured_crib::{LISTENERS, TOGGLED_TOOL};
use super::server_process::ServerProcess;
use super::wire;
use super::wire::BenchConnection;
use crate::bench::BenchArgs;
use crate::bench::report::{BenchReport, RatioBound};

const STREAMS: usize = 10_000;
/// Number of streams that are opened concurrently.
const CONCURRENT_OPENS: usize = 64;
/// Longer than the idle timeout of a connection, and long enough for several keep-alives.
const IDLE_TIME: Duration = Duration::from_secs(75);
/// Number of changes; the median counts.
const CHANGES: usize = 6;
/// Timeout, far above the expected time.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(60);
const MIB: f64 = (1 << 20) as f64;
const CHANGED: &[u8] = b"notifications/tools/list_changed";

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let (streams, idle) = match orders.quick {
        true => (STREAMS / 10, IDLE_TIME / 10),
        false => (STREAMS, IDLE_TIME),
    };
    raise_file_limit(streams as u64 + 100)?;
    let mut server = ServerProcess::start(&["toolcrib"])?;
    let without = server.resident_bytes()?;
    let (mut heard, listening) = open_streams(&server, streams).await?;
    eprintln!("  {streams} streams are open, {:.0} MiB", server.resident_bytes()? / MIB);
    tokio::time::sleep(idle).await;
    let resident = server.resident_bytes()?;
    eprintln!("  {:.1} kB each", (resident - without) / 1e3 / streams as f64);
    let what = format!("{streams} idle streams, memory of the server, against 600 MiB");
    report.add(what, resident / MIB, 600.0, "MiB", RatioBound::AtMost(1.0));
    let mut admin = BenchConnection::open(server.address).await?;
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let word = if change % 2 == 0 { "disable" } else { "enable" };
        let request =
            wire::admin_request(server.key("admin"), &format!("/api/tools/{TOGGLED_TOOL}/{word}"));
        let (start, cpu) = (Instant::now(), server.cpu_time()?);
        admin.send_request(&request).await?;
        let last = last_notification(&mut heard, streams).await;
        ensure!(server.is_alive()?, "the server is gone");
        let took = (last? - start).as_secs_f64();
        eprintln!("  {word}: {took:.3} s, {:?} of CPU", server.cpu_time()?.saturating_sub(cpu));
        times.push(took);
    }
    drop(listening);
    times.sort_by(f64::total_cmp);
    let what = format!("a change until the last of {streams} streams has heard, against 2 s");
    report.add(what, times[times.len() / 2], 2.0, "s", RatioBound::AtMost(1.0));
    Ok(())
}

/// Opens streams that report when each of them receives a change.
async fn open_streams(
    server: &ServerProcess,
    streams: usize,
) -> anyhow::Result<(mpsc::UnboundedReceiver<anyhow::Result<Instant>>, JoinSet<()>)> {
    let (tell, heard) = mpsc::unbounded_channel();
    let (mut opening, mut listening) = (JoinSet::new(), JoinSet::new());
    for number in 0..streams {
        let request = wire::listen_request(server.key(&format!("listener-{}", number % LISTENERS)));
        let address = server.address;
        opening.spawn(async move {
            let mut connection = BenchConnection::open(address).await?;
            connection.subscribe(&request).await?;
            anyhow::Ok(connection)
        });
        while CONCURRENT_OPENS < opening.len() || (number + 1 == streams && !opening.is_empty()) {
            if let Some(connection) = opening.join_next().await {
                listening.spawn(report_changes(connection??, tell.clone()));
            }
        }
    }
    Ok((heard, listening))
}

async fn report_changes(
    mut connection: BenchConnection,
    tell: mpsc::UnboundedSender<anyhow::Result<Instant>>,
) {
    loop {
        let heard = connection.wait_for_bytes(CHANGED).await.map(|()| Instant::now());
        let is_over = heard.is_err();
        if tell.send(heard).is_err() || is_over {
            return;
        }
    }
}

/// The time when the last of the streams received the change.
async fn last_notification(
    heard: &mut mpsc::UnboundedReceiver<anyhow::Result<Instant>>,
    streams: usize,
) -> anyhow::Result<Instant> {
    let mut last = Instant::now();
    for number in 0..streams {
        let next = tokio::time::timeout(NOTIFICATION_TIMEOUT, heard.recv()).await;
        match next {
            Ok(Some(heard)) => last = last.max(heard?),
            Ok(None) | Err(_) => anyhow::bail!("only {number} of {streams} streams heard"),
        }
    }
    Ok(last)
}

/// Raises the limit of open files: every stream is one, here and in the server, which inherits the limit.
fn raise_file_limit(wanted: u64) -> anyhow::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}
