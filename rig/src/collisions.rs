//! `collisions`: pairs whose SHA-256 hashes begin alike. Every decision must distinguish the claims, and every refresh
//! the inventories.
//!
//! Such pairs are costly to find, so they are read from a file: `{"claims": [{"a", "b"}], "inventory": [{"a", "b"}]}`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::{Catalog, Command};
use model::{Agent, Inventory, Manifest, Schema, SourceId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{ChangeContext, JournalLocation, SystemClock, Toolcrib, ToolcribOptions};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::sample_inventory;

#[derive(clap::Args)]
pub(crate) struct CollisionsArgs {
    /// The pairs, as JSON
    file: PathBuf,
}

#[derive(Deserialize)]
struct CollisionPairs {
    claims: Vec<CollisionPair<Value>>,
    inventory: Vec<CollisionPair<Vec<CollidingOperation>>>,
}

#[derive(Deserialize)]
struct CollisionPair<T> {
    a: T,
    b: T,
}

#[derive(Clone, Deserialize)]
struct CollidingOperation {
    name: Box<str>,
    method: Box<str>,
    path: Box<str>,
    /// A JSON schema, as a string.
    parameters: String,
}

pub(crate) async fn run(orders: CollisionsArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&orders.file)
        .with_context(|| format!("{}", orders.file.display()))?;
    let pairs: CollisionPairs = serde_json::from_str(&text)?;
    anyhow::ensure!(!pairs.claims.is_empty() && !pairs.inventory.is_empty(), "there are no pairs");
    let mut alike = 0;
    for pair in &pairs.claims {
        check_claims(pair).await?;
    }
    for pair in &pairs.inventory {
        alike += usize::from(check_inventories(pair).await?);
    }
    println!(
        "claims {} told apart {}; inventories {} told apart {}, of which {alike} have the same published hash",
        pairs.claims.len(),
        pairs.claims.len(),
        pairs.inventory.len(),
        pairs.inventory.len(),
    );
    Ok(())
}

/// Grants one tool to each role; the second agent must not get the tools of the first one.
async fn check_claims(pair: &CollisionPair<Value>) -> anyhow::Result<()> {
    for (first, second) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let crib = open_crib().await?;
        let source: SourceId = "shop".parse()?;
        register_source(&crib, &source).await?;
        let roles = |claims: &Value| claims["realm_access"]["roles"][0].as_str().map(str::to_owned);
        let roles = [roles(first), roles(second)].map(|role| role.expect("the claims have a role"));
        let operations = roles.iter().map(|role| CollidingOperation {
            name: role.as_str().into(),
            method: "GET".into(),
            path: "/".into(),
            parameters: "{}".to_owned(),
        });
        ingest_inventory(&crib, build_inventory(&source, &operations.collect::<Vec<_>>())?).await?;
        for role in &roles {
            let group =
                json!({"id": role, "profile": {"name": role}, "selectors": [{"name": role}]});
            execute_command(
                &crib,
                Command::Group(role.parse()?, GroupCommand::Create(from_json(group)?)),
            )
            .await?;
            let matcher =
                json!({"claim": "realm_access.roles", "operator": "contains", "value": role});
            let rules = json!({"name": role, "matchers": [matcher], "groups": [role]});
            execute_command(
                &crib,
                Command::Policy(role.parse()?, PolicyCommand::Define(from_json(rules)?)),
            )
            .await?;
        }
        for (claims, role) in [first, second].into_iter().zip(&roles) {
            let agent = Agent::new("m", Arc::new(from_json(claims.clone())?));
            let view = crib.view(&agent);
            let list = view.list();
            let names: Vec<&str> = list.iter().map(|tool| tool.name()).collect();
            anyhow::ensure!(names == [role.as_str()], "`{role}` has {names:?}");
        }
    }
    Ok(())
}

/// Returns true if the published hashes, which are short, are equal. The states must differ.
async fn check_inventories(pair: &CollisionPair<Vec<CollidingOperation>>) -> anyhow::Result<bool> {
    let crib = open_crib().await?;
    let source: SourceId = "shop".parse()?;
    register_source(&crib, &source).await?;
    let [a, b] = [build_inventory(&source, &pair.a)?, build_inventory(&source, &pair.b)?];
    let alike = a.published_hash == b.published_hash;
    anyhow::ensure!(a.fingerprint != b.fingerprint, "two inventories have one fingerprint");
    ingest_inventory(&crib, a).await?;
    let before = crib.catalog().snapshot().digest();
    let answer = ingest_inventory(&crib, b).await?;
    let changed = answer["updated"].as_u64().unwrap_or(0) + answer["created"].as_u64().unwrap_or(0);
    anyhow::ensure!(0 < changed, "the second inventory was skipped: {answer}");
    anyhow::ensure!(before != crib.catalog().snapshot().digest(), "the state is the same");
    Ok(alike)
}

async fn open_crib() -> anyhow::Result<Toolcrib> {
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let catalog = Arc::new(Catalog::open(journal).await?);
    let client = HttpClient::new(EgressPolicy::default());
    Ok(Toolcrib::new(catalog, client, SystemClock, ToolcribOptions::default()))
}

async fn register_source(crib: &Toolcrib, source: &SourceId) -> anyhow::Result<()> {
    let register = SourceCommand::Register(sample_inventory::profile("Shop"));
    execute_command(crib, Command::Source(source.clone(), register)).await.map(drop)
}

async fn ingest_inventory(crib: &Toolcrib, inventory: Inventory) -> anyhow::Result<Value> {
    execute_command(crib, Command::Ingest { inventory: Box::new(inventory), force: false }).await
}

async fn execute_command(crib: &Toolcrib, command: Command) -> anyhow::Result<Value> {
    Ok(crib.catalog().execute(command, ChangeContext::by_actor("rig"), None).await?.answer)
}

fn build_inventory(
    source: &SourceId,
    operations: &[CollidingOperation],
) -> anyhow::Result<Inventory> {
    let mut manifests = Vec::new();
    for operation in operations {
        let CollidingOperation { name, method, path, parameters } = operation.clone();
        let input_schema = Schema::new(serde_json::from_str(&parameters)?)?;
        let manifest = Manifest {
            name: name.clone(),
            title: None,
            description: "".into(),
            method,
            path,
            tags: Vec::new(),
            input_schema,
            output_schema: None,
            execution: model::Execution::Builtin,
            deprecated: false,
            security: None,
            extra: Default::default(),
        };
        manifests.push((name.into(), manifest));
    }
    Ok(Inventory::new(source.clone(), manifests)?)
}

fn from_json<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of this test have different hashes, but the checks are the same.
    #[test]
    fn pairs_are_distinguished() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let claims = |role: &str| json!({"realm_access": {"roles": [role]}});
        let operation = |path: &str| json!([{"name": "list", "method": "GET", "path": path, "parameters": "{\"type\":\"object\"}"}]);
        let pairs = json!({
            "claims": [{"a": claims("guest"), "b": claims("admin")}],
            "inventory": [{"a": operation("/a"), "b": operation("/b")}],
        });
        std::fs::write(file.path(), pairs.to_string()).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(run(CollisionsArgs { file: file.path().to_owned() })).unwrap();
        let same =
            json!({"claims": [], "inventory": [{"a": operation("/a"), "b": operation("/a")}]});
        std::fs::write(file.path(), same.to_string()).unwrap();
        assert!(runtime.block_on(run(CollisionsArgs { file: file.path().to_owned() })).is_err());
    }
}
