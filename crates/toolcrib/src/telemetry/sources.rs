//! Metrics of each source. A limited number of sources have their own label; all others share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use model::{ErrorCode, Primitive};

use super::metrics;
use super::reading::Reading;
use model::meter::{Counter, Histogram, TIMES};

/// The most sources with their own label, in the order of their first use.
pub(super) const MOST: usize = 200;

/// Labels of calls without a source, and of sources without their own label. A source with such an id shares the label.
pub(crate) const OTHER: &str = "other";
pub(crate) const PROVIDER: &str = "provider";
pub(crate) const OURS: &str = "toolcrib";
pub(crate) const NONE: &str = "none";
const FIXED: [&str; 4] = [OTHER, PROVIDER, OURS, NONE];

/// The outcome of a call, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Completed,
    /// The caller must answer a question and call again.
    Asked,
    /// The caller is gone.
    Cancelled,
    Failed(ErrorCode),
}

impl CallOutcome {
    const COUNT: usize = 3 + ErrorCode::ALL.len();

    fn all() -> impl Iterator<Item = Self> {
        let failed = ErrorCode::ALL.into_iter().map(Self::Failed);
        [Self::Completed, Self::Asked, Self::Cancelled].into_iter().chain(failed)
    }

    fn place(self) -> usize {
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

pub(super) fn kind_word(kind: Primitive) -> &'static str {
    match kind {
        Primitive::Tool => "tool",
        Primitive::Prompt => "prompt",
        Primitive::Resource => "resource",
    }
}

/// The metrics of one source.
#[derive(Debug)]
pub(crate) struct SourceMeters {
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
            call_times: Histogram::new(&TIMES),
            refreshes: Default::default(),
            tokens: Default::default(),
            refusals: Default::default(),
            breaks: Counter::default(),
        })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn call(&self, kind: Primitive, outcome: CallOutcome) {
        let counter =
            self.calls.get(kind as usize).and_then(|of_kind| of_kind.get(outcome.place()));
        if let Some(counter) = counter {
            counter.one();
        }
    }

    pub(super) fn refreshed(&self, success: bool) {
        let [done, failed] = &self.refreshes;
        if success { done.one() } else { failed.one() }
    }

    pub(super) fn token(&self, is_exchange: bool, granted: bool) {
        let [own, exchanged] = &self.tokens;
        let [good, bad] = if is_exchange { exchanged } else { own };
        if granted { good.one() } else { bad.one() }
    }

    /// Counts a call that was not admitted.
    pub(crate) fn refused(&self, code: ErrorCode) {
        let [limited, open] = &self.refusals;
        if code == ErrorCode::CircuitOpen { open.one() } else { limited.one() }
    }

    /// Counts an opening of the source's circuit breaker.
    pub(crate) fn broke(&self) {
        self.breaks.one();
    }

    fn read(&self, into: &mut Reading) {
        let label = &*self.label;
        for (word, counter) in ["completed", "failed"].into_iter().zip(&self.refreshes) {
            into.count_of(&metrics::REFRESHES, &[label, word], counter);
        }
        for (grant, counters) in ["client_credentials", "token_exchange"].iter().zip(&self.tokens) {
            for (word, counter) in ["granted", "refused"].into_iter().zip(counters) {
                into.count_of(&metrics::TOKENS, &[label, grant, word], counter);
            }
        }
        for (reason, counter) in ["rate_limited", "circuit_open"].into_iter().zip(&self.refusals) {
            into.count_of(&metrics::REFUSALS, &[label, reason], counter);
        }
        into.count_of(&metrics::BREAKS, &[label], &self.breaks);
        for (kind, counters) in KINDS.into_iter().zip(&self.calls) {
            for (outcome, counter) in CallOutcome::all().zip(counters) {
                let labels = [label, kind_word(kind), outcome.as_str()];
                into.count_of(&metrics::CALLS, &labels, counter);
            }
        }
        into.times(&metrics::CALL_DURATION, &[label], &self.call_times);
    }
}

const KINDS: [Primitive; 3] = [Primitive::Tool, Primitive::Prompt, Primitive::Resource];

/// The metrics of all sources.
pub(crate) struct Sources {
    known: ArcSwap<HashMap<Arc<str>, Arc<SourceMeters>>>,
    other: Arc<SourceMeters>,
    /// Serialises changes of `known`.
    changing: Mutex<()>,
}

impl Default for Sources {
    fn default() -> Self {
        let fixed = FIXED.map(|label| (label.into(), SourceMeters::new(label)));
        let known: HashMap<_, _> = fixed.into_iter().collect();
        let other = known.get(OTHER).map_or_else(|| SourceMeters::new(OTHER), Arc::clone);
        Self { known: ArcSwap::from_pointee(known), other, changing: Mutex::default() }
    }
}

impl Sources {
    /// The metrics of this source, or those shared by sources without their own label.
    pub(crate) fn of(&self, source: &str) -> Arc<SourceMeters> {
        let known = self.known.load();
        match known.get(source) {
            Some(meters) => Arc::clone(meters),
            None if MOST + FIXED.len() <= known.len() => Arc::clone(&self.other),
            None => self.begin(source),
        }
    }

    fn begin(&self, source: &str) -> Arc<SourceMeters> {
        let _turn = self.changing.lock().expect("no one panics while holding it");
        let known = self.known.load();
        if let Some(meters) = known.get(source) {
            return Arc::clone(meters);
        }
        if MOST + FIXED.len() <= known.len() {
            return Arc::clone(&self.other);
        }
        let meters = SourceMeters::new(source);
        let mut more = HashMap::clone(&known);
        more.insert(Arc::clone(&meters.label), Arc::clone(&meters));
        self.known.store(Arc::new(more));
        meters
    }

    /// Removes the metrics of removed sources, which frees their labels.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let _turn = self.changing.lock().expect("no one panics while holding it");
        let known = self.known.load();
        let stays = |label: &str| FIXED.contains(&label) || is_there(label);
        if known.keys().all(|label| stays(label)) {
            return;
        }
        let left = known.iter().filter(|(label, _)| stays(label));
        let left = left.map(|(label, meters)| (Arc::clone(label), Arc::clone(meters)));
        self.known.store(Arc::new(left.collect()));
    }

    /// The sources that have their own label.
    pub(super) fn labels(&self) -> Vec<Arc<str>> {
        let mut labels: Vec<Arc<str>> = self.known.load().keys().cloned().collect();
        labels.sort_unstable();
        labels
    }

    pub(super) fn read(&self, into: &mut Reading) {
        let known = self.known.load();
        let mut all: Vec<&Arc<SourceMeters>> = known.values().collect();
        all.sort_unstable_by(|one, two| one.label.cmp(&two.label));
        all.into_iter().for_each(|meters| meters.read(into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(sources: &Sources) -> Vec<String> {
        let mut reading = Reading::default();
        sources.read(&mut reading);
        let text = reading.to_text();
        text.lines()
            .filter(|line| line.starts_with("toolcrib_calls_total"))
            .map(Into::into)
            .collect()
    }

    #[test]
    fn ten_thousand_sources_have_a_bounded_number_of_labels() {
        let sources = Sources::default();
        for source in 0..10_000 {
            let meters = sources.of(&format!("source-{source}"));
            meters.call(Primitive::Tool, CallOutcome::Completed);
        }
        let lines = lines(&sources);
        assert_eq!(lines.len(), MOST + 1);
        let other = r#"toolcrib_calls_total{source="other",kind="tool",outcome="completed"} 9800"#;
        assert!(lines.iter().any(|line| line == other), "{lines:?}");
    }

    #[test]
    fn a_source_with_the_id_of_a_fixed_label_adds_no_duplicate_line() {
        let sources = Sources::default();
        for label in FIXED {
            sources.of(label).call(Primitive::Prompt, CallOutcome::Cancelled);
        }
        sources.other.call(Primitive::Prompt, CallOutcome::Cancelled);
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
        let sources = Sources::default();
        for source in 0..MOST {
            sources.of(&format!("old-{source}"));
        }
        sources.of("new").call(Primitive::Tool, CallOutcome::Completed);
        sources.keep(|label| !label.starts_with("old"));
        sources.of("new").call(Primitive::Tool, CallOutcome::Completed);
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
        let places: Vec<usize> = CallOutcome::all().map(CallOutcome::place).collect();
        assert_eq!(places, (0..CallOutcome::COUNT).collect::<Vec<_>>());
        for (place, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
