//! A snapshot of all metrics, which `/metrics` and OTLP each encode in their own way.

use limits::instruments::{Counter, Gauge, Histogram, HistogramReading};

/// The definition of a metric. Its name and its labels never change.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricDefinition {
    /// The name, the same in every encoding.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: MetricKind,
    /// The names of its labels. All of them have values from a bounded set.
    pub labels: &'static [&'static str],
    /// One sentence for people.
    pub help: &'static str,
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A counter: grows until the process restarts.
    Counter,
    /// A gauge: goes up and down.
    Gauge,
    /// A histogram of durations in milliseconds.
    Milliseconds,
    /// A histogram of durations in seconds.
    Seconds,
}

impl MetricKind {
    /// The Prometheus type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Milliseconds | Self::Seconds => "histogram",
        }
    }

    /// The number of nanoseconds in its unit.
    pub(super) fn unit_nanos(self) -> f64 {
        match self {
            Self::Milliseconds => 1e6,
            Self::Counter | Self::Gauge | Self::Seconds => 1e9,
        }
    }
}

/// The values of all metrics at one moment.
#[derive(Debug, Default)]
pub struct MetricsSnapshot {
    pub(super) families: Vec<MetricFamily>,
}

#[derive(Debug)]
pub(super) struct MetricFamily {
    pub(super) metric: &'static MetricDefinition,
    pub(super) points: Vec<MetricPoint>,
}

#[derive(Debug)]
pub(super) struct MetricPoint {
    /// In the order of the metric's labels.
    pub(super) labels: Vec<Box<str>>,
    pub(super) value: MetricValue,
}

#[derive(Debug)]
pub(super) enum MetricValue {
    Count(u64),
    Gauge(f64),
    Histogram(HistogramReading),
}

impl MetricsSnapshot {
    /// An empty snapshot that lists these metrics, in this order, even if they have no values yet.
    pub fn with_metrics(metrics: impl IntoIterator<Item = &'static MetricDefinition>) -> Self {
        let families =
            metrics.into_iter().map(|metric| MetricFamily { metric, points: Vec::new() });
        Self { families: families.collect() }
    }

    /// Lists more metrics, even if they have no values yet.
    pub fn add_metrics(&mut self, metrics: impl IntoIterator<Item = &'static MetricDefinition>) {
        for metric in metrics {
            self.family_mut(metric);
        }
    }

    /// Adds a counter that has no labels.
    pub fn add_counter(&mut self, metric: &'static MetricDefinition, counter: &Counter) {
        self.add_point(metric, &[], MetricValue::Count(counter.read()));
    }

    /// Adds a counter with its label values, unless it is zero.
    pub fn add_labelled_counter(
        &mut self,
        metric: &'static MetricDefinition,
        labels: &[&str],
        counter: &Counter,
    ) {
        match counter.read() {
            0 => drop(self.family_mut(metric)),
            count => self.add_point(metric, labels, MetricValue::Count(count)),
        }
    }

    /// Adds a count from elsewhere.
    pub fn add_count(&mut self, metric: &'static MetricDefinition, labels: &[&str], count: u64) {
        self.add_point(metric, labels, MetricValue::Count(count));
    }

    /// Adds the value of a gauge.
    pub fn add_gauge_value(
        &mut self,
        metric: &'static MetricDefinition,
        labels: &[&str],
        level: f64,
    ) {
        self.add_point(metric, labels, MetricValue::Gauge(level));
    }

    /// Adds a gauge that has no labels.
    pub fn add_gauge(&mut self, metric: &'static MetricDefinition, gauge: &Gauge) {
        self.add_gauge_value(metric, &[], gauge.read() as f64);
    }

    /// Adds a histogram, unless it has labels and is empty.
    pub fn add_histogram(
        &mut self,
        metric: &'static MetricDefinition,
        labels: &[&str],
        histogram: &Histogram,
    ) {
        let spread = histogram.read();
        match spread.count() {
            0 if !labels.is_empty() => drop(self.family_mut(metric)),
            _ => self.add_point(metric, labels, MetricValue::Histogram(spread)),
        }
    }

    fn add_point(
        &mut self,
        metric: &'static MetricDefinition,
        labels: &[&str],
        value: MetricValue,
    ) {
        let labels = labels.iter().map(|label| Box::from(*label)).collect();
        self.family_mut(metric).points.push(MetricPoint { labels, value });
    }

    /// The family of a metric. A metric is listed even without values, so that readers know that it exists.
    fn family_mut(&mut self, metric: &'static MetricDefinition) -> &mut MetricFamily {
        let known = self.families.iter().position(|family| family.metric == metric);
        let place = known.unwrap_or(self.families.len());
        if known.is_none() {
            self.families.push(MetricFamily { metric, points: Vec::new() });
        }
        &mut self.families[place]
    }
}
