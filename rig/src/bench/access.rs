//! Access: the time to compute the toolset of an agent, and the time until a change is visible.

use std::sync::Arc;
use std::time::Instant;

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use catalog::{Catalog, Command};
use model::{Agent, ToolId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{ChangeContext, JournalLocation, SystemClock, Toolcrib, ToolcribOptions};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};
use crate::sample_inventory;

const TOOLS_PER_SOURCE: usize = 1_000;
/// Number of rounds; the best one counts.
const ROUNDS: usize = 7;

pub(super) async fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let scale = if orders.quick { 10 } else { 1 };
    let folder = tempfile::tempdir()?;
    let small = create_crib("memory:", 1, 1_000 / scale).await?;
    let sources = 100 / scale;
    let large = create_crib("memory:", sources, 1_000 / scale).await?;
    let tools = sources * TOOLS_PER_SOURCE;
    measure_known_claims(report, &small, &large, tools);
    measure_name_lookups(report, &large);
    measure_new_claims(report, &large, tools, 7);
    measure_new_claims(report, &large, tools, 1);
    measure_change(report, &large, "in memory", tools).await?;
    drop(large);
    let file = folder.path().join("access.db").display().to_string();
    let stored = create_crib(&file, sources, 1_000 / scale).await?;
    measure_change(report, &stored, "in SQLite, flushed", tools).await
}

/// As many groups as policies. The n-th policy grants two groups to team n; every tenth policy applies to agents with
/// its own role.
async fn create_crib(place: &str, sources: usize, policies: usize) -> anyhow::Result<Toolcrib> {
    let journal = place.parse::<JournalLocation>()?.open(SystemClock).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(EgressPolicy::default());
    let crib = Toolcrib::new(catalog, client, SystemClock, ToolcribOptions::default());
    let execute = async |command| {
        crib.catalog().execute(command, ChangeContext::by_actor("bench"), None).await
    };
    for number in 0..sources {
        let id = sample_inventory::source_id(number);
        let register = SourceCommand::Register(sample_inventory::profile(id.as_str()));
        execute(Command::Source(id.clone(), register)).await?;
        let inventory = Box::new(sample_inventory::inventory(&id, TOOLS_PER_SOURCE, 400, 0));
        execute(Command::Ingest { inventory, force: false }).await?;
    }
    for number in 0..policies {
        let id = format!("group-{number}");
        let source = format!("source-{}", number % sources);
        let selectors = match number % 10 {
            0 => json!([{"required_tags": ["tag-3"]}]),
            1 => json!([{"path": format!("/shops/*/orders/{}*", number % 97)}]),
            _ => json!([{"source": source, "name": format!("*{}", number % 10)}]),
        };
        let new = json!({"id": id, "profile": {"name": id}, "selectors": selectors});
        let create = GroupCommand::Create(Box::new(from_json(new)));
        execute(Command::Group(id.parse()?, create)).await?;
    }
    for number in 0..policies {
        let claim = match number % 10 {
            0 => json!({"claim": "team", "operator": "equals", "value": format!("team-{number}")}),
            _ => {
                json!({"claim": "realm.roles", "operator": "contains", "value": format!("role-{number}")})
            }
        };
        let groups = [number, (number * 7 + 1) % policies].map(|group| format!("group-{group}"));
        let other = json!({"claim": "email", "operator": "matches", "value": ".*@example\\.com"});
        let rules = json!({"name": "p", "matchers": [claim, other], "groups": groups});
        let define = PolicyCommand::Define(from_json(rules));
        execute(Command::Policy(format!("policy-{number}").parse()?, define)).await?;
    }
    Ok(crib)
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the bench writes what can be read")
}

/// An agent with a share of all roles. The number varies claims that policies read.
fn agent_with_roles(number: usize, issued_at: usize, every: usize) -> Agent {
    let roles = (number % every..1_000).step_by(every).map(|role| format!("role-{role}"));
    let roles: Vec<String> = roles.collect();
    let claims = json!({
        "iss": "https://id.example.com/realms/acme", "sub": format!("agent-{number}"), "aud": "https://crib.example.com",
        "exp": 1_900_000_000, "iat": issued_at, "jti": format!("{issued_at:032x}"), "scope": "tools:read tools:call",
        "email": format!("agent-{number}@example.com"), "team": format!("team-{}", number % 1_000),
        "realm": {"roles": roles},
    });
    Agent::new("agent", Arc::new(from_json(claims)))
}

/// Known claims, from tokens that differ only in claims that no policy reads.
fn measure_known_claims(
    report: &mut BenchReport,
    small: &Toolcrib,
    large: &Toolcrib,
    tools: usize,
) {
    let agents: Vec<Agent> = (0..100).map(|token| agent_with_roles(7, token, 200)).collect();
    let each = |crib: &Toolcrib| {
        best_round(|| {
            let start = Instant::now();
            for _ in 0..200 {
                for agent in &agents {
                    std::hint::black_box(crib.view(std::hint::black_box(agent)));
                }
            }
            start.elapsed().as_secs_f64() * 1e6 / 20_000.0
        })
    };
    let (few, many) = (each(small), each(large));
    report.add(
        format!("warm: known claims, {tools} tools, against 1 µs"),
        many,
        1.0,
        "µs",
        RatioBound::AtMost(1.0),
    );
    report.add(
        format!("warm: {tools} tools, against 1000"),
        many,
        few,
        "µs",
        RatioBound::AtMost(1.5),
    );
}

/// An unknown name and a name that is not granted: an agent must not distinguish them by timing.
fn measure_name_lookups(report: &mut BenchReport, crib: &Toolcrib) {
    let view = crib.view(&agent_with_roles(7, 0, 7));
    let granted = view.toolset().tools();
    let others = view.snapshot().tools().filter(|entry| !granted.contains(entry.slot));
    let ungranted: Vec<String> =
        others.take(1_000).map(|entry| entry.tool.qualified_name()).collect();
    let unknown: Vec<String> = ungranted.iter().map(|name| format!("{name}x")).collect();
    let each = |names: &[String]| {
        let start = Instant::now();
        for name in names {
            std::hint::black_box(view.find(std::hint::black_box(name)).is_err());
        }
        start.elapsed().as_secs_f64() * 1e9 / names.len() as f64
    };
    let (mut one, mut two) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..20 * ROUNDS {
        (one, two) = (one.min(each(&ungranted)), two.min(each(&unknown)));
    }
    let what = "a tool that is not granted is not found, against one that does not exist";
    report.add(what, one, two, "ns", RatioBound::AtMost(1.25));
}

/// New claims for each view.
fn measure_new_claims(report: &mut BenchReport, crib: &Toolcrib, tools: usize, every: usize) {
    let mut number = 0;
    let (mut granted, mut groups) = (0, 0);
    let each = best_round(|| {
        let agents: Vec<Agent> = (0..50)
            .map(|_| {
                number += 1;
                agent_with_roles(number, 0, every)
            })
            .collect();
        let start = Instant::now();
        for agent in &agents {
            let view = crib.view(agent);
            granted = view.toolset().tools().len();
            groups = view.toolset().grant().groups.len();
        }
        start.elapsed().as_secs_f64() * 1e3 / 50.0
    });
    let what = format!(
        "cold: new claims, {tools} tools, {granted} of them granted by {groups} groups, against 1 ms"
    );
    report.add(what, each, 1.0, "ms", RatioBound::AtMost(1.0));
}

/// The time from the command that enables a tool until an agent sees the tool.
async fn measure_change(
    report: &mut BenchReport,
    crib: &Toolcrib,
    place: &str,
    tools: usize,
) -> anyhow::Result<()> {
    let agent = agent_with_roles(7, 0, 7);
    let slot = crib.view(&agent).toolset().tools().iter().next();
    let view = crib.view(&agent);
    let entry = slot.and_then(|slot| view.snapshot().tool_at(slot));
    let tool: ToolId = entry.expect("the agent has tools").tool.id.clone();
    let mut times = Vec::new();
    for round in 0..40 {
        let off = Command::Tool(tool.clone(), ToolCommand::Disable);
        crib.catalog().execute(off, ChangeContext::by_actor("bench"), None).await?;
        anyhow::ensure!(crib.view(&agent).find_by_id(&tool).is_err(), "round {round}: still there");
        let on = Command::Tool(tool.clone(), ToolCommand::Enable);
        let start = Instant::now();
        crib.catalog().execute(on, ChangeContext::by_actor("bench"), None).await?;
        anyhow::ensure!(crib.view(&agent).find_by_id(&tool).is_ok(), "round {round}: not there");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let what =
        format!("change: a tool enabled among {tools} and seen, {place}, median, against 5 ms");
    report.add(what, times[times.len() / 2], 5.0, "ms", RatioBound::AtMost(1.0));
    Ok(())
}

fn best_round(mut once: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| once()).fold(f64::INFINITY, f64::min)
}
