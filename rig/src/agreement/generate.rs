//! Generates random worlds from a small vocabulary, so that names clash, patterns match and claims satisfy matchers.

mod changes;
mod groups;
mod identities;
mod policies;
mod tools;

use serde_json::Value;

use super::random::Random;
use super::world::{Case, LabelWish, SourceWish, ToolWish, Wish, World};

const LABELS: [&str; 3] = ["l1", "l2", "pii"];
const SOURCES: [&str; 4] = ["s", "b", "shop", "a-source-whose-id-alone-has-fifty-characters-in-it"];
const KEYS: [&str; 6] = ["a", "b", "c", "ab", "GET /a", "k:1"];
const GROUPS: [&str; 5] = ["g1", "g2", "g3", "g4", "g5"];
const POLICIES: [&str; 6] = ["p1", "p2", "p3", "p4", "p5", "p6"];

/// Deterministic: the same seed generates the same case.
pub(super) fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let identities = identities::some(&mut random);
    let mut making = Making { random, world: World::default(), identities, wishes: Vec::new() };
    making.labels();
    making.sources();
    making.settings();
    making.groups();
    making.policies();
    let made_by = making.wishes.len();
    for _ in 0..making.random.below(7) {
        making.change();
    }
    Case { wishes: making.wishes, made_by, identities: making.identities }
}

/// A case under construction.
struct Making {
    random: Random,
    /// The world after the changes so far, so that later changes refer to existing entities.
    world: World,
    identities: Vec<Value>,
    wishes: Vec<Wish>,
}

impl Making {
    /// Adds a change, even a refused one: the product must refuse it too.
    fn wish(&mut self, wish: Wish) {
        self.world.apply(&wish).ok();
        self.wishes.push(wish);
    }

    fn labels(&mut self) {
        for label in self.random.some_of(LABELS, 60) {
            self.wish(Wish::Label(label.to_owned(), LabelWish::Create));
        }
    }

    fn sources(&mut self) {
        let wanted = [0, 1, 1, 1, 2, 2, 2, 2, 3, 3][self.random.below(10)];
        let mut left = SOURCES.to_vec();
        for _ in 0..wanted {
            let id = left.swap_remove(self.random.below(left.len())).to_owned();
            let profile = tools::profile(&mut self.random);
            self.wish(Wish::Source(id.clone(), SourceWish::Register(profile)));
            let tools = tools::inventory(&mut self.random, &id, self.world.tools.len());
            self.wish(Wish::Source(id, SourceWish::Ingest { tools, force: false }));
        }
    }

    /// Changes the settings of some tools, as an admin would before the first agent connects.
    fn settings(&mut self) {
        let tools: Vec<(String, bool)> = self
            .world
            .tools
            .iter()
            .map(|(id, tool)| (id.clone(), tool.approved.is_none()))
            .collect();
        for (id, waits) in tools {
            if waits && self.random.percent(60) {
                self.wish(Wish::Tool(id.clone(), ToolWish::Approve));
            }
            if self.random.percent(10) {
                self.wish(Wish::Tool(id.clone(), ToolWish::Disable));
            }
            if self.random.percent(15) {
                let wish = tools::overriding(&mut self.random);
                self.wish(Wish::Tool(id.clone(), wish));
            }
            if self.random.percent(30) {
                let labels = self.some_labels();
                self.wish(Wish::Tool(id, ToolWish::Label(labels)));
            }
        }
    }
}
