//! Health and metrics over HTTP.
//!
//! `GET /healthz` is 200 once clients can be served, 503 with the reason before and after; `GET /metrics` is the
//! Prometheus text format, `GET /memstores` a picture of what memstores do, `GET /cache` one of the block cache. The page at
//! `/` says in a few lines what runs here. What is shown comes from a [`Status`]; this crate knows no server.

mod dashboard;
mod listener;

pub use dashboard::{CacheWindow, memory_dashboard};
pub use telemetry::Exposition;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

/// What there is to show.
pub trait Status: Send + Sync + 'static {
    /// `Ok` once clients can be served, else why not.
    fn health(&self) -> Result<(), String>;

    /// Writes every metric.
    fn metrics(&self, out: &mut Exposition);

    /// A few lines of plain text for the front page.
    fn summary(&self) -> String;

    /// What memstores do, as a picture in plain text.
    fn memstores(&self) -> String;

    /// What the block cache does, as a picture in plain text.
    fn cache(&self) -> String;
}

/// What is allowed to whoever connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Open connections; who comes after them waits. Default 200. Key: `bellows.web.connections.max`.
    pub connections_max: usize,
    /// How long a client may take from connecting, or from an answer, to the end of its next request, and to take an
    /// answer. Default 30 s. Key: `bellows.web.request.timeout`.
    pub request_max: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { connections_max: 200, request_max: Duration::from_secs(30) }
    }
}

/// Serves `listener` until the task is dropped.
pub async fn serve(
    listener: env::Listener,
    options: Options,
    status: Arc<dyn Status>,
) -> std::io::Result<()> {
    axum::serve(listener::Limited::new(listener, options), router(status)).await
}

fn router(status: Arc<dyn Status>) -> Router {
    Router::new()
        .route("/", get(front_page))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics_page))
        .route("/memstores", get(memstores_page))
        .route("/cache", get(cache_page))
        .with_state(status)
}

async fn health(State(status): State<Arc<dyn Status>>) -> Response {
    match status.health() {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics_page(State(status): State<Arc<dyn Status>>) -> Response {
    let mut out = Exposition::default();
    status.metrics(&mut out);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out.into_text()).into_response()
}

async fn memstores_page(State(status): State<Arc<dyn Status>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], status.memstores()).into_response()
}

async fn cache_page(State(status): State<Arc<dyn Status>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], status.cache()).into_response()
}

async fn front_page(State(status): State<Arc<dyn Status>>) -> Html<String> {
    let summary = status.summary().replace('&', "&amp;").replace('<', "&lt;");
    Html(format!(
        "<!doctype html><title>Bellows</title><h1>Bellows</h1><pre>{summary}</pre>\
         <p><a href=\"/metrics\">metrics</a> · <a href=\"/memstores\">memstores</a> · <a href=\"/cache\">block cache</a> · \
         <a href=\"/healthz\">health</a>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[derive(Default)]
    struct Sample {
        ready: AtomicBool,
    }

    impl Status for Sample {
        fn health(&self) -> Result<(), String> {
            if self.ready.load(Ordering::Acquire) {
                Ok(())
            } else {
                Err("regions are being opened".to_owned())
            }
        }

        fn metrics(&self, out: &mut Exposition) {
            out.gauge("bellows_regions", "Regions open here.", &[], 3.0);
        }

        fn summary(&self) -> String {
            "regions <3>".to_owned()
        }

        fn memstores(&self) -> String {
            "f ▓▓░".to_owned()
        }

        fn cache(&self) -> String {
            "memory ██░".to_owned()
        }
    }

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = env::dial(address).await.expect("connect");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("receive");
        answer
    }

    #[tokio::test]
    async fn health_follows_readiness_and_metrics_are_shown() {
        let listener = env::listen("127.0.0.1:0".parse().expect("address")).expect("listen");
        let address = listener.local_addr().expect("bound");
        let status = Arc::new(Sample::default());
        let server = env::spawn(serve(listener, Options::default(), status.clone()));
        let waiting = fetch(address, "/healthz").await;
        assert!(
            waiting.starts_with("HTTP/1.1 503") && waiting.contains("regions are being opened"),
            "{waiting}"
        );
        status.ready.store(true, Ordering::Release);
        assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(fetch(address, "/metrics").await.contains("\nbellows_regions 3\n"));
        assert!(fetch(address, "/").await.contains("regions &lt;3>"));
        assert!(fetch(address, "/cache").await.ends_with("memory ██░"));
        assert!(fetch(address, "/nowhere").await.starts_with("HTTP/1.1 404"));
        server.abort();
    }

    #[tokio::test]
    async fn who_is_slow_or_silent_is_cut_and_only_so_many_are_let_in() {
        let listener = env::listen("127.0.0.1:0".parse().expect("address")).expect("listen");
        let address = listener.local_addr().expect("bound");
        let options = Options { connections_max: 2, request_max: Duration::from_millis(100) };
        let server = env::spawn(serve(listener, options, Arc::new(Sample::default())));
        // Both of the places are taken by clients that never end their request.
        let mut silent = env::dial(address).await.expect("connect");
        let mut slow = env::dial(address).await.expect("connect");
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").await.expect("send");
        // A third waits until they are cut.
        assert!(fetch(address, "/").await.starts_with("HTTP/1.1 200"));
        for cut in [&mut silent, &mut slow] {
            let mut rest = Vec::new();
            // An end or a reset, and no answer that took the place of a request.
            let _ended = cut.read_to_end(&mut rest).await;
            assert!(!rest.starts_with(b"HTTP/1.1 200"));
        }
        server.abort();
    }
}
