//! Retention limits for detached calls and their results: pending calls over REST, MCP tasks, and resumable streams.

use std::collections::HashMap;

use jiff::Timestamp;

/// Maximum number of calls and results, per caller and in all.
const MAX_ENTRIES_PER_CALLER: usize = 100;
const MAX_ENTRIES: usize = 10_000;
/// Maximum size of results in bytes, per caller and in all.
pub const MAX_BYTES_PER_CALLER: usize = 32 << 20;
const MAX_BYTES: usize = 256 << 20;
/// Maximum length of the last status message of a running call, in characters.
const MAX_STATUS_CHARS: usize = 200;

/// A call or result that counts against the limits.
pub struct RetainedEntry {
    pub id: String,
    pub principal: Box<str>,
    /// Size as text, which is the stored form.
    pub bytes: usize,
    /// The time when the call ended; `None` while it runs.
    pub end: Option<Timestamp>,
}

/// Number and size of entries.
#[derive(Default)]
struct RetentionUsage {
    count: usize,
    bytes: usize,
}

impl RetentionUsage {
    fn add_entry(&mut self, bytes: usize) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
    }
}

/// Whether one more call may run. Only running calls count, because results can be evicted.
pub fn has_capacity_for(all: &[RetainedEntry], principal: &str) -> bool {
    let (mut of_all, mut own) = (RetentionUsage::default(), RetentionUsage::default());
    for kept in all.iter().filter(|kept| kept.end.is_none()) {
        of_all.add_entry(kept.bytes);
        if *kept.principal == *principal {
            own.add_entry(kept.bytes);
        }
    }
    let has_room = |has: RetentionUsage, count, bytes| has.count < count && has.bytes < bytes;
    has_room(own, MAX_ENTRIES_PER_CALLER, MAX_BYTES_PER_CALLER)
        && has_room(of_all, MAX_ENTRIES, MAX_BYTES)
}

/// Truncates a status message: an upstream may send one of any length.
pub fn truncate_status(said: &str) -> Box<str> {
    said.chars().take(MAX_STATUS_CHARS).collect()
}

/// The ids of results to evict, oldest first; running calls stay.
pub fn select_evictions(all: Vec<RetainedEntry>) -> Vec<String> {
    let (mut of_all, mut of_each) =
        (RetentionUsage::default(), HashMap::<Box<str>, RetentionUsage>::new());
    let (mut ended, mut surplus) = (Vec::new(), Vec::new());
    for RetainedEntry { id, principal, bytes, end } in all {
        match end {
            Some(at) => ended.push((at, bytes, id, principal)),
            None => {
                of_all.add_entry(bytes);
                of_each.entry(principal).or_default().add_entry(bytes);
            }
        }
    }
    // Newest first, so that the newest results that fit are kept.
    ended.sort_unstable_by(|one, two| two.cmp(one));
    for (_, bytes, id, principal) in ended {
        let own = of_each.entry(principal).or_default();
        let is_too_much = MAX_ENTRIES <= of_all.count
            || MAX_BYTES < of_all.bytes + bytes
            || MAX_ENTRIES_PER_CALLER <= own.count
            || MAX_BYTES_PER_CALLER < own.bytes + bytes;
        if is_too_much {
            surplus.push(id);
            continue;
        }
        of_all.add_entry(bytes);
        own.add_entry(bytes);
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owner, and for ended calls the time and size.
    type One<'a> = (&'a str, Option<(i64, usize)>);

    fn kept(all: &[One<'_>]) -> Vec<RetainedEntry> {
        let kept = |(number, (principal, end)): (usize, &One<'_>)| RetainedEntry {
            id: number.to_string(),
            principal: (*principal).into(),
            bytes: end.map_or(0, |(_, bytes)| bytes),
            end: end.map(|(at, _)| Timestamp::from_second(at).unwrap()),
        };
        all.iter().enumerate().map(kept).collect()
    }

    fn left(all: &[One<'_>]) -> Vec<usize> {
        let surplus = select_evictions(kept(all));
        (0..all.len()).filter(|number| !surplus.contains(&number.to_string())).collect()
    }

    #[test]
    fn results_are_evicted_when_they_are_too_many_or_too_large() {
        let mut many: Vec<One<'_>> = (0..150).map(|at| ("ada", Some((at, 1)))).collect();
        assert_eq!(left(&many), (50..150).collect::<Vec<_>>());
        assert_eq!(left(&[("ada", Some((0, 20 << 20))), ("ada", Some((1, 20 << 20)))]), [1]);
        many.extend((0..20).map(|at| ("ada", Some((500 + at, 20 << 20)))));
        many.push(("bob", Some((0, 20 << 20))));
        assert!(left(&many).contains(&170), "one caller takes no room of another");
        let names: Vec<String> = (0..20).map(|number: i32| number.to_string()).collect();
        let all = names.iter().zip(0..).map(|(name, at)| (name.as_str(), Some((at, 20 << 20))));
        assert_eq!(left(&all.collect::<Vec<_>>()).len(), 12);
    }

    #[test]
    fn running_calls_stay_and_displace_results() {
        let mut all: Vec<One<'_>> = (0..99).map(|_| ("ada", None)).collect();
        all.extend([("ada", Some((0, 1))), ("ada", Some((1, 1)))]);
        assert_eq!(left(&all).len(), 100);
        assert!(has_capacity_for(&kept(&all), "ada"));
        all.push(("ada", None));
        assert!(!has_capacity_for(&kept(&all), "ada"));
        assert!(has_capacity_for(&kept(&all), "bob"));
    }

    #[test]
    fn the_size_of_running_calls_displaces_results_too() {
        let mut all = kept(&[("ada", None), ("ada", Some((0, 20 << 20)))]);
        all[0].bytes = 20 << 20;
        assert!(has_capacity_for(&all, "ada"));
        assert_eq!(select_evictions(all), ["1"]);
        let mut full = kept(&[("ada", None)]);
        full[0].bytes = MAX_BYTES_PER_CALLER;
        assert!(!has_capacity_for(&full, "ada") && has_capacity_for(&full, "bob"));
    }

    #[test]
    fn a_status_message_is_truncated() {
        assert_eq!(&*truncate_status("baking"), "baking");
        assert_eq!(truncate_status(&"ü".repeat(8 << 20)).chars().count(), MAX_STATUS_CHARS);
    }
}
