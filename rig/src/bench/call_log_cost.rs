//! The cost of the call log: the same call of a tool in this process, without a call log, with one, and with one that
//! the call waits for. They take turns; the median of all rounds counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use call_log::SqliteCallLog;
use model::{CallStatus, Content, ToolResult};
use serde_json::{Map, Value, json};
use toolcrib::{
    AgentView, CallContext, CallLogOptions, CallRecorder, CallerIdentity, Catalog, JournalLocation,
    ProvidedTool, Registry, SystemClock, ToolCallFuture, ToolProvider, Toolcrib, ToolcribOptions,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};

const ROUNDS: usize = 9;
/// Maximum time added to a call, in µs.
const MAX_ADDED_US: f64 = 10.0;
/// A usual size of a result, in bytes.
const RESULT_BYTES: usize = 1_000;

/// A toolcrib with one configuration of the call log.
struct CallLogVariant {
    name: &'static str,
    view: AgentView,
    recorder: Option<Arc<CallRecorder>>,
    /// Time of a call in each round, in µs: median and mean.
    rounds: Vec<(f64, f64)>,
    calls: u64,
}

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let time = Duration::from_millis(if orders.quick { 100 } else { 1_000 });
    // On a thread of the runtime, where the tasks of a server run.
    let [off, on, strict] = tokio::spawn(measure_variants(time)).await??;
    for way in [&off, &on, &strict] {
        let (p50, mean) = way.median_times();
        eprintln!("  {}: p50 {p50:.1} µs, mean {mean:.1} µs, {} calls", way.name, way.calls);
    }
    let ((off, off_mean), (on, on_mean)) = (off.median_times(), on.median_times());
    let what = |what: &str| format!("a call of a tool in process: {what}");
    let added = format!("added by the record to the median ({off:.1} µs), against 10 µs");
    report.add(what(&added), on - off, MAX_ADDED_US, "µs", RatioBound::AtMost(1.0));
    let added = format!("added by the record to the average ({off_mean:.1} µs), against 10 µs");
    report.add(what(&added), on_mean - off_mean, MAX_ADDED_US, "µs", RatioBound::None);
    report.add(what("p50, with a record against without"), on, off, "µs", RatioBound::None);
    let (strict, _) = strict.median_times();
    report.add(what("p50, `strict` against without"), strict, off, "µs", RatioBound::None);
    Ok(())
}

async fn measure_variants(time: Duration) -> anyhow::Result<[CallLogVariant; 3]> {
    let folder = tempfile::tempdir()?;
    let recorder = |name: &str, strict: bool| -> anyhow::Result<Arc<CallRecorder>> {
        let records = SqliteCallLog::open(&folder.path().join(name))?;
        let options = CallLogOptions { strict, ..CallLogOptions::default() };
        Ok(CallRecorder::start(Arc::new(records), options))
    };
    let mut ways = [
        CallLogVariant::open("without a record", None).await?,
        CallLogVariant::open("with a record", Some(recorder("default", false)?)).await?,
        CallLogVariant::open("with one that is waited for", Some(recorder("strict", true)?))
            .await?,
    ];
    for _ in 0..ROUNDS {
        for way in &mut ways {
            way.run_round(time).await?;
        }
    }
    for way in &ways {
        let Some(recorder) = &way.recorder else { continue };
        recorder.flush().await;
        let stored = recorder.records().chain_bounds().await?.head.id;
        ensure!(stored == way.calls && recorder.lost_rows() == 0, "{stored} of {} rows", way.calls);
    }
    Ok(ways)
}

impl CallLogVariant {
    async fn open(name: &'static str, recorder: Option<Arc<CallRecorder>>) -> anyhow::Result<Self> {
        let journal = JournalLocation::Memory.open(SystemClock).await?;
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let registry = Registry::from_provider(Arc::new(ConstantTool::new()));
        let options =
            ToolcribOptions { recorder: recorder.clone(), registry, ..ToolcribOptions::default() };
        let crib = Toolcrib::new(catalog, client, SystemClock, options);
        let view = crib.view(&CallerIdentity::anonymous().agent);
        Ok(Self { name, view, recorder, rounds: Vec::new(), calls: 0 })
    }

    async fn run_round(&mut self, time: Duration) -> anyhow::Result<()> {
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < time {
            let arguments = Map::from_iter([("to".to_owned(), json!("somebody who listens"))]);
            let begin = Instant::now();
            let outcome = self.view.call("talk", arguments).await?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
            ensure!(outcome.status == CallStatus::Completed, "{outcome:?}");
        }
        // Flush now, so that pending writes do not slow down the next variant.
        if let Some(recorder) = &self.recorder {
            recorder.flush().await;
        }
        self.calls += times.len() as u64;
        times.sort_by(f64::total_cmp);
        let p50 = *times.get(times.len() / 2).context("nothing was called")?;
        self.rounds.push((p50, times.iter().sum::<f64>() / times.len() as f64));
        Ok(())
    }

    fn median_times(&self) -> (f64, f64) {
        let of = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let p50 = of(self.rounds.iter().map(|(p50, _)| *p50).collect());
        (p50, of(self.rounds.iter().map(|(_, mean)| *mean).collect()))
    }
}

/// A tool that takes no time.
struct ConstantTool(Arc<ProvidedTool>);

impl ConstantTool {
    fn new() -> Self {
        let input_schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        let tool = ProvidedTool { name: "talk".into(), input_schema, ..ProvidedTool::default() };
        Self(Arc::new(tool))
    }
}

impl ToolProvider for ConstantTool {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        vec![Arc::clone(&self.0)]
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        (name == &*self.0.name).then(|| Arc::clone(&self.0))
    }

    fn call_tool<'a>(
        &'a self,
        _: &'a str,
        _: Map<String, Value>,
        _: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        let content = vec![Content::Text { text: "a word ".repeat(RESULT_BYTES / 7) }];
        let (structured_content, meta) = (None, Map::new());
        let result = ToolResult { content, structured_content, is_error: false, meta };
        Box::pin(std::future::ready(Ok(result)))
    }
}
