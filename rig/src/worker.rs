//! `worker`: changes a catalog as fast as possible until it is killed, and writes notes of the acknowledgements.
//!
//! Each command has a key that is also the correlation id of its events. The notes hold `try KEY N` before a command
//! and `ack KEY POSITION changed|same` after it. Commands without an acknowledgement in an earlier life are retried
//! first, with the same key.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catalog::group::GroupCommand;
use catalog::journal::ChangeContext;
use catalog::label::LabelCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use catalog::{Catalog, Command, CommandError};
use model::{GroupProfile, LabelProfile, NewGroup, PolicyRules, SelectorMode, ToolId};
use serde_json::json;
use toolcrib::{JournalLocation, SystemClock};

use crate::sample_inventory;

#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    /// Which journal.
    #[arg(long)]
    journal: JournalLocation,
    /// Where to note what was tried and acknowledged.
    #[arg(long)]
    notes: PathBuf,
    /// Which node this is.
    #[arg(long, default_value_t = 0)]
    node: u32,
    /// How many writers at once.
    #[arg(long, default_value_t = 16)]
    writers: u32,
    /// Stop after this many commands of each writer.
    #[arg(long)]
    commands: Option<u64>,
}

pub(crate) async fn run(orders: WorkerArgs) -> anyhow::Result<()> {
    let unanswered = read_unanswered(&orders.notes)?;
    let notes = Arc::new(OpenOptions::new().create(true).append(true).open(&orders.notes)?);
    let life = unanswered.lives;
    append_note(&notes, &format!("life {life}"))?;
    let catalog = Arc::new(open_catalog(&orders.journal).await?);
    for (key, number) in unanswered.commands {
        execute_and_note(&catalog, &notes, &key, number).await?;
    }
    let mut writers = Vec::new();
    for writer in 0..orders.writers {
        let (catalog, notes, node) = (Arc::clone(&catalog), Arc::clone(&notes), orders.node);
        let last = orders.commands.unwrap_or(u64::MAX);
        writers.push(tokio::spawn(async move {
            for turn in 0..last {
                let key = format!("key-{node}-{life}-{writer}-{turn}-end");
                let number =
                    u64::from(node) * 1_000_003 + life * 7919 + u64::from(writer) * 104_729 + turn;
                append_note(&notes, &format!("try {key} {number}"))?;
                execute_and_note(&catalog, &notes, &key, number).await?;
                if writer == 0 && turn % 20 == 19 {
                    let snapshot = catalog.snapshot();
                    append_note(
                        &notes,
                        &format!("live {} {}", snapshot.position(), snapshot.digest()),
                    )?;
                }
                if writer == 1 && turn % 50 == 49 {
                    match catalog.checkpoint_now().await {
                        Err(error) if !error.is_retryable() => return Err(error.into()),
                        Ok(()) | Err(_) => {}
                    }
                }
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    Ok(())
}

/// Opens the catalog. Waits for a PostgreSQL server that is restarting; a file must be available at once.
async fn open_catalog(place: &JournalLocation) -> anyhow::Result<Catalog> {
    let start = Instant::now();
    loop {
        let opened = async { Catalog::open(place.open(SystemClock).await?).await }.await;
        let waits = matches!(place, JournalLocation::Postgres(_))
            && start.elapsed() < Duration::from_secs(60);
        match opened {
            Ok(catalog) => return Ok(catalog),
            Err(_) if waits => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn execute_and_note(
    catalog: &Catalog,
    notes: &File,
    key: &str,
    number: u64,
) -> anyhow::Result<()> {
    let mut context = ChangeContext::by_actor("rig");
    context.correlation_id = Some(key.into());
    let line = match catalog.execute(command_for(number), context, Some(key)).await {
        Ok(executed) => {
            let changed = executed.answer["changed"] != json!(false);
            format!("ack {key} {} {}", executed.position, if changed { "changed" } else { "same" })
        }
        // A refusal counts as an answer: the entity already exists, or is missing.
        Err(CommandError::Refused(_)) => format!("no {key}"),
        Err(CommandError::Busy { .. }) => format!("no {key}"),
        // The database is unreachable or was killed: the command stays unanswered and is retried in the next life.
        Err(CommandError::Journal(error)) if error.is_retryable() => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(());
        }
        Err(error) => return Err(error).context(format!("command {key}")),
    };
    append_note(notes, &line)
}

fn append_note(mut notes: &File, line: &str) -> anyhow::Result<()> {
    notes.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

/// A mix of all commands, derived from a number so that it can be repeated; impossible commands are refused.
fn command_for(number: u64) -> Command {
    let source = sample_inventory::source_id((number % 7) as usize);
    let small = number % 23;
    match number % 16 {
        0 => Command::Source(
            source.clone(),
            SourceCommand::Register(sample_inventory::profile(&format!("Source {source}"))),
        ),
        1 | 2 => {
            let (tools, edition) = (5 + (number % 11) as usize, (number % 13) as usize);
            let inventory = Box::new(sample_inventory::inventory(&source, tools, 900, edition));
            Command::Ingest { inventory, force: true }
        }
        3 => Command::Source(
            source,
            SourceCommand::Update(sample_inventory::profile(&format!("Renamed {}", number % 5))),
        ),
        4 => Command::Source(
            source,
            if number.is_multiple_of(32) { SourceCommand::Disable } else { SourceCommand::Enable },
        ),
        5 if number.is_multiple_of(5) => Command::Source(source, SourceCommand::Remove),
        5 => Command::Source(source, SourceCommand::StartSync),
        6 => Command::Label(slug("label", small), LabelCommand::Create(label_profile(number))),
        7 => Command::Label(slug("label", small), LabelCommand::Update(label_profile(number))),
        8 => Command::Group(slug("group", small), GroupCommand::Create(Box::new(new_group(small)))),
        9 => Command::Group(slug("group", small), GroupCommand::ReplaceTools(some_tools(number))),
        10 => Command::Policy(slug("policy", small), PolicyCommand::Define(policy_rules(number))),
        11 => Command::Policy(slug("policy", small), PolicyCommand::Update(policy_rules(number))),
        _ => {
            let tool =
                ToolId::new(&source, &format!("operation_{}", number % 9)).expect("a tool id");
            let labels = [slug("label", small)].into();
            Command::Tool(
                tool,
                match number % 4 {
                    0 => ToolCommand::Enable,
                    1 => ToolCommand::Disable,
                    2 => ToolCommand::Label(labels),
                    _ => ToolCommand::Override(catalog::tool::ToolOverride {
                        name: Some(format!("name_{}", number % 17).into()),
                        ..catalog::tool::ToolOverride::default()
                    }),
                },
            )
        }
    }
}

fn slug<K>(what: &str, number: u64) -> model::id::Slug<K> {
    format!("{what}-{number}").parse().expect("a slug")
}

fn label_profile(number: u64) -> LabelProfile {
    LabelProfile {
        name: format!("Label {number}").parse().expect("a name"),
        description: "".into(),
        colour: Default::default(),
    }
}

fn new_group(number: u64) -> NewGroup {
    let selectors = json!([{"name": format!("operation_{}*", number % 9)}]);
    NewGroup {
        id: slug("group", number),
        profile: GroupProfile {
            name: format!("Group {number}").parse().expect("a name"),
            description: "".into(),
            selector_mode: SelectorMode::Any,
            visibility: None,
        },
        selectors: serde_json::from_value(selectors).expect("selectors"),
        tools: BTreeSet::new(),
        excluded: vec![],
    }
}

fn some_tools(number: u64) -> BTreeSet<ToolId> {
    let tool = |key: u64| {
        ToolId::new(
            &sample_inventory::source_id((number % 7) as usize),
            &format!("operation_{key}"),
        )
    };
    (0..5).map(|key| tool((number + key) % 12).expect("a tool id")).collect()
}

fn policy_rules(number: u64) -> PolicyRules {
    let rules = json!({"name": format!("Policy {number}"), "priority": number % 9, "groups": [slug::<()>("group", number % 23)],
        "matchers": [{"claim": "team", "operator": "equals", "value": number % 5}]});
    serde_json::from_value(rules).expect("rules")
}

struct UnansweredCommands {
    lives: u64,
    commands: Vec<(String, u64)>,
}

fn read_unanswered(notes: &PathBuf) -> anyhow::Result<UnansweredCommands> {
    let mut open = BTreeMap::new();
    let mut lives = 0;
    if let Ok(file) = File::open(notes) {
        for line in BufReader::new(file).lines() {
            let line = line?;
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["try", key, number] => {
                    open.insert(key.to_owned(), number.parse()?);
                }
                ["ack", key, _, _] | ["no", key] => {
                    open.remove(key);
                }
                ["life", _] => lives += 1,
                _ => {}
            }
        }
    }
    Ok(UnansweredCommands { lives, commands: open.into_iter().collect() })
}
