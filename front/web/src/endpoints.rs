//! The addresses for programs: HBase's own, with HBase's names and formats.

use std::fmt::Write as _;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use telemetry::{JmxQuery, json_text};

use crate::history::Range;
use crate::node::Console;
use crate::query::Query;
use crate::ui::parts;
use crate::ui::settings::is_secret;

/// Maximum number of series in one request.
const SERIES_MAX: usize = 8;

fn text(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}

/// Returns a response in plain text.
pub(crate) fn plain(body: String) -> Response {
    text("text/plain; charset=utf-8", body)
}

/// Returns a JSON response.
pub(crate) fn json_answer(value: &Value) -> Response {
    text("application/json; charset=utf-8", value.to_string())
}

/// Answers `/jmx`: all beans, those of `?qry=`, or the attribute of `?get=bean::attribute`.
pub(crate) fn jmx(console: &Console, query: &Query) -> Response {
    let get = query.get("get");
    let (pattern, attribute) = match get.split_once("::") {
        _ if get.is_empty() => (query.get("qry"), None),
        Some((bean, attribute)) => (bean, Some(attribute.to_owned())),
        None => {
            let body = "{\n  \"result\": \"ERROR\",\n  \"message\": \"query format is not as expected.\"\n}";
            return (StatusCode::BAD_REQUEST, text("application/json; charset=utf8", body.to_owned()))
                .into_response();
        }
    };
    let wanted = JmxQuery {
        pattern: (!pattern.is_empty()).then(|| pattern.to_owned()),
        attribute,
        description: query.get("description") == "true",
    };
    text("application/json; charset=utf8", telemetry::jmx(&console.beans(), &wanted))
}

/// Answers `/prometheus`: the metrics under HBase's own names.
pub(crate) fn prometheus(console: &Console, query: &Query) -> Response {
    let body = telemetry::prometheus(&console.beans(), query.get("description") == "true");
    text("text/plain;charset=utf-8", body)
}

/// Answers `/conf`: the configuration as XML, or as JSON with `?format=json`, without secrets. `?name=` selects one
/// key.
pub(crate) fn conf(console: &Console, query: &Query) -> Response {
    let rows = console.conf.table().rows();
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|row| !is_secret(row.name) && (query.get("name").is_empty() || row.name == query.get("name")))
        .collect();
    if query.get("format") == "json" {
        let properties: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({ "key": row.name, "value": row.value, "isFinal": false, "resource": row.origin.to_string() })
            })
            .collect();
        return json_answer(&json!({ "properties": properties }));
    }
    let escaped = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let mut body = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?><configuration>\n".to_owned();
    for row in rows {
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            body,
            "<property><name>{}</name><value>{}</value><final>false</final><source>{}</source></property>",
            escaped(row.name),
            escaped(&row.value),
            escaped(&row.origin.to_string())
        );
    }
    body.push_str("</configuration>\n");
    text("text/xml; charset=utf-8", body)
}

/// Answers `/stacks`: the threads of the process. A native program does not know its own stacks, so it shows the name,
/// state and CPU time of each thread.
pub(crate) fn stacks() -> Response {
    let threads = env::threads();
    let mut body = format!("Process Thread Dump: \n{} active threads\n", threads.len());
    for thread in threads {
        let _infallible = writeln!(
            body,
            "Thread {} ({}):\n  State: {}\n  CPU: {} ms",
            thread.id, thread.name, thread.state, thread.cpu_ms
        );
    }
    plain(body)
}

/// Answers `/dump`, a text for somebody who helps from afar: version, state, findings, regions, changed settings
/// without secrets, and the latest lines of the log.
pub(crate) fn dump(console: &Console) -> Response {
    let about = &console.about;
    let rule = "===========================================================";
    let mut body = String::new();
    let mut section = |title: &str, content: &str| {
        let _infallible = write!(body, "{title}:\n{rule}\n{content}\n\n");
    };
    section(
        "Version Info",
        &format!(
            "Bellows {}\nstarted {} UTC\ndata in {}",
            about.version,
            parts::date(about.started.0),
            about.root
        ),
    );
    section("State", &crate::ui::advisor::sentence(console).1);
    let findings: Vec<String> = crate::ui::advisor::of(console)
        .into_iter()
        .map(|finding| format!("[{}] {}\n    {}", finding.severity.name(), finding.what, finding.remedy))
        .collect();
    section("Findings", &findings.join("\n"));
    let regions = console.snapshots.read().latest.clone();
    let regions: Vec<String> = regions
        .iter()
        .flat_map(|latest| &latest.regions)
        .map(|region| {
            format!(
                "{} {} files {} memory {} reads {} writes {}",
                region.encoded,
                region.table,
                region.files,
                region.memstore_bytes,
                region.reads,
                region.writes
            )
        })
        .collect();
    section("Regions", &regions.join("\n"));
    let changed: Vec<String> = console
        .conf
        .table()
        .rows()
        .into_iter()
        .filter(|row| row.origin != conf::Origin::Default && !is_secret(row.name))
        .map(|row| format!("{} = {} ({})", row.name, row.value, row.origin))
        .collect();
    section("Configuration that is not the default", &changed.join("\n"));
    let lines: Vec<String> = console
        .log
        .lines(300, |_| true)
        .iter()
        .rev()
        .map(|line| format!("{} {} {}", parts::date(line.time.0), line.level, line.text))
        .collect();
    section("Log", &lines.join("\n"));
    plain(body)
}

/// Answers `/logLevel`: shows the level of the log.
pub(crate) fn log_level(console: &Console, query: &Query) -> Response {
    let name = query.get("log");
    let level = console.log_level();
    plain(format!(
        "Log Class: tracing\nEffective Level: {level}\n\n\
         {}The level is one for the whole server. To change it, POST log and level (ERROR, WARN, INFO, DEBUG, TRACE), \
         from this machine:\n  curl -d 'level=DEBUG' http://{}/logLevel\n",
        if name.is_empty() { String::new() } else { format!("Submitted Log Name: {name}\n") },
        console.about.web
    ))
}

/// Changes the level of the log; status 400 for an unknown level.
pub(crate) fn set_log_level(console: &Console, level: &str) -> Response {
    match console.set_log_level(level) {
        Ok(()) => {
            tracing::info!(level, "the level of the log was changed from the web page");
            plain(format!("Effective Level: {}\n", console.log_level()))
        }
        Err(why) => (StatusCode::BAD_REQUEST, plain(format!("{why}\n"))).into_response(),
    }
}

/// Answers `/api/series`: the values behind charts, of at most [`SERIES_MAX`] series.
pub(crate) fn series(console: &Console, query: &Query) -> Response {
    let names: Vec<&str> = query.get("names").split(',').take(SERIES_MAX).collect();
    values(console, &names, query)
}

/// Answers `/api/history`: every series of a range, for programs that watch several servers.
pub(crate) fn history(console: &Console, query: &Query) -> Response {
    let names = console.history().names();
    values(console, &names.iter().map(String::as_str).collect::<Vec<_>>(), query)
}

/// Answers `/api/check`: the last check of the catalog, and the regions whose opening failed. `ended` and
/// `inconsistencies` are null before the first check.
pub(crate) fn check(console: &Console) -> Response {
    let check = console.self_check();
    json_answer(&json!({
        "ended": check.as_ref().map(|check| check.ended.0),
        "inconsistencies": check.map(|check| check.inconsistencies),
        "failed_regions": console.failed_regions(),
    }))
}

fn values(console: &Console, names: &[&str], query: &Query) -> Response {
    let values = console.history().values(names, Range::of_name(query.get("range")));
    let numbers = |series: &Vec<f32>| {
        let shown: Vec<String> = series
            .iter()
            // Numbers are rounded, because a chart shows at most four digits.
            .map(|value| if value.is_finite() { rounded(*value) } else { "null".to_owned() })
            .collect();
        format!("[{}]", shown.join(","))
    };
    let times: Vec<String> = values.times.iter().map(u64::to_string).collect();
    let series: Vec<String> = values.series.iter().map(numbers).collect();
    let names: Vec<String> = names.iter().map(|name| json_text(name)).collect();
    text(
        "application/json; charset=utf-8",
        format!(
            "{{\"names\":[{}],\"times\":[{}],\"series\":[{}]}}",
            names.join(","),
            times.join(","),
            series.join(",")
        ),
    )
}

fn rounded(value: f32) -> String {
    let value = f64::from(value);
    if value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else {
        format!("{:.4}", value).trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_charts_are_short() {
        assert_eq!(
            [rounded(0.0), rounded(0.5), rounded(12_345.67), rounded(3.0)],
            ["0", "0.5", "12346", "3"]
        );
    }
}
