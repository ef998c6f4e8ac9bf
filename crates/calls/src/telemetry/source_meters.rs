//! Metrics of each source. A limited number of sources have their own label; all others share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use limits::instruments::{Counter, DURATION_BOUNDS, Histogram};
use model::{ErrorCode, McpPrimitive};

use super::metric_definitions;
use super::metrics_snapshot::MetricsSnapshot;

/// The most sources with their own label, in the order of their first use.
pub(super) const MAX_LABELLED_SOURCES: usize = 200;

/// Labels of calls without a source, and of sources without their own label. A source with such an id shares the label.
pub(crate) const LABEL_OTHER: &str = "other";
pub const LABEL_PROVIDER: &str = "provider";
pub const LABEL_TOOLCRIB: &str = "toolcrib";
pub const LABEL_NONE: &str = "none";
const FIXED_LABELS: [&str; 4] = [LABEL_OTHER, LABEL_PROVIDER, LABEL_TOOLCRIB, LABEL_NONE];

/// The outcome of a call, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Completed,
    /// The caller must answer a question and call again.
    Asked,
    /// The caller is gone.
    Cancelled,
    Failed(ErrorCode),
}

impl CallOutcome {
    const COUNT: usize = 3 + ErrorCode::ALL.len();

    fn all_outcomes() -> impl Iterator<Item = Self> {
        let failed = ErrorCode::ALL.into_iter().map(Self::Failed);
        [Self::Completed, Self::Asked, Self::Cancelled].into_iter().chain(failed)
    }

    fn index(self) -> usize {
        match self {
            Self::Completed => 0,
            Self::Asked => 1,
            Self::Cancelled => 2,
            Self::Failed(code) => 3 + code as usize,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Asked => "asked",
            Self::Cancelled => "cancelled",
            Self::Failed(code) => code.as_str(),
        }
    }
}

pub(super) fn kind_label(kind: McpPrimitive) -> &'static str {
    match kind {
        McpPrimitive::Tool => "tool",
        McpPrimitive::Prompt => "prompt",
        McpPrimitive::Resource => "resource",
    }
}

/// The metrics of one source.
#[derive(Debug)]
pub struct SourceMeters {
    label: Arc<str>,
    calls: [[Counter; CallOutcome::COUNT]; 3],
    pub(super) call_times: Histogram,
    /// Successful and failed refreshes.
    refreshes: [Counter; 2],
    /// Toolcrib's own and exchanged tokens: granted and refused.
    tokens: [[Counter; 2]; 2],
    /// Rejections by a limit, and by an open circuit breaker.
    refusals: [Counter; 2],
    breaks: Counter,
}

impl SourceMeters {
    fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.into(),
            calls: Default::default(),
            call_times: Histogram::new(&DURATION_BOUNDS),
            refreshes: Default::default(),
            tokens: Default::default(),
            refusals: Default::default(),
            breaks: Counter::default(),
        })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn record_call(&self, kind: McpPrimitive, outcome: CallOutcome) {
        let counter =
            self.calls.get(kind as usize).and_then(|of_kind| of_kind.get(outcome.index()));
        if let Some(counter) = counter {
            counter.increment();
        }
    }

    pub(super) fn record_refresh(&self, success: bool) {
        let [done, failed] = &self.refreshes;
        if success { done.increment() } else { failed.increment() }
    }

    pub(super) fn record_token_request(&self, is_exchange: bool, granted: bool) {
        let [own, exchanged] = &self.tokens;
        let [good, bad] = if is_exchange { exchanged } else { own };
        if granted { good.increment() } else { bad.increment() }
    }

    /// Counts a call that was not admitted.
    pub(crate) fn record_refusal(&self, code: ErrorCode) {
        let [limited, open] = &self.refusals;
        if code == ErrorCode::CircuitOpen { open.increment() } else { limited.increment() }
    }

    /// Counts an opening of the source's circuit breaker.
    pub(crate) fn record_breaker_opened(&self) {
        self.breaks.increment();
    }

    fn add_metrics(&self, into: &mut MetricsSnapshot) {
        let label = &*self.label;
        for (word, counter) in ["completed", "failed"].into_iter().zip(&self.refreshes) {
            into.add_labelled_counter(&metric_definitions::REFRESHES, &[label, word], counter);
        }
        for (grant, counters) in ["client_credentials", "token_exchange"].iter().zip(&self.tokens) {
            for (word, counter) in ["granted", "refused"].into_iter().zip(counters) {
                into.add_labelled_counter(
                    &metric_definitions::TOKENS,
                    &[label, grant, word],
                    counter,
                );
            }
        }
        for (reason, counter) in ["rate_limited", "circuit_open"].into_iter().zip(&self.refusals) {
            into.add_labelled_counter(&metric_definitions::REFUSALS, &[label, reason], counter);
        }
        into.add_labelled_counter(&metric_definitions::BREAKS, &[label], &self.breaks);
        for (kind, counters) in KINDS.into_iter().zip(&self.calls) {
            for (outcome, counter) in CallOutcome::all_outcomes().zip(counters) {
                let labels = [label, kind_label(kind), outcome.as_str()];
                into.add_labelled_counter(&metric_definitions::CALLS, &labels, counter);
            }
        }
        into.add_histogram(&metric_definitions::CALL_DURATION, &[label], &self.call_times);
    }
}

const KINDS: [McpPrimitive; 3] = [McpPrimitive::Tool, McpPrimitive::Prompt, McpPrimitive::Resource];

/// The metrics of all sources.
pub struct SourceTelemetry {
    known: ArcSwap<HashMap<Arc<str>, Arc<SourceMeters>>>,
    other: Arc<SourceMeters>,
    /// Serialises changes of `known`.
    change_lock: Mutex<()>,
}

impl Default for SourceTelemetry {
    fn default() -> Self {
        let fixed = FIXED_LABELS.map(|label| (label.into(), SourceMeters::new(label)));
        let known: HashMap<_, _> = fixed.into_iter().collect();
        let other =
            known.get(LABEL_OTHER).map_or_else(|| SourceMeters::new(LABEL_OTHER), Arc::clone);
        Self { known: ArcSwap::from_pointee(known), other, change_lock: Mutex::default() }
    }
}

impl SourceTelemetry {
    /// The metrics of this source, or those shared by sources without their own label.
    pub(crate) fn meters_of(&self, source: &str) -> Arc<SourceMeters> {
        let known = self.known.load();
        match known.get(source) {
            Some(meters) => Arc::clone(meters),
            None if MAX_LABELLED_SOURCES + FIXED_LABELS.len() <= known.len() => {
                Arc::clone(&self.other)
            }
            None => self.add_label(source),
        }
    }

    fn add_label(&self, source: &str) -> Arc<SourceMeters> {
        let _turn = self.change_lock.lock().expect("no one panics while holding it");
        let known = self.known.load();
        if let Some(meters) = known.get(source) {
            return Arc::clone(meters);
        }
        if MAX_LABELLED_SOURCES + FIXED_LABELS.len() <= known.len() {
            return Arc::clone(&self.other);
        }
        let meters = SourceMeters::new(source);
        let mut more = HashMap::clone(&known);
        more.insert(Arc::clone(&meters.label), Arc::clone(&meters));
        self.known.store(Arc::new(more));
        meters
    }

    /// Removes the metrics of removed sources, which frees their labels.
    pub(super) fn retain_labels(&self, is_there: impl Fn(&str) -> bool) {
        let _turn = self.change_lock.lock().expect("no one panics while holding it");
        let known = self.known.load();
        let stays = |label: &str| FIXED_LABELS.contains(&label) || is_there(label);
        if known.keys().all(|label| stays(label)) {
            return;
        }
        let left = known.iter().filter(|(label, _)| stays(label));
        let left = left.map(|(label, meters)| (Arc::clone(label), Arc::clone(meters)));
        self.known.store(Arc::new(left.collect()));
    }

    /// The sources that have their own label.
    pub fn labels(&self) -> Vec<Arc<str>> {
        let mut labels: Vec<Arc<str>> = self.known.load().keys().cloned().collect();
        labels.sort_unstable();
        labels
    }

    pub(super) fn add_metrics(&self, into: &mut MetricsSnapshot) {
        let known = self.known.load();
        let mut all: Vec<&Arc<SourceMeters>> = known.values().collect();
        all.sort_unstable_by(|one, two| one.label.cmp(&two.label));
        all.into_iter().for_each(|meters| meters.add_metrics(into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(sources: &SourceTelemetry) -> Vec<String> {
        let mut reading = MetricsSnapshot::default();
        sources.add_metrics(&mut reading);
        let text = reading.to_prometheus_text();
        text.lines()
            .filter(|line| line.starts_with("toolcrib_calls_total"))
            .map(Into::into)
            .collect()
    }

    #[test]
    fn ten_thousand_sources_have_a_bounded_number_of_labels() {
        let sources = SourceTelemetry::default();
        for source in 0..10_000 {
            let meters = sources.meters_of(&format!("source-{source}"));
            meters.record_call(McpPrimitive::Tool, CallOutcome::Completed);
        }
        let lines = lines(&sources);
        assert_eq!(lines.len(), MAX_LABELLED_SOURCES + 1);
        let other = r#"toolcrib_calls_total{source="other",kind="tool",outcome="completed"} 9800"#;
        assert!(lines.iter().any(|line| line == other), "{lines:?}");
    }

    #[test]
    fn a_source_with_the_id_of_a_fixed_label_adds_no_duplicate_line() {
        let sources = SourceTelemetry::default();
        for label in FIXED_LABELS {
            sources.meters_of(label).record_call(McpPrimitive::Prompt, CallOutcome::Cancelled);
        }
        sources.other.record_call(McpPrimitive::Prompt, CallOutcome::Cancelled);
        assert_eq!(
            lines(&sources),
            [
                r#"toolcrib_calls_total{source="none",kind="prompt",outcome="cancelled"} 1"#,
                r#"toolcrib_calls_total{source="other",kind="prompt",outcome="cancelled"} 2"#,
                r#"toolcrib_calls_total{source="provider",kind="prompt",outcome="cancelled"} 1"#,
                r#"toolcrib_calls_total{source="toolcrib",kind="prompt",outcome="cancelled"} 1"#,
            ]
        );
    }

    #[test]
    fn removed_sources_free_their_labels() {
        let sources = SourceTelemetry::default();
        for source in 0..MAX_LABELLED_SOURCES {
            sources.meters_of(&format!("old-{source}"));
        }
        sources.meters_of("new").record_call(McpPrimitive::Tool, CallOutcome::Completed);
        sources.retain_labels(|label| !label.starts_with("old"));
        sources.meters_of("new").record_call(McpPrimitive::Tool, CallOutcome::Completed);
        assert_eq!(
            lines(&sources),
            [
                r#"toolcrib_calls_total{source="new",kind="tool",outcome="completed"} 1"#,
                r#"toolcrib_calls_total{source="other",kind="tool",outcome="completed"} 1"#,
            ]
        );
    }

    #[test]
    fn every_outcome_has_its_own_index() {
        let places: Vec<usize> = CallOutcome::all_outcomes().map(CallOutcome::index).collect();
        assert_eq!(places, (0..CallOutcome::COUNT).collect::<Vec<_>>());
        for (place, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
