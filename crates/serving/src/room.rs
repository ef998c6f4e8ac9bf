//! Retention limits for detached calls and their results: pending calls over REST, MCP tasks, and resumable streams.

use std::collections::HashMap;

use jiff::Timestamp;

/// Maximum number of calls and results, per caller and in all.
const OF_ONE: usize = 100;
const OF_ALL: usize = 10_000;
/// Maximum size of results in bytes, per caller and in all.
pub(crate) const BYTES_OF_ONE: usize = 32 << 20;
const BYTES_OF_ALL: usize = 256 << 20;
/// Maximum length of the last status message of a running call, in characters.
const WORD: usize = 200;

/// A call or result that counts against the limits.
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) principal: Box<str>,
    /// Size as text, which is the stored form.
    pub(crate) bytes: usize,
    /// The time when the call ended; `None` while it runs.
    pub(crate) end: Option<Timestamp>,
}

/// Number and size of entries.
#[derive(Default)]
struct Has {
    count: usize,
    bytes: usize,
}

impl Has {
    fn add(&mut self, bytes: usize) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
    }
}

/// Whether one more call may run. Only running calls count, because results can be evicted.
pub(crate) fn has_room_for_one_more(all: &[Kept], principal: &str) -> bool {
    let (mut of_all, mut own) = (Has::default(), Has::default());
    for kept in all.iter().filter(|kept| kept.end.is_none()) {
        of_all.add(kept.bytes);
        if *kept.principal == *principal {
            own.add(kept.bytes);
        }
    }
    let has_room = |has: Has, count, bytes| has.count < count && has.bytes < bytes;
    has_room(own, OF_ONE, BYTES_OF_ONE) && has_room(of_all, OF_ALL, BYTES_OF_ALL)
}

/// Truncates a status message: an upstream may send one of any length.
pub(crate) fn word(said: &str) -> Box<str> {
    said.chars().take(WORD).collect()
}

/// The ids of results to evict, oldest first; running calls stay.
pub(crate) fn surplus(all: Vec<Kept>) -> Vec<String> {
    let (mut of_all, mut of_each) = (Has::default(), HashMap::<Box<str>, Has>::new());
    let (mut ended, mut surplus) = (Vec::new(), Vec::new());
    for Kept { id, principal, bytes, end } in all {
        match end {
            Some(at) => ended.push((at, bytes, id, principal)),
            None => {
                of_all.add(bytes);
                of_each.entry(principal).or_default().add(bytes);
            }
        }
    }
    // Newest first, so that the newest results that fit are kept.
    ended.sort_unstable_by(|one, two| two.cmp(one));
    for (_, bytes, id, principal) in ended {
        let own = of_each.entry(principal).or_default();
        let is_too_much = OF_ALL <= of_all.count
            || BYTES_OF_ALL < of_all.bytes + bytes
            || OF_ONE <= own.count
            || BYTES_OF_ONE < own.bytes + bytes;
        if is_too_much {
            surplus.push(id);
            continue;
        }
        of_all.add(bytes);
        own.add(bytes);
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owner, and for ended calls the time and size.
    type One<'a> = (&'a str, Option<(i64, usize)>);

    fn kept(all: &[One<'_>]) -> Vec<Kept> {
        let kept = |(number, (principal, end)): (usize, &One<'_>)| Kept {
            id: number.to_string(),
            principal: (*principal).into(),
            bytes: end.map_or(0, |(_, bytes)| bytes),
            end: end.map(|(at, _)| Timestamp::from_second(at).unwrap()),
        };
        all.iter().enumerate().map(kept).collect()
    }

    fn left(all: &[One<'_>]) -> Vec<usize> {
        let surplus = surplus(kept(all));
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
        assert!(has_room_for_one_more(&kept(&all), "ada"));
        all.push(("ada", None));
        assert!(!has_room_for_one_more(&kept(&all), "ada"));
        assert!(has_room_for_one_more(&kept(&all), "bob"));
    }

    #[test]
    fn the_size_of_running_calls_displaces_results_too() {
        let mut all = kept(&[("ada", None), ("ada", Some((0, 20 << 20)))]);
        all[0].bytes = 20 << 20;
        assert!(has_room_for_one_more(&all, "ada"));
        assert_eq!(surplus(all), ["1"]);
        let mut full = kept(&[("ada", None)]);
        full[0].bytes = BYTES_OF_ONE;
        assert!(!has_room_for_one_more(&full, "ada") && has_room_for_one_more(&full, "bob"));
    }

    #[test]
    fn a_status_message_is_truncated() {
        assert_eq!(&*word("baking"), "baking");
        assert_eq!(word(&"ü".repeat(8 << 20)).chars().count(), WORD);
    }
}
