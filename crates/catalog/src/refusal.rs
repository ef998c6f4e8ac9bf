//! Why a command is refused: the rules, by meaning.

use model::{Finding, GroupId, LabelId, PolicyId};

/// Why a command is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none under this id.
    #[error("there is no {what} `{id}`")]
    NotFound {
        /// `source`, `tool`, …
        what: &'static str,
        /// The id.
        id: String,
    },
    /// The id is taken.
    #[error("there is a {what} `{id}` already")]
    AlreadyExists {
        /// `source`, `tool`, …
        what: &'static str,
        /// The id.
        id: String,
    },
    /// The upstream no longer offers it.
    #[error("tool `{id}` is gone from its source: it can be enabled when a refresh finds it again")]
    ToolIsDeprecated {
        /// The tool.
        id: String,
    },
    /// Another version was looked at than the one that waits.
    #[error("tool `{id}` has changed since you looked: look at the version that waits now")]
    ToolHasChanged {
        /// The tool.
        id: String,
    },
    /// Nothing waits for a decision.
    #[error("no version of tool `{id}` waits for review")]
    NothingToReview {
        /// The tool.
        id: String,
    },
    /// Something was found in the version that waits.
    #[error(
        "something was found in the texts of tool `{id}`: {}. Look at it, and if it is to be served all the same, say \
         `\"despite_findings\": true`",
        told(findings)
    )]
    HasFindings {
        /// The tool.
        id: String,
        /// What, without notes.
        findings: Vec<Finding>,
    },
    /// It would do nothing: only results of tools are shaped.
    #[error("`{id}` is a {kind}, and `{member}` shapes results of tools: leave it out")]
    OnlyOfTools {
        /// The prompt or resource.
        id: String,
        /// Which of the two.
        kind: &'static str,
        /// What was said of it.
        member: &'static str,
    },
    /// A revoked key opens nothing for good.
    #[error("key `{id}` is revoked: make a new one")]
    KeyIsRevoked {
        /// The key.
        id: String,
    },
    /// Somebody was faster.
    #[error("{what} `{id}` has changed since you read it: read it again")]
    HasChanged {
        /// `source`, `tool`, …
        what: &'static str,
        /// The id.
        id: String,
    },
    /// It would select every tool, most likely by mistake.
    #[error(
        "selector {number} says nothing and would select every tool: if that is meant, say `\"name\": \"*\"`"
    )]
    SelectorSaysNothing {
        /// Which, from 1 on.
        number: usize,
    },
    /// It would select nothing, which nobody means.
    #[error(
        "the selectors are of several kinds, and nothing matches all of them: say `\"selector_mode\": \"any\"`, or make a \
         group for each kind"
    )]
    KindsExcludeEachOther,
    /// Each takes memory and time at every change.
    #[error("at most {limit} {what}: split it up")]
    TooMany {
        /// `selectors`, `matchers`.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// Others could not read it: it is nested too deeply.
    #[error("this is nested too deeply to be stored")]
    TooDeep,
    /// Not while it is disabled.
    #[error("source `{id}` is disabled: enable it first")]
    SourceIsDisabled {
        /// The source.
        id: String,
    },
    /// One at a time.
    #[error("source `{id}` is being refreshed by another node: look what came of that")]
    BeingRefreshed {
        /// The source.
        id: String,
    },
    /// The kind of a source is for ever.
    #[error("source `{id}` stays of kind {kind}: register another source for another kind")]
    KindIsForEver {
        /// The source.
        id: String,
        /// Its kind.
        kind: &'static str,
    },
    /// Policies still grant it.
    #[error("group `{id}` is granted by {}: change those policies first", list(policies))]
    GroupIsGranted {
        /// The group.
        id: GroupId,
        /// Who grants it.
        policies: Vec<PolicyId>,
    },
    /// A policy would grant groups that are not there.
    #[error("there is no group {}", list(groups))]
    NoSuchGroups {
        /// Which.
        groups: Vec<GroupId>,
    },
    /// A tool would get labels that are not there.
    #[error("there is no label {}", list(labels))]
    NoSuchLabels {
        /// Which.
        labels: Vec<LabelId>,
    },
    /// A refresh would remove too many tools at once.
    #[error(
        "the refresh of source `{id}` would remove {gone} of {known} tools, more than {limit} %: \
         the last inventory stays in service; refresh with force if this is right"
    )]
    ShrinksTooMuch {
        /// The source.
        id: String,
        /// How many would go.
        gone: usize,
        /// How many there are.
        known: usize,
        /// The limit.
        limit: u8,
    },
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}

/// The first of them, and how many more there are.
fn told(findings: &[Finding]) -> String {
    let first = findings.first().map(|found| format!("{} at `{}`", found.check, found.at));
    let more = match findings.len() {
        0 | 1 => String::new(),
        several => format!(" and {} more", several - 1),
    };
    first.unwrap_or_default() + &more
}

impl Refusal {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    pub(crate) fn already_exists(what: &'static str, id: impl ToString) -> Self {
        Self::AlreadyExists { what, id: id.to_string() }
    }
}
