//! Grants of policies, by example and compared with an oracle that shares no code with them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CLAIMS: [&str; 3] = ["role", "team", "level"];
const GROUPS: [&str; 4] = ["billing", "pets", "reports", "weather"];

/// A policy as the requirement describes it; its id is its index in a list.
#[derive(Clone, Debug)]
struct Written {
    priority: u32,
    conditions: Vec<Condition>,
    groups: BTreeSet<&'static str>,
}

#[derive(Clone, Debug)]
enum Condition {
    Equals(&'static str, Value),
    NotEquals(&'static str, Value, bool),
    Contains(&'static str, &'static str),
    Exists(&'static str),
}

type ById = BTreeMap<PolicyId, PolicyRules>;

fn id(place: usize) -> PolicyId {
    format!("p{place}").parse().unwrap()
}

fn rules(written: &Written) -> PolicyRules {
    let matcher = |condition: &Condition| match condition {
        Condition::Equals(claim, value) => {
            json!({"claim": claim, "operator": "equals", "value": value})
        }
        Condition::NotEquals(claim, value, missing) => {
            json!({"claim": claim, "operator": "not_equals", "value": value, "missing": missing})
        }
        Condition::Contains(claim, value) => {
            json!({"claim": claim, "operator": "contains", "value": value})
        }
        Condition::Exists(claim) => json!({"claim": claim, "operator": "exists"}),
    };
    let matchers: Vec<Value> = written.conditions.iter().map(matcher).collect();
    let whole = json!({
        "name": "p", "priority": written.priority, "matchers": matchers, "groups": written.groups,
    });
    serde_json::from_value(whole).unwrap()
}

fn policies(written: &[Written]) -> ById {
    written.iter().enumerate().map(|(place, written)| (id(place), rules(written))).collect()
}

fn claims(values: &BTreeMap<&'static str, Value>) -> Claims {
    serde_json::from_value(json!(values)).unwrap()
}

fn resolve<'a>(
    policies: impl Iterator<Item = (&'a PolicyId, &'a PolicyRules)>,
    claims: &Claims,
) -> Grant {
    PolicySet::compile(policies).resolve_grant(claims)
}

/// Granted groups and matching policies, as text.
type Shown = (Vec<String>, Vec<String>);

fn shown(grant: &Grant) -> Shown {
    let groups = grant.groups.iter().map(ToString::to_string).collect();
    (groups, grant.policies.iter().map(ToString::to_string).collect())
}

/// Evaluates every group, priority and policy naively: requirements G3 and G4, and the rules of `Matcher`.
fn oracle(written: &[Written], claims: &BTreeMap<&'static str, Value>) -> Shown {
    let holds = |condition: &Condition| match condition {
        Condition::Equals(claim, value) => claims.get(claim) == Some(value),
        Condition::NotEquals(claim, value, missing) => match claims.get(claim) {
            // Values of different types are not comparable, which grants nothing.
            Some(found) => {
                found != value
                    && found.is_string() == value.is_string()
                    && found.is_number() == value.is_number()
                    && found.is_array() == value.is_array()
            }
            None => *missing,
        },
        Condition::Contains(claim, word) => match claims.get(claim) {
            Some(Value::Array(elements)) => elements.contains(&json!(word)),
            Some(Value::String(text)) => text.split(' ').any(|part| part == *word),
            _ => false,
        },
        Condition::Exists(claim) => claims.contains_key(claim),
    };
    let matching: Vec<_> = (0..=3)
        .rev()
        .flat_map(|priority| {
            let of_priority = move |(_, policy): &(usize, &Written)| policy.priority == priority;
            written.iter().enumerate().filter(of_priority)
        })
        .filter(|(_, policy)| policy.conditions.iter().all(holds))
        .collect();
    let is_granted =
        |group: &&str| matching.iter().any(|(_, policy)| policy.groups.contains(*group));
    let groups = GROUPS.into_iter().filter(is_granted).map(str::to_owned).collect();
    (groups, matching.iter().map(|(place, _)| format!("p{place}")).collect())
}

fn any_value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!("1"),
        json!(1),
        json!("staff"),
        json!("staff 1"),
        json!(["staff", 1]),
        json!([["staff"], "staff 1"]),
        json!(true),
    ])
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let claim = || prop::sample::select(CLAIMS.to_vec());
    prop_oneof![
        (claim(), any_value()).prop_map(|(claim, value)| Condition::Equals(claim, value)),
        (claim(), any_value(), any::<bool>())
            .prop_map(|(claim, value, missing)| Condition::NotEquals(claim, value, missing)),
        (claim(), prop::sample::select(vec!["1", "staff", "staff 1"]))
            .prop_map(|(claim, word)| Condition::Contains(claim, word)),
        claim().prop_map(Condition::Exists),
    ]
}

fn any_policy() -> impl Strategy<Value = Written> {
    let conditions = prop::collection::vec(any_condition(), 1..4);
    let groups = prop::collection::btree_set(prop::sample::select(GROUPS.to_vec()), 1..4);
    (0..=3_u32, conditions, groups).prop_map(|(priority, conditions, groups)| Written {
        priority,
        conditions,
        groups,
    })
}

/// At most ten, so that ids sort like their indexes.
fn any_policies() -> impl Strategy<Value = Vec<Written>> {
    prop::collection::vec(any_policy(), 0..10)
}

fn any_claims() -> impl Strategy<Value = BTreeMap<&'static str, Value>> {
    prop::collection::btree_map(prop::sample::select(CLAIMS.to_vec()), any_value(), 0..4)
}

proptest! {
    #[test]
    fn a_grant_equals_that_of_the_oracle(written in any_policies(), agent in any_claims()) {
        let policies = policies(&written);
        let compiled = PolicySet::compile(policies.iter());
        let grant = compiled.resolve_grant(&claims(&agent));
        prop_assert_eq!(shown(&grant), oracle(&written, &agent));
    }

    #[test]
    fn callers_with_equal_keys_have_equal_grants(
        written in any_policies(), one in any_claims(), two in any_claims(),
    ) {
        let policies = policies(&written);
        let compiled = PolicySet::compile(policies.iter());
        let (one, two) = (claims(&one), claims(&two));
        if compiled.grant_key(&one) == compiled.grant_key(&two) {
            prop_assert_eq!(compiled.resolve_grant(&one), compiled.resolve_grant(&two));
        }
    }

    #[test]
    fn one_more_policy_never_removes_a_group(
        written in any_policies(), more in any_policy(), agent in any_claims(),
    ) {
        let mut policies = policies(&written);
        let before = resolve(policies.iter(), &claims(&agent));
        policies.insert("one-more".parse().unwrap(), rules(&more));
        let after = resolve(policies.iter(), &claims(&agent));
        prop_assert!(before.groups.iter().all(|group| after.groups.contains(group)));
    }

    #[test]
    fn the_order_of_policies_does_not_matter(
        (written, shuffled) in any_policies().prop_flat_map(|written| {
            let places: Vec<usize> = (0..written.len()).collect();
            (Just(written), Just(places).prop_shuffle())
        }),
        agent in any_claims(),
    ) {
        let policies = policies(&written);
        let agent = claims(&agent);
        let other_order = shuffled.iter().map(|place| policies.get_key_value(&id(*place)).unwrap());
        prop_assert_eq!(resolve(other_order, &agent), resolve(policies.iter(), &agent));
    }
}

#[test]
fn a_grant_lists_its_policies_by_descending_priority() {
    let staff = |priority, groups: &[&'static str]| Written {
        priority,
        conditions: vec![Condition::Equals("role", json!("staff"))],
        groups: groups.iter().copied().collect(),
    };
    let policies =
        policies(&[staff(0, &["pets"]), staff(7, &["pets", "billing"]), staff(0, &["pets"])]);
    let grant = resolve(policies.iter(), &claims(&BTreeMap::from([("role", json!("staff"))])));
    assert_eq!(grant.policies, [id(1), id(0), id(2)]);
    assert_eq!(shown(&grant).0, ["billing", "pets"]);
    assert!(!grant.admin);
}

#[test]
fn a_caller_who_matches_no_policy_has_an_empty_grant() {
    let exists = Condition::Exists("role");
    let groups = BTreeSet::from(["pets"]);
    let policies = policies(&[Written { priority: 0, conditions: vec![exists], groups }]);
    assert_eq!(resolve(policies.iter(), &Claims::default()), Grant::default());
}

#[test]
fn a_policy_may_make_admins() {
    let rules = json!({
        "name": "p", "admin": true, "matchers": [{"claim": "role", "operator": "equals", "value": "root"}],
    });
    let policies = ById::from([(id(0), serde_json::from_value(rules).unwrap())]);
    let role = |role: &str| claims(&BTreeMap::from([("role", json!(role))]));
    assert!(resolve(policies.iter(), &role("root")).admin);
    assert!(!resolve(policies.iter(), &role("staff")).admin);
}

#[test]
fn the_key_contains_only_claims_that_policies_read() {
    let rules = json!({
        "name": "p", "groups": ["pets"],
        "matchers": [{"claim": "realm.roles", "operator": "contains", "value": "a"}],
    });
    let policies = ById::from([(id(0), serde_json::from_value(rules).unwrap())]);
    let policies = PolicySet::compile(policies.iter());
    let key = |claims: Value| policies.grant_key(&serde_json::from_value(claims).unwrap());
    let first = key(json!({"realm": {"roles": ["a"]}, "iat": 1}));
    assert_eq!(first, key(json!({"iat": 2, "jti": "x", "realm": {"roles": ["a"]}})));
    assert_ne!(first, key(json!({"realm": {"roles": ["b"]}})));
    assert_ne!(key(json!({"realm": null})), key(json!({})));
}
