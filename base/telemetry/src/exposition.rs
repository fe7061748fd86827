//! The Prometheus text format, as far as counters, gauges and summaries need it.

use std::fmt::Write;

use crate::Histogram;

/// Which quantiles of a histogram are shown.
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

/// Metrics on their way to being shown. Samples of one name must be written one after the other.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    last: String,
}

impl Exposition {
    /// A number that only grows while the process lives. `name` should end in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.head(name, help, "counter");
        self.sample(name, labels, &value.to_string());
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.head(name, help, "gauge");
        self.sample(name, labels, &value.to_string());
    }

    /// Times, recorded in nanoseconds, as a summary in seconds. `name` should end in `_seconds`.
    pub fn times(&mut self, name: &str, help: &str, labels: &[(&str, &str)], times: &Histogram) {
        self.head(name, help, "summary");
        let (spread, seconds) = (times.spread(), |nanoseconds: u64| nanoseconds as f64 / 1e9);
        for part in QUANTILES {
            let shown = part.to_string();
            let labels: Vec<_> = labels.iter().copied().chain([("quantile", &shown[..])]).collect();
            self.sample(name, &labels, &seconds(spread.quantile(part)).to_string());
        }
        self.sample(&format!("{name}_sum"), labels, &seconds(spread.sum()).to_string());
        self.sample(&format!("{name}_count"), labels, &spread.count().to_string());
    }

    /// All that was written.
    pub fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        if self.last != name {
            // Writing to a String cannot fail.
            let _infallible = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            name.clone_into(&mut self.last);
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.text.push_str(name);
        for (at, (label, content)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let content = content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _infallible = write!(self.text, "{label}=\"{content}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _infallible = writeln!(self.text, " {value}");
    }
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
        out.counter("calls_total", "Calls.", &[("method", "a\"b\\c")], 3);
        out.gauge("fill", "Share.", &[], 0.5);
        assert_eq!(
            out.into_text(),
            "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{method=\"Get\"} 2\n\
             calls_total{method=\"a\\\"b\\\\c\"} 3\n# HELP fill Share.\n# TYPE fill gauge\nfill 0.5\n"
        );
    }
}
