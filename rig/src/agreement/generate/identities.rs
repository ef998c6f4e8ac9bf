//! Generates the claims of agents: nested, of every type, and often different from each other in one value only.

use serde_json::{Map, Value, json};

use super::WorldRandom;

/// Some other products omit some of these claims from their cache keys.
pub(super) const CLAIM_NAMES: [&str; 14] = [
    "role",
    "role",
    "groups",
    "groups",
    "scope",
    "a",
    "b",
    "c",
    "a.b",
    "0",
    "u.e/r",
    "auth_time",
    "nonce",
    "session_state",
];
pub(super) const WORDS: [&str; 9] =
    ["admin", "staff", "a", "b", "ab", "administrator", "not-admin", "Admin", "1"];
const MAX_DEPTH: usize = 3;

pub(super) fn random_identities(random: &mut WorldRandom) -> Vec<Value> {
    let mut all = vec![random_object(random, 0)];
    for _ in 0..1 + random.below(3) {
        let next = if random.percent_chance(60) {
            let mut like = all[random.below(all.len())].clone();
            change_one_claim(random, &mut like);
            like
        } else {
            random_object(random, 0)
        };
        all.push(next);
    }
    all
}

fn change_one_claim(random: &mut WorldRandom, claims: &mut Value) {
    let name = random.pick_from(&CLAIM_NAMES);
    if let Some(claims) = claims.as_object_mut() {
        if random.percent_chance(30) {
            claims.remove(name);
        } else {
            claims.insert(name.to_owned(), random_value(random, 1));
        }
    }
}

fn random_object(random: &mut WorldRandom, depth: usize) -> Value {
    let size = if depth == 0 { 1 + random.below(5) } else { random.below(3) };
    let members: Map<String, Value> = (0..size)
        .map(|_| (random.pick_from(&CLAIM_NAMES).to_owned(), random_value(random, depth + 1)))
        .collect();
    Value::Object(members)
}

pub(super) fn random_value(random: &mut WorldRandom, depth: usize) -> Value {
    if MAX_DEPTH < depth {
        return random_scalar(random);
    }
    match random.below(10) {
        0..6 => random_scalar(random),
        6..8 => {
            let size = random.below(4);
            (0..size).map(|_| random_value(random, depth + 1)).collect()
        }
        _ => random_object(random, depth),
    }
}

pub(super) fn random_scalar(random: &mut WorldRandom) -> Value {
    match random.below(20) {
        0..8 => json!(random.pick_from(&WORDS)),
        8..12 => json!(random_words(random)),
        12..16 => random_number(random),
        16..18 => json!(random.once_in(2)),
        18 => Value::Null,
        // At the length limit of regular expressions, or short and unusual.
        _ => match random.below(12) {
            0 => json!("a".repeat(16 * 1024)),
            1 => json!("a".repeat(16 * 1024 + 1)),
            _ => json!(random.pick_from(&["", " ", "admin\n", "a\tadmin", " admin", "a\u{a0}b"])),
        },
    }
}

fn random_words(random: &mut WorldRandom) -> String {
    let count = 2 + random.below(2);
    let words: Vec<&str> = (0..count).map(|_| random.pick_from(&WORDS)).collect();
    words.join(if random.once_in(8) { "  " } else { " " })
}

pub(super) fn random_number(random: &mut WorldRandom) -> Value {
    let all = [
        json!(0),
        json!(1),
        json!(1),
        json!(1.0),
        json!(2),
        json!(-1),
        json!(1.5),
        json!(-0.0),
        json!(9_007_199_254_740_993_u64),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_992.0),
        json!(u64::MAX),
        json!(18_446_744_073_709_551_616.0),
    ];
    random.one_of(all).expect("there are some")
}
