//! The journal and the catalog, compared with the bare driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::journal::{
    AppendRequest, ChangeContext, Journal, NewEvent, Position, RecordedEvent, StreamAppend,
    StreamName, StreamVersion,
};
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use catalog::{Catalog, Command};
use model::{SchemaDocument, ToolId};
use toolcrib::{JournalLocation, SystemClock};

use super::bare_driver::BareDriver;
use super::report::{BenchReport, RatioBound};
use super::{BenchArgs, open_catalog};
use crate::{postgres, sample_inventory};

/// A store, and a bare driver that writes the same rows.
struct JournalBench {
    name: &'static str,
    place: String,
    bare: BareDriver,
}

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let scale = if orders.quick { 10 } else { 1 };
    let wanted =
        |chosen: &Option<String>, name: &str| chosen.as_ref().is_none_or(|chosen| chosen == name);
    for name in ["sqlite", "postgres"].into_iter().filter(|name| wanted(&orders.store, name)) {
        let mut bench = JournalBench::new(name, folder.path()).await?;
        if wanted(&orders.part, "appends") {
            bench.measure_appends(report, scale).await?;
        }
        if wanted(&orders.part, "refresh") {
            bench.measure_refreshes(report, scale).await?;
        }
        if wanted(&orders.part, "start") {
            measure_open(report, name, folder.path(), scale).await?;
        }
    }
    if wanted(&orders.part, "memory") {
        measure_memory(report, folder.path(), scale).await?;
    }
    Ok(())
}

async fn journal_location(name: &str, label: &str, folder: &Path) -> anyhow::Result<String> {
    match name {
        "sqlite" => Ok(folder.join(format!("{label}.db")).display().to_string()),
        _ => postgres::fresh_database(&format!("bench_{label}")).await,
    }
}

impl JournalBench {
    async fn new(name: &'static str, folder: &Path) -> anyhow::Result<Self> {
        let place_of_ours = journal_location(name, "ours", folder).await?;
        let place_of_bare = journal_location(name, "bare", folder).await?;
        // The bare driver writes into the same tables, created by the product.
        place_of_bare.parse::<JournalLocation>()?.open(SystemClock).await?;
        let bare = match name {
            "sqlite" => {
                let connection = rusqlite::Connection::open(PathBuf::from(place_of_bare))?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
                BareDriver::Sqlite(connection)
            }
            _ => BareDriver::prepare_postgres(postgres::connect(&place_of_bare).await?).await?,
        };
        Ok(Self { name, place: place_of_ours, bare })
    }

    async fn measure_appends(
        &mut self,
        report: &mut BenchReport,
        scale: usize,
    ) -> anyhow::Result<()> {
        let journal = self.place.parse::<JournalLocation>()?.open(SystemClock).await?;
        let (mut ours, mut bare) = (WorkTimer::default(), WorkTimer::default());
        let mut written = self.bare.head().await?;
        for round in 0..40 / scale {
            for turn in 0..25 {
                let append = one_event_each(&format!("single-{round}-{turn}"), 1);
                ours.run(async || journal.append(append).await).await?;
            }
            for turn in 0..25 {
                let rows =
                    event_rows(&one_event_each(&format!("single-{round}-{turn}"), 1), &mut written);
                bare.run(async || self.bare.insert(&rows, &[]).await).await?;
            }
        }
        let count = (40 / scale * 25) as f64;
        let (ours, bare) = (count / ours.total_seconds(), count / bare.total_seconds());
        report.add(
            format!("{}: single appends", self.name),
            ours,
            bare,
            "events/s",
            RatioBound::AtLeast(0.7),
        );

        let (mut ours, mut bare) = (WorkTimer::default(), WorkTimer::default());
        for round in 0..30 / scale {
            let append = one_event_each(&format!("thousand-{round}"), 1000);
            let rows = event_rows(&append, &mut written);
            ours.run(async || journal.append(append).await).await?;
            bare.run(async || self.bare.insert(&rows, &[]).await).await?;
        }
        let count = (30 / scale * 1000) as f64;
        let (ours, bare) = (count / ours.total_seconds(), count / bare.total_seconds());
        report.add(
            format!("{}: 1,000 events in one step", self.name),
            ours,
            bare,
            "events/s",
            RatioBound::AtLeast(0.7),
        );

        self.measure_concurrent_appends(report, &journal, scale).await
    }

    /// Concurrent callers share flushes; the single caller of the bare driver cannot.
    async fn measure_concurrent_appends(
        &mut self,
        report: &mut BenchReport,
        journal: &Arc<dyn Journal>,
        scale: usize,
    ) -> anyhow::Result<()> {
        let (callers, each) = (64, 80 / scale);
        let start = Instant::now();
        let mut tasks = Vec::new();
        for caller in 0..callers {
            let journal = Arc::clone(journal);
            tasks.push(tokio::spawn(async move {
                for turn in 0..each {
                    journal.append(one_event_each(&format!("together-{caller}-{turn}"), 1)).await?;
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        let ours = (callers * each) as f64 / start.elapsed().as_secs_f64();
        let mut written = self.bare.head().await?;
        let mut bare = WorkTimer::default();
        for turn in 0..200 / scale {
            let rows = event_rows(&one_event_each(&format!("alone-{turn}"), 1), &mut written);
            bare.run(async || self.bare.insert(&rows, &[]).await).await?;
        }
        let bare = (200 / scale) as f64 / bare.total_seconds();
        report.add(
            format!("{}: single appends of 64 callers, against one bare caller", self.name),
            ours,
            bare,
            "events/s",
            RatioBound::None,
        );
        Ok(())
    }

    /// A refresh with 1,000 new tools: decide, store, fold and publish, compared with a bare insert of the same rows.
    async fn measure_refreshes(
        &mut self,
        report: &mut BenchReport,
        scale: usize,
    ) -> anyhow::Result<()> {
        let catalog =
            Catalog::open(self.place.parse::<JournalLocation>()?.open(SystemClock).await?).await?;
        let (mut ours, mut bare) = (WorkTimer::default(), WorkTimer::default());
        for round in 0..20 / scale {
            let id = sample_inventory::source_id(round);
            let register =
                SourceCommand::Register(sample_inventory::profile(&format!("Shop {round}")));
            let before = catalog
                .execute(
                    Command::Source(id.clone(), register),
                    ChangeContext::by_actor("bench"),
                    None,
                )
                .await?;
            let command = Command::Ingest {
                inventory: Box::new(sample_inventory::inventory_with_own_schemas(
                    &id, 1000, 2048, round,
                )),
                force: false,
            };
            ours.run(async || {
                catalog.execute(command, ChangeContext::by_actor("bench"), None).await
            })
            .await?;
            anyhow::ensure!(
                catalog.snapshot().source(&id).is_some_and(|source| source.tools.len() == 1000)
            );

            let events = catalog.journal().read_after(before.position, 2000).await?;
            let documents = documents_of(&catalog, &id).await?;
            let head = self.bare.head().await?;
            let events = renumber_events(events, head);
            bare.run(async || self.bare.insert(&events, &documents).await).await?;
        }
        let rounds = (20 / scale) as f64;
        let (ours, bare) =
            (ours.total_seconds() / rounds * 1e3, bare.total_seconds() / rounds * 1e3);
        report.add(
            format!("{}: refresh with 1,000 new tools, shown", self.name),
            ours,
            bare,
            "ms",
            RatioBound::AtMost(2.0),
        );
        Ok(())
    }
}

/// The durations of repeated work.
#[derive(Default)]
struct WorkTimer(Vec<Duration>);

impl WorkTimer {
    async fn run<T, E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let result = work().await?;
        self.0.push(start.elapsed());
        Ok(result)
    }

    fn total_seconds(&self) -> f64 {
        self.0.iter().sum::<Duration>().as_secs_f64()
    }
}

/// An append of one new event to each of `count` new streams, about 1 KB each.
fn one_event_each(label: &str, count: usize) -> AppendRequest {
    let data = format!(r#"{{"label":"{label}","padding":"{}"}}"#, "x".repeat(1000));
    let stream = |number: usize| StreamAppend {
        stream: StreamName::new(&format!("bench-{label}-{number}")),
        expected: StreamVersion::NONE,
        events: vec![NewEvent { kind: "BenchEvent".into(), data: data.as_str().into() }],
    };
    AppendRequest {
        streams: (0..count).map(stream).collect(),
        context: ChangeContext::by_actor("bench"),
        ..AppendRequest::default()
    }
}

/// The rows of an append as the bare driver writes them.
fn event_rows(append: &AppendRequest, written: &mut u64) -> Vec<RecordedEvent> {
    let mut rows = Vec::new();
    for stream in &append.streams {
        for event in &stream.events {
            *written += 1;
            rows.push(RecordedEvent {
                position: Position(*written),
                stream: stream.stream.clone(),
                version: StreamVersion(1),
                kind: event.kind.clone(),
                time: jiff::Timestamp::UNIX_EPOCH,
                actor: append.context.actor.as_str().into(),
                correlation_id: None,
                causation_id: None,
                data: event.data.clone(),
            });
        }
    }
    rows
}

fn renumber_events(events: Vec<RecordedEvent>, head: u64) -> Vec<RecordedEvent> {
    let place = |(event, position)| RecordedEvent { position: Position(position), ..event };
    events.into_iter().zip(head + 1..).map(place).collect()
}

async fn documents_of(
    catalog: &Catalog,
    id: &model::SourceId,
) -> anyhow::Result<Vec<SchemaDocument>> {
    let snapshot = catalog.snapshot();
    let source = snapshot.source(id).ok_or_else(|| anyhow::anyhow!("no source"))?;
    let tools = source.tools.iter().filter_map(|slot| snapshot.tool_at(slot));
    let schemas = tools.flat_map(|tool| tool.input_schema.iter().chain(&tool.output_schema));
    let documents = schemas.flat_map(|schema| schema.documents().iter().cloned());
    let unique: BTreeMap<_, _> = documents.map(|document| (document.digest, document)).collect();
    Ok(unique.into_values().collect())
}

/// Opens the same catalog after a short and a long history: with a checkpoint, the length must not matter.
async fn measure_open(
    report: &mut BenchReport,
    name: &'static str,
    folder: &Path,
    scale: usize,
) -> anyhow::Result<()> {
    let (short, long) = (10_000 / scale, 1_000_000 / scale);
    let mut seconds = Vec::new();
    for events in [short, long] {
        let place = journal_location(name, &format!("start_{events}"), folder).await?;
        create_history(&place, events).await?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let opened = open_catalog::open_in_child_process(&place)?;
            anyhow::ensure!(opened.position as usize >= events && opened.tools == 5000 / scale);
            times.push(opened.seconds);
        }
        times.sort_by(f64::total_cmp);
        seconds.push(times[times.len() / 2]);
    }
    report.add(
        format!("{name}: start after {long} events, against 2 s"),
        seconds[1],
        2.0,
        "s",
        RatioBound::AtMost(1.0),
    );
    report.add(
        format!("{name}: start after {long} events, against {short}"),
        seconds[1],
        seconds[0],
        "s",
        RatioBound::AtMost(2.0),
    );
    Ok(())
}

/// Creates 5,000 tools, toggles tools until there are enough events, then writes a checkpoint.
async fn create_history(place: &str, events: usize) -> anyhow::Result<()> {
    let scale = if events < 10_000 || events == 100_000 { 10 } else { 1 };
    let journal = place.parse::<JournalLocation>()?.open(SystemClock).await?;
    let catalog = Catalog::open(Arc::clone(&journal)).await?;
    let by = || ChangeContext::by_actor("bench");
    for source in 0..5 {
        let id = sample_inventory::source_id(source);
        let register =
            SourceCommand::Register(sample_inventory::profile(&format!("Shop {source}")));
        catalog.execute(Command::Source(id.clone(), register), by(), None).await?;
        let inventory = Box::new(sample_inventory::inventory(&id, 1000 / scale, 2048, 0));
        catalog.execute(Command::Ingest { inventory, force: false }, by(), None).await?;
    }
    let tools: Vec<ToolId> =
        catalog.snapshot().tools().map(|entry| entry.tool.id.clone()).collect();
    let kinds = ["ToolDisabled", "ToolEnabled"];
    let mut head = catalog.snapshot().position().0 as usize;
    let mut turn = 0;
    let mut streams = Vec::new();
    while head < events {
        for tool in &tools {
            let event = NewEvent { kind: kinds[turn % 2].into(), data: "{}".into() };
            let expected = StreamVersion(1 + turn as u64);
            streams.push(StreamAppend {
                stream: StreamName::for_tool(tool),
                expected,
                events: vec![event],
            });
        }
        turn += 1;
        head += tools.len();
        let streams = std::mem::take(&mut streams);
        journal
            .append(AppendRequest { streams, context: by(), ..AppendRequest::default() })
            .await?;
    }
    // Execute one command through the catalog: it returns when all earlier events are visible.
    let last = Command::Tool(
        tools[0].clone(),
        ToolCommand::Override(catalog::tool::ToolOverride::default()),
    );
    catalog.execute(last, by(), None).await?;
    catalog.wait_until_visible(journal.head_position().await?).await?;
    catalog.checkpoint_now().await?;
    catalog.close().await;
    Ok(())
}

/// Memory of 100,000 tools with 2 KB manifests, in a separate process that opens the catalog from a checkpoint.
async fn measure_memory(
    report: &mut BenchReport,
    folder: &Path,
    scale: usize,
) -> anyhow::Result<()> {
    let place = folder.join("memory.db").display().to_string();
    let mut bytes = 0;
    {
        let catalog =
            Catalog::open(place.parse::<JournalLocation>()?.open(SystemClock).await?).await?;
        for source in 0..100 / scale {
            let id = sample_inventory::source_id(source);
            let register =
                SourceCommand::Register(sample_inventory::profile(&format!("Shop {source}")));
            catalog
                .execute(
                    Command::Source(id.clone(), register),
                    ChangeContext::by_actor("bench"),
                    None,
                )
                .await?;
            // Different numbers for each source, so that no two tools share a schema.
            let inventory =
                Box::new(sample_inventory::inventory_with_own_schemas(&id, 1000, 2048, source));
            bytes += sample_inventory::inventory_size(1000, 2048);
            catalog
                .execute(
                    Command::Ingest { inventory, force: false },
                    ChangeContext::by_actor("bench"),
                    None,
                )
                .await?;
        }
        catalog.checkpoint_now().await?;
        catalog.close().await;
    }
    let opened = open_catalog::open_in_child_process(&place)?;
    anyhow::ensure!(opened.tools == 100_000 / scale);
    let megabytes = |bytes: f64| bytes / 1e6;
    let what = format!("memory: {} tools with 2 KB manifests", opened.tools);
    report.add(
        what,
        megabytes(opened.resident_bytes),
        megabytes(bytes as f64),
        "MB",
        RatioBound::AtMost(2.0),
    );
    report.add(
        format!("start with {} tools, against 2 s", opened.tools),
        opened.seconds,
        2.0,
        "s",
        RatioBound::None,
    );
    Ok(())
}
