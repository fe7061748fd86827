//! Sends spans of traced calls to an OpenTelemetry collector: OTLP over HTTP, in JSON.
//!
//! The server puts a span into a queue without waiting; if the queue is full, the span is dropped and counted. A task
//! sends the spans of the queue: a full batch of [`BATCH_MAX`] at once, a smaller one [`PERIOD`] after its first span.
//! If the collector does not answer or reports a temporary failure, the task sends a batch up to [`ATTEMPTS`] times and
//! then drops it. So no call waits for the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conf::{Conf, keys};
use env::sync::Mutex;
use env::{Runtime, World};
use regionserver::{CallSpan, SpanObserver};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use telemetry::{Counter, Exposition, Source};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// Maximum number of spans that wait to be sent.
const QUEUE_MAX: usize = 4_096;
/// Maximum number of spans in one request.
const BATCH_MAX: usize = 512;
/// Time between two requests while the collector answers.
const PERIOD: Duration = Duration::from_secs(1);
/// How long the collector may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum number of times that a batch is sent.
const ATTEMPTS: u32 = 3;
/// How long a server that stops waits for the last batch.
const END_MAX: Duration = Duration::from_secs(2);

/// Where to send spans.
#[derive(Clone, Debug)]
pub(crate) struct SpanSettings {
    /// The collector's URL for spans.
    url: reqwest::Url,
    /// Headers of `OTEL_EXPORTER_OTLP_HEADERS`, for collectors that want a key.
    headers: HeaderMap,
    /// The name under which the spans of this server appear.
    service: String,
}

impl SpanSettings {
    /// Reads the key and OpenTelemetry's own variables. `None` if no collector is named.
    pub(crate) fn gather(
        conf: &Conf,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SpanSettings>, Failure> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let key = keys::rpc::OTLP_ENDPOINT.name();
        let (from, text) = match (
            conf.value(&keys::rpc::OTLP_ENDPOINT)?,
            set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
            set("OTEL_EXPORTER_OTLP_ENDPOINT"),
        ) {
            (value, _, _) if !value.is_empty() => (key, with_path(&value)),
            (_, Some(url), _) => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url),
            (_, None, Some(url)) => ("OTEL_EXPORTER_OTLP_ENDPOINT", with_path(&url)),
            (_, None, None) => return Ok(None),
        };
        let refused = |why: String| {
            Failure::new(format!("{from}: {why}; give the URL of a collector such as http://127.0.0.1:4318"))
        };
        let url =
            reqwest::Url::parse(&text).map_err(|error| refused(format!("{text} is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("expected http or https, found {}", url.scheme())));
        }
        let mut headers = HeaderMap::new();
        for pair in
            set("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default().split(',').filter(|pair| !pair.is_empty())
        {
            let header = pair.split_once('=').and_then(|(name, value)| {
                let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
                let mut value = HeaderValue::from_str(value.trim()).ok()?;
                value.set_sensitive(true);
                Some((name, value))
            });
            // The message does not contain the value, which may be a secret.
            let (name, value) = header.ok_or_else(|| {
                Failure::new("OTEL_EXPORTER_OTLP_HEADERS: expected NAME=VALUE,NAME=VALUE, found other text; correct or unset it")
            })?;
            headers.insert(name, value);
        }
        let service = set("OTEL_SERVICE_NAME").unwrap_or_else(|| "bellows".to_owned());
        Ok(Some(SpanSettings { url, headers, service }))
    }
}

/// The path of spans below a collector's URL.
fn with_path(url: &str) -> String {
    format!("{}/v1/traces", url.trim_end_matches('/'))
}

/// The queue of spans, and the task that sends them.
#[derive(Debug)]
pub(crate) struct SpanExporter {
    queue: mpsc::Sender<CallSpan>,
    counts: Arc<Counts>,
    /// Makes the task send the waiting spans and end.
    end: mpsc::Sender<()>,
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// Counts what happened to the spans.
#[derive(Debug, Default)]
struct Counts {
    sent: Counter,
    /// Number of spans that were dropped because the queue was full.
    dropped: Counter,
    /// Number of spans that the collector did not accept.
    failed: Counter,
    /// Whether the last batch failed: only the first failure is logged.
    is_failing: AtomicBool,
}

impl SpanExporter {
    /// Starts the task on `runtime`. `instance` is the server's name.
    pub(crate) fn start(
        world: &World,
        runtime: &Runtime,
        settings: SpanSettings,
        instance: &str,
    ) -> Result<Arc<SpanExporter>, Failure> {
        // If this was called before, a provider is installed already, which is as good.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(ANSWER_MAX).build();
        let client = client
            .map_err(|error| Failure::new(format!("cannot send spans to {}: {error}", settings.url)))?;
        let (queue, spans) = mpsc::channel(QUEUE_MAX);
        let (end, told_to_end) = mpsc::channel(1);
        let (done, ended) = std::sync::mpsc::channel();
        let counts = Arc::new(Counts::default());
        let resource = resource(&settings.service, instance);
        let sender = Sender { client, settings, resource, world: world.clone(), counts: Arc::clone(&counts) };
        runtime.spawn(async move {
            sender.run(spans, told_to_end).await;
            let _waited = done.send(());
        });
        Ok(Arc::new(SpanExporter { queue, counts, end, ended: Mutex::new(ended) }))
    }

    /// Sends the waiting spans. Returns after at most [`END_MAX`], even if not all were sent.
    pub(crate) fn end(&self) {
        let _told = self.end.try_send(());
        let _in_time = self.ended.lock().recv_timeout(END_MAX);
    }
}

impl SpanObserver for SpanExporter {
    fn ended(&self, span: CallSpan) {
        if self.queue.try_send(span).is_err() {
            self.counts.dropped.count();
        }
    }
}

impl Source for SpanExporter {
    fn show(&self, out: &mut Exposition) {
        let help = "Spans of traced calls: sent to the collector, refused by it, or dropped because the queue was full.";
        let Counts { sent, dropped, failed, .. } = &*self.counts;
        for (outcome, count) in [("sent", sent), ("failed", failed), ("dropped", dropped)] {
            out.counter("bellows_spans_total", help, &[("outcome", outcome)], count.value());
        }
    }
}

/// The task that sends spans.
struct Sender {
    client: reqwest::Client,
    settings: SpanSettings,
    resource: Value,
    world: World,
    counts: Arc<Counts>,
}

impl Sender {
    async fn run(self, mut spans: mpsc::Receiver<CallSpan>, mut told_to_end: mpsc::Receiver<()>) {
        let (mut batch, mut is_ending) = (Vec::with_capacity(BATCH_MAX), false);
        loop {
            // The period begins with the first span of a batch. So without spans nothing is done.
            tokio::select! {
                count = spans.recv_many(&mut batch, BATCH_MAX) => if count == 0 { return },
                _ = told_to_end.recv(), if !is_ending => is_ending = true,
            }
            if !is_ending && batch.len() < BATCH_MAX {
                is_ending = env::timeout(PERIOD, told_to_end.recv()).await.is_some();
            }
            if is_ending {
                spans.close();
            }
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if !batch.is_empty() {
                self.send(&batch).await;
                batch.clear();
            }
        }
    }

    async fn send(&self, batch: &[CallSpan]) {
        let spans: Vec<Value> = batch.iter().map(|span| self.in_json(span)).collect();
        let scope = json!({ "name": "bellows", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        let body = body.to_string();
        let count = batch.len() as u64;
        for attempt in 1..=ATTEMPTS {
            match self.post(body.clone()).await {
                Ok(()) => {
                    self.counts.sent.add(count);
                    if self.counts.is_failing.swap(false, Ordering::Relaxed) {
                        tracing::info!(collector = %self.settings.url, "the collector takes spans again");
                    }
                    return;
                }
                Err(refusal) if refusal.may_pass && attempt < ATTEMPTS => {
                    env::sleep(PERIOD * attempt).await;
                }
                Err(refusal) => {
                    self.counts.failed.add(count);
                    if !self.counts.is_failing.swap(true, Ordering::Relaxed) {
                        tracing::warn!(collector = %self.settings.url, cause = refusal.cause,
                            "spans are lost: the collector does not take them; start it, or correct bellows.otlp.endpoint");
                    }
                    return;
                }
            }
        }
    }

    async fn post(&self, body: String) -> Result<(), Refusal> {
        let request = self.client.post(self.settings.url.clone()).headers(self.settings.headers.clone());
        let answer = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        let answer =
            answer.map_err(|error| Refusal { may_pass: true, cause: error.without_url().to_string() })?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            status => Err(Refusal {
                // For these statuses OTLP says that a client may try again.
                may_pass: matches!(status, 429 | 502 | 503 | 504),
                cause: format!("it answered with status {status}"),
            }),
        }
    }

    /// Returns the span in OTLP's JSON form: ids in hexadecimal digits, times in ns as text, kind 2 for a server.
    fn in_json(&self, span: &CallSpan) -> Value {
        let from = u128::try_from(span.started.0).unwrap_or(0) * 1_000_000;
        let mut attributes = vec![
            text("rpc.system", "HBASE_RPC"),
            text("rpc.service", &span.service),
            text("rpc.method", &span.method),
            text("network.peer.address", &span.client.ip().to_string()),
            number("network.peer.port", u64::from(span.client.port())),
            number("rpc.request.size", span.request_bytes),
            number("rpc.response.size", span.response_bytes),
        ];
        if !span.user.is_empty() {
            attributes.push(text("enduser.id", &span.user));
        }
        if !span.region.is_empty() {
            attributes.push(text("db.hbase.region", &span.region));
        }
        let mut found = json!({
            "traceId": span.parent.trace_id(),
            "spanId": format!("{:016x}", self.world.random().max(1)),
            "parentSpanId": span.parent.span_id(),
            "name": format!("hbase.pb.{}/{}", span.service, span.method),
            "kind": 2,
            "startTimeUnixNano": from.to_string(),
            "endTimeUnixNano": (from + span.took.as_nanos()).to_string(),
            "attributes": attributes,
            "status": {},
        });
        if let Some((class, message)) = &span.failure {
            found["status"] = json!({ "code": 2, "message": message });
            found["events"] = json!([{
                "name": "exception",
                "timeUnixNano": (from + span.took.as_nanos()).to_string(),
                "attributes": [text("exception.type", class), text("exception.message", message)],
            }]);
        }
        found
    }
}

/// Why the collector did not accept a batch.
struct Refusal {
    /// Whether the collector may accept the batch a little later.
    may_pass: bool,
    cause: String,
}

/// Returns the OTLP description of this server.
fn resource(service: &str, instance: &str) -> Value {
    json!({ "attributes": [
        text("service.name", service),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", instance),
    ] })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Starts a collector on a free port that gives each request the next of `answers`, and the last one from then on.
    /// An empty answer is never sent. Returns its URL and the bodies that it received.
    fn collector(
        runtime: &Runtime,
        answers: &[&'static str],
    ) -> (String, std::sync::mpsc::Receiver<(String, Value)>) {
        let (sender, bodies) = std::sync::mpsc::channel();
        let _inside = runtime.handle().enter();
        let listener = env::listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let mut answers: std::collections::VecDeque<&str> = answers.iter().copied().collect();
        runtime.spawn(async move {
            let mut stalled = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut bytes = Vec::new();
                let (head, body) = loop {
                    let mut more = [0; 4_096];
                    let count = stream.read(&mut more).await.expect("a request");
                    bytes.extend_from_slice(&more[..count]);
                    let whole = String::from_utf8_lossy(&bytes).into_owned();
                    if let Some((head, body)) = whole.split_once("\r\n\r\n")
                        && let Ok(body) = serde_json::from_str::<Value>(body)
                    {
                        break (head.to_owned(), body);
                    }
                };
                let _kept = sender.send((head, body));
                let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().copied() };
                match answer.unwrap_or_default() {
                    "" => stalled.push(stream),
                    status => {
                        let answer =
                            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                        stream.write_all(answer.as_bytes()).await.expect("written");
                    }
                }
            }
        });
        (url, bodies)
    }

    fn exporter(runtime: &Runtime, url: &str) -> Arc<SpanExporter> {
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
            "OTEL_EXPORTER_OTLP_HEADERS" => Some("x-key=secret".to_owned()),
            _ => None,
        };
        let settings = SpanSettings::gather(&Conf::new(), variable).expect("valid").expect("a collector");
        SpanExporter::start(&World::real(), runtime, settings, "host,16020,1").expect("started")
    }

    fn span(method: &str) -> CallSpan {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        CallSpan {
            parent: rpc::TraceParent::parse(parent.as_bytes()).expect("valid"),
            service: "ClientService".to_owned(),
            method: method.to_owned(),
            region: "t,,1.abc.".to_owned(),
            client: "127.0.0.1:9".parse().expect("an address"),
            user: "ada".to_owned(),
            started: env::WallTime(1_700_000_000_123),
            took: Duration::from_micros(1_500),
            request_bytes: 40,
            response_bytes: 50,
            failure: None,
        }
    }

    fn counts(exporter: &SpanExporter) -> [u64; 3] {
        let Counts { sent, failed, dropped, .. } = &*exporter.counts;
        [sent.value(), failed.value(), dropped.value()]
    }

    /// Waits until `exporter` has sent, dropped or failed `count` spans.
    fn decided(exporter: &SpanExporter, count: u64) -> [u64; 3] {
        let world = World::real();
        let began = world.moment();
        while counts(exporter).iter().sum::<u64>() < count {
            assert!(world.moment().since(began) < Duration::from_secs(60), "{:?}", counts(exporter));
            std::thread::yield_now();
        }
        counts(exporter)
    }

    #[test]
    fn a_collector_receives_the_spans_of_traced_calls() {
        let runtime = Runtime::start("spans", 1).expect("a thread");
        let (url, bodies) = collector(&runtime, &["200 OK"]);
        let exporter = exporter(&runtime, &url);
        exporter.ended(span("Get"));
        let failed =
            Some(("org.apache.hadoop.hbase.NotServingRegionException".to_owned(), "gone".to_owned()));
        exporter.ended(CallSpan { failure: failed, ..span("Mutate") });
        exporter.end();
        assert_eq!(decided(&exporter, 2), [2, 0, 0]);
        let (head, body) = bodies.recv().expect("a request");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("x-key: secret"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let [get, mutate] = &spans.as_array().expect("a list")[..] else {
            panic!("two spans expected: {body}")
        };
        assert_eq!(get["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(get["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!(get["name"], "hbase.pb.ClientService/Get");
        assert_eq!(get["startTimeUnixNano"], "1700000000123000000");
        assert_eq!(get["endTimeUnixNano"], "1700000000124500000");
        assert_ne!(get["spanId"], mutate["spanId"]);
        assert_eq!(get["status"], json!({}));
        assert_eq!(mutate["status"], json!({ "code": 2, "message": "gone" }));
        let resource = body["resourceSpans"][0]["resource"]["attributes"].to_string();
        assert!(resource.contains("host,16020,1") && resource.contains("bellows"), "{resource}");
    }

    #[test]
    fn a_busy_collector_is_asked_again_and_a_refusal_loses_the_batch() {
        let runtime = Runtime::start("spans", 1).expect("a thread");
        let (url, bodies) = collector(&runtime, &["503 Busy", "200 OK", "400 Bad Request"]);
        let exporter = exporter(&runtime, &url);
        exporter.ended(span("Get"));
        assert_eq!(decided(&exporter, 1), [1, 0, 0]);
        exporter.ended(span("Get"));
        assert_eq!(decided(&exporter, 2), [1, 1, 0]);
        assert_eq!(bodies.try_iter().count(), 3);
    }

    #[test]
    fn a_collector_that_never_answers_costs_spans_and_no_time() {
        let runtime = Runtime::start("spans", 1).expect("a thread");
        let (url, bodies) = collector(&runtime, &[""]);
        let exporter = exporter(&runtime, &url);
        exporter.ended(span("Get"));
        bodies.recv().expect("the first span is under way");
        let extra = 100;
        (0..QUEUE_MAX + extra).for_each(|_| exporter.ended(span("Get")));
        assert_eq!(counts(&exporter), [0, 0, extra as u64], "further spans are dropped");
        let world = World::real();
        let began = world.moment();
        exporter.end();
        assert!(world.moment().since(began) < END_MAX * 2, "the server stops in time");
    }

    #[test]
    fn an_invalid_collector_url_is_refused_and_headers_stay_secret() {
        let gather = |name: &'static str, value: &'static str| {
            SpanSettings::gather(&Conf::new(), move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(gather("OTEL_SERVICE_NAME", "x").expect("valid").is_none(), "no collector, no spans");
        let whole =
            gather("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/x").expect("valid").expect("named");
        assert_eq!(whole.url.as_str(), "https://c/x");
        for (value, words) in
            [("nonsense", "is no URL"), ("grpc://c:4317", "expected http or https, found grpc")]
        {
            let error = gather("OTEL_EXPORTER_OTLP_ENDPOINT", value).expect_err("refused").to_string();
            assert!(error.contains(words) && error.contains("http://127.0.0.1:4318"), "{error}");
        }
        let conf = Conf::new().with_definition("bellows.otlp.endpoint=http://c:1/").expect("a key");
        let secret = |asked: &str| (asked == "OTEL_EXPORTER_OTLP_HEADERS").then(|| "pass word".to_owned());
        let error = SpanSettings::gather(&conf, secret).expect_err("no pair").to_string();
        assert!(error.contains("NAME=VALUE") && !error.contains("pass"), "{error}");
        let of_key = SpanSettings::gather(&conf, |_| None).expect("valid").expect("named");
        assert_eq!(of_key.url.as_str(), "http://c:1/v1/traces");
    }
}
