//! Generates random worlds from a small vocabulary, so that names clash, patterns match and claims satisfy matchers.

mod changes;
mod groups;
mod identities;
mod policies;
mod tools;

use serde_json::Value;

use super::world::{AgreementCase, LabelChange, SourceChange, ToolChange, World, WorldChange};
use super::world_random::WorldRandom;

const LABELS: [&str; 3] = ["l1", "l2", "pii"];
const SOURCES: [&str; 4] = ["s", "b", "shop", "a-source-whose-id-alone-has-fifty-characters-in-it"];
const KEYS: [&str; 6] = ["a", "b", "c", "ab", "GET /a", "k:1"];
const GROUPS: [&str; 5] = ["g1", "g2", "g3", "g4", "g5"];
const POLICIES: [&str; 6] = ["p1", "p2", "p3", "p4", "p5", "p6"];

/// Deterministic: the same seed generates the same case.
pub(super) fn generate_case(seed: u64) -> AgreementCase {
    let mut random = WorldRandom::new(seed);
    let identities = identities::random_identities(&mut random);
    let mut making =
        CaseBuilder { random, world: World::default(), identities, wishes: Vec::new() };
    making.add_labels();
    making.add_sources();
    making.add_tool_settings();
    making.add_groups();
    making.add_policies();
    let made_by = making.wishes.len();
    for _ in 0..making.random.below(7) {
        making.add_random_change();
    }
    AgreementCase { wishes: making.wishes, made_by, identities: making.identities }
}

/// A case under construction.
struct CaseBuilder {
    random: WorldRandom,
    /// The world after the changes so far, so that later changes refer to existing entities.
    world: World,
    identities: Vec<Value>,
    wishes: Vec<WorldChange>,
}

impl CaseBuilder {
    /// Adds a change, even a refused one: the product must refuse it too.
    fn push_change(&mut self, wish: WorldChange) {
        self.world.apply(&wish).ok();
        self.wishes.push(wish);
    }

    fn add_labels(&mut self) {
        for label in self.random.some_of(LABELS, 60) {
            self.push_change(WorldChange::Label(label.to_owned(), LabelChange::Create));
        }
    }

    fn add_sources(&mut self) {
        let wanted = [0, 1, 1, 1, 2, 2, 2, 2, 3, 3][self.random.below(10)];
        let mut left = SOURCES.to_vec();
        for _ in 0..wanted {
            let id = left.swap_remove(self.random.below(left.len())).to_owned();
            let profile = tools::random_profile(&mut self.random);
            self.push_change(WorldChange::Source(id.clone(), SourceChange::Register(profile)));
            let tools = tools::random_inventory(&mut self.random, &id, self.world.tools.len());
            self.push_change(WorldChange::Source(id, SourceChange::Ingest { tools, force: false }));
        }
    }

    /// Changes the settings of some tools, as an admin would before the first agent connects.
    fn add_tool_settings(&mut self) {
        let tools: Vec<(String, bool)> = self
            .world
            .tools
            .iter()
            .map(|(id, tool)| (id.clone(), tool.approved.is_none()))
            .collect();
        for (id, waits) in tools {
            if waits && self.random.percent_chance(60) {
                self.push_change(WorldChange::Tool(id.clone(), ToolChange::Approve));
            }
            if self.random.percent_chance(10) {
                self.push_change(WorldChange::Tool(id.clone(), ToolChange::Disable));
            }
            if self.random.percent_chance(15) {
                let wish = tools::random_override(&mut self.random);
                self.push_change(WorldChange::Tool(id.clone(), wish));
            }
            if self.random.percent_chance(30) {
                let labels = self.some_labels();
                self.push_change(WorldChange::Tool(id, ToolChange::Label(labels)));
            }
        }
    }
}
