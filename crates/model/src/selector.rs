//! A selector: one condition on a tool, prompt or resource. All parts of it must match.
//!
//! A selector without parts matches everything of its kind. A group without selectors selects nothing; the group
//! enforces that rule.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LabelId, Pattern};

/// What a source offers, in the words of MCP.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Primitive")]
pub enum McpPrimitive {
    /// Something an agent calls.
    #[default]
    Tool,
    /// A text with gaps that an agent asks for.
    Prompt,
    /// Something an agent reads.
    Resource,
}

/// The properties of a tool, prompt or resource that selectors test. A property that does not apply is empty.
#[derive(Clone, Copy, Debug)]
pub struct SelectorTarget<'a> {
    /// Tool, prompt or resource.
    pub kind: McpPrimitive,
    /// The id of its source.
    pub source_id: &'a str,
    /// The display name of its source.
    pub source_name: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The path of the HTTP request it sends.
    pub path: &'a str,
    /// The method of the HTTP request it sends.
    pub method: &'a str,
    /// Tags set by the source.
    pub tags: &'a [Box<str>],
    /// Labels set by an admin.
    pub labels: &'a BTreeSet<LabelId>,
}

/// One condition on a tool, prompt or resource. A part that is not given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selector {
    /// What is selected; the others never match.
    #[serde(default)]
    pub kind: McpPrimitive,
    /// Matches the id or the name of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Pattern>,
    /// Matches the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Pattern>,
    /// Matches the path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Pattern>,
    /// Matches the method of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Pattern>,
    /// Tags that must all be there, spelled exactly so.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub required_tags: BTreeSet<Box<str>>,
    /// Tags of which none may be there, spelled exactly so.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub excluded_tags: BTreeSet<Box<str>>,
    /// Labels that must all be there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub required_labels: BTreeSet<LabelId>,
}

impl Selector {
    /// Whether only the kind is given, so that everything of it would match. To select everything, write `name: "*"`.
    pub fn is_unconditional(&self) -> bool {
        let Self {
            kind: _,
            source,
            name,
            path,
            method,
            required_tags,
            excluded_tags,
            required_labels,
        } = self;
        [source, name, path, method].iter().all(|pattern| pattern.is_none())
            && required_tags.is_empty()
            && excluded_tags.is_empty()
            && required_labels.is_empty()
    }

    /// Whether all parts match.
    pub fn matches(&self, facts: &SelectorTarget<'_>) -> bool {
        self.first_mismatch(facts).is_none()
    }

    /// The field name of the first part that does not match.
    pub fn first_mismatch(&self, facts: &SelectorTarget<'_>) -> Option<&'static str> {
        if self.kind != facts.kind {
            return Some("kind");
        }
        let source = self.source.as_ref();
        if !pattern_matches(source, facts.source_id) && !pattern_matches(source, facts.source_name)
        {
            return Some("source");
        }
        if !pattern_matches(self.name.as_ref(), facts.name) {
            return Some("name");
        }
        if !pattern_matches(self.path.as_ref(), facts.path) {
            return Some("path");
        }
        if !pattern_matches(self.method.as_ref(), facts.method) {
            return Some("method");
        }
        if !self.required_tags.iter().all(|tag| facts.tags.contains(tag)) {
            return Some("required_tags");
        }
        if self.excluded_tags.iter().any(|tag| facts.tags.contains(tag)) {
            return Some("excluded_tags");
        }
        let labelled = self.required_labels.is_subset(facts.labels);
        (!labelled).then_some("required_labels")
    }
}

fn pattern_matches(pattern: Option<&Pattern>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.matches(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether a selector matches the tool `GET /pets/{id}` of the source `petstore`.
    fn selects(selector: serde_json::Value) -> bool {
        let selector: Selector = serde_json::from_value(selector).unwrap();
        let labels = ["pii", "beta"].map(|label| label.parse().unwrap()).into();
        selector.matches(&SelectorTarget {
            kind: McpPrimitive::Tool,
            source_id: "petstore",
            source_name: "Pet Store",
            name: "getPet",
            path: "/pets/{id}",
            method: "GET",
            tags: &["pets".into(), "Read".into()],
            labels: &labels,
        })
    }

    #[test]
    fn an_empty_selector_matches_every_primitive_of_its_kind() {
        assert!(selects(json!({})));
        assert!(selects(json!({"kind": "tool"})));
        assert!(!selects(json!({"kind": "prompt"})));
        assert!(!selects(json!({"kind": "resource"})));
    }

    #[test]
    fn one_part_makes_a_selector_conditional() {
        let says_nothing = |selector: serde_json::Value| {
            serde_json::from_value::<Selector>(selector).unwrap().is_unconditional()
        };
        assert!(says_nothing(json!({})) && says_nothing(json!({"kind": "prompt"})));
        for part in ["source", "name", "path", "method"] {
            assert!(!says_nothing(json!({part: "*"})), "{part}");
        }
        for part in ["required_tags", "excluded_tags", "required_labels"] {
            assert!(!says_nothing(json!({part: ["a"]})), "{part}");
        }
    }

    #[test]
    fn a_source_is_matched_by_id_or_name() {
        assert!(selects(json!({"source": "petstore"})));
        assert!(selects(json!({"source": "pet store"})));
        assert!(!selects(json!({"source": "pet"})));
    }

    #[test]
    fn each_pattern_tests_its_own_property() {
        assert!(selects(json!({"name": "get*", "path": "/pets/*", "method": "{get,head}"})));
        assert!(selects(json!({"path": "/pets/{id}"})));
        assert!(!selects(json!({"name": "/pets/*"})));
        assert!(!selects(json!({"path": "get*"})));
        assert!(!selects(json!({"method": "post"})));
    }

    #[test]
    fn all_parts_must_match() {
        assert!(!selects(json!({"name": "get*", "method": "post"})));
        assert!(!selects(json!({"kind": "prompt", "name": "get*"})));
    }

    #[test]
    fn required_tags_must_all_be_present_and_match_exactly() {
        assert!(selects(json!({"required_tags": ["pets", "Read"]})));
        assert!(!selects(json!({"required_tags": ["pets", "write"]})));
        assert!(!selects(json!({"required_tags": ["read"]})));
    }

    #[test]
    fn one_excluded_tag_prevents_a_match() {
        assert!(selects(json!({"excluded_tags": ["write", "read"]})));
        assert!(!selects(json!({"excluded_tags": ["write", "Read"]})));
        assert!(!selects(json!({"required_tags": ["pets"], "excluded_tags": ["pets"]})));
    }

    #[test]
    fn required_labels_must_all_be_present() {
        assert!(selects(json!({"required_labels": ["pii", "beta"]})));
        assert!(!selects(json!({"required_labels": ["pii", "pets"]})));
    }

    #[test]
    fn absent_parts_are_not_serialised_and_unknown_ones_are_tolerated() {
        let selector: Selector =
            serde_json::from_value(json!({"name": "a*", "later": true})).unwrap();
        assert_eq!(serde_json::to_value(&selector).unwrap(), json!({"kind": "tool", "name": "a*"}));
    }
}
