//! A bounded least-recently-used cache with optional expiry (ADR 0044).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hashlink::{DefaultHashBuilder, LinkedHashMap};

/// Number of shards of a large cache: fewer threads wait for the same lock.
const PARTS: usize = 8;
/// A cache with a smaller limit has one shard.
const SMALL: u64 = 1_024;

/// A bounded least-recently-used cache. Lookups return clones, so values should be cheap to clone.
pub struct Cache<K, V> {
    parts: Box<[Mutex<Part<K, V>>]>,
    chooses_part: DefaultHashBuilder,
    /// Total weight over all shards.
    weight: AtomicU64,
    limit: u64,
    weigh: fn(&K, &V) -> u32,
    life: Option<Life>,
    /// Number of insertions so far: the logical clock for recency.
    puts: AtomicU64,
}

/// Entries in order of use, least recently used first.
type Part<K, V> = LinkedHashMap<K, Kept<V>>;

struct Kept<V> {
    value: V,
    weight: u32,
    until: Option<Instant>,
    /// Value of `insertions` at the last use.
    used: u64,
}

#[derive(Clone, Copy)]
struct Life {
    lasts: Duration,
    /// Whether each use restarts the duration.
    is_renewed: bool,
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    /// A cache for at most `limit` entries.
    pub fn new(limit: u64) -> Self {
        Self::weighing(limit, |_, _| 1)
    }

    /// A cache for a total weight of at most `limit`. A single heavier value is not cached.
    pub fn weighing(limit: u64, weigh: fn(&K, &V) -> u32) -> Self {
        let parts = if limit < SMALL { 1 } else { PARTS };
        Self {
            parts: (0..parts).map(|_| Mutex::default()).collect(),
            chooses_part: DefaultHashBuilder::default(),
            weight: AtomicU64::new(0),
            limit,
            weigh,
            life: None,
            puts: AtomicU64::new(0),
        }
    }

    /// Expires each entry this long after its insertion.
    pub fn lasting(self, lasts: Duration) -> Self {
        Self { life: Some(Life { lasts, is_renewed: false }), ..self }
    }

    /// Expires each entry this long after its last use.
    pub fn lasting_unused(self, lasts: Duration) -> Self {
        Self { life: Some(Life { lasts, is_renewed: true }), ..self }
    }

    /// The value under a key, unless it has expired.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get_at(key, self.now())
    }

    /// The value under a key, or else the result of `make`, which is inserted. Concurrent callers all get the first
    /// result.
    pub fn get_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        self.get(&key).unwrap_or_else(|| {
            let made = make();
            self.put(key, made, |kept, now| !kept.is_over(now))
        })
    }

    /// Inserts a value, replacing the previous one under that key.
    pub fn insert(&self, key: K, value: V) {
        self.put(key, value, |_, _| false);
    }

    /// Removes and returns the value under a key.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut part = self.part(self.place(key));
        part.remove(key).map(|gone| self.taken(gone))
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
        let now = self.now();
        let places = 0..self.parts.len();
        let of_part = |place| {
            let part = self.part(place);
            let kept = part.iter().filter(|(_, kept)| !kept.is_over(now));
            kept.map(|(key, kept)| (key.clone(), kept.value.clone())).collect::<Vec<_>>()
        };
        places.flat_map(of_part).collect()
    }

    fn get_at<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Option<Instant>) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // Dropping values may be slow: they are dropped after the shard's lock is released.
        let mut gone = Vec::new();
        let mut part = self.part(self.place(key));
        self.sweep(&mut part, now, &mut gone);
        let (used, is_renewed) =
            (self.puts.load(Relaxed), self.life.is_some_and(|life| life.is_renewed));
        // Fast path for the most recently used entry: neither the entry nor the order is written.
        let last = part.back().filter(|(last, _)| !is_renewed && (*last).borrow() == key);
        if let Some((_, kept)) = last.filter(|(_, kept)| kept.used == used && !kept.is_over(now)) {
            return Some(kept.value.clone());
        }
        match part.to_back(key)? {
            over if over.is_over(now) => {
                gone.extend(part.remove(key).map(|over| self.taken(over)));
                None
            }
            kept => {
                kept.used = used;
                if is_renewed {
                    kept.until = self.until(now);
                }
                Some(kept.value.clone())
            }
        }
    }

    /// Inserts a value unless `stays` keeps the existing one. Returns the value that is in the cache afterwards.
    fn put(&self, key: K, value: V, stays: fn(&Kept<V>, Option<Instant>) -> bool) -> V {
        let (weight, now) = ((self.weigh)(&key, &value).max(1), self.now());
        let place = self.place(&key);
        let mut gone = Vec::new();
        let mut part = self.part(place);
        self.sweep(&mut part, now, &mut gone);
        if let Some(kept) = part.get(&key).filter(|kept| stays(kept, now)) {
            return kept.value.clone();
        }
        let before = match u64::from(weight) <= self.limit {
            true => {
                self.weight.fetch_add(weight.into(), Relaxed);
                let used = self.puts.fetch_add(1, Relaxed) + 1;
                let (value, until) = (value.clone(), self.until(now));
                part.insert(key, Kept { value, weight, until, used })
            }
            false => part.remove(&key),
        };
        gone.extend(before.map(|before| self.taken(before)));
        drop(part);
        self.make_room(place);
        value
    }

    /// Removes expired entries from the front.
    fn sweep(&self, part: &mut Part<K, V>, now: Option<Instant>, gone: &mut Vec<V>) {
        while part.front().is_some_and(|(_, kept)| kept.is_over(now)) {
            gone.extend(part.pop_front().map(|(_, over)| self.taken(over)));
        }
    }

    /// Evicts the least recently used entries of all shards, but never the newest entry.
    fn make_room(&self, newest: usize) {
        while self.limit < self.weight.load(Relaxed) {
            let first = |place| {
                let part = self.part(place);
                let is_newest = place == newest && part.len() == 1;
                let (_, kept) = part.front().filter(|_| !is_newest)?;
                Some((kept.used, place))
            };
            let Some((_, place)) = (0..self.parts.len()).filter_map(first).min() else { return };
            let gone = self.part(place).pop_front();
            drop(gone.map(|(_, gone)| self.taken(gone)));
        }
    }

    fn taken(&self, gone: Kept<V>) -> V {
        self.weight.fetch_sub(gone.weight.into(), Relaxed);
        gone.value
    }

    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        match self.parts.len() {
            1 => 0,
            parts => self.chooses_part.hash_one(key) as usize % parts,
        }
    }

    fn part(&self, place: usize) -> MutexGuard<'_, Part<K, V>> {
        self.parts[place].lock().expect("no one panics while holding it")
    }

    /// The current time; read only if entries can expire.
    fn now(&self) -> Option<Instant> {
        self.life.map(|_| Instant::now())
    }

    fn until(&self, now: Option<Instant>) -> Option<Instant> {
        now?.checked_add(self.life?.lasts)
    }
}

impl<V> Kept<V> {
    fn is_over(&self, now: Option<Instant>) -> bool {
        self.until.zip(now).is_some_and(|(until, now)| until <= now)
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, weight, .. } = self;
        f.debug_struct("Cache").field("limit", limit).field("weight", weight).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let cache = Cache::new(3);
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
        let cache = Cache::weighing(10_000, |_, _: &u32| 1_000);
        assert_eq!(cache.parts.len(), PARTS);
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
        let cache = Cache::weighing(10_000, |_, text: &Arc<str>| text.len() as u32);
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
        let lasting = Cache::new(10).lasting(10 * second);
        let unused = Cache::new(10).lasting_unused(10 * second);
        for cache in [&lasting, &unused] {
            cache.insert("a", 1);
            assert_eq!(cache.get_at("a", later(8)), Some(1));
        }
        assert_eq!(lasting.get_at("a", later(12)), None);
        assert_eq!(unused.get_at("a", later(12)), Some(1));
        assert_eq!(unused.get_at("a", later(30)), None);
        assert_eq!(unused.weight.load(Relaxed), 0);
        for cache in [&lasting, &unused] {
            cache.insert("a", 1);
            cache.insert("b", 2);
            assert_eq!(cache.get_at("c", later(30)), None);
            assert_eq!(cache.weight.load(Relaxed), 0, "whatever is asked for");
        }
        let over = Cache::new(10).lasting(Duration::ZERO);
        over.insert("a", 1);
        over.insert("b", 2);
        assert!(over.entries().is_empty());
        assert_eq!(over.weight.load(Relaxed), 1, "what is over makes room");
        assert_eq!(over.get_with("b", || 3), 3);
    }

    #[test]
    fn the_most_recently_used_entry_expires_like_any_other() {
        let cache = Cache::new(10).lasting(Duration::from_secs(10));
        cache.insert("a", 1);
        let over = Instant::now() + Duration::from_secs(10);
        std::thread::sleep(Duration::from_millis(2));
        cache.insert("b", 2);
        assert_eq!([cache.get("a"), cache.get("a")], [Some(1); 2]);
        assert_eq!([cache.get_at("b", Some(over)), cache.get("a")], [Some(2), Some(1)]);
        assert_eq!(cache.get_at("a", Some(over)), None);
        assert_eq!(cache.get_at("b", Some(over)), Some(2));
    }

    #[test]
    fn concurrent_callers_get_the_first_result() {
        let cache = Cache::new(100_000);
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
        let cache = Cache::new(2_000);
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
