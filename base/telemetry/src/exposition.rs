//! Collects metrics once, to render them as Prometheus text or to read them by name.

use std::collections::HashMap;
use std::fmt::Write;

use crate::{Histogram, Spread};

/// The quantiles of a histogram that are shown.
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// The metric only grows while the process lives.
    Counter,
    /// The metric goes up and down.
    Gauge,
    /// The metric measures times in ns, which are shown in seconds.
    Summary,
}

/// One measured value.
#[derive(Clone, Debug)]
pub enum MetricValue {
    /// A counter's value.
    Count(u64),
    /// A gauge's value.
    Number(f64),
    /// The values of a histogram, in ns.
    Times(Spread),
}

impl MetricValue {
    /// Returns the value as one number; for a histogram, the number of its values.
    pub fn as_f64(&self) -> f64 {
        match self {
            MetricValue::Count(count) => *count as f64,
            MetricValue::Number(number) => *number,
            MetricValue::Times(spread) => spread.count() as f64,
        }
    }
}

/// A measured value with its labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values of the labels.
    pub labels: Vec<(String, String)>,
    /// The measured value.
    pub value: MetricValue,
}

impl Sample {
    /// Returns the value of the label `name`; `None` if the sample has no such label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &value[..])
    }
}

/// All samples with one name.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    /// The name of the metric, without suffixes such as `_sum`.
    pub name: String,
    /// A description of the metric, as a sentence.
    pub help: String,
    /// The kind of the samples.
    pub kind: MetricKind,
    /// The samples, in the order in which they were added.
    pub samples: Vec<Sample>,
}

/// The metrics that were collected from their sources. All samples of one name have the description and the kind of the
/// first.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    families: Vec<MetricFamily>,
    by_name: HashMap<String, usize>,
}

impl Exposition {
    /// Adds a number that only grows while the process lives. `name` should end in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.add(name, help, MetricKind::Counter, labels, MetricValue::Count(value));
    }

    /// Adds a number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.add(name, help, MetricKind::Gauge, labels, MetricValue::Number(value));
    }

    /// Adds times, recorded in ns, as a summary in seconds. `name` should end in `_seconds`.
    pub fn times(&mut self, name: &str, help: &str, labels: &[(&str, &str)], times: &Histogram) {
        self.spread_of_times(name, help, labels, times.spread());
    }

    /// As [`times`](Exposition::times), for values that were already read from histograms.
    pub fn spread_of_times(&mut self, name: &str, help: &str, labels: &[(&str, &str)], times: Spread) {
        self.add(name, help, MetricKind::Summary, labels, MetricValue::Times(times));
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricKind, labels: &[(&str, &str)], value: MetricValue) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let place = match self.by_name.get(name) {
            Some(place) => *place,
            None => {
                self.by_name.insert(name.to_owned(), self.families.len());
                let (name, help) = (name.to_owned(), help.to_owned());
                self.families.push(MetricFamily { name, help, kind, samples: Vec::new() });
                self.families.len() - 1
            }
        };
        self.families[place].samples.push(Sample { labels, value });
    }

    /// Returns every family, in the order in which their first samples were added.
    pub fn families(&self) -> &[MetricFamily] {
        &self.families
    }

    /// Returns the samples with one name; empty if there are none.
    pub fn samples(&self, name: &str) -> &[Sample] {
        self.by_name.get(name).map_or(&[], |place| &self.families[*place].samples)
    }

    /// Returns the sum of the samples with this name. A `label` (name and value) selects the samples that have it.
    pub fn sum(&self, name: &str, label: Option<(&str, &str)>) -> f64 {
        let wanted = |sample: &&Sample| label.is_none_or(|(name, value)| sample.label(name) == Some(value));
        // The sum of no floats is -0.0, which would be shown with its sign.
        self.samples(name).iter().filter(wanted).map(|sample| sample.value.as_f64()).sum::<f64>() + 0.0
    }

    /// Returns the values of the histogram with this name. A `label` (name and value) selects the first one that has
    /// it. `None` if there is none.
    pub fn spread(&self, name: &str, label: Option<(&str, &str)>) -> Option<&Spread> {
        self.samples(name).iter().find_map(|sample| match &sample.value {
            MetricValue::Times(spread)
                if label.is_none_or(|(name, value)| sample.label(name) == Some(value)) =>
            {
                Some(spread)
            }
            _ => None,
        })
    }

    /// Writes everything in the Prometheus text format.
    pub fn into_text(self) -> String {
        let mut text = String::new();
        for MetricFamily { name, help, kind, samples } in &self.families {
            let kind = match kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Summary => "summary",
            };
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for sample in samples {
                match &sample.value {
                    MetricValue::Count(value) => line(&mut text, name, &sample.labels, &value.to_string()),
                    MetricValue::Number(value) => line(&mut text, name, &sample.labels, &value.to_string()),
                    MetricValue::Times(spread) => summary(&mut text, name, &sample.labels, spread),
                }
            }
        }
        text
    }
}

fn summary(text: &mut String, name: &str, labels: &[(String, String)], spread: &Spread) {
    let seconds = |nanoseconds: u64| (nanoseconds as f64 / 1e9).to_string();
    for part in QUANTILES {
        let mut labels = labels.to_vec();
        labels.push(("quantile".to_owned(), part.to_string()));
        line(text, name, &labels, &seconds(spread.quantile(part)));
    }
    line(text, &format!("{name}_sum"), labels, &seconds(spread.sum()));
    line(text, &format!("{name}_count"), labels, &spread.count().to_string());
}

/// Writes one sample in the Prometheus text format, with escaped labels.
fn line(text: &mut String, name: &str, labels: &[(String, String)], value: &str) {
    text.push_str(name);
    for (at, (label, content)) in labels.iter().enumerate() {
        text.push(if at == 0 { '{' } else { ',' });
        let content = content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _infallible = write!(text, "{label}=\"{content}\"");
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let _infallible = writeln!(text, " {value}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_a_summary_in_seconds() {
        let (times, mut out) = (Histogram::default(), Exposition::default());
        (0..1_000).for_each(|_| times.record_time(Duration::from_millis(2)));
        out.times("get_seconds", "Gets.", &[("kind", "a")], &times);
        let text = out.into_text();
        assert!(text.starts_with("# HELP get_seconds Gets.\n# TYPE get_seconds summary\n"), "{text}");
        assert!(text.contains("get_seconds{kind=\"a\",quantile=\"0.999\"} 0.00"), "{text}");
        assert!(
            text.ends_with("get_seconds_sum{kind=\"a\"} 2\nget_seconds_count{kind=\"a\"} 1000\n"),
            "{text}"
        );
    }

    #[test]
    fn samples_of_one_name_share_a_head_and_labels_are_escaped() {
        let mut out = Exposition::default();
        out.counter("calls_total", "Calls.", &[("method", "Get")], 2);
        out.gauge("fill", "Share.", &[], 0.5);
        out.counter("calls_total", "Calls.", &[("method", "a\"b\\c")], 3);
        assert_eq!(
            out.into_text(),
            "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{method=\"Get\"} 2\n\
             calls_total{method=\"a\\\"b\\\\c\"} 3\n# HELP fill Share.\n# TYPE fill gauge\nfill 0.5\n"
        );
    }

    #[test]
    fn samples_are_found_by_name_and_label() {
        let (times, mut out) = (Histogram::default(), Exposition::default());
        times.record(7);
        out.counter("calls_total", "Calls.", &[("method", "Get")], 2);
        out.counter("calls_total", "Calls.", &[("method", "Scan")], 3);
        out.times("call_seconds", "Times.", &[("method", "Get")], &times);
        assert_eq!(out.sum("calls_total", None), 5.0);
        assert_eq!(out.sum("calls_total", Some(("method", "Scan"))), 3.0);
        assert_eq!(out.sum("nothing", None).to_string(), "0");
        let found = out.spread("call_seconds", Some(("method", "Get")));
        assert_eq!(found.map(Spread::count), Some(1));
        assert!(out.spread("call_seconds", Some(("method", "Put"))).is_none());
    }
}
