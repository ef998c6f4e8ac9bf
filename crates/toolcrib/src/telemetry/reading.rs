//! What was measured, at one moment: what `/metrics` and OTLP write down, each in its own way.

use model::meter::{Counter, Gauge, Histogram, Spread};

/// What a metric is. Its name and its labels stay.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, the same everywhere.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// The names of its labels. All of them have values from a bounded set.
    pub labels: &'static [&'static str],
    /// One sentence for people.
    pub help: &'static str,
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows, until the process starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Times in classes, in milliseconds.
    Milliseconds,
    /// Times in classes, in seconds.
    Seconds,
}

impl MetricKind {
    /// The word of Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Milliseconds | Self::Seconds => "histogram",
        }
    }

    /// How many nanoseconds its unit has.
    pub(super) fn nanos(self) -> f64 {
        match self {
            Self::Milliseconds => 1e6,
            Self::Counter | Self::Gauge | Self::Seconds => 1e9,
        }
    }
}

/// What was measured.
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
    /// All of these are told, in this order, even if nothing has happened yet.
    pub fn of(metrics: impl IntoIterator<Item = &'static Metric>) -> Self {
        let families = metrics.into_iter().map(|metric| Family { metric, points: Vec::new() });
        Self { families: families.collect() }
    }

    /// The same for more of them.
    pub fn also(&mut self, metrics: impl IntoIterator<Item = &'static Metric>) {
        for metric in metrics {
            self.family(metric);
        }
    }

    /// Adds a counter that has no labels.
    pub fn count(&mut self, metric: &'static Metric, counter: &Counter) {
        self.add(metric, &[], Value::Count(counter.read()));
    }

    /// Adds a counter with the values of its labels, unless it has counted nothing.
    pub fn count_of(&mut self, metric: &'static Metric, labels: &[&str], counter: &Counter) {
        match counter.read() {
            0 => drop(self.family(metric)),
            count => self.add(metric, labels, Value::Count(count)),
        }
    }

    /// Adds a number that was counted elsewhere.
    pub fn counted(&mut self, metric: &'static Metric, labels: &[&str], count: u64) {
        self.add(metric, labels, Value::Count(count));
    }

    /// Adds a level.
    pub fn level(&mut self, metric: &'static Metric, labels: &[&str], level: f64) {
        self.add(metric, labels, Value::Level(level));
    }

    /// Adds a gauge that has no labels.
    pub fn gauge(&mut self, metric: &'static Metric, gauge: &Gauge) {
        self.level(metric, &[], gauge.read() as f64);
    }

    /// Adds times, unless there were none.
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

    /// A metric is told even if nothing has happened yet: whoever reads it knows that it is there.
    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        let known = self.families.iter().position(|family| family.metric == metric);
        let place = known.unwrap_or(self.families.len());
        if known.is_none() {
            self.families.push(Family { metric, points: Vec::new() });
        }
        &mut self.families[place]
    }
}
