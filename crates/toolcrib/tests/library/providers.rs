//! Providers (requirement L2): global ones, those of one request, and a registry as a provider.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use toolcrib::{
    CallContext, IntoResult as _, ProvidedTool, ProviderError, Registry, ToolCallFuture,
    ToolProvider,
};

use crate::{crib, text};

/// A provider whose tools answer with the name of the provider and the called tool.
struct NamedProvider {
    name: &'static str,
    tools: Vec<Arc<ProvidedTool>>,
    listed: AtomicU32,
    got: AtomicU32,
}

impl NamedProvider {
    fn new(name: &'static str, tools: &[&str]) -> Arc<Self> {
        let tools = tools.iter().map(|tool| {
            let description = format!("The {tool} of {name}");
            let input_schema = json!({"type": "object"});
            Arc::new(ProvidedTool::new(*tool, description).with_input_schema(input_schema))
        });
        let (listed, got) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { name, tools: tools.collect(), listed, got })
    }
}

impl ToolProvider for NamedProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        self.tools.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.got.fetch_add(1, Ordering::Relaxed);
        self.tools.iter().find(|tool| *tool.name == *name).cloned()
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        Box::pin(async move {
            match self.tools.iter().any(|tool| *tool.name == *name) {
                true => format!("{name} by {}", self.name).into_result(),
                false => Err(ProviderError::ToolNotFound { name: name.into() }),
            }
        })
    }
}

fn registered_tool(name: &'static str) -> (ProvidedTool, impl Fn() -> std::future::Ready<String>) {
    let tool = ProvidedTool::new(name, "Registered");
    (tool, move || std::future::ready(format!("{name} by the registry")))
}

fn register_named_tool(registry: &Registry, name: &'static str) {
    let (tool, handler) = registered_tool(name);
    registry.register_tool(tool, handler, &[]).unwrap();
}

#[tokio::test]
async fn registered_tools_shadow_global_providers_and_those_request_providers() {
    let registry = Registry::new();
    register_named_tool(&registry, "a");
    registry.add_provider(NamedProvider::new("one", &["a", "b"]));
    registry.add_provider(NamedProvider::new("two", &["a", "b", "c"]));
    let view = crib(&registry).await.anonymous_view();
    let view = view.with_provider(NamedProvider::new("mine", &["a", "b", "c", "d"]));
    let view = view.with_provider(NamedProvider::new("also mine", &["d", "e"]));
    let listed: Vec<_> = view.list().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(listed, ["a", "b", "c", "d", "e"]);
    for (name, by) in
        [("a", "the registry"), ("b", "one"), ("c", "two"), ("d", "mine"), ("e", "also mine")]
    {
        let outcome = view.call(name, Map::new()).await.unwrap();
        assert_eq!(json!(outcome.content[0])["text"], format!("{name} by {by}"));
    }
}

#[tokio::test]
async fn add_provider_adds_tools_for_all_requests() {
    let registry = Registry::new();
    let crib = crib(&registry).await;
    let provider: Arc<dyn ToolProvider> = NamedProvider::new("one", &["a"]);
    for _ in 0..2 {
        registry.add_provider(Arc::clone(&provider));
        assert_eq!(
            (crib.anonymous_view().list().len(), crib.anonymous_view().list()[0].name()),
            (1, "a")
        );
    }
    assert_eq!(text(&registry.call("a", Map::new()).await), "a by one");
}

#[tokio::test]
async fn remove_provider_removes_its_tools_but_no_registered_tools() {
    let registry = Registry::new();
    let crib = crib(&registry).await;
    let provider: Arc<dyn ToolProvider> = NamedProvider::new("one", &["a"]);
    registry.add_provider(Arc::clone(&provider));
    let before = crib.anonymous_view();
    assert!(registry.remove_provider(&provider) && !registry.remove_provider(&provider));
    assert!(crib.anonymous_view().list().is_empty());
    assert_eq!(text(&registry.call("a", Map::new()).await), "Tool not found: a");
    // A view taken before the removal can still call the tool.
    assert_eq!(before.list().len(), 1);
    assert!(before.call("a", Map::new()).await.is_ok());
    // `remove_provider` does not remove registered tools.
    register_named_tool(&registry, "a");
    assert_eq!(text(&registry.call("a", Map::new()).await), "a by the registry");
}

#[tokio::test]
async fn a_request_provider_is_visible_to_its_request_only() {
    let crib = crib(&Registry::new()).await;
    let mine = crib.anonymous_view().with_provider(NamedProvider::new("mine", &["a"]));
    assert_eq!(mine.list().len(), 1);
    assert!(crib.anonymous_view().list().is_empty() && crib.anonymous_view().find("a").is_err());
}

#[tokio::test]
async fn list_tools_gives_every_detail_of_each_tool() {
    let registry = Registry::from_provider(NamedProvider::new("one", &["a", "b"]));
    let listed = registry.list_tools();
    let shown: Vec<_> = listed.iter().map(|tool| (&*tool.name, &*tool.description)).collect();
    assert_eq!(shown, [("a", "The a of one"), ("b", "The b of one")]);
    assert_eq!(listed[0].input_schema, json!({"type": "object"}));
}

#[tokio::test]
async fn get_tool_gives_a_tool_or_none() {
    let registry = Registry::from_provider(NamedProvider::new("one", &["a"]));
    assert_eq!(*registry.get_tool("a").unwrap().description, *"The a of one");
    assert!(registry.get_tool("b").is_none());
}

#[tokio::test]
async fn call_tool_gives_a_result_or_tool_not_found() {
    let registry = Registry::from_provider(NamedProvider::new("one", &["a"]));
    let called = registry.call_tool("a", Map::new(), &CallContext::silent()).await;
    assert_eq!(text(&called.unwrap()), "a by one");
    let called = registry.call_tool("b", Map::new(), &CallContext::silent()).await;
    assert_eq!(called, Err(ProviderError::ToolNotFound { name: "b".into() }));
}

#[tokio::test]
async fn a_registry_is_a_provider_global_or_for_one_request() {
    let inner = Registry::new();
    register_named_tool(&inner, "a");
    let outer = Registry::from_provider(Arc::new(inner.clone()));
    let crib = crib(&outer).await;
    assert_eq!(crib.anonymous_view().list().len(), 1);
    // Changes of the inner registry show in the outer one, also through a provider that was added to it later.
    register_named_tool(&inner, "b");
    assert_eq!(crib.anonymous_view().list().len(), 2);
    let innermost = Registry::new();
    inner.add_provider(Arc::new(innermost.clone()));
    register_named_tool(&innermost, "c");
    assert_eq!(crib.anonymous_view().list().len(), 3);
    register_named_tool(&innermost, "d");
    let view = crib.anonymous_view();
    assert_eq!(view.list().len(), 4);
    let outcome = view.call("c", Map::new()).await.unwrap();
    assert_eq!(json!(outcome.content[0])["text"], "c by the registry");
    let own = Registry::new();
    register_named_tool(&own, "e");
    assert_eq!(crib.anonymous_view().with_provider(Arc::new(own)).list().len(), 5);
}

#[tokio::test]
async fn a_provider_is_listed_once_and_never_asked_tool_by_tool() {
    let names: Vec<String> = (0..100).map(|n| format!("tool_{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let provider = NamedProvider::new("one", &names);
    let crib = crib(&Registry::from_provider(provider.clone())).await;
    for _ in 0..10 {
        assert_eq!(crib.anonymous_view().list().len(), 100);
        assert_eq!(crib.anonymous_view().search("tool", 100).await.len(), 100);
    }
    assert_eq!(provider.listed.load(Ordering::Relaxed), 1);
    assert_eq!(provider.got.load(Ordering::Relaxed), 0);
}

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures the log of this thread until the guard is dropped.
fn capture_log() -> (LogBuffer, tracing::subscriber::DefaultGuard) {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

impl LogBuffer {
    fn count(&self, words: &str) -> usize {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches(words).count()
    }
}

#[tokio::test]
async fn a_shadowed_tool_is_logged_once() {
    let (log, _guard) = capture_log();
    let registry = Registry::new();
    register_named_tool(&registry, "a");
    registry.add_provider(NamedProvider::new("one", &["a"]));
    let crib = crib(&registry).await;
    for _ in 0..3 {
        assert_eq!(crib.anonymous_view().list().len(), 1);
    }
    assert_eq!(log.count("a tool `a` is shadowed by another"), 1);
}

#[tokio::test]
async fn a_shadowed_tool_of_a_request_provider_is_logged_too() {
    let (log, _guard) = capture_log();
    let registry = Registry::new();
    register_named_tool(&registry, "a");
    let view = crib(&registry)
        .await
        .anonymous_view()
        .with_provider(NamedProvider::new("mine", &["a", "b"]));
    assert_eq!(view.list().len(), 2);
    assert_eq!(log.count("a provider's tool `a` is shadowed by another"), 1);
    assert_eq!(log.count("`b` is shadowed"), 0);
}
