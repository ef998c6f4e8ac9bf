//! `toolcrib serve --demo`: a pizzeria with a cook and a waiter. A newcomer can try discovery, access, search and calls
//! without a network, an account or a file.

mod pizzeria;

use std::collections::BTreeMap;

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use endpoint::app_state::AppState;
use model::{KeyId, KeyProfile, NewGroup, PolicyRules, SourceId, SourceProfile};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib::{Catalog, ChangeContext, Command, new_api_key};

use crate::cli_error::CliError;
use crate::environment;
use crate::shell_text::shell_quote;

/// The agents of the demo, each with its groups.
const AGENTS: [(&str, [&str; 2]); 2] =
    [("cook", ["menu", "kitchen"]), ("waiter", ["menu", "guests"])];

/// The registered demo: its API runs in the background.
pub(crate) struct PizzeriaDemo {
    keys: BTreeMap<&'static str, SecretString>,
}

impl PizzeriaDemo {
    /// Starts the API on a free port of this machine and registers it with agents, groups and policies.
    pub(crate) async fn start(app: &AppState) -> Result<Self, CliError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(CliError::Start)?;
        let address = listener.local_addr().map_err(CliError::Start)?;
        app.spawn_background(async move {
            // The task is aborted when the application drops its background tasks.
            drop(axum::serve(listener, pizzeria::pizzeria_router()).await);
        });
        let catalog = app.crib.catalog();
        let profile: SourceProfile = from_literal_json(json!({
            "name": "Pizzeria", "url": format!("http://{address}/openapi.yaml"),
            "settings": {"kind": "openapi"}, "allow": [address.to_string()],
        }));
        let id: SourceId = "pizzeria".parse().expect("this is a slug");
        execute_command(catalog, Command::Source(id.clone(), SourceCommand::Register(profile)))
            .await?;
        let read = app.crib.refresher().refresh(&id, false, &command_context()).await;
        let read = read.map_err(CliError::NotRegistered)?;
        if let Some(error) = read.error {
            return Err(CliError::NoReadableTarget(vec![error.message.into()]));
        }
        for group in ["menu", "kitchen", "guests"] {
            execute_command(catalog, create_group_command(group)).await?;
        }
        let mut keys = BTreeMap::new();
        for (agent, groups) in AGENTS {
            execute_command(catalog, define_policy_command(agent, groups)).await?;
            keys.insert(agent, create_key(catalog, agent).await?);
        }
        Ok(Self { keys })
    }

    /// Commands to type, each with a line that names its purpose.
    pub(crate) fn instructions(&self, url: &str, admin: &str) -> String {
        let program = shell_quote(&environment::program_name());
        let key = |agent: &str| self.keys.get(agent).map_or("", |key| key.expose_secret());
        let steps = [
            (
                "What the cook may use, and what the waiter may",
                format!("{program} discover {url}/mcp --bearer env:COOK"),
            ),
            ("", format!("{program} discover {url}/mcp --bearer env:WAITER")),
            (
                "The waiter searches, and orders",
                format!(
                    "{program} call '{url}/mcp?mode=search' tool_search query='how far is my order' --bearer env:WAITER"
                ),
            ),
            (
                "",
                format!(
                    "{program} call {url}/mcp place_order table=7 pizzas='[\"Margherita\"]' --bearer env:WAITER"
                ),
            ),
            (
                "The cook bakes, which takes a moment; the waiter looks",
                format!("{program} call {url}/mcp bake_order order=1 --bearer env:COOK"),
            ),
            ("", format!("{program} call {url}/mcp get_order order=1 --bearer env:WAITER")),
            (
                "Why the cook cannot order",
                format!(
                    "TOOLCRIB_KEY=$ADMIN {program} explain --server {url} --claims '{{\"role\":\"cook\"}}' --tool place_order"
                ),
            ),
        ];
        let mut text = format!(
            "\nA pizzeria to try things on: an API with 5 tools, a cook and a waiter, each with a key. Nothing is kept.\n\
             Paste into another terminal, line by line:\n\n  export COOK={} WAITER={} ADMIN={admin}\n",
            key("cook"),
            key("waiter"),
        );
        for (what, command) in steps {
            if !what.is_empty() {
                text += &format!("\n  # {what}\n");
            }
            text += &format!("  {command}\n");
        }
        text + "\n  # Done: Ctrl-C ends it, and everything is gone\n"
    }
}

/// A command that creates a group of all operations with the tag of the same name.
fn create_group_command(tag: &str) -> Command {
    let group: NewGroup = from_literal_json(json!({
        "id": tag, "profile": {"name": tag},
        "selectors": [{"source": "pizzeria", "required_tags": [tag]}],
    }));
    Command::Group(group.id.clone(), GroupCommand::Create(Box::new(group)))
}

fn define_policy_command(agent: &str, groups: [&str; 2]) -> Command {
    let rules: PolicyRules = from_literal_json(json!({
        "name": format!("What a {agent} needs"), "groups": groups,
        "matchers": [{"claim": "role", "operator": "equals", "value": agent}],
    }));
    let id = format!("{agent}s").parse().expect("this is a slug");
    Command::Policy(id, PolicyCommand::Define(rules))
}

async fn create_key(catalog: &Catalog, agent: &str) -> Result<SecretString, CliError> {
    let id: KeyId = agent.parse().expect("this is a slug");
    let profile: KeyProfile = from_literal_json(json!({"name": agent, "claims": {"role": agent}}));
    let (secret, command) = new_api_key(&id, profile);
    execute_command(catalog, Command::Key(id, command)).await?;
    Ok(secret)
}

fn from_literal_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what the demo is made of can be read")
}

async fn execute_command(catalog: &Catalog, command: Command) -> Result<(), CliError> {
    let told = catalog.execute(command, command_context(), None).await;
    told.map(drop).map_err(CliError::NotRegistered)
}

fn command_context() -> ChangeContext {
    ChangeContext::by_actor("system:demo")
}
