//! HBase's form of metrics: beans with tags and attributes, as in JMX, and the two text formats in which HBase shows
//! them.
//!
//! A caller fills a [`Bean`] once. [`jmx`] writes HBase's `/jmx` from it, and [`prometheus`] writes HBase's
//! `/prometheus`. A histogram becomes twelve attributes: the number of values since the start, and the distribution
//! of the latest values.

use std::fmt::Write;

use crate::{MetricKind, Spread};

/// The quantiles that a histogram shows as attributes, by name.
const PERCENTILES: [(&str, f64); 8] = [
    ("_25th_percentile", 0.25),
    ("_median", 0.5),
    ("_75th_percentile", 0.75),
    ("_90th_percentile", 0.9),
    ("_95th_percentile", 0.95),
    ("_98th_percentile", 0.98),
    ("_99th_percentile", 0.99),
    ("_99.9th_percentile", 0.999),
];

/// An attribute: one number of a bean.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name of the attribute, such as `regionCount`.
    pub name: String,
    /// Whether the attribute is a counter or a gauge.
    pub kind: MetricKind,
    /// The present value of the attribute.
    pub value: f64,
    /// A description of the attribute.
    pub description: String,
}

/// A group of metrics in HBase's form, with a name, tags and attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bean {
    /// The component that the bean describes: `RegionServer`, `Master`, `JvmMetrics`.
    pub name: String,
    /// The part of the component, such as `Server`; empty if there is none.
    pub sub: String,
    /// Names and values of the bean's tags, in HBase's order.
    pub tags: Vec<(String, String)>,
    /// The attributes of the bean.
    pub attributes: Vec<Attribute>,
}

impl Bean {
    /// Creates a bean without tags and attributes.
    pub fn new(name: &str, sub: &str) -> Bean {
        Bean { name: name.to_owned(), sub: sub.to_owned(), tags: Vec::new(), attributes: Vec::new() }
    }

    /// Adds a tag.
    pub fn tag(&mut self, name: &str, value: impl Into<String>) {
        self.tags.push((name.to_owned(), value.into()));
    }

    /// Adds a counter.
    pub fn counter(&mut self, name: impl Into<String>, description: &str, value: f64) {
        self.add(name.into(), MetricKind::Counter, description, value);
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: impl Into<String>, description: &str, value: f64) {
        self.add(name.into(), MetricKind::Gauge, description, value);
    }

    /// Adds a histogram: `count` values since the start, of which `recent` are the latest. `None` shows zeros. Values
    /// are divided by `unit` before they are shown.
    pub fn histogram(
        &mut self,
        name: &str,
        description: &str,
        count: u64,
        recent: Option<&Spread>,
        unit: f64,
    ) {
        let shown = |value: f64| ((value / unit) * 1_000.0).round() / 1_000.0;
        let (low, high) = recent.map_or((0, 0), Spread::range);
        self.counter(format!("{name}_num_ops"), description, count as f64);
        self.gauge(format!("{name}_min"), description, shown(low as f64));
        self.gauge(format!("{name}_max"), description, shown(high as f64));
        self.gauge(format!("{name}_mean"), description, shown(recent.map_or(0.0, Spread::mean)));
        for (suffix, part) in PERCENTILES {
            let value = recent.map_or(0.0, |recent| recent.quantile(part) as f64);
            self.gauge(format!("{name}{suffix}"), description, shown(value));
        }
    }

    fn add(&mut self, name: String, kind: MetricKind, description: &str, value: f64) {
        self.attributes.push(Attribute { name, kind, value, description: description.to_owned() });
    }

    /// Returns the bean's name in JMX.
    pub fn object_name(&self) -> String {
        format!("Hadoop:service=HBase,name={}", self.model())
    }

    fn model(&self) -> String {
        if self.sub.is_empty() { self.name.clone() } else { format!("{},sub={}", self.name, self.sub) }
    }

    /// Returns the first part of the names that the bean's attributes have in `/prometheus`.
    fn record(&self) -> &str {
        match &self.sub[..] {
            "" | "IPC" => &self.name,
            sub => sub,
        }
    }
}

/// The parameters of a `/jmx` request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JmxQuery {
    /// `qry=`: a pattern of bean names. `None` selects all beans.
    pub pattern: Option<String>,
    /// The attribute in `get=bean::attribute`; `tag.NAME` is a tag. `None` selects all attributes and tags.
    pub attribute: Option<String>,
    /// `description=true`: whether the answer contains descriptions.
    pub description: bool,
}

/// Writes HBase's `/jmx`: the beans that a query selects, as JSON.
pub fn jmx(beans: &[Bean], query: &JmxQuery) -> String {
    let mut out = String::from("{\n  \"beans\": [");
    let selected = beans.iter().filter(|bean| {
        query.pattern.as_deref().is_none_or(|pattern| object_name_matches(pattern, &bean.object_name()))
    });
    for (at, bean) in selected.enumerate() {
        out.push_str(if at == 0 { "\n    {" } else { ",\n    {" });
        let mut fields = vec![
            ("name".to_owned(), json_text(&bean.object_name())),
            ("modelerType".to_owned(), json_text(&bean.model())),
        ];
        let wanted = |name: &str| query.attribute.as_deref().is_none_or(|wanted| wanted == name);
        let described = |value: String, description: &str| {
            if query.description {
                format!(
                    "{{\n        \"description\": {},\n        \"value\": {value}\n      }}",
                    json_text(description)
                )
            } else {
                value
            }
        };
        for (name, value) in &bean.tags {
            let name = format!("tag.{name}");
            if wanted(&name) {
                fields.push((name.clone(), described(json_text(value), &name)));
            }
        }
        for attribute in bean.attributes.iter().filter(|attribute| wanted(&attribute.name)) {
            fields.push((attribute.name.clone(), described(number(attribute.value), &attribute.description)));
        }
        for (at, (name, value)) in fields.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _infallible = write!(out, "{comma}\n      {}: {value}", json_text(name));
        }
        out.push_str("\n    }");
    }
    out.push_str(if out.ends_with('[') { "]\n}" } else { "\n  ]\n}" });
    out
}

/// Writes HBase's `/prometheus`, with or without descriptions of the metrics.
pub fn prometheus(beans: &[Bean], description: bool) -> String {
    let mut out = String::new();
    for bean in beans {
        let labels: Vec<String> = bean
            .tags
            .iter()
            .map(|(name, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{}=\"{value}\"", name.to_lowercase())
            })
            .collect();
        let labels = labels.join(",");
        for attribute in &bean.attributes {
            let name = prometheus_name(bean.record(), &attribute.name);
            if description {
                let _infallible = writeln!(out, "# HELP {name} {}", attribute.description);
            }
            let kind = if attribute.kind == MetricKind::Counter { "counter" } else { "gauge" };
            let value = number(attribute.value);
            let _infallible = writeln!(out, "# TYPE {name} {kind}\n{name}{{{labels}}} {value}");
        }
    }
    out
}

/// Returns the name of an attribute in `/prometheus`: the names of record and attribute in lower case, with `_` before
/// each word that begins with a capital, and instead of each character that is no letter or digit.
pub fn prometheus_name(record: &str, attribute: &str) -> String {
    let mut whole: Vec<char> = record.chars().collect();
    let mut letters = attribute.chars();
    whole.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
    whole.extend(letters);
    let mut name = String::new();
    for (at, letter) in whole.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| whole[at]);
        let after = whole.get(at + 1);
        let begins_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || (before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if begins_word {
            name.push('_');
        }
        name.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' });
    }
    name
}

/// Writes a number for JSON and Prometheus: without a fraction if it has none, and 0 if it is not finite.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "0".to_owned() }
}

/// Writes a text as a JSON string.
pub fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            letter if letter < ' ' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// Whether a pattern in JMX's form (`domain:key=value,*`, with `*` and `?` in domain and values) selects a name.
fn object_name_matches(pattern: &str, name: &str) -> bool {
    let (Some((domain, keys)), Some((own_domain, own_keys))) =
        (pattern.split_once(':'), name.split_once(':'))
    else {
        return false;
    };
    if !glob(domain.as_bytes(), own_domain.as_bytes()) {
        return false;
    }
    let own: Vec<(&str, &str)> = own_keys.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let (mut open, mut named) = (false, 0);
    for pair in keys.split(',') {
        match pair.split_once('=') {
            None if pair == "*" => open = true,
            None => return false,
            Some((key, value)) => {
                named += 1;
                let matches =
                    |(own_key, own): &(&str, &str)| *own_key == key && glob(value.as_bytes(), own.as_bytes());
                if !own.iter().any(matches) {
                    return false;
                }
            }
        }
    }
    open || named == own.len()
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => glob(&pattern[1..], text) || (!text.is_empty() && glob(pattern, &text[1..])),
        (Some(b'?'), Some(_)) => glob(&pattern[1..], &text[1..]),
        (Some(expected), Some(found)) if expected == found => glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    fn sample() -> Vec<Bean> {
        let mut server = Bean::new("RegionServer", "Server");
        server.tag("serverName", "h,1,2");
        server.tag("Context", "regionserver");
        server.gauge("regionCount", "Regions.", 3.0);
        server.counter("l1CacheHitCount", "Hits.", 7.0);
        let mut ipc = Bean::new("RegionServer", "IPC");
        ipc.counter("exceptions.callDropped", "Dropped.", 1.0);
        ipc.gauge("rate", "Rate.", 0.5);
        vec![server, ipc]
    }

    #[test]
    fn names_are_split_as_hbase_splits_them() {
        for (record, attribute, expected) in [
            ("Server", "regionCount", "server_region_count"),
            ("Server", "l1CacheSize", "server_l1cache_size"),
            ("RegionServer", "numOpenConnections", "region_server_num_open_connections"),
            (
                "RegionServer",
                "exceptions.RegionMovedException",
                "region_server_exceptions_region_moved_exception",
            ),
            ("Server", "Get_99.9th_percentile", "server_get_99_9th_percentile"),
            ("Replication", "source.shippedHFiles", "replication_source_shipped_h_files"),
            ("Procedure", "numMasterWALs", "procedure_num_master_wa_ls"),
            ("Replication", "source.shippedKBs", "replication_source_shipped_k_bs"),
            ("JvmMetrics", "MemHeapUsedM", "jvm_metrics_mem_heap_used_m"),
            ("AssignmentManager", "orphanRegionsOnRS", "assignment_manager_orphan_regions_on_rs"),
            (
                "Tables",
                "Namespace_default_table_t_metric_regionCount",
                "tables_namespace_default_table_t_metric_region_count",
            ),
        ] {
            assert_eq!(prometheus_name(record, attribute), expected);
        }
    }

    #[test]
    fn prometheus_has_tags_as_labels_and_help_only_when_asked() {
        let text = prometheus(&sample(), false);
        assert!(
            text.starts_with(
                "# TYPE server_region_count gauge\nserver_region_count{servername=\"h,1,2\",context=\"regionserver\"} 3\n"
            ),
            "{text}"
        );
        assert!(text.contains("# TYPE server_l1cache_hit_count counter\n"), "{text}");
        assert!(text.ends_with("region_server_rate{} 0.5\n"), "{text}");
        let text = prometheus(&sample(), true);
        assert!(text.starts_with("# HELP server_region_count Regions.\n# TYPE"), "{text}");
    }

    #[test]
    fn jmx_answers_queries_and_single_attributes() {
        let all = jmx(&sample(), &JmxQuery::default());
        assert!(
            all.starts_with(
                "{\n  \"beans\": [\n    {\n      \"name\": \"Hadoop:service=HBase,name=RegionServer,sub=Server\",\n      \
                 \"modelerType\": \"RegionServer,sub=Server\",\n      \"tag.serverName\": \"h,1,2\","
            ),
            "{all}"
        );
        assert!(all.contains("\"regionCount\": 3,") && all.contains("\"rate\": 0.5\n"), "{all}");
        for (pattern, count) in [
            ("Hadoop:service=HBase,name=RegionServer,sub=IPC", 1),
            ("Hadoop:sub=IPC,name=RegionServer,service=HBase", 1),
            ("Hadoop:service=HBase,name=RegionServer,*", 2),
            ("Hadoop:service=HBase,name=Region*,sub=S?rver", 1),
            ("Hadoop:service=HBase,name=RegionServer", 0),
            ("*:*", 2),
            ("java.lang:type=Memory", 0),
            ("no pattern", 0),
        ] {
            let query = JmxQuery { pattern: Some(pattern.to_owned()), ..JmxQuery::default() };
            assert_eq!(jmx(&sample(), &query).matches("modelerType").count(), count, "{pattern}");
        }
        let none = JmxQuery { pattern: Some("a:b=c".into()), ..JmxQuery::default() };
        assert_eq!(jmx(&sample(), &none), "{\n  \"beans\": []\n}");
        let one = jmx(
            &sample(),
            &JmxQuery {
                pattern: Some("Hadoop:service=HBase,name=RegionServer,sub=Server".into()),
                attribute: Some("regionCount".into()),
                description: true,
            },
        );
        assert!(
            one.contains(
                "\"regionCount\": {\n        \"description\": \"Regions.\",\n        \"value\": 3\n"
            )
        );
        assert!(!one.contains("l1CacheHitCount") && !one.contains("serverName"), "{one}");
    }

    #[test]
    fn a_histogram_counts_since_the_start_and_spreads_the_latest() {
        let histogram = Histogram::default();
        (1..=10).for_each(|value| histogram.record(value * 1_000_000));
        let mut bean = Bean::new("RegionServer", "Server");
        bean.histogram("Get", "Times in ms.", 500, Some(&histogram.spread()), 1e6);
        bean.histogram("Put", "Times in ms.", 0, None, 1e6);
        let value =
            |name: &str| bean.attributes.iter().find(|attribute| attribute.name == name).expect(name).value;
        assert_eq!((value("Get_num_ops"), value("Put_num_ops"), value("Put_max")), (500.0, 0.0, 0.0));
        assert!((value("Get_median") - 5.0).abs() < 0.4, "{}", value("Get_median"));
        assert!((value("Get_mean") - 5.5).abs() < 0.01 && value("Get_99.9th_percentile") > 9.0);
    }

    #[test]
    fn texts_of_others_are_escaped() {
        assert_eq!(json_text("a\"\\\n\u{1}<"), "\"a\\\"\\\\\\n\\u0001<\"");
    }
}
