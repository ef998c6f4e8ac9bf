//! Differences between two views of an agent, and tool names that models accept.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib::{
    CallContext, ListChange, ProvidedTool, ProviderChanges, ProviderError, Registry,
    ToolCallFuture, ToolProvider, ToolcribOptions,
};

use crate::world::{World, agent};

/// A provider whose tools the test can change.
struct ChangingProvider {
    tools: Mutex<Vec<Arc<ProvidedTool>>>,
    changes: watch::Sender<ProviderChanges>,
}

impl ChangingProvider {
    fn new(names: &[&str]) -> Arc<Self> {
        let offers = Self { tools: Mutex::default(), changes: watch::Sender::default() };
        offers.set_tools(names);
        Arc::new(offers)
    }

    fn set_tools(&self, names: &[&str]) {
        let tool = |name: &&str| ProvidedTool { name: (*name).into(), ..ProvidedTool::default() };
        *self.tools.lock().unwrap() = names.iter().map(tool).map(Arc::new).collect();
        self.changes.send_modify(|changes| changes.tools += 1);
    }
}

impl ToolProvider for ChangingProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.tools.lock().unwrap().clone()
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        Box::pin(async move { Err(ProviderError::ToolNotFound { name: name.into() }) })
    }

    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        vec![self.changes.subscribe()]
    }
}

fn describe_changes(changes: Vec<ListChange>) -> Vec<String> {
    let line = |changed: &ListChange| match changed {
        ListChange::Added(tool) => format!("+{}", tool.name()),
        ListChange::Updated { before, now } => format!("{}>{}", before.name(), now.name()),
        ListChange::Removed(tool) => format!("-{}", tool.name()),
    };
    changes.iter().map(line).collect()
}

#[tokio::test]
async fn a_later_view_reports_the_changes_of_the_list() {
    let world = World::with_tools(&[("pets", &["a", "b", "c"]), ("bills", &["pay"])]).await;
    world.group("pets", json!({"selectors": [{"source": "pets"}]})).await;
    world.policy("x", json!({"role": "x"}), &["pets"]).await;
    let view = || world.view(json!({"role": "x"}));
    let first = view();
    assert!(view().has_same_list(&first) && view().changes_since(&first).is_empty());
    // An unrelated change creates a new toolset with the same tools.
    world.group("others", json!({"tools": ["bills:pay"]})).await;
    assert!(!Arc::ptr_eq(first.toolset(), view().toolset()));
    assert!(view().has_same_list(&first) && view().changes_since(&first).is_empty());
    world.rename("pets:a", "aa").await;
    let second = view();
    assert_eq!(describe_changes(second.changes_since(&first)), ["a>aa"]);
    assert_eq!(describe_changes(first.changes_since(&second)), ["aa>a"]);
    world.policy("y", json!({"role": "x"}), &["others"]).await;
    assert_eq!(describe_changes(view().changes_since(&second)), ["+pay"]);
    assert_eq!(describe_changes(second.changes_since(&view())), ["-pay"]);
    assert_eq!(
        describe_changes(view().search_only().changes_since(&second)),
        ["-aa", "-b", "-c", "+tool_search", "+execute_tool"]
    );
    assert!(view().search_only().has_same_list(&first.search_only()));
}

#[tokio::test]
async fn a_view_keeps_the_tools_that_providers_offered_at_its_creation() {
    let world = World::with_tools(&[]).await;
    let offers = ChangingProvider::new(&["one", "two"]);
    let crib = world.with_options(ToolcribOptions {
        registry: Registry::from_provider(offers.clone()),
        ..ToolcribOptions::default()
    });
    let view = || crib.view(&agent(json!({})));
    let before = view();
    offers.set_tools(&["two", "three"]);
    assert_eq!(describe_changes(view().changes_since(&before)), ["-one", "+three"]);
    assert_ne!(view().stamp(), before.stamp());
    assert_eq!(before.list().len(), 2);
    assert_eq!(describe_changes(before.changes_since(&view())), ["-three", "+one"]);
}

#[tokio::test]
async fn every_tool_has_a_portable_name_and_is_found_by_it() {
    let world = World::with_tools(&[("pets", &["list.all pets", "2fa", "fine"])]).await;
    let offers = ChangingProvider::new(&["süß", "sweet"]);
    let crib = world.with_options(ToolcribOptions {
        registry: Registry::from_provider(offers),
        ..ToolcribOptions::default()
    });
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("x", json!({"role": "x"}), &["all"]).await;
    let view = crib.view(&agent(json!({"role": "x"})));
    let list = view.list();
    assert_eq!(list.len(), 5);
    for tool in &list {
        let name = tool.portable_name();
        assert!(catalog::is_portable_name(&name), "{name}");
        assert_eq!(view.find(&name).unwrap().name(), tool.name(), "{name}");
        assert_eq!(catalog::is_portable_name(tool.name()), name == tool.name());
    }
    assert_eq!(list[0].portable_name(), "pets__2fa_2e68bdab");
    assert_eq!(list[3].portable_name(), "s___5622ed37");
}

#[tokio::test]
async fn a_portable_name_cannot_be_taken_over_by_another_tool() {
    let world = World::with_tools(&[("pets", &["2fa"]), ("evil", &["a"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("x", json!({"role": "x"}), &["all"]).await;
    let view = || world.view(json!({"role": "x"}));
    let name =
        view().find_by_id(&"pets:2fa".parse().unwrap()).unwrap().portable_name().into_owned();
    world.rename("evil:a", &name).await;
    assert_eq!(view().find(&name).unwrap().id().unwrap().as_str(), "pets:2fa");
}
