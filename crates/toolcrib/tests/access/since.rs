//! Differences between two views of an agent, and tool names that models accept.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib::{
    CallContext, Calling, Changed, Changes, Options, ProvidedTool, ProviderError, Registry,
    ToolProvider,
};

use crate::world::{World, agent};

/// A provider whose tools the test can change.
struct Offers {
    tools: Mutex<Vec<Arc<ProvidedTool>>>,
    changes: watch::Sender<Changes>,
}

impl Offers {
    fn new(names: &[&str]) -> Arc<Self> {
        let offers = Self { tools: Mutex::default(), changes: watch::Sender::default() };
        offers.say(names);
        Arc::new(offers)
    }

    fn say(&self, names: &[&str]) {
        let tool = |name: &&str| ProvidedTool { name: (*name).into(), ..ProvidedTool::default() };
        *self.tools.lock().unwrap() = names.iter().map(tool).map(Arc::new).collect();
        self.changes.send_modify(|changes| changes.tools += 1);
    }
}

impl ToolProvider for Offers {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.tools.lock().unwrap().clone()
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> Calling<'a> {
        Box::pin(async move { Err(ProviderError::ToolNotFound { name: name.into() }) })
    }

    fn changes(&self) -> Vec<watch::Receiver<Changes>> {
        vec![self.changes.subscribe()]
    }
}

fn told(changes: Vec<Changed>) -> Vec<String> {
    let line = |changed: &Changed| match changed {
        Changed::Added(tool) => format!("+{}", tool.name()),
        Changed::Updated { before, now } => format!("{}>{}", before.name(), now.name()),
        Changed::Removed(tool) => format!("-{}", tool.name()),
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
    assert!(view().is_as(&first) && view().since(&first).is_empty());
    // An unrelated change creates a new toolset with the same tools.
    world.group("others", json!({"tools": ["bills:pay"]})).await;
    assert!(!Arc::ptr_eq(first.toolset(), view().toolset()));
    assert!(view().is_as(&first) && view().since(&first).is_empty());
    world.rename("pets:a", "aa").await;
    let second = view();
    assert_eq!(told(second.since(&first)), ["a>aa"]);
    assert_eq!(told(first.since(&second)), ["aa>a"]);
    world.policy("y", json!({"role": "x"}), &["others"]).await;
    assert_eq!(told(view().since(&second)), ["+pay"]);
    assert_eq!(told(second.since(&view())), ["-pay"]);
    assert_eq!(
        told(view().by_search().since(&second)),
        ["-aa", "-b", "-c", "+tool_search", "+execute_tool"]
    );
    assert!(view().by_search().is_as(&first.by_search()));
}

#[tokio::test]
async fn a_view_keeps_the_tools_that_providers_offered_at_its_creation() {
    let world = World::with_tools(&[]).await;
    let offers = Offers::new(&["one", "two"]);
    let crib = world
        .with_options(Options { registry: Registry::of(offers.clone()), ..Options::default() });
    let view = || crib.view(&agent(json!({})));
    let before = view();
    offers.say(&["two", "three"]);
    assert_eq!(told(view().since(&before)), ["-one", "+three"]);
    assert_ne!(view().stamp(), before.stamp());
    assert_eq!(before.list().len(), 2);
    assert_eq!(told(before.since(&view())), ["-three", "+one"]);
}

#[tokio::test]
async fn every_tool_has_a_portable_name_and_is_found_by_it() {
    let world = World::with_tools(&[("pets", &["list.all pets", "2fa", "fine"])]).await;
    let offers = Offers::new(&["süß", "sweet"]);
    let crib = world.with_options(Options { registry: Registry::of(offers), ..Options::default() });
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("x", json!({"role": "x"}), &["all"]).await;
    let view = crib.view(&agent(json!({"role": "x"})));
    let list = view.list();
    assert_eq!(list.len(), 5);
    for tool in &list {
        let name = tool.portable_name();
        assert!(catalog::is_portable(&name), "{name}");
        assert_eq!(view.find(&name).unwrap().name(), tool.name(), "{name}");
        assert_eq!(catalog::is_portable(tool.name()), name == tool.name());
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
    let name = view().find_id(&"pets:2fa".parse().unwrap()).unwrap().portable_name().into_owned();
    world.rename("evil:a", &name).await;
    assert_eq!(view().find(&name).unwrap().id().unwrap().as_str(), "pets:2fa");
}
