//! Concurrent use of the registry (requirement L3).

use std::sync::mpsc;
use std::time::Duration;

use serde_json::Map;
use toolcrib::{ProvidedTool, Registry};

use crate::{crib, text};

/// Runs a future on a new single-threaded runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[tokio::test]
async fn concurrent_threads_register_search_and_call_and_each_name_is_registered_once() {
    let registry = Registry::new();
    let crib = crib(&registry).await;
    let works = |thread: usize| {
        let mut taken = 0;
        for n in 0..20 {
            let name = format!("tool_{n}");
            let tool = ProvidedTool::new(name.as_str(), "Says who was first");
            let first = move || std::future::ready(format!("{thread}"));
            taken += usize::from(registry.register_tool(tool, first, &[]).is_ok());
            let view = crib.anonymous_view();
            assert!(block_on(view.search(&name, 1)).iter().all(|hit| hit.tool.name() == name));
            let outcome = block_on(view.call(&name, Map::new())).unwrap();
            assert!(outcome.error.is_none(), "{outcome:?}");
        }
        taken
    };
    let taken: usize = std::thread::scope(|scope| {
        let works = &works;
        let threads: Vec<_> = (0..16).map(|n| scope.spawn(move || works(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((taken, crib.anonymous_view().list().len()), (20, 20));
}

#[tokio::test]
async fn no_lock_is_held_while_a_handler_runs() {
    let registry = Registry::new();
    let inside = registry.clone();
    // With a lock held, a handler that registers and calls a tool would deadlock.
    let grows = move || {
        let registry = inside.clone();
        async move {
            let tool = ProvidedTool::new("grown", "Grown");
            registry.register_tool(tool, || async { "grown" }, &[])?;
            let result = registry.call("grown", Map::new()).await;
            Ok::<_, toolcrib::RegisterError>(result)
        }
    };
    registry.register_tool(ProvidedTool::new("grow", "Grows"), grows, &[]).unwrap();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        done.send(block_on(registry.call("grow", Map::new()))).unwrap();
    });
    let result = is_done.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(text(&result), "grown");
}
