//! Counts of a run, as proof that it checked something.

use serde_json::{Value, json};

use super::oracle::{OracleGrant, OracleToolset};
use super::world::WorldVisibility;

/// What a run covered; comparing only empty lists would prove nothing.
#[derive(Debug, Default)]
pub(super) struct AgreementTally {
    pub(super) worlds: u64,
    pub(super) states: u64,
    pub(super) refused_changes: u64,
    pub(super) identities: u64,
    pub(super) questions: u64,
    pub(super) granted: u64,
    pub(super) listed: u64,
    pub(super) unlisted: u64,
    pub(super) renamed: u64,
    pub(super) ambiguous: u64,
    pub(super) mismatches: u64,
}

impl AgreementTally {
    fn figures(&self) -> [(&'static str, u64); 11] {
        [
            ("worlds", self.worlds),
            ("states", self.states),
            ("identities", self.identities),
            ("questions", self.questions),
            ("granted", self.granted),
            ("listed", self.listed),
            ("unlisted", self.unlisted),
            ("renamed", self.renamed),
            ("ambiguous", self.ambiguous),
            ("refused", self.refused_changes),
            ("mismatches", self.mismatches),
        ]
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.states += other.states;
        self.refused_changes += other.refused_changes;
        self.identities += other.identities;
        self.questions += other.questions;
        self.granted += other.granted;
        self.listed += other.listed;
        self.unlisted += other.unlisted;
        self.renamed += other.renamed;
        self.ambiguous += other.ambiguous;
        self.mismatches += other.mismatches;
    }

    /// True if every outcome other than a mismatch occurred at least once.
    #[cfg(test)]
    pub(super) fn covers_every_outcome(&self) -> bool {
        self.figures().iter().all(|(name, count)| 0 < *count || *name == "mismatches")
    }

    pub(super) fn summary_line(&self, seconds: f64) -> String {
        let figures = self.figures().map(|(name, count)| format!("{name} {count}")).join(" ");
        format!("{figures} in {seconds:.1} s, {:.0} worlds/s", self.worlds as f64 / seconds)
    }

    pub(super) fn to_json(&self, seconds: f64) -> Value {
        let mut all: serde_json::Map<String, Value> = self
            .figures()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect();
        all.insert("seconds".to_owned(), json!(seconds));
        Value::Object(all)
    }

    pub(super) fn count_toolset(&mut self, toolset: &OracleToolset<'_>) {
        self.identities += 1;
        self.granted += toolset.0.len() as u64;
        let count =
            |keep: &dyn Fn(&&OracleGrant<'_>) -> bool| toolset.0.iter().filter(keep).count() as u64;
        self.listed += count(&|tool| tool.visibility == WorldVisibility::Listed);
        self.unlisted += count(&|tool| tool.visibility != WorldVisibility::Listed);
        self.renamed += count(&|tool| tool.shown_name != tool.name_forms[0]);
    }
}
