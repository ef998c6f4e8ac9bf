//! Explains why a policy matches or not: each of its conditions with the values found (requirement G7).

use model::{Claims, MatchOperator, Matcher, PolicyRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a policy says to some claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyVerdict {
    /// Whether all of its matchers match.
    pub matches: bool,
    /// Each of them.
    pub matchers: Vec<MatcherVerdict>,
}

/// What a matcher says to some claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatcherVerdict {
    /// Where it looks.
    pub claim: String,
    /// How it judges.
    pub operator: MatchOperator,
    /// What it compares with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What is there: the first few values, and of a long one the beginning.
    pub found: Vec<Value>,
    /// Whether it matches.
    pub matches: bool,
    /// In words.
    pub why: String,
}

/// Evaluates all matchers of a policy, without stopping at the first mismatch.
pub fn explain_policy(rules: &PolicyRules, claims: &Claims) -> PolicyVerdict {
    let matchers: Vec<_> =
        rules.matchers().iter().map(|matcher| explain_matcher(matcher, claims)).collect();
    PolicyVerdict { matches: matchers.iter().all(|verdict| verdict.matches), matchers }
}

fn explain_matcher(matcher: &Matcher, claims: &Claims) -> MatcherVerdict {
    let found = matcher.claim().find(claims);
    let matches = matcher.matches_values(&found);
    MatcherVerdict {
        claim: matcher.claim().to_string(),
        operator: matcher.operator(),
        value: matcher.operand(),
        why: describe_verdict(matcher, &found, matches),
        found: found.into_iter().take(MAX_FOUND_VALUES).map(truncate_value).collect(),
        matches,
    }
}

fn describe_verdict(matcher: &Matcher, found: &[&Value], matches: bool) -> String {
    let claim = matcher.claim();
    let operator = matcher.operator();
    if found.is_empty() {
        return match operator {
            MatchOperator::NotExists => format!("the claim `{claim}` is missing, as asked"),
            MatchOperator::NotEquals | MatchOperator::NotContains | MatchOperator::NotIn
                if matches =>
            {
                format!("the claim `{claim}` is missing, and `missing` lets that match")
            }
            _ => format!("the claim `{claim}` is missing"),
        };
    }
    let found = format_values(found);
    let value = matcher.operand().map(|value| format!(" {value}")).unwrap_or_default();
    let relation = match (operator, matches) {
        (MatchOperator::Equals, true) => "equals",
        (MatchOperator::Equals, false) => "does not equal",
        (MatchOperator::NotEquals, true) => "does not equal",
        (MatchOperator::NotEquals, false) => "equals, or cannot be compared with,",
        (MatchOperator::Contains, true) => "contains",
        (MatchOperator::Contains, false) => "does not contain",
        (MatchOperator::NotContains, true) => "does not contain",
        (MatchOperator::NotContains, false) => "contains, or cannot be searched for,",
        (MatchOperator::Matches, true) => "matches",
        (MatchOperator::Matches, false) => "does not match as a whole",
        (MatchOperator::In, true) => "is one of",
        (MatchOperator::In, false) => "is none of",
        (MatchOperator::NotIn, true) => "is none of",
        (MatchOperator::NotIn, false) => "is one of, or cannot be compared with,",
        (MatchOperator::Exists, _) => "is there",
        (MatchOperator::NotExists, _) => "is there",
    };
    format!("`{claim}` is {found}: it {relation}{value}")
}

/// The most values repeated in a verdict.
const MAX_FOUND_VALUES: usize = 10;
/// Longest value that is repeated in full, in bytes of JSON.
const MAX_VALUE_LENGTH: usize = 1_000;

fn truncate_value(value: &Value) -> Value {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_LENGTH) {
        Some((end, _)) => format!("{}…", text.split_at(end).0).into(),
        None => value.clone(),
    }
}

/// Longest text of the values in a sentence, in characters.
const MAX_SENTENCE_VALUE: usize = 80;

fn format_values(found: &[&Value]) -> String {
    let text = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    match text.char_indices().nth(MAX_SENTENCE_VALUE) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(matchers: Value, claims: Value) -> PolicyVerdict {
        let rules = json!({"name": "p", "matchers": matchers, "groups": ["g"]});
        let rules: PolicyRules = serde_json::from_value(rules).unwrap();
        explain_policy(&rules, &serde_json::from_value(claims).unwrap())
    }

    fn why(operator: &str, value: Value, claims: Value) -> String {
        let matcher = match value.is_null() {
            true => json!({"claim": "role", "operator": operator}),
            false => json!({"claim": "role", "operator": operator, "value": value}),
        };
        let verdict = verdict(json!([matcher]), claims);
        format!("{} {}", verdict.matches, verdict.matchers[0].why)
    }

    #[test]
    fn every_matcher_is_evaluated_even_after_a_mismatch() {
        let verdict = verdict(
            json!([
                {"claim": "team", "operator": "equals", "value": "a"},
                {"claim": "role", "operator": "exists"},
            ]),
            json!({"team": "b", "role": "x"}),
        );
        assert!(!verdict.matches);
        assert_eq!(
            verdict.matchers.iter().map(|one| one.matches).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(verdict.matchers[0].found, [json!("b")]);
    }

    #[test]
    fn the_reason_is_a_sentence() {
        let staff = || json!({"role": "staff"});
        assert_eq!(
            why("equals", json!("staff"), staff()),
            "true `role` is \"staff\": it equals \"staff\""
        );
        assert_eq!(
            why("equals", json!(1), json!({"role": "1"})),
            "false `role` is \"1\": it does not equal 1"
        );
        assert_eq!(why("equals", json!("x"), json!({})), "false the claim `role` is missing");
        assert_eq!(
            why("not_exists", json!(null), json!({})),
            "true the claim `role` is missing, as asked"
        );
        assert_eq!(
            why("not_equals", json!("x"), json!({"role": 7})),
            "false `role` is 7: it equals, or cannot be compared with, \"x\""
        );
        assert_eq!(why("exists", json!(null), staff()), "true `role` is \"staff\": it is there");
        assert_eq!(
            why("contains", json!("admin"), json!({"role": "administrator"})),
            "false `role` is \"administrator\": it does not contain \"admin\""
        );
    }

    #[test]
    fn a_long_claim_is_truncated_in_the_sentence() {
        let long = why("equals", json!("x"), json!({"role": "é".repeat(300)}));
        assert!(long.len() < 300 && long.contains('…'), "{long}");
    }
}
