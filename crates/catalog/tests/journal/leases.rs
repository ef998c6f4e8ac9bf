//! Leases: at most one holder of a name among all nodes, until the holder releases it or disconnects.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_catalog::journal::{Journal, JournalLease};

use crate::stores::{postgres, stores};

async fn try_acquire(journal: &Arc<dyn Journal>, name: &str) -> Option<JournalLease> {
    journal.acquire_lease(name.to_owned()).await.unwrap()
}

/// Acquires the lease once it is free: a database notices a dropped lease with a short delay.
async fn acquire_eventually(journal: &Arc<dyn Journal>, name: &str) -> JournalLease {
    let taken = async {
        loop {
            if let Some(lease) = try_acquire(journal, name).await {
                return lease;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), taken).await.expect("it becomes free")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_has_one_lease_holder_across_nodes() {
    for store in stores("leases").await {
        let (here, there) = (&store.journal, &store.open_second_node().await);
        let lease = try_acquire(here, "pets").await.expect("nobody has it");
        assert!(lease.is_held());
        assert!(try_acquire(here, "pets").await.is_none());
        assert!(try_acquire(there, "pets").await.is_none());
        let other = try_acquire(there, "dogs").await.expect("another name");
        assert!(try_acquire(here, "dogs").await.is_none());
        drop(lease);
        let lease = acquire_eventually(there, "pets").await;
        assert!(try_acquire(here, "pets").await.is_none());
        drop((lease, other));
        drop(acquire_eventually(here, "dogs").await);
        drop(acquire_eventually(here, "pets").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_requests_gets_the_lease() {
    for store in stores("leases_at_once").await {
        let nodes = [Arc::clone(&store.journal), store.open_second_node().await];
        for round in 0..20 {
            let name = format!("round-{round}");
            let asks = (0..8).map(|number: usize| {
                let (journal, name) = (Arc::clone(&nodes[number % 2]), name.clone());
                tokio::spawn(async move { try_acquire(&journal, &name).await })
            });
            let mut taken = Vec::new();
            for ask in asks.collect::<Vec<_>>() {
                taken.extend(ask.await.unwrap());
            }
            assert_eq!(taken.len(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_lease_request_leaves_no_lease_behind() {
    let store = postgres("leases_cancelled").await;
    for _ in 0..50 {
        let asking = try_acquire(&store.journal, "pets");
        tokio::time::timeout(Duration::from_micros(200), asking).await.ok();
    }
    drop(acquire_eventually(&store.open_second_node().await, "pets").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_lost_with_its_connection() {
    let store = postgres("leases_cut").await;
    let there = store.open_second_node().await;
    let lease = try_acquire(&store.journal, "pets").await.unwrap();
    store.cut_leases().await;
    let theirs = acquire_eventually(&there, "pets").await;
    let lost = async {
        while lease.is_held() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), lost).await.expect("it is noticed");
    // Dropping a lost lease does not release the lease of the new holder.
    drop(lease);
    assert!(theirs.is_held());
    assert!(try_acquire(&store.journal, "pets").await.is_none());
    drop(theirs);
    drop(acquire_eventually(&store.journal, "pets").await);
}
