//! Two nodes on one PostgreSQL: each due source is refreshed by one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::source::SourceCommand;
use serde_json::json;
use toolcrib::{Catalog, JournalLocation, Position, SourceRefresher, SystemClock};

use crate::database::database;
use crate::server::{Upstream, answer};
use crate::world::{client, execute, id, profile, specification};

const SOURCES: usize = 20;

struct Node {
    catalog: Arc<Catalog>,
    refresher: SourceRefresher,
}

impl Node {
    async fn connect(url: &str) -> Self {
        let place: JournalLocation = url.parse().unwrap();
        let catalog = Catalog::open(place.open(SystemClock).await.unwrap()).await.unwrap();
        let catalog = Arc::new(catalog);
        let refresher = SourceRefresher::new(Arc::clone(&catalog), client(), Arc::new(SystemClock));
        Self { catalog, refresher }
    }

    /// Waits until this node shows the tools of every source.
    async fn wait_for_all_tools(&self) {
        let mut changes = self.catalog.subscribe();
        while self.catalog.snapshot().tool_count() < SOURCES {
            changes.changed().await.unwrap();
        }
    }
}

fn upstream() -> Upstream {
    let body = specification(&["a"]);
    Upstream::replying(move |_| {
        answer("200 OK", "Content-Type: application/json\r\n", body.as_bytes())
    })
}

async fn register_all(node: &Node, upstream: &Upstream, every: Option<u32>) {
    for number in 0..SOURCES {
        let url = upstream.url(&format!("/{number}/openapi.json"));
        let settings = json!({"kind": "openapi"});
        let profile =
            json!({"name": "S", "url": url, "settings": settings, "refresh_every": every});
        let register = SourceCommand::Register(self::profile(profile));
        execute(&node.catalog, &format!("source-{number}"), register).await;
    }
}

/// Polls until the upstream has received this number of requests.
async fn wait_for_requests(upstream: &Upstream, times: usize) {
    let asked = async {
        while upstream.requests().len() < times {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
}

/// Long enough for one superfluous refresh, if a node began one.
async fn wait_for_superfluous_refresh() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Runs the refreshers of both nodes until `meanwhile` completes.
async fn run_both_refreshers<T>(one: &Node, two: &Node, meanwhile: impl Future<Output = T>) -> T {
    tokio::select! {
        () = one.refresher.keep_fresh() => unreachable!("it goes on"),
        () = two.refresher.keep_fresh() => unreachable!("it goes on"),
        done = meanwhile => done,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_due_on_two_nodes_is_refreshed_once() {
    let url = database("keep_fresh_once").await;
    let (one, two, upstream) = (Node::connect(&url).await, Node::connect(&url).await, upstream());
    run_both_refreshers(&one, &two, async {
        register_all(&one, &upstream, None).await;
        tokio::join!(one.wait_for_all_tools(), two.wait_for_all_tools());
        wait_for_superfluous_refresh().await;
    })
    .await;
    assert_eq!(upstream.requests().len(), SOURCES);
    // Woken on both nodes, each source is refreshed once, or twice if the second wake comes after the first refresh
    // began.
    run_both_refreshers(&one, &two, async {
        for number in 0..SOURCES {
            one.refresher.request_refresh(&id(&format!("source-{number}")));
            two.refresher.request_refresh(&id(&format!("source-{number}")));
        }
        wait_for_requests(&upstream, 2 * SOURCES).await;
        wait_for_superfluous_refresh().await;
    })
    .await;
    let asked = upstream.requests().len() - SOURCES;
    assert!((SOURCES..=2 * SOURCES).contains(&asked), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_of_two_nodes_never_interleave() {
    let url = database("keep_fresh_turns").await;
    let (one, two, upstream) = (Node::connect(&url).await, Node::connect(&url).await, upstream());
    run_both_refreshers(&one, &two, async {
        register_all(&one, &upstream, Some(1)).await;
        wait_for_requests(&upstream, 4 * SOURCES).await;
    })
    .await;
    let events = one.catalog.journal().read_after(Position(0), 100_000).await.unwrap();
    let mut of_source: HashMap<_, Vec<_>> = HashMap::new();
    for event in &events {
        of_source.entry(event.stream.as_str()).or_default().push((&*event.kind, event.time));
    }
    let sources = of_source.iter().filter(|(stream, _)| stream.starts_with("upstream_source-"));
    let mut begun = 0;
    for (stream, events) in sources {
        let steps: Vec<_> =
            events.iter().filter(|(kind, _)| !kind.ends_with("Changed")).skip(1).collect();
        for pair in steps.chunks(2) {
            assert_eq!(pair[0].0, "SourceSyncStarted", "{stream}: {steps:?}");
            begun += 1;
            // The last refresh may have been interrupted.
            assert!(pair.get(1).is_none_or(|end| end.0 == "InventoryIngested"), "{steps:?}");
        }
        let begins: Vec<_> =
            steps.iter().filter(|(kind, _)| *kind == "SourceSyncStarted").collect();
        for pair in begins.windows(2) {
            let gap = pair[1].1.duration_since(pair[0].1).as_millis();
            assert!(900 <= gap, "{stream}: {gap} ms");
        }
    }
    assert!(3 * SOURCES <= begun, "{begun}");
}
