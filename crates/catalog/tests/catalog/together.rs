//! Command batches: all commands are stored in one step or none, and only if nothing they depend on has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use toolcrib_catalog::clock::SystemClock;
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::journal::{ChangeContext, JournalError, MemoryJournal, Position};
use toolcrib_catalog::label::LabelCommand;
use toolcrib_catalog::policy::PolicyCommand;
use toolcrib_catalog::tool::ToolCommand;
use toolcrib_catalog::{Catalog, Command, CommandError, CommandRefusal};

use crate::world::{create_group, done, ingest, read, register};

async fn with_pets() -> Catalog {
    let catalog = Catalog::open(Arc::new(MemoryJournal::new(Arc::new(SystemClock)))).await.unwrap();
    done(&catalog, register("pets")).await;
    done(&catalog, ingest("pets", &[("list", 1), ("get", 1)])).await;
    done(&catalog, create_group("all-pets", json!([{"source": "pets"}]))).await;
    catalog
}

async fn head(catalog: &Catalog) -> Position {
    catalog.journal().head_position().await.unwrap()
}

fn deactivate(group: &str) -> Command {
    Command::Group(group.parse().unwrap(), GroupCommand::Deactivate)
}

fn define(group: &str) -> Command {
    let matcher = json!({"claim": "role", "operator": "equals", "value": "vet"});
    let rules = json!({"name": "Vets", "matchers": [matcher], "groups": [group]});
    Command::Policy("vets".parse().unwrap(), PolicyCommand::Define(read(rules)))
}

/// Commands that each need the previous ones; some concern the same aggregate.
fn commands() -> Vec<Command> {
    let label = LabelCommand::Create(read(json!({"name": "Personal data"})));
    let labelled = ToolCommand::Label(BTreeSet::from(["pii".parse().unwrap()]));
    let tool = |command| Command::Tool("pets:get".parse().unwrap(), command);
    vec![
        Command::Label("pii".parse().unwrap(), label),
        tool(labelled),
        tool(ToolCommand::Disable),
        create_group("private", json!([{"required_labels": ["pii"]}])),
        deactivate("private"),
        define("private"),
    ]
}

#[tokio::test]
async fn dependent_commands_are_stored_in_one_step_as_planned() {
    let catalog = with_pets().await;
    let before = head(&catalog).await;
    let supposed = catalog.plan_commands(&catalog.snapshot(), &commands()).await.unwrap();
    assert_eq!(head(&catalog).await, before);
    assert_eq!(supposed.len(), 6);
    let digest = supposed.snapshot.group(&"private".parse().unwrap()).unwrap().members.clone();
    catalog.execute_plan(supposed, ChangeContext::by_actor("ada")).await.unwrap();
    assert_eq!(head(&catalog).await, Position(before.0 + 6));
    let snapshot = catalog.snapshot();
    let group = snapshot.group(&"private".parse().unwrap()).unwrap();
    assert_eq!((group.members.len(), &group.members), (1, &digest));
    assert!(!group.group.active);
    assert!(snapshot.policy(&"vets".parse().unwrap()).is_some());
}

#[tokio::test]
async fn a_refused_command_is_reported_by_number_and_nothing_is_stored() {
    let catalog = with_pets().await;
    let before = head(&catalog).await;
    let mut commands = commands();
    commands.insert(4, define("nothing"));
    let refused = catalog.plan_commands(&catalog.snapshot(), &commands).await.err().unwrap();
    assert_eq!(refused.number, 4);
    assert!(matches!(refused.error, CommandError::Refused(CommandRefusal::NoSuchGroups { .. })));
    assert_eq!(head(&catalog).await, before);
}

#[tokio::test]
async fn a_concurrent_change_is_a_conflict_and_nothing_is_stored() {
    let catalog = with_pets().await;
    let mut all = commands();
    all.push(deactivate("all-pets"));
    let supposed = catalog.plan_commands(&catalog.snapshot(), &all).await.unwrap();
    // Another node renames the same group.
    let other = Catalog::open(Arc::clone(catalog.journal())).await.unwrap();
    let rename = GroupCommand::Update(read(json!({"name": "Pets"})));
    done(&other, Command::Group("all-pets".parse().unwrap(), rename)).await;
    let before = head(&catalog).await;
    let conflict = catalog.execute_plan(supposed, ChangeContext::by_actor("ada")).await;
    assert!(
        matches!(conflict, Err(CommandError::Journal(JournalError::Conflict { .. }))),
        "{conflict:?}"
    );
    assert_eq!(head(&catalog).await, before);
    // Changes to unrelated aggregates cause no conflict.
    catalog.wait_until_visible(before).await.unwrap();
    let supposed = catalog.plan_commands(&catalog.snapshot(), &all).await.unwrap();
    done(&other, create_group("others", json!([]))).await;
    catalog.execute_plan(supposed, ChangeContext::by_actor("ada")).await.unwrap();
}

#[tokio::test]
async fn a_batch_without_changes_stores_no_step() {
    let catalog = with_pets().await;
    let before = head(&catalog).await;
    let activate = Command::Group("all-pets".parse().unwrap(), GroupCommand::Activate);
    let supposed = catalog.plan_commands(&catalog.snapshot(), &[activate]).await.unwrap();
    assert!(supposed.is_empty());
    assert_eq!(
        catalog.execute_plan(supposed, ChangeContext::by_actor("ada")).await.unwrap(),
        before
    );
    assert_eq!(head(&catalog).await, before);
}
