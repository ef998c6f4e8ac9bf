//! A snapshot of all metrics, which `/metrics` and OTLP each encode in their own way.

use model::meter::{Counter, Gauge, Histogram, Spread};

/// The definition of a metric. Its name and its labels never change.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
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
    pub(super) fn nanos(self) -> f64 {
        match self {
            Self::Milliseconds => 1e6,
            Self::Counter | Self::Gauge | Self::Seconds => 1e9,
        }
    }
}

/// The values of all metrics at one moment.
#[derive(Debug, Default)]
pub struct Reading {
    pub(super) families: Vec<Family>,
}

#[derive(Debug)]
pub(super) struct Family {
    pub(super) metric: &'static Metric,
    pub(super) points: Vec<Point>,
}

#[derive(Debug)]
pub(super) struct Point {
    /// In the order of the metric's labels.
    pub(super) labels: Vec<Box<str>>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Count(u64),
    Level(f64),
    Spread(Spread),
}

impl Reading {
    /// An empty snapshot that lists these metrics, in this order, even if they have no values yet.
    pub fn of(metrics: impl IntoIterator<Item = &'static Metric>) -> Self {
        let families = metrics.into_iter().map(|metric| Family { metric, points: Vec::new() });
        Self { families: families.collect() }
    }

    /// Lists more metrics, even if they have no values yet.
    pub fn also(&mut self, metrics: impl IntoIterator<Item = &'static Metric>) {
        for metric in metrics {
            self.family(metric);
        }
    }

    /// Adds a counter that has no labels.
    pub fn count(&mut self, metric: &'static Metric, counter: &Counter) {
        self.add(metric, &[], Value::Count(counter.read()));
    }

    /// Adds a counter with its label values, unless it is zero.
    pub fn count_of(&mut self, metric: &'static Metric, labels: &[&str], counter: &Counter) {
        match counter.read() {
            0 => drop(self.family(metric)),
            count => self.add(metric, labels, Value::Count(count)),
        }
    }

    /// Adds a count from elsewhere.
    pub fn counted(&mut self, metric: &'static Metric, labels: &[&str], count: u64) {
        self.add(metric, labels, Value::Count(count));
    }

    /// Adds the value of a gauge.
    pub fn level(&mut self, metric: &'static Metric, labels: &[&str], level: f64) {
        self.add(metric, labels, Value::Level(level));
    }

    /// Adds a gauge that has no labels.
    pub fn gauge(&mut self, metric: &'static Metric, gauge: &Gauge) {
        self.level(metric, &[], gauge.read() as f64);
    }

    /// Adds a histogram, unless it has labels and is empty.
    pub fn times(&mut self, metric: &'static Metric, labels: &[&str], histogram: &Histogram) {
        let spread = histogram.read();
        match spread.count() {
            0 if !labels.is_empty() => drop(self.family(metric)),
            _ => self.add(metric, labels, Value::Spread(spread)),
        }
    }

    fn add(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        let labels = labels.iter().map(|label| Box::from(*label)).collect();
        self.family(metric).points.push(Point { labels, value });
    }

    /// The family of a metric. A metric is listed even without values, so that readers know that it exists.
    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        let known = self.families.iter().position(|family| family.metric == metric);
        let place = known.unwrap_or(self.families.len());
        if known.is_none() {
            self.families.push(Family { metric, points: Vec::new() });
        }
        &mut self.families[place]
    }
}
