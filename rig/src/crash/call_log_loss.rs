//! Kills or stops a server repeatedly while agents call a tool, and counts the answered calls that are missing in the
//! call log.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use call_log::{AuditExpectations, CallFilter, CallLog, verify_call_log};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolcrib::JournalLocation;

use super::CrashStore;
use crate::bench::endpoints::wire;
use crate::bench::endpoints::wire::BenchConnection;
use crate::postgres;
use crate::seeded_random::SeededRandom;
use crate::toolcrib_server::RunningToolcrib;

/// The ids of the answered calls.
type AnsweredCallIds = Arc<Mutex<Vec<String>>>;

const CALLERS: usize = 8;
/// Maximum lifetime of a server, in milliseconds.
const MAX_LIFETIME_MS: u64 = 400;

/// Totals over all rounds.
#[derive(Default)]
struct CallLogTotals {
    answered: u64,
    recorded: u64,
    lost: u64,
    problems: usize,
}

pub(super) async fn run(
    store: CrashStore,
    kills: u32,
    mut random: SeededRandom,
) -> anyhow::Result<()> {
    // Against kills, an answer must wait for the disk (`strict`); a server that stops gracefully loses nothing anyway.
    let killed = run_rounds(store, kills, "strict", Signal::KILL, &mut random).await?;
    let stopped =
        run_rounds(store, kills.div_ceil(4), "default", Signal::TERM, &mut random).await?;
    for (what, seen) in [("killed, strict", &killed), ("stopped, default", &stopped)] {
        let CallLogTotals { answered, recorded, lost, problems } = seen;
        println!("{what}: answered {answered} recorded {recorded} lost {lost} problems {problems}");
    }
    ensure!(0 < killed.answered && 0 < stopped.answered, "no call was answered");
    if 0 < killed.lost + stopped.lost || 0 < killed.problems + stopped.problems {
        std::process::exit(1);
    }
    Ok(())
}

async fn run_rounds(
    store: CrashStore,
    kills: u32,
    mode: &str,
    signal: Signal,
    random: &mut SeededRandom,
) -> anyhow::Result<CallLogTotals> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("crib.yaml");
    std::fs::write(&config, format!("record: {{mode: {mode}}}"))?;
    let config = config.display().to_string();
    let options = ["--config", config.as_str()];
    let journal = match store {
        CrashStore::Sqlite => None,
        CrashStore::Postgres => Some(postgres::fresh_database("toolcrib_record").await?),
    };
    let mut served = RunningToolcrib::open_with_journal(journal, &options).await?;
    let place: JournalLocation = served.journal.parse()?;
    let key = prepare_agent(&served).await?;
    let mut seen = CallLogTotals::default();
    for number in 1..=kills {
        let answered = AnsweredCallIds::default();
        let callers = start_callers(&served.url, &key, number, &answered)?;
        sleep(Duration::from_millis(random.below(MAX_LIFETIME_MS))).await;
        served.server.stop(signal).await?;
        // The callers end because their connections are closed.
        timeout(Duration::from_secs(30), callers.join_all()).await?;
        let answered =
            std::mem::take(&mut *answered.lock().unwrap_or_else(PoisonError::into_inner));
        let records = place.open_call_log().await?;
        let verified = verify_call_log(&*records, AuditExpectations::default(), |_| {}).await?;
        let recorded = recorded_call_ids(&*records, seen.recorded).await?;
        seen.answered += answered.len() as u64;
        seen.lost += answered.iter().filter(|id| !recorded.contains(*id)).count() as u64;
        seen.recorded = verified.head.id;
        seen.problems += verified.problems.len();
        drop(records);
        if number.is_multiple_of(20) {
            eprintln!("{mode}: {number} times, {} answered", seen.answered);
        }
        served.restart(&options).await?;
    }
    Ok(seen)
}

/// Registers a fast builtin tool and grants it to an agent. Returns the agent's key.
async fn prepare_agent(served: &RunningToolcrib) -> anyhow::Result<String> {
    served.admin.post("sources", json!({"name": "s", "settings": {"kind": "builtin"}})).await?;
    served.admin.wait_for_inventory("s").await?;
    served.admin.post("groups", json!({"name": "all", "selectors": [{"name": "*"}]})).await?;
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
    served.admin.post("policies", policy).await?;
    let key = json!({"name": "bot", "claims": {"role": "staff"}});
    let key = served.admin.post("keys", key).await?;
    Ok(key["key"].as_str().unwrap_or_default().to_owned())
}

/// The ids of the calls that are recorded after this row.
async fn recorded_call_ids(
    records: &dyn CallLog,
    mut after: u64,
) -> anyhow::Result<HashSet<String>> {
    let mut ids = HashSet::new();
    loop {
        let (limit, oldest_first) = (1_000, true);
        let filter =
            CallFilter { after: Some(after), limit, oldest_first, ..CallFilter::default() };
        let rows = records.read_rows(filter).await?;
        let Some(last) = rows.last() else { return Ok(ids) };
        after = last.id;
        let calls = rows.iter().filter_map(|row| row.parse_call());
        ids.extend(calls.filter_map(|row| row.call.correlation_id.map(String::from)));
    }
}

fn start_callers(
    url: &str,
    key: &str,
    round: u32,
    answered: &AnsweredCallIds,
) -> anyhow::Result<JoinSet<()>> {
    let address: std::net::SocketAddr =
        url.trim_start_matches("http://").trim_end_matches("/mcp").parse()?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (key, answered) = (key.to_owned(), Arc::clone(answered));
        callers.spawn(async move {
            let Ok(mut connection) = BenchConnection::open(address).await else { return };
            for number in 0_u64.. {
                let id = format!("{round}-{caller}-{number}");
                if connection
                    .send_request(&wire::rest_call_request(&key, "s:uuid", &id))
                    .await
                    .is_err()
                {
                    return;
                }
                answered.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
        });
    }
    Ok(callers)
}
