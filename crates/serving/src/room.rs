//! How much room there is for calls that went on, over REST, as tasks of MCP or on streams that can be taken up again, and for
//! what came of them.

use std::collections::HashMap;

use jiff::Timestamp;

/// How many there are at once: of one caller, and of all.
const OF_ONE: usize = 100;
const OF_ALL: usize = 10_000;
/// How many bytes of results: of one caller, and of all.
pub(crate) const BYTES_OF_ONE: usize = 32 << 20;
const BYTES_OF_ALL: usize = 256 << 20;
/// How much is kept of what was last heard of one that goes on, in characters.
const WORD: usize = 200;

/// One that is kept.
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) principal: Box<str>,
    /// How large it is: as text, which is how it is kept.
    pub(crate) bytes: usize,
    /// When it ended, if it has.
    pub(crate) end: Option<Timestamp>,
}

/// What somebody has.
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

/// Whether one more may go on: results make room, and what goes on does not.
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

/// What is kept of a word for people: whoever says it may have no end.
pub(crate) fn word(said: &str) -> Box<str> {
    said.chars().take(WORD).collect()
}

/// Results that are too many or too large, the oldest first; what still goes on stays.
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
    // The newest first: what fits stays.
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

    /// Who has one, when it ended, and how large it is.
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
    fn results_go_when_they_are_too_many_or_too_large() {
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
    fn what_goes_on_stays_and_takes_the_room_of_results() {
        let mut all: Vec<One<'_>> = (0..99).map(|_| ("ada", None)).collect();
        all.extend([("ada", Some((0, 1))), ("ada", Some((1, 1)))]);
        assert_eq!(left(&all).len(), 100);
        assert!(has_room_for_one_more(&kept(&all), "ada"));
        all.push(("ada", None));
        assert!(!has_room_for_one_more(&kept(&all), "ada"));
        assert!(has_room_for_one_more(&kept(&all), "bob"));
    }

    #[test]
    fn what_one_that_goes_on_holds_takes_the_room_of_results_too() {
        let mut all = kept(&[("ada", None), ("ada", Some((0, 20 << 20)))]);
        all[0].bytes = 20 << 20;
        assert!(has_room_for_one_more(&all, "ada"));
        assert_eq!(surplus(all), ["1"]);
        let mut full = kept(&[("ada", None)]);
        full[0].bytes = BYTES_OF_ONE;
        assert!(!has_room_for_one_more(&full, "ada") && has_room_for_one_more(&full, "bob"));
    }

    #[test]
    fn of_a_word_the_beginning_is_kept() {
        assert_eq!(&*word("baking"), "baking");
        assert_eq!(word(&"ü".repeat(8 << 20)).chars().count(), WORD);
    }
}
