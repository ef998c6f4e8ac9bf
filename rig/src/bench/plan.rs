//! `toolcrib plan`: the run time of the program that computes the effect of one changed policy on many identities, from
//! its start to its exit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::{Catalog, Command as CatalogCommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{ChangeContext, JournalLocation, SystemClock};

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};
use crate::sample_inventory;

const ROUNDS: usize = 5;
const TOOLS_PER_SOURCE: usize = 1_000;
const GROUPS: usize = 100;
/// Maximum run time of a plan, in seconds.
const MAX_PLAN_SECONDS: f64 = 2.0;

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let scale = if orders.quick { 10 } else { 1 };
    let (sources, identities) = (10 / scale, 1_000 / scale);
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("plan.db");
    create_catalog(&journal, sources).await?;
    let file = folder.path().join("crib.json");
    fs::write(&file, configuration_with(identities).to_string())?;
    let (mut best, mut affected) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let planned = run_plan(&journal, &file)?;
        best = best.min(start.elapsed().as_secs_f64());
        let effects = planned["identities"].as_array().context("there are effects")?;
        let gains = |effect: &&Value| effect["gained"].as_array().is_some_and(|g| !g.is_empty());
        affected = effects.iter().filter(gains).count();
        let changes = planned["changes"].as_array().map(Vec::len);
        ensure!(changes == Some(1), "one policy changes, not {changes:?}");
    }
    ensure!(
        identities <= 2 * affected,
        "only {affected} of {identities} identities gain something"
    );
    let tools = sources * TOOLS_PER_SOURCE;
    let what = format!(
        "one policy changed over {tools} tools, for {identities} identities with half of them and more, against {MAX_PLAN_SECONDS} s"
    );
    report.add(what, best, MAX_PLAN_SECONDS, "s", RatioBound::AtMost(1.0));
    Ok(())
}

/// Each group has a tenth of a source's tools. One policy applies to all agents, and one to each role.
async fn create_catalog(journal: &Path, sources: usize) -> anyhow::Result<()> {
    let place: JournalLocation = journal.display().to_string().parse()?;
    let catalog = Catalog::open(place.open(SystemClock).await?).await?;
    let catalog = Arc::new(catalog);
    let execute =
        async |command| catalog.execute(command, ChangeContext::by_actor("bench"), None).await;
    for number in 0..sources {
        let id = sample_inventory::source_id(number);
        execute(CatalogCommand::Source(
            id.clone(),
            SourceCommand::Register(sample_inventory::profile(id.as_str())),
        ))
        .await?;
        let inventory = Box::new(sample_inventory::inventory(&id, TOOLS_PER_SOURCE, 400, 0));
        execute(CatalogCommand::Ingest { inventory, force: false }).await?;
    }
    for number in 0..GROUPS {
        let id = format!("group-{number}");
        let source = format!("source-{}", number % sources);
        let selector = json!({"source": source, "name": format!("*{}", number / 10)});
        let new = json!({"id": id, "profile": {"name": id}, "selectors": [selector]});
        execute(CatalogCommand::Group(id.parse()?, GroupCommand::Create(Box::new(from_json(new)))))
            .await?;
    }
    for number in 0..GROUPS {
        let rules = role_policy(&format!("role-{number}"), &[number, (number + 37) % GROUPS]);
        let define = PolicyCommand::Define(from_json(rules));
        execute(CatalogCommand::Policy(format!("policy-{number}").parse()?, define)).await?;
    }
    // Half of all tools; their names clash with those of other sources.
    let odd = json!({"id": "odd", "profile": {"name": "odd"}, "selectors": [{"name": "*[13579]"}]});
    execute(CatalogCommand::Group("odd".parse()?, GroupCommand::Create(Box::new(from_json(odd)))))
        .await?;
    for (id, group) in [("basics", "odd"), ("everybody", "group-0")] {
        let define = PolicyCommand::Define(from_json(policy_for_everyone(group)));
        execute(CatalogCommand::Policy(id.parse()?, define)).await?;
    }
    let catalog = Arc::into_inner(catalog).context("nobody else has the catalog")?;
    catalog.close().await;
    Ok(())
}

fn role_policy(role: &str, groups: &[usize]) -> Value {
    let groups: Vec<String> = groups.iter().map(|group| format!("group-{group}")).collect();
    let matcher = json!({"claim": "roles", "operator": "contains", "value": role});
    json!({"name": role, "matchers": [matcher], "groups": groups})
}

fn policy_for_everyone(group: &str) -> Value {
    let matcher = json!({"claim": "sub", "operator": "exists"});
    json!({"name": "Everybody", "matchers": [matcher], "groups": [group]})
}

/// All agents get the tools of another group beside half of all tools. Few identities have the same roles.
fn configuration_with(identities: usize) -> Value {
    let identity = |number: usize| {
        let roles =
            [number % 97 + 1, number / 10, (number * 7) % 89].map(|role| format!("role-{role}"));
        json!({"name": format!("agent {number}"), "claims": {"sub": format!("{number}"), "roles": roles}})
    };
    let identities: Vec<Value> = (0..identities).map(identity).collect();
    let mut everybody = policy_for_everyone("group-20");
    everybody["id"] = json!("everybody");
    json!({"policies": [everybody], "identities": identities})
}

fn run_plan(journal: &Path, file: &Path) -> anyhow::Result<Value> {
    // Cargo builds both programs into the same folder.
    let program = std::env::current_exe()?.with_file_name("toolcrib");
    let plan = Command::new(program)
        .args(["plan", "--json", "--journal"])
        .arg(journal)
        .arg(file)
        .output()?;
    let said = String::from_utf8_lossy(&plan.stderr);
    ensure!(plan.status.code() == Some(2), "the plan ended with {}: {said}", plan.status);
    Ok(serde_json::from_slice(&plan.stdout)?)
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the bench writes what can be read")
}
