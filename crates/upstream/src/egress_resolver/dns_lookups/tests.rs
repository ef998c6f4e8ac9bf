//! Lookups with a resolver of the test, which can hold back its answers.

use std::sync::Condvar;
use std::time::Instant;

use futures_util::future::{join, join_all};

use super::*;

/// Blocks lookups until the test ends it, and counts the blocked ones.
struct Silence {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Silence {
    const fn new() -> Self {
        Self { state: Mutex::new((0, false)), changed: Condvar::new() }
    }

    fn keep(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, over)| !*over).unwrap());
    }

    /// Blocks the thread until this many lookups are blocked.
    fn wait_for(&self, number: usize) {
        let state = self.state.lock().unwrap();
        let long = Duration::from_secs(30);
        let waited = self.changed.wait_timeout_while(state, long, |(kept, _)| *kept < number);
        assert!(!waited.unwrap().1.timed_out(), "{number} are not being looked up");
    }

    fn kept(&self) -> usize {
        self.state.lock().unwrap().0
    }

    fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.changed.notify_all();
    }

    /// Ends the silence when the test ends, even by a panic, because a runtime waits for its threads.
    fn ends(&'static self) -> impl Drop {
        struct Ends(&'static Silence);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        Ends(self)
    }
}

fn here() -> io::Result<Vec<IpAddr>> {
    Ok(vec![IpAddr::from([127, 0, 0, 1])])
}

/// Starts a lookup and stops waiting for it after a moment.
fn given_up(
    lookups: &Arc<DnsLookups>,
    name: String,
    whose: LookupOwner,
) -> tokio::task::JoinHandle<()> {
    let lookups = Arc::clone(lookups);
    tokio::spawn(async move {
        let moment = Duration::from_millis(50);
        drop(tokio::time::timeout(moment, lookups.look_up(&name, whose)).await);
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_a_silent_domain_occupy_only_their_share() {
    static SILENCE: Silence = Silence::new();
    let _ends = SILENCE.ends();
    let lookups = DnsLookups::new(|name| {
        if name.ends_with("silent.test") {
            SILENCE.keep();
        }
        here()
    });
    let asked =
        (0..100).map(|n| given_up(&lookups, format!("n{n}.silent.test"), LookupOwner::Sources));
    for one in asked.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    tokio::task::block_in_place(|| SILENCE.wait_for(MAX_LOOKUPS_PER_SHARE));
    assert_eq!(SILENCE.kept(), MAX_LOOKUPS_PER_SHARE);
    assert_eq!(lookups.look_up("api.test", LookupOwner::Sources).await.unwrap().len(), 1);
    SILENCE.end();
    let silent = lookups.look_up("silent.test", LookupOwner::Sources).await;
    assert_eq!(silent.unwrap().len(), 1, "places are given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_agents_together_use_one_share() {
    static SILENCE: Silence = Silence::new();
    let _ends = SILENCE.ends();
    let lookups = DnsLookups::new(|name| {
        if name.starts_with("silent") {
            SILENCE.keep();
        }
        here()
    });
    let asked =
        (0..100).map(|n| given_up(&lookups, format!("silent{n}.test{n}"), LookupOwner::Agents));
    for one in asked.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    tokio::task::block_in_place(|| SILENCE.wait_for(MAX_LOOKUPS_PER_SHARE));
    assert_eq!(SILENCE.kept(), MAX_LOOKUPS_PER_SHARE);
    assert!(lookups.look_up("api.test", LookupOwner::Sources).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_shares_together_leave_threads_in_the_blocking_pool() {
    static SILENCE: Silence = Silence::new();
    let _ends = SILENCE.ends();
    let lookups = DnsLookups::new(|_| {
        SILENCE.keep();
        here()
    });
    let asked =
        (0..600).map(|n| given_up(&lookups, format!("a.silent{n}.test"), LookupOwner::Sources));
    for one in asked.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    tokio::task::block_in_place(|| SILENCE.wait_for(MAX_LOOKUPS));
    assert_eq!(SILENCE.kept(), MAX_LOOKUPS);
    // Lookups that timed out before they got a permit leave nothing behind.
    assert_eq!(lock_mutex(&lookups.pending).len(), MAX_LOOKUPS);
    assert_eq!(tokio::task::spawn_blocking(|| 1).await.unwrap(), 1);
}

#[tokio::test]
async fn a_lookup_without_a_permit_fails_with_too_many_lookups() {
    static SILENCE: Silence = Silence::new();
    let _ends = SILENCE.ends();
    let lookups = DnsLookups::new(|_| {
        SILENCE.keep();
        here()
    });
    for n in 0..MAX_LOOKUPS_PER_SHARE {
        given_up(&lookups, format!("n{n}.silent.test"), LookupOwner::Sources);
    }
    while SILENCE.kept() < MAX_LOOKUPS_PER_SHARE {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let more = tokio::spawn({
        let lookups = Arc::clone(&lookups);
        async move { lookups.look_up("more.silent.test", LookupOwner::Sources).await }
    });
    for _ in 0..100 {
        tokio::time::advance(PERMIT_TIMEOUT).await;
    }
    assert!(more.is_finished());
    let error = more.await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<TooManyLookups>(), Some(&TooManyLookups));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_lookups_of_a_name_share_one_request() {
    static SILENCE: Silence = Silence::new();
    let _ends = SILENCE.ends();
    let lookups = DnsLookups::new(|_| {
        SILENCE.keep();
        here()
    });
    given_up(&lookups, "api.test".to_owned(), LookupOwner::Sources).await.unwrap();
    tokio::task::block_in_place(|| SILENCE.wait_for(1));
    let all = join_all((0..20).map(|_| lookups.look_up("api.test", LookupOwner::Agents)));
    let (all, ()) = join(all, async { SILENCE.end() }).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(SILENCE.kept(), 1);
    assert!(lock_mutex(&lookups.pending).is_empty());
    assert!(lookups.look_up("api.test", LookupOwner::Agents).await.is_ok());
    assert_eq!(SILENCE.kept(), 2, "what was said is not kept");
}

#[tokio::test]
async fn a_lookup_that_fails_or_panics_is_removed() {
    let lookups = DnsLookups::new(|name| match name {
        "panics.test" => std::panic::resume_unwind(Box::new("it does")),
        _ => Err(io::Error::other("there is no such name")),
    });
    let began = Instant::now();
    for _ in 0..=MAX_LOOKUPS {
        let error = lookups.look_up("none.test", LookupOwner::Sources).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no such name");
        let error = lookups.look_up("panics.test", LookupOwner::Sources).await.unwrap_err();
        assert_eq!(error.to_string(), "the lookup was given up");
    }
    assert!(began.elapsed() < PERMIT_TIMEOUT);
    assert!(lock_mutex(&lookups.pending).is_empty());
}

#[test]
fn a_share_covers_the_last_two_labels() {
    for (name, expected) in [
        ("a.b.example.com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("", ""),
    ] {
        assert_eq!(registered_domain(name), expected);
    }
}
