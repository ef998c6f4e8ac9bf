//! Generates the claims of agents: nested, of every type, and often different from each other in one value only.

use serde_json::{Map, Value, json};

use super::Random;

/// Some other products omit some of these claims from their cache keys.
pub(super) const NAMES: [&str; 14] = [
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
const DEEPEST: usize = 3;

pub(super) fn some(random: &mut Random) -> Vec<Value> {
    let mut all = vec![object(random, 0)];
    for _ in 0..1 + random.below(3) {
        let next = if random.percent(60) {
            let mut like = all[random.below(all.len())].clone();
            change(random, &mut like);
            like
        } else {
            object(random, 0)
        };
        all.push(next);
    }
    all
}

fn change(random: &mut Random, claims: &mut Value) {
    let name = random.pick(&NAMES);
    if let Some(claims) = claims.as_object_mut() {
        if random.percent(30) {
            claims.remove(name);
        } else {
            claims.insert(name.to_owned(), value(random, 1));
        }
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let size = if depth == 0 { 1 + random.below(5) } else { random.below(3) };
    let members: Map<String, Value> =
        (0..size).map(|_| (random.pick(&NAMES).to_owned(), value(random, depth + 1))).collect();
    Value::Object(members)
}

pub(super) fn value(random: &mut Random, depth: usize) -> Value {
    if DEEPEST < depth {
        return plain(random);
    }
    match random.below(10) {
        0..6 => plain(random),
        6..8 => {
            let size = random.below(4);
            (0..size).map(|_| value(random, depth + 1)).collect()
        }
        _ => object(random, depth),
    }
}

pub(super) fn plain(random: &mut Random) -> Value {
    match random.below(20) {
        0..8 => json!(random.pick(&WORDS)),
        8..12 => json!(text(random)),
        12..16 => number(random),
        16..18 => json!(random.once_in(2)),
        18 => Value::Null,
        // At the length limit of regular expressions, or short and unusual.
        _ => match random.below(12) {
            0 => json!("a".repeat(16 * 1024)),
            1 => json!("a".repeat(16 * 1024 + 1)),
            _ => json!(random.pick(&["", " ", "admin\n", "a\tadmin", " admin", "a\u{a0}b"])),
        },
    }
}

fn text(random: &mut Random) -> String {
    let count = 2 + random.below(2);
    let words: Vec<&str> = (0..count).map(|_| random.pick(&WORDS)).collect();
    words.join(if random.once_in(8) { "  " } else { " " })
}

pub(super) fn number(random: &mut Random) -> Value {
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
