//! The journal and the catalog, compared with the bare driver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::journal::{
    Append, Context, Journal, NewEvent, Position, Recorded, StreamAppend, StreamName, Version,
};
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use catalog::{Catalog, Command};
use model::{Document, ToolId};
use toolcrib::{JournalPlace, SystemClock};

use super::bare::Bare;
use super::report::{Bound, Report};
use super::{Orders, opened};
use crate::{postgres, world};

/// A store, and a bare driver that writes the same rows.
struct Bench {
    name: &'static str,
    place: String,
    bare: Bare,
}

pub(super) async fn run(report: &mut Report, orders: &Orders) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let scale = if orders.quick { 10 } else { 1 };
    let wanted =
        |chosen: &Option<String>, name: &str| chosen.as_ref().is_none_or(|chosen| chosen == name);
    for name in ["sqlite", "postgres"].into_iter().filter(|name| wanted(&orders.store, name)) {
        let mut bench = Bench::new(name, folder.path()).await?;
        if wanted(&orders.part, "appends") {
            bench.appends(report, scale).await?;
        }
        if wanted(&orders.part, "refresh") {
            bench.refreshes(report, scale).await?;
        }
        if wanted(&orders.part, "start") {
            start(report, name, folder.path(), scale).await?;
        }
    }
    if wanted(&orders.part, "memory") {
        memory(report, folder.path(), scale).await?;
    }
    Ok(())
}

async fn place(name: &str, label: &str, folder: &Path) -> anyhow::Result<String> {
    match name {
        "sqlite" => Ok(folder.join(format!("{label}.db")).display().to_string()),
        _ => postgres::fresh_database(&format!("bench_{label}")).await,
    }
}

impl Bench {
    async fn new(name: &'static str, folder: &Path) -> anyhow::Result<Self> {
        let place_of_ours = place(name, "ours", folder).await?;
        let place_of_bare = place(name, "bare", folder).await?;
        // The bare driver writes into the same tables, created by the product.
        place_of_bare.parse::<JournalPlace>()?.open(SystemClock).await?;
        let bare = match name {
            "sqlite" => {
                let connection = rusqlite::Connection::open(PathBuf::from(place_of_bare))?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
                Bare::Sqlite(connection)
            }
            _ => Bare::postgres(postgres::connect(&place_of_bare).await?).await?,
        };
        Ok(Self { name, place: place_of_ours, bare })
    }

    async fn appends(&mut self, report: &mut Report, scale: usize) -> anyhow::Result<()> {
        let journal = self.place.parse::<JournalPlace>()?.open(SystemClock).await?;
        let (mut ours, mut bare) = (Timer::default(), Timer::default());
        let mut written = self.bare.head().await?;
        for round in 0..40 / scale {
            for turn in 0..25 {
                let append = one_event_each(&format!("single-{round}-{turn}"), 1);
                ours.run(async || journal.append(append).await).await?;
            }
            for turn in 0..25 {
                let rows =
                    rows(&one_event_each(&format!("single-{round}-{turn}"), 1), &mut written);
                bare.run(async || self.bare.insert(&rows, &[]).await).await?;
            }
        }
        let count = (40 / scale * 25) as f64;
        let (ours, bare) = (count / ours.seconds(), count / bare.seconds());
        report.add(
            format!("{}: single appends", self.name),
            ours,
            bare,
            "events/s",
            Bound::AtLeast(0.7),
        );

        let (mut ours, mut bare) = (Timer::default(), Timer::default());
        for round in 0..30 / scale {
            let append = one_event_each(&format!("thousand-{round}"), 1000);
            let rows = rows(&append, &mut written);
            ours.run(async || journal.append(append).await).await?;
            bare.run(async || self.bare.insert(&rows, &[]).await).await?;
        }
        let count = (30 / scale * 1000) as f64;
        let (ours, bare) = (count / ours.seconds(), count / bare.seconds());
        report.add(
            format!("{}: 1,000 events in one step", self.name),
            ours,
            bare,
            "events/s",
            Bound::AtLeast(0.7),
        );

        self.together(report, &journal, scale).await
    }

    /// Concurrent callers share flushes; the single caller of the bare driver cannot.
    async fn together(
        &mut self,
        report: &mut Report,
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
        let mut bare = Timer::default();
        for turn in 0..200 / scale {
            let rows = rows(&one_event_each(&format!("alone-{turn}"), 1), &mut written);
            bare.run(async || self.bare.insert(&rows, &[]).await).await?;
        }
        let bare = (200 / scale) as f64 / bare.seconds();
        report.add(
            format!("{}: single appends of 64 callers, against one bare caller", self.name),
            ours,
            bare,
            "events/s",
            Bound::None,
        );
        Ok(())
    }

    /// A refresh with 1,000 new tools: decide, store, fold and publish, compared with a bare insert of the same rows.
    async fn refreshes(&mut self, report: &mut Report, scale: usize) -> anyhow::Result<()> {
        let catalog =
            Catalog::open(self.place.parse::<JournalPlace>()?.open(SystemClock).await?).await?;
        let (mut ours, mut bare) = (Timer::default(), Timer::default());
        for round in 0..20 / scale {
            let id = world::source_id(round);
            let register = SourceCommand::Register(world::profile(&format!("Shop {round}")));
            let before = catalog
                .execute(Command::Source(id.clone(), register), Context::by("bench"), None)
                .await?;
            let command = Command::Ingest {
                inventory: Box::new(world::inventory_apart(&id, 1000, 2048, round)),
                force: false,
            };
            ours.run(async || catalog.execute(command, Context::by("bench"), None).await).await?;
            anyhow::ensure!(
                catalog.snapshot().source(&id).is_some_and(|source| source.tools.len() == 1000)
            );

            let events = catalog.journal().read_after(before.position, 2000).await?;
            let documents = documents_of(&catalog, &id).await?;
            let head = self.bare.head().await?;
            let events = renumbered(events, head);
            bare.run(async || self.bare.insert(&events, &documents).await).await?;
        }
        let rounds = (20 / scale) as f64;
        let (ours, bare) = (ours.seconds() / rounds * 1e3, bare.seconds() / rounds * 1e3);
        report.add(
            format!("{}: refresh with 1,000 new tools, shown", self.name),
            ours,
            bare,
            "ms",
            Bound::AtMost(2.0),
        );
        Ok(())
    }
}

/// The durations of repeated work.
#[derive(Default)]
struct Timer(Vec<Duration>);

impl Timer {
    async fn run<T, E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let result = work().await?;
        self.0.push(start.elapsed());
        Ok(result)
    }

    fn seconds(&self) -> f64 {
        self.0.iter().sum::<Duration>().as_secs_f64()
    }
}

/// An append of one new event to each of `count` new streams, about 1 KB each.
fn one_event_each(label: &str, count: usize) -> Append {
    let data = format!(r#"{{"label":"{label}","padding":"{}"}}"#, "x".repeat(1000));
    let stream = |number: usize| StreamAppend {
        stream: StreamName::new(&format!("bench-{label}-{number}")),
        expected: Version::NONE,
        events: vec![NewEvent { kind: "BenchEvent".into(), data: data.as_str().into() }],
    };
    Append {
        streams: (0..count).map(stream).collect(),
        context: Context::by("bench"),
        ..Append::default()
    }
}

/// The rows of an append as the bare driver writes them.
fn rows(append: &Append, written: &mut u64) -> Vec<Recorded> {
    let mut rows = Vec::new();
    for stream in &append.streams {
        for event in &stream.events {
            *written += 1;
            rows.push(Recorded {
                position: Position(*written),
                stream: stream.stream.clone(),
                version: Version(1),
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

fn renumbered(events: Vec<Recorded>, head: u64) -> Vec<Recorded> {
    let place = |(event, position)| Recorded { position: Position(position), ..event };
    events.into_iter().zip(head + 1..).map(place).collect()
}

async fn documents_of(catalog: &Catalog, id: &model::SourceId) -> anyhow::Result<Vec<Document>> {
    let snapshot = catalog.snapshot();
    let source = snapshot.source(id).ok_or_else(|| anyhow::anyhow!("no source"))?;
    let tools = source.tools.iter().filter_map(|slot| snapshot.tool_at(slot));
    let schemas = tools.flat_map(|tool| tool.input_schema.iter().chain(&tool.output_schema));
    let documents = schemas.flat_map(|schema| schema.documents().iter().cloned());
    let unique: BTreeMap<_, _> = documents.map(|document| (document.digest, document)).collect();
    Ok(unique.into_values().collect())
}

/// Opens the same catalog after a short and a long history: with a checkpoint, the length must not matter.
async fn start(
    report: &mut Report,
    name: &'static str,
    folder: &Path,
    scale: usize,
) -> anyhow::Result<()> {
    let (short, long) = (10_000 / scale, 1_000_000 / scale);
    let mut seconds = Vec::new();
    for events in [short, long] {
        let place = place(name, &format!("start_{events}"), folder).await?;
        with_history(&place, events).await?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let opened = opened::elsewhere(&place)?;
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
        Bound::AtMost(1.0),
    );
    report.add(
        format!("{name}: start after {long} events, against {short}"),
        seconds[1],
        seconds[0],
        "s",
        Bound::AtMost(2.0),
    );
    Ok(())
}

/// Creates 5,000 tools, toggles tools until there are enough events, then writes a checkpoint.
async fn with_history(place: &str, events: usize) -> anyhow::Result<()> {
    let scale = if events < 10_000 || events == 100_000 { 10 } else { 1 };
    let journal = place.parse::<JournalPlace>()?.open(SystemClock).await?;
    let catalog = Catalog::open(Arc::clone(&journal)).await?;
    let by = || Context::by("bench");
    for source in 0..5 {
        let id = world::source_id(source);
        let register = SourceCommand::Register(world::profile(&format!("Shop {source}")));
        catalog.execute(Command::Source(id.clone(), register), by(), None).await?;
        let inventory = Box::new(world::inventory(&id, 1000 / scale, 2048, 0));
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
            let expected = Version(1 + turn as u64);
            streams.push(StreamAppend {
                stream: StreamName::tool(tool),
                expected,
                events: vec![event],
            });
        }
        turn += 1;
        head += tools.len();
        let streams = std::mem::take(&mut streams);
        journal.append(Append { streams, context: by(), ..Append::default() }).await?;
    }
    // Execute one command through the catalog: it returns when all earlier events are visible.
    let last =
        Command::Tool(tools[0].clone(), ToolCommand::Override(catalog::tool::Override::default()));
    catalog.execute(last, by(), None).await?;
    catalog.shown(journal.head().await?).await?;
    catalog.checkpoint().await?;
    catalog.close().await;
    Ok(())
}

/// Memory of 100,000 tools with 2 KB manifests, in a separate process that opens the catalog from a checkpoint.
async fn memory(report: &mut Report, folder: &Path, scale: usize) -> anyhow::Result<()> {
    let place = folder.join("memory.db").display().to_string();
    let mut bytes = 0;
    {
        let catalog =
            Catalog::open(place.parse::<JournalPlace>()?.open(SystemClock).await?).await?;
        for source in 0..100 / scale {
            let id = world::source_id(source);
            let register = SourceCommand::Register(world::profile(&format!("Shop {source}")));
            catalog
                .execute(Command::Source(id.clone(), register), Context::by("bench"), None)
                .await?;
            // Different numbers for each source, so that no two tools share a schema.
            let inventory = Box::new(world::inventory_apart(&id, 1000, 2048, source));
            bytes += world::inventory_size(1000, 2048);
            catalog
                .execute(Command::Ingest { inventory, force: false }, Context::by("bench"), None)
                .await?;
        }
        catalog.checkpoint().await?;
        catalog.close().await;
    }
    let opened = opened::elsewhere(&place)?;
    anyhow::ensure!(opened.tools == 100_000 / scale);
    let megabytes = |bytes: f64| bytes / 1e6;
    let what = format!("memory: {} tools with 2 KB manifests", opened.tools);
    report.add(
        what,
        megabytes(opened.resident_bytes),
        megabytes(bytes as f64),
        "MB",
        Bound::AtMost(2.0),
    );
    report.add(
        format!("start with {} tools, against 2 s", opened.tools),
        opened.seconds,
        2.0,
        "s",
        Bound::None,
    );
    Ok(())
}
