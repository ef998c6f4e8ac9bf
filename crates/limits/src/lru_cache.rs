//! A bounded least-recently-used cache with optional expiry (ADR 0044).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hashlink::{DefaultHashBuilder, LinkedHashMap};

/// Number of shards of a large cache: fewer threads wait for the same lock.
const SHARDS: usize = 8;
/// A cache with a smaller limit has one shard.
const SHARDING_THRESHOLD: u64 = 1_024;

/// A bounded least-recently-used cache. Lookups return clones, so values should be cheap to clone.
pub struct LruCache<K, V> {
    shards: Box<[Mutex<CacheShard<K, V>>]>,
    hash_builder: DefaultHashBuilder,
    /// Total weight over all shards.
    weight: AtomicU64,
    limit: u64,
    weigh: fn(&K, &V) -> u32,
    time_to_live: Option<TimeToLive>,
    /// Number of insertions so far: the logical clock for recency.
    insertions: AtomicU64,
}

/// Entries in order of use, least recently used first.
type CacheShard<K, V> = LinkedHashMap<K, CachedValue<V>>;

struct CachedValue<V> {
    value: V,
    weight: u32,
    expires_at: Option<Instant>,
    /// Value of `insertions` at the last use.
    last_used: u64,
}

#[derive(Clone, Copy)]
struct TimeToLive {
    duration: Duration,
    /// Whether each use restarts the duration.
    is_renewed: bool,
}

impl<K: Hash + Eq, V: Clone> LruCache<K, V> {
    /// A cache for at most `limit` entries.
    pub fn new(limit: u64) -> Self {
        Self::with_weight(limit, |_, _| 1)
    }

    /// A cache for a total weight of at most `limit`. A single heavier value is not cached.
    pub fn with_weight(limit: u64, weigh: fn(&K, &V) -> u32) -> Self {
        let parts = if limit < SHARDING_THRESHOLD { 1 } else { SHARDS };
        Self {
            shards: (0..parts).map(|_| Mutex::default()).collect(),
            hash_builder: DefaultHashBuilder::default(),
            weight: AtomicU64::new(0),
            limit,
            weigh,
            time_to_live: None,
            insertions: AtomicU64::new(0),
        }
    }

    /// Expires each entry this long after its insertion.
    pub fn with_time_to_live(self, lasts: Duration) -> Self {
        Self { time_to_live: Some(TimeToLive { duration: lasts, is_renewed: false }), ..self }
    }

    /// Expires each entry this long after its last use.
    pub fn with_idle_timeout(self, lasts: Duration) -> Self {
        Self { time_to_live: Some(TimeToLive { duration: lasts, is_renewed: true }), ..self }
    }

    /// The value under a key, unless it has expired.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get_at_time(key, self.current_time())
    }

    /// The value under a key, or else the result of `make`, which is inserted. Concurrent callers all get the first
    /// result.
    pub fn get_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let made = make();
            self.insert_unless(key, made, |kept, now| !kept.is_expired(now))
        })
    }

    /// Inserts a value, replacing the previous one under that key.
    pub fn insert(&self, key: K, value: V) {
        self.insert_unless(key, value, |_, _| false);
    }

    /// Removes and returns the value under a key.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut part = self.lock_shard(self.shard_index(key));
        part.remove(key).map(|gone| self.release_weight(gone))
    }

    /// Total weight of all entries.
    pub fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }

    /// All entries that have not expired.
    pub fn entries(&self) -> Vec<(K, V)>
    where
        K: Clone,
    {
        let now = self.current_time();
        let places = 0..self.shards.len();
        let of_part = |place| {
            let part = self.lock_shard(place);
            let kept = part.iter().filter(|(_, kept)| !kept.is_expired(now));
            kept.map(|(key, kept)| (key.clone(), kept.value.clone())).collect::<Vec<_>>()
        };
        places.flat_map(of_part).collect()
    }

    fn get_at_time<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Option<Instant>) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // Dropping values may be slow: they are dropped after the shard's lock is released.
        let mut gone = Vec::new();
        let mut part = self.lock_shard(self.shard_index(key));
        self.remove_expired(&mut part, now, &mut gone);
        let (used, is_renewed) =
            (self.insertions.load(Relaxed), self.time_to_live.is_some_and(|life| life.is_renewed));
        // Fast path for the most recently used entry: neither the entry nor the order is written.
        let last = part.back().filter(|(last, _)| !is_renewed && (*last).borrow() == key);
        if let Some((_, kept)) =
            last.filter(|(_, kept)| kept.last_used == used && !kept.is_expired(now))
        {
            return Some(kept.value.clone());
        }
        match part.to_back(key)? {
            over if over.is_expired(now) => {
                gone.extend(part.remove(key).map(|over| self.release_weight(over)));
                None
            }
            kept => {
                kept.last_used = used;
                if is_renewed {
                    kept.expires_at = self.expiry_time(now);
                }
                Some(kept.value.clone())
            }
        }
    }

    /// Inserts a value unless `stays` keeps the existing one. Returns the value that is in the cache afterwards.
    fn insert_unless(
        &self,
        key: K,
        value: V,
        stays: fn(&CachedValue<V>, Option<Instant>) -> bool,
    ) -> V {
        let (weight, now) = ((self.weigh)(&key, &value).max(1), self.current_time());
        let place = self.shard_index(&key);
        let mut gone = Vec::new();
        let mut part = self.lock_shard(place);
        self.remove_expired(&mut part, now, &mut gone);
        if let Some(kept) = part.get(&key).filter(|kept| stays(kept, now)) {
            return kept.value.clone();
        }
        let before = match u64::from(weight) <= self.limit {
            true => {
                self.weight.fetch_add(weight.into(), Relaxed);
                let used = self.insertions.fetch_add(1, Relaxed) + 1;
                let (value, until) = (value.clone(), self.expiry_time(now));
                part.insert(key, CachedValue { value, weight, expires_at: until, last_used: used })
            }
            false => part.remove(&key),
        };
        gone.extend(before.map(|before| self.release_weight(before)));
        drop(part);
        self.evict_over_limit(place);
        value
    }

    /// Removes expired entries from the front.
    fn remove_expired(&self, part: &mut CacheShard<K, V>, now: Option<Instant>, gone: &mut Vec<V>) {
        while part.front().is_some_and(|(_, kept)| kept.is_expired(now)) {
            gone.extend(part.pop_front().map(|(_, over)| self.release_weight(over)));
        }
    }

    /// Evicts the least recently used entries of all shards, but never the newest entry.
    fn evict_over_limit(&self, newest: usize) {
        while self.limit < self.weight.load(Relaxed) {
            let first = |place| {
                let part = self.lock_shard(place);
                let is_newest = place == newest && part.len() == 1;
                let (_, kept) = part.front().filter(|_| !is_newest)?;
                Some((kept.last_used, place))
            };
            let Some((_, place)) = (0..self.shards.len()).filter_map(first).min() else { return };
            let gone = self.lock_shard(place).pop_front();
            drop(gone.map(|(_, gone)| self.release_weight(gone)));
        }
    }

    fn release_weight(&self, gone: CachedValue<V>) -> V {
        self.weight.fetch_sub(gone.weight.into(), Relaxed);
        gone.value
    }

    fn shard_index<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        match self.shards.len() {
            1 => 0,
            parts => self.hash_builder.hash_one(key) as usize % parts,
        }
    }

    fn lock_shard(&self, place: usize) -> MutexGuard<'_, CacheShard<K, V>> {
        self.shards[place].lock().expect("no one panics while holding it")
    }

    /// The current time; read only if entries can expire.
    fn current_time(&self) -> Option<Instant> {
        self.time_to_live.map(|_| Instant::now())
    }

    fn expiry_time(&self, now: Option<Instant>) -> Option<Instant> {
        now?.checked_add(self.time_to_live?.duration)
    }
}

impl<V> CachedValue<V> {
    fn is_expired(&self, now: Option<Instant>) -> bool {
        self.expires_at.zip(now).is_some_and(|(until, now)| until <= now)
    }
}

impl<K, V> fmt::Debug for LruCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, weight, .. } = self;
        f.debug_struct("LruCache").field("limit", limit).field("weight", weight).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let cache = LruCache::new(3);
        (1..=3).for_each(|number| cache.insert(number, number));
        assert_eq!(cache.get(&1), Some(1));
        cache.insert(4, 4);
        let left: Vec<_> = (1..=4).map(|number| cache.get(&number)).collect();
        assert_eq!(left, [Some(1), None, Some(3), Some(4)]);
        cache.insert(4, 5);
        assert_eq!((cache.get(&4), cache.get(&1)), (Some(5), Some(1)));
    }

    #[test]
    fn eviction_order_holds_across_shards() {
        let cache = LruCache::with_weight(10_000, |_, _: &u32| 1_000);
        assert_eq!(cache.shards.len(), SHARDS);
        for number in 0..1_000 {
            cache.insert(number, number);
            assert_eq!(cache.get(&0), Some(0), "what everybody reads stays");
        }
        let mut left: Vec<_> = cache.entries().into_iter().map(|(key, _)| key).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 991, 992, 993, 994, 995, 996, 997, 998, 999]);
    }

    #[test]
    fn entries_are_kept_up_to_the_weight_limit() {
        let cache = LruCache::with_weight(10_000, |_, text: &Arc<str>| text.len() as u32);
        for number in 0..1_000 {
            cache.insert(number, Arc::from("x".repeat(100)));
        }
        assert_eq!(cache.entries().len(), 100);
        cache.insert(999, Arc::from("x".repeat(10_001)));
        assert_eq!((cache.get(&999), cache.entries().len()), (None, 99));
        cache.insert(8, Arc::from("x".repeat(10_000)));
        assert_eq!(cache.entries().len(), 1);
        cache.insert(8, Arc::from("y"));
        cache.insert(9, Arc::from(""));
        assert_eq!(cache.weight.load(Relaxed), 2);
        assert_eq!(cache.remove(&8).as_deref(), Some("y"));
        assert_eq!(cache.weight.load(Relaxed), 1);
    }

    #[test]
    fn expired_entries_are_removed() {
        let second = Duration::from_secs(1);
        let later = |seconds| Some(Instant::now() + seconds * second);
        let lasting = LruCache::new(10).with_time_to_live(10 * second);
        let unused = LruCache::new(10).with_idle_timeout(10 * second);
        for cache in [&lasting, &unused] {
            cache.insert("a", 1);
            assert_eq!(cache.get_at_time("a", later(8)), Some(1));
        }
        assert_eq!(lasting.get_at_time("a", later(12)), None);
        assert_eq!(unused.get_at_time("a", later(12)), Some(1));
        assert_eq!(unused.get_at_time("a", later(30)), None);
        assert_eq!(unused.weight.load(Relaxed), 0);
        for cache in [&lasting, &unused] {
            cache.insert("a", 1);
            cache.insert("b", 2);
            assert_eq!(cache.get_at_time("c", later(30)), None);
            assert_eq!(cache.weight.load(Relaxed), 0, "whatever is asked for");
        }
        let over = LruCache::new(10).with_time_to_live(Duration::ZERO);
        over.insert("a", 1);
        over.insert("b", 2);
        assert!(over.entries().is_empty());
        assert_eq!(over.weight.load(Relaxed), 1, "what is over makes room");
        assert_eq!(over.get_with("b", || 3), 3);
    }

    #[test]
    fn the_most_recently_used_entry_expires_like_any_other() {
        let cache = LruCache::new(10).with_time_to_live(Duration::from_secs(10));
        cache.insert("a", 1);
        let over = Instant::now() + Duration::from_secs(10);
        std::thread::sleep(Duration::from_millis(2));
        cache.insert("b", 2);
        assert_eq!([cache.get("a"), cache.get("a")], [Some(1); 2]);
        assert_eq!([cache.get_at_time("b", Some(over)), cache.get("a")], [Some(2), Some(1)]);
        assert_eq!(cache.get_at_time("a", Some(over)), None);
        assert_eq!(cache.get_at_time("b", Some(over)), Some(2));
    }

    #[test]
    fn concurrent_callers_get_the_first_result() {
        let cache = LruCache::new(100_000);
        let all_make = Barrier::new(8);
        let made: Vec<Arc<usize>> = std::thread::scope(|scope| {
            let make = |by| {
                cache.get_with("a", || {
                    all_make.wait();
                    Arc::new(by)
                })
            };
            let threads: Vec<_> = (0..8).map(|by| scope.spawn(move || make(by))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|one| Arc::ptr_eq(one, &made[0])));
    }

    #[test]
    fn concurrent_insertions_stay_within_the_limit() {
        let cache = LruCache::new(2_000);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for number in 0..5_000 {
                        cache.insert(number * (thread + 1), thread);
                        cache.get(&number);
                        cache.remove(&(number / 2));
                    }
                });
            }
        });
        let entries = cache.entries();
        assert!(entries.len() <= 2_000, "{}", entries.len());
        assert_eq!(entries.len() as u64, cache.weight.load(Relaxed));
    }
}
