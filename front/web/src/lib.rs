//! The web pages of a server, for people and for monitoring.
//!
//! ```text
//!   Console ── what is known of the process ──▶ pages (ui), HBase's own addresses (endpoints)
//!      ▲
//!      ├─ sampler   measures once a second: history, snapshots
//!      └─ observer  shows samples of calls: heat maps, times by table, clients
//! ```
//!
//! `GET /healthz` is 200 while clients can be served, and otherwise 503 with the reason. `/metrics` has the server's
//! own names, `/prometheus` and `/jmx` have HBase's. Every page is also available as JSON, under its name with
//! `.json`. Calls of clients reach this crate only in the observer, for one call in sixteen.

mod actions;
mod assets;
mod client_table;
mod cost;
mod dashboard;
mod endpoints;
mod guard;
mod heat;
mod history;
mod listener;
mod log_ring;
mod metrics;
mod node;
mod query;
mod sampler;
mod shell;
mod table_times;
mod ui;

pub use dashboard::{CacheWindow, memory_dashboard};
pub use log_ring::{LogRing, LogTee};
pub use node::{About, Console, LevelSwitch, Node, SelfCheck};
pub use sampler::HISTORY_PERIOD;
pub use ui::settings::is_secret;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use actions::Action;
use guard::Guard;
use query::Query;

/// Limits for connections to the web pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum number of open connections; further ones wait. Default 200. Key: `bellows.web.connections.max`.
    pub connections_max: usize,
    /// Maximum time from connecting, or from an answer, to the end of the next request, and for reading an answer.
    /// Default 30 s. Key: `bellows.web.request.timeout`.
    pub request_max: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { connections_max: 200, request_max: Duration::from_secs(30) }
    }
}

/// Serves `listener` until the task is dropped.
pub async fn serve(listener: env::Listener, options: Options, console: Arc<Console>) -> std::io::Result<()> {
    let measuring = env::spawn(Arc::clone(&console).keep_measuring());
    let served = axum::serve(listener::LimitedListener::new(listener, options), router(console)).await;
    measuring.abort();
    served
}

/// The state that handlers share.
#[derive(Clone)]
struct Shared {
    console: Arc<Console>,
    guard: Arc<Guard>,
}

type Asked = (State<Shared>, RawQuery);

fn query(raw: &RawQuery) -> Query {
    Query::parse(raw.0.as_deref().unwrap_or_default())
}

/// Returns a page as a response.
fn html(body: String) -> Response {
    Html(body).into_response()
}

fn router(console: Arc<Console>) -> Router {
    let guard = Arc::new(Guard::new(&console.world));
    let shared = Shared { console, guard };
    let router = Router::new()
        .route("/", get(overview))
        .route("/overview.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::overview::json(&shared.console)) }))
        .route("/tables", get(|(State(shared), raw): Asked| async move { html(ui::tables::show(&shared.console, &query(&raw)).await) }))
        .route("/tables.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::tables::json(&shared.console).await) }))
        .route("/table/{name}", get(table))
        .route("/table/{name}/{action}", post(act))
        .route("/keys", get(|(State(shared), raw): Asked| async move { html(ui::keys::show(&shared.console, &query(&raw))) }))
        .route("/keys.json", get(|(State(shared), raw): Asked| async move { endpoints::json_answer(&ui::keys::json(&shared.console, &query(&raw))) }))
        .route("/memory", get(|(State(shared), raw): Asked| async move { html(ui::memory::show(&shared.console, &query(&raw))) }))
        .route("/memory.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::memory::json(&shared.console)) }))
        .route("/cache", get(cache))
        .route("/cache.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::cache::json(&shared.console)) }))
        .route("/cost", get(|(State(shared), raw): Asked| async move { html(ui::cost::show(&shared.console, &query(&raw))) }))
        .route("/cost.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::cost::json(&shared.console)) }))
        .route("/slow", get(|(State(shared), raw): Asked| async move { html(ui::slow::show(&shared.console, &query(&raw))) }))
        .route("/slow.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::slow::json(&shared.console)) }))
        .route("/work", get(|(State(shared), raw): Asked| async move { html(ui::work::show(&shared.console, &query(&raw))) }))
        .route("/work.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::work::json(&shared.console)) }))
        .route("/data", get(data))
        .route("/data.json", get(|(State(shared), raw): Asked| async move { endpoints::json_answer(&ui::data::json(&shared.console, query(&raw).get("table"), &query(&raw)).await) }))
        .route("/data/{table}", get(data_of))
        .route("/clients", get(|(State(shared), raw): Asked| async move { html(ui::clients::show(&shared.console, &query(&raw))) }))
        .route("/clients.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::clients::json(&shared.console)) }))
        .route("/log", get(|(State(shared), raw): Asked| async move { html(ui::log::show(&shared.console, &query(&raw))) }))
        .route("/log.json", get(|(State(shared), raw): Asked| async move { endpoints::json_answer(&ui::log::json(&shared.console, &query(&raw))) }))
        .route("/settings", get(|(State(shared), raw): Asked| async move { html(ui::settings::show(&shared.console, &query(&raw))) }))
        .route("/settings.json", get(|(State(shared), _): Asked| async move { endpoints::json_answer(&ui::settings::json(&shared.console)) }))
        .route("/find", get(find))
        .route("/assets/{name}", get(|uri: Uri, headers: HeaderMap| async move { assets::answer(uri.path(), &headers) }))
        .route("/api/series", get(|(State(shared), raw): Asked| async move { endpoints::series(&shared.console, &query(&raw)) }))
        .route("/api/history", get(|(State(shared), raw): Asked| async move { endpoints::history(&shared.console, &query(&raw)) }))
        .route("/api/check", get(|(State(shared), _): Asked| async move { endpoints::check(&shared.console) }))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics_page))
        .route("/jmx", get(|(State(shared), raw): Asked| async move { endpoints::jmx(&shared.console, &query(&raw)) }))
        .route("/prometheus", get(|(State(shared), raw): Asked| async move { endpoints::prometheus(&shared.console, &query(&raw)) }))
        .route("/conf", get(|(State(shared), raw): Asked| async move { endpoints::conf(&shared.console, &query(&raw)) }))
        .route("/stacks", get(|| async { endpoints::stacks() }))
        .route("/dump", get(|(State(shared), _): Asked| async move { endpoints::dump(&shared.console) }))
        .route("/logLevel", get(|(State(shared), raw): Asked| async move { endpoints::log_level(&shared.console, &query(&raw)) }).post(set_log_level))
        .route("/memstores", get(memstores_text));
    old_addresses(router)
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page; / has them all\n") })
        .layer(axum::middleware::map_response(guard_page))
        .with_state(shared)
}

/// Adds HBase's own addresses, for bookmarks and monitoring that use them.
fn old_addresses(router: Router<Shared>) -> Router<Shared> {
    let mut router = router;
    for (old, new) in [
        ("/master-status", "/"),
        ("/master.jsp", "/"),
        ("/tablesDetailed.jsp", "/tables"),
        ("/procedures.jsp", "/work"),
        ("/rits.jsp", "/work"),
        ("/hbck.jsp", "/"),
        ("/zk.jsp", "/settings"),
        ("/processMaster.jsp", "/stacks"),
        ("/processRS.jsp", "/stacks"),
        ("/operationDetails.jsp", "/slow"),
        ("/rsOperationDetails.jsp", "/slow"),
        ("/namedqueue.jsp", "/slow"),
        ("/userTables.jsp", "/tables"),
        ("/startupProgress.jsp", "/"),
        ("/logs/", "/log"),
    ] {
        router = router.route(old, get(move || async move { Redirect::temporary(new) }));
    }
    router
        .route("/rs-status", get(server_status))
        .route(
            "/table.jsp",
            get(|raw: RawQuery| async move {
                let name = query(&raw);
                Redirect::temporary(&format!("/table/{}", query::encode(name.get("name").as_bytes())))
            }),
        )
        .route(
            "/region.jsp",
            get(|raw: RawQuery| async move {
                let name = query(&raw);
                Redirect::temporary(&format!("/find?q={}", query::encode(name.get("name").as_bytes())))
            }),
        )
}

/// Answers `/rs-status`: the overview; with `?format=json`, the running tasks in HBase's format.
async fn server_status((State(shared), raw): Asked) -> Response {
    if query(&raw).get("format") == "json" {
        return endpoints::json_answer(&ui::work::tasks(&shared.console, query(&raw).get("filter")));
    }
    Redirect::temporary("/").into_response()
}

/// Adds headers to a page, so that it loads no script or styles from other servers, cannot be framed by another site,
/// and sends no referrer to other sites.
async fn guard_page(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn overview((State(shared), raw): Asked) -> Response {
    html(ui::overview::show(&shared.console, &query(&raw)))
}

fn not_found(what: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("{what}; /tables has them all\n")).into_response()
}

async fn table(State(shared): State<Shared>, Path(name): Path<String>, raw: RawQuery) -> Response {
    if let Some(name) = name.strip_suffix(".json") {
        return match ui::table::json(&shared.console, name).await {
            Some(value) => endpoints::json_answer(&value),
            None => not_found(&format!("there is no table {name}")),
        };
    }
    match ui::table::show(&shared.console, &name, &query(&raw), &shared.guard, None).await {
        Some(page) => html(page),
        None => not_found(&format!("there is no table {name}")),
    }
}

async fn act(
    State(shared): State<Shared>,
    Path((name, action)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(action) = Action::of_name(&action) else { return not_found("there is no such action") };
    let form = Query::parse(&String::from_utf8_lossy(&body));
    let confirmed = action.confirmed_by(&name, &form);
    if let Err(why) = shared.guard.check(&shared.console, &headers, &form, confirmed) {
        return (StatusCode::FORBIDDEN, format!("nothing was changed: {why}\n")).into_response();
    }
    let done = action.run(&shared.console, &name, &form).await;
    match (action, &done) {
        (Action::Drop, Ok(_)) => return Redirect::to("/tables").into_response(),
        (Action::Clone, Ok(_)) => {
            let new = query::encode(form.get("table").trim().as_bytes());
            return Redirect::to(&format!("/table/{new}")).into_response();
        }
        _ => {}
    }
    let status = if done.is_ok() { StatusCode::OK } else { StatusCode::CONFLICT };
    match ui::table::show(&shared.console, &name, &Query::default(), &shared.guard, Some(done)).await {
        Some(page) => (status, Html(page)).into_response(),
        None => not_found(&format!("there is no table {name}")),
    }
}

async fn data((State(shared), raw): Asked) -> Response {
    let query = query(&raw);
    let table = query.get("table").to_owned();
    html(ui::data::show(&shared.console, &table, &query.with("table", "")).await)
}

async fn data_of(State(shared): State<Shared>, Path(table): Path<String>, raw: RawQuery) -> Response {
    if let Some(table) = table.strip_suffix(".json") {
        return endpoints::json_answer(&ui::data::json(&shared.console, table, &query(&raw)).await);
    }
    html(ui::data::show(&shared.console, &table, &query(&raw)).await)
}

/// Searches for a table, for a region by its encoded name, or for a row of the first table.
async fn find((State(shared), raw): Asked) -> Response {
    let query = query(&raw);
    let wanted = query.get("q").trim();
    let tables = shared.console.tables().await.unwrap_or_default();
    let encode = |text: &str| query::encode(text.as_bytes());
    if tables.iter().any(|table| table.name == wanted) {
        return Redirect::to(&format!("/table/{}", encode(wanted))).into_response();
    }
    let latest = shared.console.snapshots.read().latest.clone();
    let region = latest.iter().flat_map(|latest| &latest.regions).find(|region| {
        wanted.len() >= 6 && (region.encoded.starts_with(wanted) || *region.name == *wanted.as_bytes())
    });
    if let Some(region) = region {
        return Redirect::to(&format!("/table/{}#{}", encode(&region.table), region.encoded)).into_response();
    }
    let user = tables.iter().find(|table| !table.name.starts_with("hbase:"));
    match user {
        Some(table) => {
            Redirect::to(&format!("/data/{}?q={}", encode(&table.name), encode(wanted))).into_response()
        }
        None => Redirect::to("/tables").into_response(),
    }
}

async fn health(State(shared): State<Shared>) -> Response {
    match shared.console.health() {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics_page(State(shared): State<Shared>) -> Response {
    let body = shared.console.metrics().into_text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], body).into_response()
}

async fn memstores_text(State(shared): State<Shared>) -> Response {
    let node = shared.console.node.get();
    endpoints::plain(node.map_or_else(String::new, |node| memory_dashboard(&node.server)))
}

/// Answers `/cache`: the page for browsers; the dashboard in plain text for `bellows cache` and other programs.
async fn cache(State(shared): State<Shared>, headers: HeaderMap, raw: RawQuery) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let console = &shared.console;
    if accepts.contains("text/html") || headers.contains_key("hx-request") {
        return html(ui::cache::show(console, &query(&raw)));
    }
    endpoints::plain(console.node.get().map_or_else(String::new, |node| {
        console.cache_window.picture_of(&node.server.foundation().cache, console.world.moment())
    }))
}

async fn set_log_level(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let form = Query::parse(&String::from_utf8_lossy(&body));
    if let Err(why) = Guard::check_origin(&shared.console, &headers) {
        return (StatusCode::FORBIDDEN, format!("the level cannot be changed: {why}\n")).into_response();
    }
    endpoints::set_log_level(&shared.console, form.get("level"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn console(address: std::net::SocketAddr) -> Arc<Console> {
        let world = env::World::real();
        let about = About { version: "0.0.0", root: "/data".to_owned(), web: address, started: world.now() };
        let conf = conf::Conf::new().with_definition("hbase.wal.hsync=false").expect("a definition");
        Console::new(world.clone(), conf, about, LogRing::new(world))
    }

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        answer(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
    }

    async fn answer(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = env::dial(address).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("receive");
        answer
    }

    #[tokio::test]
    async fn every_page_answers_while_the_server_starts_and_has_its_guards() {
        let listener = env::listen("127.0.0.1:0".parse().expect("address")).expect("listen");
        let address = listener.local_addr().expect("bound");
        let server = env::spawn(serve(listener, Options::default(), console(address)));
        let waiting = fetch(address, "/healthz").await;
        assert!(
            waiting.starts_with("HTTP/1.1 503") && waiting.contains("regions are being opened"),
            "{waiting}"
        );
        for page in [
            "/",
            "/tables",
            "/keys",
            "/memory",
            "/cost",
            "/slow",
            "/work",
            "/data",
            "/clients",
            "/log",
            "/settings",
        ] {
            let answer = fetch(address, page).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{page}: {answer}");
            assert!(answer.contains("The server is starting"), "{page}: {answer}");
            assert!(
                answer.contains("content-security-policy: default-src 'none'; script-src 'self'"),
                "{answer}"
            );
            assert!(
                !answer.contains("style=\"") && !answer.contains("onclick"),
                "{page} would break its own rules"
            );
            let twin = if page == "/" { "/overview.json".to_owned() } else { format!("{page}.json") };
            let json = fetch(address, &twin).await;
            assert!(json.starts_with("HTTP/1.1 200"), "{twin}: {json}");
        }
        for (old, new) in [
            ("/master-status", "/"),
            ("/rs-status", "/"),
            ("/table.jsp?name=ns%3At", "/table/ns:t"),
            ("/region.jsp?name=abc", "/find?q=abc"),
            ("/rits.jsp", "/work"),
        ] {
            let answer = fetch(address, old).await;
            assert!(
                answer.starts_with("HTTP/1.1 307") && answer.contains(&format!("location: {new}\r\n")),
                "{old}: {answer}"
            );
        }
        assert!(fetch(address, "/jmx").await.ends_with("{\n  \"beans\": []\n}"));
        assert!(fetch(address, "/jmx?get=nothing").await.starts_with("HTTP/1.1 400"));
        let xml = fetch(address, "/conf?name=hbase.wal.hsync").await;
        assert!(xml.contains("<name>hbase.wal.hsync</name><value>false</value>"), "{xml}");
        assert!(fetch(address, "/conf?format=json").await.contains("\"key\":\"hbase.wal.hsync\""));
        assert!(fetch(address, "/settings").await.contains("hbase.wal.hsync"));
        assert!(fetch(address, "/stacks").await.contains("active threads"));
        assert!(fetch(address, "/dump").await.contains("hbase.wal.hsync = false (-D)"));
        assert!(fetch(address, "/metrics").await.contains("\nbellows_process_resident_bytes "));
        assert!(fetch(address, assets::address("bellows.css")).await.contains("immutable"));
        let script = fetch(address, "/keys?table=%3Cscript%3Ealert(1)%3C/script%3E").await;
        assert!(!script.contains("<script>alert"), "{script}");
        assert!(fetch(address, "/nowhere").await.starts_with("HTTP/1.1 404"));
        server.abort();
    }

    #[tokio::test]
    async fn a_page_of_another_site_cannot_set_the_log_level() {
        let listener = env::listen("127.0.0.1:0".parse().expect("address")).expect("listen");
        let address = listener.local_addr().expect("bound");
        let server = env::spawn(serve(listener, Options::default(), console(address)));
        let post = async |headers: &str| {
            let head = format!(
                "POST /logLevel HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: 10\r\n\r\n"
            );
            answer(address, &format!("{head}level=INFO")).await
        };
        for foreign in [
            "Host: evil.example\r\n",
            "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n",
            "Host: localhost\r\nOrigin: http://evil.example\r\n",
        ] {
            let refused = post(foreign).await;
            assert!(refused.starts_with("HTTP/1.1 403"), "{foreign}: {refused}");
            assert!(refused.contains("the level cannot be changed: "), "{refused}");
        }
        let allowed = post("Host: 127.0.0.1\r\n").await;
        assert!(!allowed.starts_with("HTTP/1.1 403"), "{allowed}");
        server.abort();
    }

    #[tokio::test]
    async fn slow_and_silent_clients_are_disconnected_and_connections_are_limited() {
        let listener = env::listen("127.0.0.1:0".parse().expect("address")).expect("listen");
        let address = listener.local_addr().expect("bound");
        let options = Options { connections_max: 2, request_max: Duration::from_millis(100) };
        let server = env::spawn(serve(listener, options, console(address)));
        // Two clients that never complete their requests occupy both places.
        let mut silent = env::dial(address).await.expect("connect");
        let mut slow = env::dial(address).await.expect("connect");
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").await.expect("send");
        // A third client waits until they are disconnected, and is then served.
        assert!(fetch(address, "/").await.starts_with("HTTP/1.1 200"));
        for cut in [&mut silent, &mut slow] {
            let mut rest = Vec::new();
            // The server closes or resets the connection without an answer, because the request was never completed.
            let _ended = cut.read_to_end(&mut rest).await;
            assert!(!rest.starts_with(b"HTTP/1.1 200"));
        }
        server.abort();
    }
}
