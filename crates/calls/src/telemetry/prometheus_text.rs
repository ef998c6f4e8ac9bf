//! The Prometheus text format (exposition format, version 0.0.4).

use std::fmt::Write as _;

use super::metrics_snapshot::{MetricFamily, MetricPoint, MetricValue, MetricsSnapshot};

/// The `Content-Type` of the text.
pub const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl MetricsSnapshot {
    /// The snapshot in the Prometheus text format.
    pub fn to_prometheus_text(&self) -> String {
        let mut text = String::with_capacity(16 << 10);
        for MetricFamily { metric, points } in &self.families {
            let (name, kind) = (metric.name, metric.kind);
            write_line(&mut text, format_args!("# HELP {name} {}", metric.help));
            write_line(&mut text, format_args!("# TYPE {name} {}", kind.as_str()));
            for MetricPoint { labels, value } in points {
                let labels = metric.labels.iter().zip(labels);
                let labels: Vec<String> = labels
                    .map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)))
                    .collect();
                match value {
                    MetricValue::Count(count) => {
                        write_sample(&mut text, name, &labels, &count.to_string())
                    }
                    MetricValue::Gauge(level) => {
                        write_sample(&mut text, name, &labels, &level.to_string())
                    }
                    MetricValue::Histogram(spread) => {
                        let mut so_far = 0;
                        let bounds =
                            spread.bounds.iter().map(|bound| *bound as f64 / kind.unit_nanos());
                        let bounds = bounds.map(|bound| bound.to_string());
                        let bounds = bounds.chain(["+Inf".to_owned()]);
                        for (bound, count) in bounds.zip(&spread.counts) {
                            so_far += count;
                            let mut labels = labels.clone();
                            labels.push(format!("le=\"{bound}\""));
                            let count = so_far.to_string();
                            write_sample(&mut text, &format!("{name}_bucket"), &labels, &count);
                        }
                        let sum = spread.sum as f64 / kind.unit_nanos();
                        write_sample(&mut text, &format!("{name}_sum"), &labels, &sum.to_string());
                        let count = so_far.to_string();
                        write_sample(&mut text, &format!("{name}_count"), &labels, &count);
                    }
                }
            }
        }
        text
    }
}

fn write_sample(text: &mut String, name: &str, labels: &[String], value: &str) {
    match labels.is_empty() {
        true => write_line(text, format_args!("{name} {value}")),
        false => write_line(text, format_args!("{name}{{{}}} {value}", labels.join(","))),
    }
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a text takes what is written");
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::telemetry::metrics_snapshot::{MetricDefinition, MetricKind};
    use limits::instruments::{Counter, Histogram, SHORT_DURATION_BOUNDS};

    #[test]
    fn a_snapshot_is_written_in_the_prometheus_text_format() {
        static CALLS: MetricDefinition = MetricDefinition {
            name: "calls_total",
            kind: MetricKind::Counter,
            labels: &["source", "outcome"],
            help: "Calls.",
        };
        static TIME: MetricDefinition = MetricDefinition {
            name: "time",
            kind: MetricKind::Milliseconds,
            labels: &[],
            help: "Times.",
        };
        let (counter, histogram) = (Counter::default(), Histogram::new(&SHORT_DURATION_BOUNDS));
        counter.add(3);
        histogram.record_duration(Duration::from_micros(7));
        histogram.record_duration(Duration::from_secs(2));
        let mut reading = MetricsSnapshot::default();
        reading.add_labelled_counter(&CALLS, &["a\"\\\nb", "ok"], &counter);
        reading.add_labelled_counter(&CALLS, &["unused", "ok"], &Counter::default());
        reading.add_histogram(&TIME, &[], &histogram);
        insta::assert_snapshot!(reading.to_prometheus_text(), @r#"
        # HELP calls_total Calls.
        # TYPE calls_total counter
        calls_total{source="a\"\\\nb",outcome="ok"} 3
        # HELP time Times.
        # TYPE time histogram
        time_bucket{le="0.001"} 0
        time_bucket{le="0.005"} 0
        time_bucket{le="0.01"} 1
        time_bucket{le="0.05"} 1
        time_bucket{le="0.1"} 1
        time_bucket{le="0.5"} 1
        time_bucket{le="1"} 1
        time_bucket{le="10"} 1
        time_bucket{le="100"} 1
        time_bucket{le="1000"} 1
        time_bucket{le="+Inf"} 2
        time_sum 2000.007
        time_count 2
        "#);
    }
}
