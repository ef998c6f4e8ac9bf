//! Reasons to refuse a command: the rules of the catalog, by meaning.

use model::{Finding, GroupId, LabelId, PolicyId};

/// Why a command was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    #[error("there is a {what} `{id}` already")]
    AlreadyExists { what: &'static str, id: String },
    /// The upstream no longer offers the tool.
    #[error("tool `{id}` is gone from its source: it can be enabled when a refresh finds it again")]
    ToolIsDeprecated { id: String },
    /// The admin reviewed another version than the pending one.
    #[error("tool `{id}` has changed since you looked: look at the version that waits now")]
    ToolHasChanged { id: String },
    /// No version is pending review.
    #[error("no version of tool `{id}` waits for review")]
    NothingToReview { id: String },
    /// The pending version has findings.
    #[error(
        "something was found in the texts of tool `{id}`: {}. Look at it, and if it is to be served all the same, say \
         `\"despite_findings\": true`",
        format_findings(findings)
    )]
    HasFindings {
        id: String,
        /// Findings above the level of a note.
        findings: Vec<Finding>,
    },
    /// The setting would have no effect: only results of tools are shaped.
    #[error("`{id}` is a {kind}, and `{member}` shapes results of tools: leave it out")]
    OnlyOfTools {
        /// Id of the prompt or resource.
        id: String,
        /// `prompt` or `resource`.
        kind: &'static str,
        /// Name of the setting.
        member: &'static str,
    },
    /// A revoked key stays revoked.
    #[error("key `{id}` is revoked: make a new one")]
    KeyIsRevoked { id: String },
    /// Another request changed it first.
    #[error("{what} `{id}` has changed since you read it: read it again")]
    HasChanged { what: &'static str, id: String },
    /// The selector would select every tool, most likely by mistake.
    #[error(
        "selector {number} says nothing and would select every tool: if that is meant, say `\"name\": \"*\"`"
    )]
    SelectorSaysNothing {
        /// Position of the selector, from 1.
        number: usize,
    },
    /// The group would select nothing, which is never intended.
    #[error(
        "the selectors are of several kinds, and nothing matches all of them: say `\"selector_mode\": \"any\"`, or make a \
         group for each kind"
    )]
    KindsExcludeEachOther,
    /// Each selector or matcher costs memory and time at every change.
    #[error("at most {limit} {what}: split it up")]
    TooMany {
        /// `selectors`, `matchers`.
        what: &'static str,
        limit: usize,
    },
    /// The event is nested so deeply that other readers would reject it.
    #[error("this is nested too deeply to be stored")]
    TooDeep,
    /// A disabled source cannot be refreshed.
    #[error("source `{id}` is disabled: enable it first")]
    SourceIsDisabled { id: String },
    /// Only one refresh of a source runs at a time.
    #[error("source `{id}` is being refreshed by another node: look what came of that")]
    BeingRefreshed { id: String },
    /// The kind of a source cannot be changed.
    #[error("source `{id}` stays of kind {kind}: register another source for another kind")]
    KindIsFixed { id: String, kind: &'static str },
    /// Policies still grant the group.
    #[error("group `{id}` is granted by {}: change those policies first", format_list(policies))]
    GroupIsGranted {
        id: GroupId,
        /// Policies that grant the group.
        policies: Vec<PolicyId>,
    },
    /// The policy grants unknown groups.
    #[error("there is no group {}", format_list(groups))]
    NoSuchGroups {
        /// The unknown groups.
        groups: Vec<GroupId>,
    },
    /// The tool would get unknown labels.
    #[error("there is no label {}", format_list(labels))]
    NoSuchLabels {
        /// The unknown labels.
        labels: Vec<LabelId>,
    },
    /// A refresh would remove too many tools at once.
    #[error(
        "the refresh of source `{id}` would remove {gone} of {known} tools, more than {limit} %: \
         the last inventory stays in service; refresh with force if this is right"
    )]
    ShrinksTooMuch {
        id: String,
        /// Tools that would be removed.
        gone: usize,
        /// Active tools of the source.
        known: usize,
        /// Limit in percent.
        limit: u8,
    },
}

fn format_list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}

/// Describes the first finding and counts the others.
fn format_findings(findings: &[Finding]) -> String {
    let first = findings.first().map(|found| format!("{} at `{}`", found.check, found.at));
    let more = match findings.len() {
        0 | 1 => String::new(),
        several => format!(" and {} more", several - 1),
    };
    first.unwrap_or_default() + &more
}

impl CommandRefusal {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    pub(crate) fn already_exists(what: &'static str, id: impl ToString) -> Self {
        Self::AlreadyExists { what, id: id.to_string() }
    }
}
